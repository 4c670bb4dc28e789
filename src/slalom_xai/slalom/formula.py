"""The formula: a bounded, softmax-weighted average of values.

    V(x) = ( sum_j n_j w_j v_j + m w_0 v_0 ) / ( sum_j n_j w_j + m w_0 ),    w = exp(s)
    F(x) = c + A tanh( (V(x) - c) / A )

Unit j (a word, say) is in the perturbed text x n_j times: once in the text as it is, not at all
where it was removed. It has an importance s_j and a value. The sink 0 stands for what is missing:
m units are. The model's outputs lie between c - A and c + A, its range; a model without bounds is
the limit of a wide range, F = V.

What a reader sees of a unit is c + A tanh((v_j - c) / A), the output that a text of this unit alone
would have, and s_j. Two words may also be heard together ("not good"): such a **pair** has a
value and an importance of its own and is there where both of its words are.

Without bounds, sink and pairs this is the SLALOM of Leemann et al. (2024). With all importances
equal it is one additive score per unit behind the same bound.

Shapes: m perturbed texts, n units, P pairs, C columns (explained outputs).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class BoundedSlalom:
    """Two numbers per unit, a sink, a range, and perhaps a few pairs: the whole explanation.

    Attributes:
        inner_values: (n, C), v: values before the bound is applied.
        importances: (n,), s, summing to 0.
        inner_sink: (C,), the sink's value before the bound.
        sink_importance: ().
        centre: (C,), c, the middle of the range.
        curvature: (C,), 1 / A, one over half of the range's width; 0 where nothing bounds the
            output.
        shapley: (n, C), each unit's share of the prediction (see ``shapley``). Predictions do not
            use it.
        pairs: (P, 2), the units of each pair, as numbers from 0 on, the first one first.
        pair_values: (P, C), before the bound.
        pair_importances: (P,).
    """

    inner_values: Tensor
    importances: Tensor
    inner_sink: Tensor
    sink_importance: Tensor
    centre: Tensor
    curvature: Tensor
    shapley: Tensor
    pairs: Tensor
    pair_values: Tensor
    pair_importances: Tensor

    @property
    def units(self) -> int:
        """How many units have scores."""
        return len(self.inner_values)

    @property
    def values(self) -> Tensor:
        """The values a reader sees, (n, C)."""
        return self.bound(self.inner_values)

    @property
    def sink_value(self) -> Tensor:
        """The sink's value as a reader sees it, (C,)."""
        return self.bound(self.inner_sink)

    @property
    def range(self) -> tuple[Tensor, Tensor]:
        """The lowest and the highest output, (C,) each; infinite where nothing bounds it."""
        half_width = 1 / self.curvature
        return self.centre - half_width, self.centre + half_width

    def bound(self, inner: Tensor) -> Tensor:
        """Averages (..., C) to outputs: nearly the same in the middle, never beyond the range."""
        return _bound(inner, self.centre, self.curvature)

    def predict(self, counts: Tensor) -> Tensor:
        """Predictions for perturbed texts.

        Args:
            counts: (m, n), how often each unit is there: zeros remove units, fractions remove
                softly.

        Returns:
            (m, C). Where nothing is kept, that is the sink's value.
        """
        present = list_elements(counts.to(self.inner_values), self.pairs)
        importances = torch.cat(
            [self.importances, self.pair_importances, self.sink_importance[None]]
        )
        values = torch.cat([self.inner_values, self.pair_values, self.inner_sink[None]])
        weights = present * torch.exp(importances - importances.max())
        shares = weights / weights.sum(dim=1, keepdim=True)
        return self.bound(shares @ values)

    def empty(self) -> Tensor:
        """The prediction where nothing is kept, (C,)."""
        return self.sink_value

    def split(self) -> Formulas:
        """Its columns as formulas with one output each."""
        inner = torch.cat([self.inner_values, self.pair_values, self.inner_sink[None]]).T
        importances = torch.cat(
            [self.importances, self.pair_importances, self.sink_importance[None]]
        )
        return Formulas(
            inner,
            importances.expand(len(inner), -1),
            self.centre,
            self.curvature,
            self.pairs.expand(len(inner), -1, -1),
            self.units,
        )

    def of_column(self, column: int) -> BoundedSlalom:
        """One column of it, as a function with one output."""
        here = slice(column, column + 1)
        return replace(
            self,
            inner_values=self.inner_values[:, here],
            inner_sink=self.inner_sink[here],
            centre=self.centre[here],
            curvature=self.curvature[here],
            shapley=self.shapley[:, here],
            pair_values=self.pair_values[:, here],
        )

    def cpu(self) -> BoundedSlalom:
        """The same function on the CPU."""
        moved: dict[str, Any] = {part.name: getattr(self, part.name).cpu() for part in fields(self)}
        return BoundedSlalom(**moved)


def _bound(inner: Tensor, centre: Tensor, curvature: Tensor) -> Tensor:
    """Averages (..., K) of formulas with these ranges (K,) to outputs."""
    flat = curvature == 0
    steady = torch.where(flat, torch.ones_like(curvature), curvature)
    return torch.where(flat, inner, centre + torch.tanh(steady * (inner - centre)) / steady)


def list_elements(counts: Tensor, pairs: Tensor) -> Tensor:
    """What is averaged in each perturbed text: its units, then its pairs, then what is missing.

    Args:
        counts: (..., m, n).
        pairs: (..., P, 2).

    Returns:
        (..., m, n + P + 1): how often each unit and each pair is there, and how many units are not.
    """
    shape = (*counts.shape[:-1], pairs.shape[-2])
    first, second = (
        counts.gather(-1, side[..., None, :].expand(shape)) for side in pairs.long().unbind(dim=-1)
    )
    missing = (1 - counts).clamp(min=0).sum(dim=-1, keepdim=True)
    return torch.cat([counts, first * second, missing], dim=-1)


