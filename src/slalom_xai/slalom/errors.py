"""How sure each score is: standard errors by leaving out groups of calls (a jackknife).

Shapes: n units, G groups of calls, C columns (explained outputs).
"""

from __future__ import annotations

import torch
from torch import Tensor

from slalom_xai.slalom.fit import FittedForm
from slalom_xai.slalom.shapley import compute_shapley, fit_rest

_SCORES = ("value", "importance", "removal", "alone", "slope", "linearized")
_SHRUNK = ("value", "importance", "linearized")  # which the prior on values moves


def estimate_errors(
    fitted: FittedForm, column: int, counts: Tensor, outputs: Tensor, orders: int
) -> dict[str, Tensor]:
    """Standard errors of one column's scores, (n,) each; none where there are too few calls.

    Args:
        fitted: the formula, and what it would be without each group of calls.
        column: which output.
        counts: (m, n), the perturbed texts it was fitted to.
        outputs: (m, C), the model's.
        orders: behind the errors of Shapley values.
    """
    form, others = fitted.form.of_column(column), fitted.jackknife[column]
    if len(others) < 2:
        return {}
    own, way = form.split(), fitted.way[column][:, None]  # (G, 1)
    pulled, free = (one.of_column(column).split() for one in (fitted.pulled, fitted.free))
    found = {}
    for name in _SCORES:
        found[name] = _jackknife((others.score(name) - own.score(name)) / way)
        if name in _SHRUNK:  # the prior's pull is part of the error
            found[name] = torch.hypot(found[name], (pulled.score(name) - free.score(name))[0])
    inner, importances = fitted.unknown[column]
    slope = 1 - (own.curvature * (form.values[:, 0] - form.centre)) ** 2
    found["value"] = torch.hypot(found["value"], slope * inner)
    found["importance"] = torch.maximum(found["importance"], importances)
    moved = (compute_shapley(others, orders) - compute_shapley(own, orders)) / way
    left = outputs[:, column : column + 1] - form.predict(counts)
    found["shapley"] = _jackknife(moved + fit_rest(counts, left, fitted.groups)[..., 0])
    return found


def _jackknife(scores: Tensor) -> Tensor:
    """Standard errors from scores (G, n), or their changes, each without one group of calls."""
    groups = len(scores)
    spread = ((scores - scores.mean(dim=0)) ** 2).sum(dim=0)
    return ((groups - 1) / groups * spread).sqrt()
