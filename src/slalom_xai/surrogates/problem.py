"""What a fit of a SLALOM is asked for, and the same as tensors of several texts at once.

With row weights q that sum to one and P columns over all heads, the objective is

    sum_i q_i |F(x_i) - f_i|^2  +  prior * Var(f) |s - m|^2 / P  +  VALUE_PRIOR * prior |v - mean f|^2 / P

where m is 0 for units (or their offsets) and log n for a sink, which competes with all n units at once.

Three things may be added. An **anchored** fit compares changes from the first row, the whole text, and passes through it. **Length
offsets** take up what depends on the number of units kept and on nothing else: models that number their positions answer differently
when everything moves up by one. Each offset is shrunk by its own ridge and eliminated exactly, which costs next to nothing since every
row has one length. An **additive head** has equal importances and a heavy sink: nearly linear, it takes what no average can.

Texts of different sizes are padded: with copies of their first row that weigh nothing, and with columns that never occur.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from slalom_xai.surrogates.count_tables import (
    Counts,
    Rows,
    Sequences,
    rows_of,
    short_rows,
    table_of,
)
from slalom_xai.surrogates.formula import SlalomSurrogate

VALUE_PRIOR = 1e-3
ADDITIVE_SINK = 10.0  # the additive head's sink outweighs all units together by this


@dataclass(frozen=True)
class Extras:
    """What a fit has beyond heads and a sink.

    Attributes:
        anchored: compare changes from the first row, the whole text.
        additive: add a head of equal importances with a heavy sink.
        length_penalty: ridge on the offsets by length, for row weights that sum to one; None: no such offsets.
    """

    anchored: bool = False
    additive: bool = False
    length_penalty: float | None = None


PLAIN = Extras()


@dataclass(frozen=True)
class FitRequest:
    """All that a fit depends on.

    Attributes:
        counts: (m, n), how often each unit occurs in each row.
        outputs: (m, C), what the model answered.
        row_weights: (m,), positive; equal by default.
        sink: whether a column that is always present is fitted too.
        prior: ridge on the importances in units of the outputs' variance.
        heads: how many softmax averages are added.
        offsets: (n,), importances to shrink to and to start from; 0 by default.
        extras: an anchor, length offsets, an additive head.
        start: where importances begin; otherwise all are 0. Its heads come first where it has fewer.
        max_iterations: steps at most.
        tolerance: stop when a step lowers the objective by less than this fraction.
        hopeless: stop early, at a fall of less than HOPELESS, where more of the variance than this is left; None: never.
    """

    counts: Counts
    outputs: Tensor
    row_weights: Tensor | None = None
    sink: bool = True
    prior: float = 1e-3
    heads: int = 1
    offsets: Tensor | None = None
    extras: Extras = PLAIN
    start: SlalomSurrogate | None = None
    max_iterations: int = 60
    tolerance: float = 1e-7
    hopeless: float | None = None


@dataclass(frozen=True)
class Lengths:
    """Offsets by the number of units kept.

    Attributes:
        of_row: (B, m), how many units each row keeps.
        shrink: (B, L), what a sum of weighted residuals of one length is multiplied by to give the offset.
    """

    of_row: Tensor
    shrink: Tensor

    def sums(self, rows: Tensor) -> Tensor:
        """Sums over the rows of each length, (B, m, k) -> (B, L, k)."""
        index = self.of_row[..., None].expand(-1, -1, rows.shape[2])
        return rows.new_zeros(len(rows), self.shrink.shape[1], rows.shape[2]).scatter_add_(
            1, index, rows
        )

    def spread(self, offsets: Tensor) -> Tensor:
        """The offset of each row, (B, L, k) -> (B, m, k)."""
        return offsets.gather(1, self.of_row[..., None].expand(-1, -1, offsets.shape[2]))


@dataclass(frozen=True)
class Problem:
    """What stays fixed during the fits of B texts with m rows, p columns and K heads."""

    rows: Rows
    outputs: Tensor  # (B, m, C)
    row_weights: Tensor  # (B, m), summing to one
    mean: Tensor  # (B, C), of the outputs
    variance: Tensor  # (B,), of the outputs, all classes together
    sizes: Tensor  # (B,), columns that are no padding
    real: Tensor  # (B, p), 1 where a column is no padding
    importance_centre: Tensor  # (B, K, p), what importances shrink to
    importance_penalty: Tensor  # (B,)
    value_penalty: Tensor  # (B, K)
    free: int  # heads whose importances are fitted; an additive head comes after them
    anchored: bool
    lengths: Lengths | None

    @functools.cached_property
    def value_centre(self) -> Tensor:
        """What values shrink to, (B, K, 1, C): heads add, so each takes its part of the mean; an additive head starts from nothing."""
        share = torch.zeros(
            self.importance_centre.shape[1], dtype=self.mean.dtype, device=self.mean.device
        )
        share[: self.free] = 1 / self.free
        return share[:, None, None] * self.mean[:, None, None, :]

    def from_anchor(self, rows: Tensor) -> Tensor:
        """Rows (B, m, k) as differences from the first, where the fit is anchored."""
        return rows - rows[:, :1] if self.anchored else rows

    def offsets(self, rows: Tensor) -> Tensor:
        """What each length's offset would take of rows (B, m, k), (B, L, k)."""
        assert self.lengths is not None
        return self.lengths.shrink[..., None] * self.lengths.sums(
            self.row_weights[..., None] * rows
        )

    def beyond_length(self, rows: Tensor) -> Tensor:
        """Rows (B, m, k) less what offsets by length take of them."""
        return rows if self.lengths is None else rows - self.lengths.spread(self.offsets(rows))

    def pull(self, residuals: Tensor) -> Tensor:
        """What residuals (B, m, k), from the anchor, pull at the predictions themselves: half the objective's slope by each."""
        weighed = self.row_weights[..., None] * self.beyond_length(residuals)
        if self.anchored:
            weighed[:, 0] -= weighed.sum(dim=1)
        return weighed

    def take(self, texts: Tensor) -> Problem:
        """Only these texts."""
        changed = {
            f.name: getattr(self, f.name)[texts]
            for f in fields(self)
            if isinstance(getattr(self, f.name), Tensor)
        }
        lengths = (
            None
            if self.lengths is None
            else Lengths(self.lengths.of_row[texts], self.lengths.shrink[texts])
        )
        return replace(self, rows=self.rows.take(texts), lengths=lengths, **changed)


