"""How sure each score is: standard errors by leaving out groups of calls (a jackknife).

Shapes: B texts of n units each, G groups of calls, C columns (explained outputs).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from slalom_xai.slalom.fit import FittedForm
from slalom_xai.slalom.shapley import compute_shapley, fit_rest

_SCORES = ("value", "importance", "removal", "alone", "slope", "linearized")


def estimate_errors(
    fitted: Sequence[FittedForm], counts: Tensor, left: Tensor, told: Tensor, orders: int
) -> dict[str, Tensor]:
    """Standard errors of each score, (B, C, n); none where there are too few calls.

    Args:
        fitted: the formulas, and what they would be without each group of calls. All have as many
            units, outputs and groups.
        counts: (B, m, n), the perturbed texts they were fitted to.
        left: (B, m, C), the model's outputs less the formulas'.
        told: (B, m), 0 for texts that only fill up.
        orders: behind the errors of Shapley values.
    """
    batch, _, columns = left.shape
    if len(fitted[0].jackknife[0]) < 2:
        return {}
    way = torch.stack([one.way for one in fitted])[..., None]  # (B, C, G, 1)
    three = [(one.form.split(), one.pulled.split(), one.free.split()) for one in fitted]
    every = [
        part
        for one, forms in zip(fitted, three, strict=True)
        for column, others in enumerate(one.jackknife)
        for part in (others, *(form.pick(slice(column, column + 1)) for form in forms))
    ]
    formulas = every[0].join(*every[1:])  # own, pulled and free are the last three of each column

    def spread_out(numbers: Tensor) -> Tensor:
        return numbers.reshape(batch, columns, -1, numbers.shape[1])

    found = {}
    for name in _SCORES:
        scores = spread_out(formulas.score(name))
        own, pulled, free = (scores[:, :, place] for place in (-3, -2, -1))
        spread = _jackknife((scores[:, :, :-3] - own[:, :, None]) / way)
        found[name] = torch.hypot(spread, pulled - free)  # the prior's pull is part of the error
    unknown = torch.stack([one.unknown for one in fitted])  # (B, C, 2, n)
    values = torch.stack([one.form.values for one in fitted])
    centre, curvature = (
        torch.stack([getattr(one.form, name) for one in fitted])[:, None]
        for name in ("centre", "curvature")
    )
    slope = (1 - (curvature * (values - centre)) ** 2).transpose(1, 2)
    found["value"] = torch.hypot(found["value"], slope * unknown[:, :, 0])
    found["importance"] = torch.maximum(found["importance"], unknown[:, :, 1])
    kept = torch.arange(len(formulas)).reshape(batch * columns, -1)[:, :-2].flatten()
    shares = spread_out(compute_shapley(formulas.pick(kept), orders))
    groups = torch.nn.utils.rnn.pad_sequence(
        [one.groups for one in fitted], batch_first=True, padding_value=-1
    )
    rest = fit_rest(counts, left, groups, told).permute(0, 3, 1, 2)  # (B, C, G, n)
    found["shapley"] = _jackknife((shares[:, :, :-1] - shares[:, :, -1:]) / way + rest)
    return found


def _jackknife(scores: Tensor) -> Tensor:
    """Standard errors from scores (..., G, n), or their changes, each without one group."""
    groups = scores.shape[-2]
    spread = ((scores - scores.mean(dim=-2, keepdim=True)) ** 2).sum(dim=-2)
    return ((groups - 1) / groups * spread).sqrt()
