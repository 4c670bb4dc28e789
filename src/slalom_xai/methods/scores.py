"""The scores an explanation offers, from a surrogate, with their standard errors.

With ``a_i`` the share of unit i in the whole text and F the prediction for it:

    value       v_i                        where the output would go if this unit filled the text
    importance  s_i                        the log of its weight among the others
    alone       F({i})                     the prediction with only this unit (and the sink)
    linearized  v_i exp(s_i)               the paper's single score
    slope       a_i (v_i - F)              the effect of taking away a little of it (Eq. 64)
    removal     a_i (v_i - F) / (1 - a_i)  F(all) - F(all but i)
    shapley     the exact Shapley value of removing units

Several heads add.

These are closed forms of what the formula predicts for certain rows, and the tests compare them
with those predictions. ``errors`` says how sure a fit is of them.

Shapes: n units, p slots (the units and perhaps a sink), K heads.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from slalom_xai.methods.additive import AdditiveFit, AdditiveSurrogate, PairsSurrogate
from slalom_xai.methods.paper.formula import SlalomSurrogate
from slalom_xai.methods.paper.shapley import shapley_values
from slalom_xai.methods.process import Process

# The functions of methods that give one score per unit, ``unit_scores``, and no importances.
OneScore = AdditiveSurrogate | PairsSurrogate | Process

SCORES = ("value", "importance", "removal", "alone", "slope", "shapley", "linearized", "filled")

# The one number per unit where nobody asks for another: it ranks units, colours them and is
# exported. docs/benchmarks.md compares the scores; this one is best or not far behind everywhere.
DEFAULT_SCORE = "shapley"

# Those that follow from a formula. "filled", the output to a text filled with the unit, is only
# ever measured.
_FROM_FORMULA = SCORES[:-1]

# Takes values (..., p) of one column and importances (..., p), and n; gives (..., n).
_Score = Callable[[Tensor, Tensor, int], Tensor]


def slalom_score(surrogate: SlalomSurrogate, name: str, column: int) -> Tensor:
    """One score of every unit for one column, (n,)."""
    if name == "shapley":
        return shapley_values(surrogate)[:, column]
    values, importances = surrogate.slot_values()[:, :, column], surrogate.slot_importances()
    return FORMULAS[name](values, importances, surrogate.units).sum(dim=0)


def _predicted(surrogate: PairsSurrogate | Process, name: str) -> Tensor:
    """Alone or removal, as what is predicted for such rows, (n, C)."""
    only = torch.eye(surrogate.units).to(surrogate.empty())
    if name == "alone":
        return surrogate.predict(only)
    return surrogate.predict(torch.ones_like(only[:1])) - surrogate.predict(1 - only)


def one_score(surrogate: OneScore, name: str, column: int) -> Tensor:
    """One score of every unit for one column, (n,).

    Every name but importance, which there is none of, alone and removal is the unit's score itself.
    Of a linear function, removal is that, too.
    """
    scores = surrogate.unit_scores
    if isinstance(surrogate, AdditiveSurrogate):
        if name == "alone":
            scores = surrogate.empty() + scores
        return scores[:, column]
    if name in ("alone", "removal"):
        scores = _predicted(surrogate, name)
    return scores[:, column]


def additive_standard_errors(fit: AdditiveFit) -> tuple[dict[str, Tensor], ...]:
    """Standard errors (n,) by the name of the score, for every column.

    All scores of a linear fit are one and the same, and so are their errors. It has no importance,
    and alone depends on all units together.
    """
    names = [name for name in _FROM_FORMULA if name not in ("importance", "alone")]
    return tuple(dict.fromkeys(names, of_column) for of_column in fit.standard_errors.T)


def _value(values: Tensor, importances: Tensor, units: int) -> Tensor:
    return values[..., :units]


def _importance(values: Tensor, importances: Tensor, units: int) -> Tensor:
    return importances[..., :units] - importances[..., :units].mean(dim=-1, keepdim=True)


def _alone(values: Tensor, importances: Tensor, units: int) -> Tensor:
    if values.shape[-1] == units:
        return values
    share = torch.sigmoid(importances[..., :units] - importances[..., -1:])
    return share * values[..., :units] + (1 - share) * values[..., -1:]


def _linearized(values: Tensor, importances: Tensor, units: int) -> Tensor:
    return values[..., :units] * torch.exp(_importance(values, importances, units))


def _slope(values: Tensor, importances: Tensor, units: int) -> Tensor:
    shares = torch.softmax(importances, dim=-1)
    slope = shares * (values - (shares * values).sum(dim=-1, keepdim=True))
    return slope[..., :units]


def _removal(values: Tensor, importances: Tensor, units: int) -> Tensor:
    if values.shape[-1] == 1:
        return values  # nothing is left, and an empty text without a sink gives 0
    others = 1 - torch.softmax(importances, dim=-1)[..., :units]
    return _slope(values, importances, units) / others


FORMULAS: dict[str, _Score] = {
    "value": _value,
    "importance": _importance,
    "alone": _alone,
    "linearized": _linearized,
    "slope": _slope,
    "removal": _removal,
}
