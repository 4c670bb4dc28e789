"""Surrogates of a model of the linear language, fitted to many rows and tested on fresh ones."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from research.theory.paper.additive_fits import least_squares, positions, with_one
from research.theory.paper.gam_table import lasso
from research.theory.paper.synthetic import counts
from slalom_xai.methods.additive import fit_additive
from slalom_xai.methods.paper.fit import fit_slalom

LINEAR, GAM, RIDGE = "linear", "GAM, LASSO 0.01", "GAM, cross-validated"
SLALOM, SINK = "SLALOM", "SLALOM with sink"
SURROGATES = (LINEAR, GAM, RIDGE, SLALOM, SINK)
_PENALTY = 0.01  # of the LASSO, as in the paper
_PRIOR = 1e-5  # of the SLALOMs: small, as thousands of rows settle twenty numbers
_Rows = Sequence[Sequence[int]]


def surrogate_predictions(seen: _Rows, outputs: Tensor, fresh: _Rows) -> dict[str, Tensor]:
    """Predictions (k,) for fresh rows, by the names in ``SURROGATES``.

    Args:
        seen: rows of words that surrogates are fitted to.
        outputs: (m,), the model's log odds of these.
        fresh: k rows that are predicted.
    """
    wanted = outputs[:, None]
    bags, new_bags = counts(seen), counts(fresh)
    places, new_places = positions(seen), positions(fresh)
    predicted = {
        LINEAR: with_one(new_bags) @ least_squares(bags, wanted),
        GAM: with_one(new_places) @ lasso(places, wanted, _PENALTY),
        RIDGE: _ridge(places, new_places, wanted),
    }
    for name, sink in ((SLALOM, False), (SINK, True)):
        predicted[name] = fit_slalom(bags, wanted, sink=sink, prior=_PRIOR).surrogate.predict(
            new_bags
        )
    return {name: each[:, 0] for name, each in predicted.items()}


def _ridge(features: Tensor, new_features: Tensor, outputs: Tensor) -> Tensor:
    """Predictions (m, 1) of a ridge regression whose penalty cross-validation chooses."""
    # ``fit_additive`` wants rows near the whole text, which has all ones, and outputs near zero.
    centre, middle = features.mean(dim=0), outputs.mean(dim=0)
    zero = torch.zeros(1, dtype=torch.float64)
    surrogate = fit_additive(1 + features - centre, outputs - middle, zero).surrogate
    return surrogate.predict(1 + new_features - centre) + middle
