"""The scores an explanation offers, from a surrogate, with their standard errors.

With ``a_i`` the share of unit i in the whole text and F the prediction for it:

    value       v_i                        where the output would go if this unit filled the text
    importance  s_i                        the log of its weight among the others
    alone       F({i})                     the prediction with only this unit (and the sink)
    linearized  v_i exp(s_i)               the paper's single score
    slope       a_i (v_i - F)              the effect of taking away a little of it (Eq. 64)
    removal     a_i (v_i - F) / (1 - a_i)  F(all) - F(all but i)
    shapley     the exact Shapley value of removing units
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.func import jacrev

from slalom_xai.surrogates.additive import AdditiveSurrogate
from slalom_xai.surrogates.fit import Influence
from slalom_xai.surrogates.shapley import shapley_derivatives, shapley_values
from slalom_xai.surrogates.slalom import SlalomSurrogate

SCORES = ("value", "importance", "alone", "linearized", "slope", "removal", "shapley")

# Each takes one class's values (p,) and importances (p,) over columns and the number of units.
_Score = Callable[[Tensor, Tensor, int], Tensor]


def slalom_score(surrogate: SlalomSurrogate, name: str, column: int) -> Tensor:
    """One score of every unit for one class, (n,)."""
    if name == "shapley":
        return shapley_values(surrogate)[:, column]
    values, importances = surrogate.column_values()[0, :, column], surrogate.column_importances()[0]
    return _FORMULAS[name](values, importances, surrogate.units)


def additive_score(surrogate: AdditiveSurrogate, name: str, column: int) -> Tensor:
    """One score of every unit for one class, (n,); every name but importance and alone is the score itself."""
    if name == "alone":
        only = torch.eye(surrogate.units, dtype=surrogate.full.dtype)
        return surrogate.predict(only)[:, column]
    return surrogate.unit_scores[:, column]


def slalom_standard_errors(surrogate: SlalomSurrogate, influence: Influence, column: int) -> dict[str, Tensor]:
    """Sandwich standard errors (n,) of every score for one class, by the delta method."""
    values, importances = surrogate.column_values()[0, :, column], surrogate.column_importances()[0]
    errors = {}
    for name in SCORES:
        if name == "shapley":
            by_values, by_importances = shapley_derivatives(surrogate, column)
        else:
            by_values, by_importances = jacrev(_FORMULAS[name], argnums=(0, 1))(values, importances, surrogate.units)
        moved = influence.values[:, :, column] @ by_values.T + influence.importances @ by_importances.T
        errors[name] = (moved**2).sum(dim=0).sqrt()
    return errors


def _value(values: Tensor, importances: Tensor, units: int) -> Tensor:
    return values[:units]


def _importance(values: Tensor, importances: Tensor, units: int) -> Tensor:
    return importances[:units] - importances[:units].mean()


def _alone(values: Tensor, importances: Tensor, units: int) -> Tensor:
    if len(values) == units:
        return values
    share = torch.sigmoid(importances[:units] - importances[-1])
    return share * values[:units] + (1 - share) * values[-1]


def _linearized(values: Tensor, importances: Tensor, units: int) -> Tensor:
    return values[:units] * torch.exp(_importance(values, importances, units))


def _slope(values: Tensor, importances: Tensor, units: int) -> Tensor:
    shares = torch.softmax(importances, dim=0)
    return (shares * (values - shares @ values))[:units]


def _removal(values: Tensor, importances: Tensor, units: int) -> Tensor:
    if len(values) == 1:
        return values  # nothing is left, and an empty text without a sink gives 0
    shares = torch.softmax(importances, dim=0)
    return (shares * (values - shares @ values) / (1 - shares))[:units]


_FORMULAS: dict[str, _Score] = {
    "value": _value,
    "importance": _importance,
    "alone": _alone,
    "linearized": _linearized,
    "slope": _slope,
    "removal": _removal,
}
