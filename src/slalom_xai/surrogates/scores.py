"""The scores an explanation offers, from a surrogate, with their standard errors.

With ``a_i`` the share of unit i in the whole text and F the prediction for it:

    value       v_i                        where the output would go if this unit filled the text
    importance  s_i                        the log of its weight among the others
    alone       F({i})                     the prediction with only this unit (and the sink)
    linearized  v_i exp(s_i)               the paper's single score
    slope       a_i (v_i - F)              the effect of taking away a little of it (Eq. 64)
    removal     a_i (v_i - F) / (1 - a_i)  F(all) - F(all but i)
    shapley     the exact Shapley value of removing units

Several heads add; value, importance and linearized are then those of the nearest SLALOM with one head. What only the number of units
kept decides (``length_offsets``) belongs to no unit: it is in every prediction, alone among them, and in no effect of a unit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from slalom_xai.surrogates.additive import AdditiveSurrogate
from slalom_xai.surrogates.exact_shapley import shapley_derivatives, shapley_values
from slalom_xai.surrogates.formula import SlalomSurrogate
from slalom_xai.surrogates.influence import Covariance

SCORES = ("value", "importance", "alone", "linearized", "slope", "removal", "shapley")

READ_FROM_ONE_HEAD = (
    "value",
    "importance",
    "linearized",
)  # of several heads: from the nearest SLALOM with one

# Each takes one class's values (p,) and importances (p,) over columns and the number of units.
_Score = Callable[[Tensor, Tensor, int], Tensor]


def slalom_score(surrogate: SlalomSurrogate, name: str, column: int) -> Tensor:
    """One score of every unit for one class, (n,)."""
    if (
        name == "shapley"
    ):  # lengths add nothing to it: they treat all units alike, and are 0 for none and for all
        return shapley_values(surrogate)[:, column]
    if name in READ_FROM_ONE_HEAD:
        surrogate = surrogate.one_head
    heads = zip(surrogate.slot_values()[:, :, column], surrogate.slot_importances(), strict=True)
    found = torch.stack(
        [_FORMULAS[name](values, importances, surrogate.units) for values, importances in heads]
    ).sum(dim=0)
    if name == "alone":
        found = found + surrogate.length_effect(found.new_ones(1))[0, column]
    return found


def additive_score(surrogate: AdditiveSurrogate, name: str, column: int) -> Tensor:
    """One score of every unit for one class, (n,); every name but importance and alone is the score itself."""
    if name == "alone":
        return surrogate.empty()[column] + surrogate.unit_scores[:, column]
    return surrogate.unit_scores[:, column]


def slalom_standard_errors(
    surrogate: SlalomSurrogate,
    covariance: Covariance,
    column: int,
    nearest: Covariance | None = None,
    names: Sequence[str] = SCORES,
) -> dict[str, Tensor]:
    """Sandwich standard errors (n,) of every score for one class, by the delta method.

    Args:
        surrogate: what was fitted.
        covariance: of its parameters.
        column: the class.
        nearest: of the parameters of the nearest one-head SLALOM, where ``surrogate`` has several heads.
        names: which scores.
    """
    errors = {}
    for name in names:
        own = nearest is not None and name in READ_FROM_ONE_HEAD
        function, spread = (
            (surrogate.one_head, nearest)
            if own and nearest is not None
            else (surrogate, covariance)
        )
        if name in _FEW:
            variance = spread.of_few(column, *_few_derivatives(function, name, column))
        else:
            variance = spread.of(column, *_derivatives(function, name, column))
        errors[name] = variance.clamp(min=0).sqrt()
    return errors


def _derivatives(surrogate: SlalomSurrogate, name: str, column: int) -> tuple[Tensor, Tensor]:
    """Derivatives (n, P) of a score of one class by its values and by the importances, over the columns of all heads."""
    if name == "shapley":
        return shapley_derivatives(surrogate, column)
    heads = zip(surrogate.slot_values()[:, :, column], surrogate.slot_importances(), strict=True)
    parts = [
        _effect_derivatives(values, importances, surrogate.units, name == "removal")
        for values, importances in heads
    ]
    return torch.cat([part[0] for part in parts], dim=1), torch.cat(
        [part[1] for part in parts], dim=1
    )


def _few_derivatives(surrogate: SlalomSurrogate, name: str, column: int) -> tuple[Tensor, Tensor]:
    """Places (n, few) among values and then importances of all columns that a score depends on, and its derivatives there."""
    values, importances = surrogate.slot_values()[:, :, column], surrogate.slot_importances()
    heads, size = importances.shape
    places, slopes = [], []
    for head in range(heads):
        for of_importance, last, slope in _FEW[name](
            values[head], importances[head], surrogate.units
        ):
            unit = (
                torch.full_like(slope, size - 1).long()
                if last
                else torch.arange(surrogate.units, device=slope.device)
            )
            places.append(unit + (of_importance * heads + head) * size)
            slopes.append(slope)
    return torch.stack(places, dim=1), torch.stack(slopes, dim=1)


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


def _effect_derivatives(
    values: Tensor, importances: Tensor, units: int, removal: bool
) -> tuple[Tensor, Tensor]:
    """Of slope or removal by values and by importances, (n, p) each."""
    shares = torch.softmax(importances, dim=0)
    if removal and len(values) == 1:
        return torch.ones_like(values)[:, None], torch.zeros_like(values)[:, None]
    slope = shares * (values - shares @ values)
    by_values = _diagonal(shares[:units], len(values)) - shares[:units, None] * shares
    by_importances = (
        _diagonal(slope[:units], len(values))
        - slope[:units, None] * shares
        - shares[:units, None] * slope
    )
    if not removal:
        return by_values, by_importances
    left = 1 - shares[:units]
    by_share = slope[:units] * shares[:units] / left**2
    through_share = _diagonal(by_share, len(values)) - by_share[:, None] * shares
    return by_values / left[:, None], by_importances / left[:, None] + through_share


def _diagonal(entries: Tensor, columns: int) -> Tensor:
    """Entries (n,) on the diagonal of (n, columns)."""
    matrix = entries.new_zeros(len(entries), columns)
    matrix.diagonal().copy_(entries)
    return matrix


# Derivatives (n,) of the scores that depend on few parameters: by an importance or a value, of the sink or of the unit itself.
# The covariance has no common shift of the importances, so their mean, which two of the scores subtract, is left out.
_Few = list[tuple[bool, bool, Tensor]]


def _by_value(values: Tensor, importances: Tensor, units: int) -> _Few:
    return [(False, False, torch.ones_like(values[:units]))]


def _by_importance(values: Tensor, importances: Tensor, units: int) -> _Few:
    return [(True, False, torch.ones_like(values[:units]))]


def _by_alone(values: Tensor, importances: Tensor, units: int) -> _Few:
    if len(values) == units:
        return _by_value(values, importances, units)
    share = torch.sigmoid(importances[:units] - importances[-1])
    tilt = share * (1 - share) * (values[:units] - values[-1])
    return [
        (False, False, share),
        (False, True, 1 - share),
        (True, False, tilt),
        (True, True, -tilt),
    ]


def _by_linearized(values: Tensor, importances: Tensor, units: int) -> _Few:
    weight = torch.exp(_importance(values, importances, units))
    return [(False, False, weight), (True, False, values[:units] * weight)]


_FORMULAS: dict[str, _Score] = {
    "value": _value,
    "importance": _importance,
    "alone": _alone,
    "linearized": _linearized,
    "slope": _slope,
    "removal": _removal,
}

_FEW: dict[str, Callable[[Tensor, Tensor, int], _Few]] = {
    "value": _by_value,
    "importance": _by_importance,
    "alone": _by_alone,
    "linearized": _by_linearized,
}
