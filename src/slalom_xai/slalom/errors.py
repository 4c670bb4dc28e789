"""How sure each score is: standard errors by leaving out groups of calls (a jackknife).

Shapes: n units, G groups of calls, C columns (explained outputs).
"""

from __future__ import annotations

import torch
from torch import Tensor

from slalom_xai.slalom.fit import FittedForm
from slalom_xai.slalom.shapley import compute_shapley, fit_rest

_SCORES = ("value", "importance", "removal", "alone", "slope", "linearized")


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
    way = fitted.way[column][:, None]  # (G, 1)
    three = [one.of_column(column).split() for one in (fitted.form, fitted.pulled, fitted.free)]
    every = others.join(*three)  # own, pulled and free are the last three
    found = {}
    for name in _SCORES:
        scores = every.score(name)
        own, pulled, free = scores[-3:]
        spread = _jackknife((scores[:-3] - own) / way)
        found[name] = torch.hypot(spread, pulled - free)  # the prior's pull is part of the error
    inner, importances = fitted.unknown[column]
    slope = 1 - (three[0].curvature * (form.values[:, 0] - form.centre)) ** 2
    found["value"] = torch.hypot(found["value"], slope * inner)
    found["importance"] = torch.maximum(found["importance"], importances)
    shares = compute_shapley(others.join(three[0]), orders)
    left = outputs[:, column : column + 1] - form.predict(counts)
    rest = fit_rest(counts, left, fitted.groups)[..., 0]
    found["shapley"] = _jackknife((shares[:-1] - shares[-1]) / way + rest)
    return found


def _jackknife(scores: Tensor) -> Tensor:
    """Standard errors from scores (G, n), or their changes, each without one group of calls."""
    groups = len(scores)
    spread = ((scores - scores.mean(dim=0)) ** 2).sum(dim=0)
    return ((groups - 1) / groups * spread).sqrt()
