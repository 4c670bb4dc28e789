"""Builds the tensors of a ``Problem`` from what fits are asked for, several texts at once.

Texts differ in rows and in units, and tensors do not. So texts are padded:

* rows with copies of the first row that have no weight, so that no sum changes;
* slots, between the units and the sink, with slots that never occur, so that the sink is always
  the last slot. Their importances and values stay where the penalties hold them.

A text in a batch is then fitted as if it were alone, up to rounding.

Shapes: B texts, m rows, p slots, K heads, C columns (explained outputs), L possible lengths.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from slalom_xai.surrogates.count_tables import Rows, Sequences, rows_of, short_rows, table_of
from slalom_xai.surrogates.formula import slots
from slalom_xai.surrogates.problem import (
    FitRequest,
    LengthOffsets,
    Padding,
    Penalties,
    Problem,
    Targets,
)


def make_problem(requests: Sequence[FitRequest]) -> Problem:
    """One problem of requests that are alike (``kind_of`` in ``fit``)."""
    kind = requests[0]
    many = max(len(r.counts) for r in requests)
    size = max(r.counts.shape[1] for r in requests) + kind.sink
    row_weights = _row_weights(requests, many)
    targets = _targets(requests, row_weights)
    padding = _padding(requests, size)
    lengths = None
    if kind.extras.length_penalty is not None:
        lengths = _lengths(requests, row_weights)
    return Problem(
        rows=_rows(requests, many, size),
        row_weights=row_weights,
        targets=targets,
        penalties=_penalties(requests, targets, padding),
        padding=padding,
        free_heads=kind.heads,
        anchored=kind.extras.anchored,
        lengths=lengths,
        least_left=kind.settings.least_left,
        sink_of_missing=kind.extras.held is not None,
    )


def _row_weights(requests: Sequence[FitRequest], many: int) -> Tensor:
    """Weights (B, m) that sum to one for each text; rows that fill a text up have none."""
    row_weights = requests[0].outputs.new_zeros(len(requests), many)
    for weights, r in zip(row_weights, requests, strict=True):
        given = 1.0 if r.row_weights is None else r.row_weights
        weights[: len(r.outputs)] = given
    row_weights /= row_weights.sum(dim=1, keepdim=True)
    return row_weights


def _targets(requests: Sequence[FitRequest], row_weights: Tensor) -> Targets:
    """The outputs with their weighted mean and variance."""
    outputs = _stacked([_padded_rows(r.outputs, row_weights.shape[1]) for r in requests])
    mean = (row_weights[:, None] @ outputs)[:, 0]
    variance = (row_weights[..., None] * (outputs - mean[:, None]) ** 2).sum(dim=(1, 2))
    return Targets(outputs, mean, variance)


def _padding(requests: Sequence[FitRequest], size: int) -> Padding:
    """Which of ``size`` slots belong to each text."""
    like, sink = requests[0].outputs, requests[0].sink
    sizes = [r.counts.shape[1] + r.sink for r in requests]
    real = like.new_ones(len(requests), size)
    for of_text, r in zip(real, requests, strict=True):
        of_text[r.counts.shape[1] : size - sink] = 0.0
    return Padding(torch.tensor(sizes, dtype=like.dtype, device=like.device), real)


def _penalties(requests: Sequence[FitRequest], targets: Targets, padding: Padding) -> Penalties:
    """The ridges, and what they pull to."""
    kind, outputs = requests[0], targets.outputs
    settings = kind.settings
    heads = kind.heads + kind.extras.additive
    given = torch.tensor([r.prior for r in requests], dtype=outputs.dtype, device=outputs.device)
    prior = given / (heads * padding.sizes)
    # A constant model has no variance but rounding. Any large scale then gives equal importances.
    least = settings.no_variance * (outputs**2).mean(dim=(1, 2))
    scale = torch.where(targets.variance > least, targets.variance, 1.0)
    size = padding.real.shape[1]
    value = settings.value_prior * prior[:, None, None].repeat(1, heads, size)
    if kind.extras.additive:  # its values are larger than others by what its sink outweighs
        value[:, -1] /= (1 + settings.additive_sink) ** 2
        for index, r in enumerate(requests):
            value[index, -1] *= r.extras.additive_ridge
    share = outputs.new_zeros(heads)
    share[: kind.heads] = 1 / kind.heads
    value_centre = share[:, None, None] * targets.mean[:, None, None, :]
    value_centre = value_centre.repeat(1, 1, size, 1)
    for index, r in enumerate(requests):
        if r.extras.held is not None:
            value[index, 0, : len(r.extras.held)] = settings.hold
            value_centre[index, 0, : len(r.extras.held)] = r.extras.held
    return Penalties(
        importance_centre=torch.stack([_centre(r, size) for r in requests]),
        importance=prior * scale,
        value_centre=value_centre,
        value=value,
    )


def _centre(request: FitRequest, size: int) -> Tensor:
    """What importances shrink to, (K, p)."""
    units = request.outputs.new_zeros(request.counts.shape[1])
    if request.offsets is not None:
        units = request.offsets - request.offsets.mean()
    centre = units.new_zeros(request.heads + request.extras.additive, size)
    centre[:, : len(units)] = units
    if request.sink:
        centre[:, -1] = torch.logsumexp(units, dim=0)
    if request.extras.additive:
        centre[-1, -1] += math.log(request.settings.additive_sink)
    return centre


def _lengths(requests: Sequence[FitRequest], row_weights: Tensor) -> LengthOffsets:
    """The number of units of each row, and how much the offset of each length is shrunk."""
    many = row_weights.shape[1]
    longest = max(r.counts.shape[1] for r in requests)
    of_text = []
    for r in requests:
        kept = table_of(r.counts).sum(dim=1, keepdim=True).round().long()  # (m, 1)
        of_text.append(_padded_rows(kept, many)[:, 0])
    of_row = torch.stack(of_text)
    weight = row_weights.new_zeros(len(requests), longest + 1).scatter_add_(1, of_row, row_weights)
    shrink = torch.zeros_like(weight)
    for index, r in enumerate(requests):
        assert r.extras.length_penalty is not None
        # Nothing is known of an empty text, and the whole text is where offsets start: both keep 0.
        between = slice(1, r.counts.shape[1])
        shrink[index, between] = 1 / (weight[index, between] + r.extras.length_penalty)
    return LengthOffsets(of_row, shrink)


def _rows(requests: Sequence[FitRequest], many: int, size: int) -> Rows:
    """The rows of requests that are all tables, or all sequences of one length."""
    sink, of_missing = requests[0].sink, requests[0].extras.held is not None
    sequences = [r.counts.indices for r in requests if isinstance(r.counts, Sequences)]
    if not sequences:
        tables = []
        for r in requests:
            table = slots(table_of(r.counts), sink, of_missing)
            tables.append(_padded_slots(table, sink, size))
        return rows_of(_stacked([_padded_rows(table, many) for table in tables]))
    indices = _stacked([_padded_rows(sequence, many) for sequence in sequences])
    if sink:
        indices = torch.cat([indices, torch.full_like(indices[..., :1], size - 1)], dim=2)
    return short_rows(indices, size)


def _padded_slots(table: Tensor, sink: bool, size: int) -> Tensor:
    """Counts over the slots of one text as (m, ``size``): zeros after its units, a sink last."""
    if table.shape[1] == size:
        return table
    units = table.shape[1] - sink
    padded = table.new_zeros(len(table), size)
    padded[:, :units] = table[:, :units]
    if sink:
        padded[:, -1] = table[:, -1]
    return padded


def _padded_rows(of_rows: Tensor, many: int) -> Tensor:
    """Something by row with copies of the first one after it, up to so ``many`` rows."""
    missing = many - len(of_rows)
    if missing == 0:
        return of_rows
    return torch.cat([of_rows, of_rows[:1].expand(missing, -1)])


def _stacked(parts: list[Tensor]) -> Tensor:
    """Stacks tensors of one shape; a single one is not copied."""
    if len(parts) == 1:
        return parts[0][None]
    return torch.stack(parts)