@dataclass(frozen=True)
class Formulas:
    """K formulas with one output each, over as many units and pairs.

    They are the columns of explanations, or what these would be without some of their calls.

    Attributes:
        inner: (K, n + P + 1), values before the bound: of units, pairs and the sink.
        importances: (K, n + P + 1), of the same; those of units sum to 0.
        centre: (K,).
        curvature: (K,).
        pairs: (K, P, 2). One that only fills up has the importance minus infinity.
        units: n.
    """

    inner: Tensor
    importances: Tensor
    centre: Tensor
    curvature: Tensor
    pairs: Tensor
    units: int

    def __len__(self) -> int:
        return len(self.inner)

    def join(self, *others: Formulas) -> Formulas:
        """These and others over as many units; those with fewer pairs are filled up."""
        most = max(one.pairs.shape[1] for one in (self, *others))
        every = [one._fill_up(most - one.pairs.shape[1]) for one in (self, *others)]
        return Formulas(
            torch.cat([one.inner for one in every]),
            torch.cat([one.importances for one in every]),
            torch.cat([one.centre for one in every]),
            torch.cat([one.curvature for one in every]),
            torch.cat([one.pairs for one in every]),
            self.units,
        )

    def _fill_up(self, more: int) -> Formulas:
        """The same with so many pairs more, which are never heard."""
        if not more:
            return self
        pad = torch.nn.functional.pad

        def add(part: Tensor, filler: float) -> Tensor:
            return torch.cat([pad(part[:, :-1], (0, more), value=filler), part[:, -1:]], dim=1)

        return replace(
            self,
            inner=add(self.inner, 0.0),
            importances=add(self.importances, -torch.inf),
            pairs=pad(self.pairs, (0, 0, 0, more)),
        )

    def pick(self, index: Tensor | slice) -> Formulas:
        """Some of them."""
        parts = (self.inner, self.importances, self.centre, self.curvature, self.pairs)
        inner, importances, centre, curvature, pairs = (part[index] for part in parts)
        return Formulas(inner, importances, centre, curvature, pairs, self.units)

    @property
    def weights(self) -> Tensor:
        """(K, n + P + 1), how much each element is heard; the largest is 1."""
        return torch.exp(self.importances - self.importances.amax(dim=1, keepdim=True))

    def bound(self, inner: Tensor) -> Tensor:
        """Averages (K, ...) to outputs."""
        return _bound(inner.movedim(0, -1), self.centre, self.curvature).movedim(-1, 0)

    def predict(self, counts: Tensor) -> Tensor:
        """Predictions (K, m) for perturbed texts (m, n)."""
        n, units = self.units, counts.to(self.inner).T
        missing = (1 - units).clamp(min=0).sum(dim=0)
        parts = (self.weights * self.inner, self.weights)
        sums = [part[:, :n] @ units + part[:, -1:] * missing for part in parts]
        for pair, (first, second) in enumerate(self.pairs.long().permute(1, 2, 0)):
            together = units[first] * units[second]
            for total, part in zip(sums, parts, strict=True):
                total += part[:, n + pair, None] * together
        return self.bound(sums[0] / sums[1])

    def predict_each(self, counts: Tensor) -> Tensor:
        """Predictions for texts of their own, as many formulas for each text, with its pairs.

        Args:
            counts: (B, m, n), for the first K / B formulas, for the next ones, and so on.

        Returns:
            (B, m, K / B).
        """
        counts, alike = counts.to(self.inner), len(self) // len(counts)
        present = list_elements(counts, self.pairs[::alike])
        weights = self.weights
        above, below = (
            present @ part.reshape(len(counts), alike, -1).transpose(1, 2)
            for part in (weights * self.inner, weights)
        )
        inner = (above / below).transpose(1, 2)  # (B, K / B, m)
        return self.bound(inner.reshape(len(self), -1)).reshape(inner.shape).transpose(1, 2)

    def score(self, name: str) -> Tensor:
        """One score of every unit, (K, n); see ``score_units``."""
        n, weights = self.units, self.weights
        own = self.importances[:, :n]
        if name == "importance":
            return own
        values = self.bound(self.inner[:, :n])
        if name == "value":
            return values
        if name == "linearized":
            return values * torch.exp(own)
        sums = torch.stack([weights, weights * self.inner])  # (2, K, n + P + 1)
        unit, pair, sink = sums[..., :n], sums[..., n:-1], sums[..., -1:]
        if name == "alone":
            below, above = unit + (n - 1) * sink
            return self.bound(above / below)
        # What comes with a unit: itself, and the pairs that it is part of.
        first, second = (side.expand(2, -1, -1) for side in self.pairs.long().unbind(dim=2))
        moved = unit.scatter_add(2, first, pair).scatter_add(2, second, pair)
        whole = sums[..., :-1].sum(dim=2, keepdim=True)
        changed = whole - moved + sink if name == "removal" else whole + moved
        below, above = whole.squeeze(2)
        full = self.bound(above / below)[:, None]
        below, above = changed
        there = self.bound(above / below)
        return full - there if name == "removal" else there - full


def score_units(form: BoundedSlalom, name: str, column: int) -> Tensor:
    """One score of every unit for one column, (n,).

    Args:
        form: the explanation.
        name: "value", "importance", "linearized" (value times the exponential of the importance),
            "shapley", "removal" (what is lost without the unit), "alone" (the output of the unit by
            itself, all others missing) or "slope" (what one more copy does).
        column: which output.
    """
    if name == "shapley":
        return form.shapley[:, column]
    return form.of_column(column).split().score(name)[0]
