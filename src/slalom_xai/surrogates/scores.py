"""The scores an explanation offers, from a surrogate, with their standard errors.

With ``a_i`` the share of unit i in the whole text and F the prediction for it:

    value       v_i                        where the output would go if this unit filled the text
    importance  s_i                        the log of its weight among the others
    alone       F({i})                     the prediction with only this unit (and the sink)
    linearized  v_i exp(s_i)               the paper's single score
    slope       a_i (v_i - F)              the effect of taking away a little of it (Eq. 64)
    removal     a_i (v_i - F) / (1 - a_i)  F(all) - F(all but i)
    shapley     the exact Shapley value of removing units

Several heads add. What only the number of units kept decides (``length_offsets``) belongs to no
unit: it is in what is predicted for certain rows, alone and removal, and not in slope and shapley.

These are closed forms of what the formula predicts for certain rows, and the tests compare them
with those predictions. Standard errors follow by the delta method: with the derivative d of a score
by the parameters and their covariance J, the variance of the score is d'Jd. ``score_slopes`` has
the derivatives.

Shapes: n units, p slots (the units and perhaps a sink), K heads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from slalom_xai.surrogates.additive import AdditiveFit, AdditiveSurrogate
from slalom_xai.surrogates.exact_shapley import shapley_values
from slalom_xai.surrogates.formula import SlalomSurrogate
from slalom_xai.surrogates.influence import Covariance
from slalom_xai.surrogates.pairs import PairsSurrogate
from slalom_xai.surrogates.process import Process
from slalom_xai.surrogates.score_slopes import FEW_PARAMETERS, few_slopes, slopes

# The functions of methods that give one score per unit, ``unit_scores``, and no importances.
OneScore = AdditiveSurrogate | PairsSurrogate | Process

SCORES = ("value", "importance", "removal", "alone", "slope", "shapley", "linearized", "filled")

# The one number per unit where nobody asks for another: it ranks units, colours them and is
# exported. docs/benchmarks.md compares the scores; this one is best or not far behind everywhere.
DEFAULT_SCORE = "shapley"

# Those that follow from a formula. "filled", the output to a text filled with the unit, is only
# ever measured.
_FROM_FORMULA = SCORES[:-1]

# Takes one head's values (p,) of one column and importances (p,), and n; gives (n,).
_Score = Callable[[Tensor, Tensor, int], Tensor]


def slalom_score(surrogate: SlalomSurrogate, name: str, column: int) -> Tensor:
    """One score of every unit for one column, (n,)."""
    if name == "shapley":
        # Lengths add nothing to it: they treat all units alike, and are 0 for none and for all.
        return shapley_values(surrogate)[:, column]
    by_head = []
    values, importances = surrogate.slot_values()[:, :, column], surrogate.slot_importances()
    for of_head in zip(values, importances, strict=True):
        by_head.append(_FORMULAS[name](*of_head, surrogate.units))
    score = torch.stack(by_head).sum(dim=0)
    if name == "alone":
        score = score + surrogate.length_effect(score.new_ones(1))[0, column]
    if name == "removal":
        without = score.new_full((1,), surrogate.units - 1)
        score = score - surrogate.length_effect(without)[0, column]
    return score


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


def slalom_standard_errors(
    surrogate: SlalomSurrogate,
    covariance: Covariance,
    column: int,
    names: Sequence[str] = _FROM_FORMULA,
) -> dict[str, Tensor]:
    """Sandwich standard errors (n,) of every score for one column, by the delta method.

    Args:
        surrogate: what was fitted.
        covariance: of its parameters.
        column: which.
        names: which scores.
    """
    errors = {}
    for name in names:
        if name in FEW_PARAMETERS:
            variance = covariance.of_few(column, *few_slopes(surrogate, name, column))
        else:
            variance = covariance.of(column, *slopes(surrogate, name, column))
        errors[name] = variance.clamp(min=0).sqrt()
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
