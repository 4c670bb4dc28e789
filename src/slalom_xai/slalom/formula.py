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

_CELLS = 4_000_000  # counts of perturbed texts that are held at once: texts may be long


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
        flat = self.curvature == 0
        curvature = torch.where(flat, torch.ones_like(self.curvature), self.curvature)
        bounded = self.centre + torch.tanh(curvature * (inner - self.centre)) / curvature
        return torch.where(flat, inner, bounded)

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


def list_elements(counts: Tensor, pairs: Tensor) -> Tensor:
    """What is averaged in each perturbed text: its units, then its pairs, then what is missing.

    Args:
        counts: (m, n).
        pairs: (P, 2).

    Returns:
        (m, n + P + 1): how often each unit and each pair is there, and how many units are not.
    """
    first, second = pairs.long().T
    together = counts[:, first] * counts[:, second]
    missing = (1 - counts).clamp(min=0).sum(dim=1, keepdim=True)
    return torch.cat([counts, together, missing], dim=1)


def score_units(form: BoundedSlalom, name: str, column: int) -> Tensor:
    """One score of every unit for one column, (n,).

    Args:
        form: the explanation.
        name: "value", "importance", "linearized" (value times the exponential of the importance),
            "shapley", "removal" (what is lost without the unit), "alone" (the output of the unit by
            itself, all others missing) or "slope" (what one more copy does).
        column: which output.
    """
    if name == "importance":
        return form.importances
    if name == "linearized":
        return form.values[:, column] * torch.exp(form.importances)
    if name == "value":
        return form.values[:, column]
    if name == "shapley":
        return form.shapley[:, column]
    one_column = form.of_column(column)
    blocks = torch.split(torch.arange(form.units), max(1, _CELLS // form.units))
    return torch.cat([_score_block(one_column, name, block) for block in blocks])


def _score_block(form: BoundedSlalom, name: str, units: Tensor) -> Tensor:
    """What is predicted for texts that single out each of some units, of one column, (k,)."""
    each = torch.zeros(len(units), form.units, dtype=form.inner_values.dtype)
    each[torch.arange(len(units)), units] = 1
    if name == "alone":
        return form.predict(each)[:, 0]
    whole = form.predict(torch.ones_like(each[:1]))[0, 0]
    if name == "removal":
        return whole - form.predict(1 - each)[:, 0]
    assert name == "slope"
    return form.predict(1 + each)[:, 0] - whole