def make_problem(requests: Sequence[FitRequest]) -> Problem:
    """One problem of requests that are alike in sink, heads, extras and classes."""
    kind, like = requests[0], requests[0].outputs
    many, wide = (
        max(len(r.counts) for r in requests),
        max(r.counts.shape[1] for r in requests) + kind.sink,
    )
    outputs = _stacked([_padded_rows(r.outputs, many) for r in requests])
    row_weights = torch.zeros(len(requests), many, dtype=like.dtype, device=like.device)
    for place, r in enumerate(requests):
        row_weights[place, : len(r.outputs)] = 1.0 if r.row_weights is None else r.row_weights
    row_weights /= row_weights.sum(dim=1, keepdim=True)
    mean = (row_weights[:, None] @ outputs)[:, 0]
    variance = (row_weights[..., None] * (outputs - mean[:, None]) ** 2).sum(dim=(1, 2))
    heads = kind.heads + kind.extras.additive
    sizes = torch.tensor(
        [r.counts.shape[1] + r.sink for r in requests], dtype=like.dtype, device=like.device
    )
    real = torch.ones(len(requests), wide, dtype=like.dtype, device=like.device)
    for place, r in enumerate(requests):
        real[place, r.counts.shape[1] : wide - kind.sink] = 0.0
    prior = torch.tensor([r.prior for r in requests], dtype=like.dtype, device=like.device) / (
        heads * sizes
    )
    # A constant model has no variance but rounding; any large scale then gives equal importances.
    scale = torch.where(variance > 1e-20 * (outputs**2).mean(dim=(1, 2)), variance, 1.0)
    value_penalty = VALUE_PRIOR * prior[:, None].repeat(1, heads)
    if kind.extras.additive:  # its values are larger than others by what its sink outweighs
        value_penalty[:, -1] /= (1 + ADDITIVE_SINK) ** 2
    centre = torch.stack([_centre(r, wide) for r in requests])
    lengths = None if kind.extras.length_penalty is None else _lengths(requests, row_weights)
    rows = _rows(requests, many, wide)
    return Problem(
        rows,
        outputs,
        row_weights,
        mean,
        variance,
        sizes,
        real,
        centre,
        prior * scale,
        value_penalty,
        kind.heads,
        kind.extras.anchored,
        lengths,
    )


def _rows(requests: Sequence[FitRequest], many: int, wide: int) -> Rows:
    """The rows of requests that are all sequences, equally long, or all tables."""
    sink = requests[0].sink
    sequences = [r.counts.places for r in requests if isinstance(r.counts, Sequences)]
    if not sequences:
        return rows_of(
            _stacked(
                [
                    _padded_rows(_padded_columns(table_of(r.counts), sink, wide), many)
                    for r in requests
                ]
            )
        )
    places = _stacked([_padded_rows(own, many) for own in sequences])
    if sink:
        places = torch.cat([places, torch.full_like(places[..., :1], wide - 1)], dim=2)
    return short_rows(places, wide)


def _stacked(parts: list[Tensor]) -> Tensor:
    return parts[0][None] if len(parts) == 1 else torch.stack(parts)


def _padded_columns(counts: Tensor, sink: bool, wide: int) -> Tensor:
    """Counts over columns, a sink last, those between being zero."""
    if not sink and counts.shape[1] == wide:
        return counts
    padded = counts.new_zeros(len(counts), wide)
    padded[:, : counts.shape[1]] = counts
    if sink:
        padded[:, -1] = 1.0
    return padded


def _padded_rows(rows: Tensor, many: int) -> Tensor:
    return rows if len(rows) == many else torch.cat([rows, rows[:1].expand(many - len(rows), -1)])


def _centre(request: FitRequest, wide: int) -> Tensor:
    """What importances shrink to, (K, p)."""
    units = request.outputs.new_zeros(request.counts.shape[1])
    if request.offsets is not None:
        units = request.offsets - request.offsets.mean()
    centre = units.new_zeros(request.heads + request.extras.additive, wide)
    centre[:, : len(units)] = units
    if request.sink:
        centre[:, -1] = torch.logsumexp(units, dim=0)
    if request.extras.additive:
        centre[-1, -1] += math.log(ADDITIVE_SINK)
    return centre


def _lengths(requests: Sequence[FitRequest], row_weights: Tensor) -> Lengths:
    many, longest = row_weights.shape[1], max(r.counts.shape[1] for r in requests)
    kept = [table_of(r.counts).sum(dim=1, keepdim=True).round().long() for r in requests]
    of_row = torch.stack([_padded_rows(length, many)[:, 0] for length in kept])
    weight = row_weights.new_zeros(len(requests), longest + 1).scatter_add_(1, of_row, row_weights)
    shrink = torch.zeros_like(weight)
    for place, r in enumerate(
        requests
    ):  # nothing is known of an empty text, and the whole text is where offsets start
        units = r.counts.shape[1]
        assert r.extras.length_penalty is not None
        shrink[place, 1:units] = 1 / (weight[place, 1:units] + r.extras.length_penalty)
    return Lengths(of_row, shrink)
