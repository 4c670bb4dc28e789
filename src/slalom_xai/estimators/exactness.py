"""Whether a model is exactly the SLALOM that was fitted, or so nearly that nothing is left to add.

All thresholds are shares of the variance of the fitted answers.
"""

from __future__ import annotations

from dataclasses import dataclass

from slalom_xai.estimators.evidence import Evidence
from slalom_xai.estimators.held_out import held_out_errors
from slalom_xai.surrogates.fit import Fit
from slalom_xai.surrogates.near_zero import TINY


@dataclass(frozen=True)
class ExactnessSettings:
    """Shares of the variance of the fitted answers.

    Attributes:
        exact: a fit that leaves less of its own rows is exact. Single precision leaves about
            1e-12 of an exact SLALOM; models that are none leave far more.
        shown: an exact fit leaves no more than this of rows that it was not fitted to, where
            rounding is amplified.
        left_open: where a prior moves predictions by more than this, the rows leave them open,
            and an exact fit is no proof.
        negligible: what is not worth another head.
    """

    exact: float = 1e-8
    shown: float = 1e-5
    left_open: float = 0.1
    negligible: float = 1e-6


EXACTNESS = ExactnessSettings()


def share_left(fit: Fit, evidence: Evidence) -> float:
    """The share of the variance that a fit leaves of its own rows."""
    return float((fit.residuals**2).mean()) / (_variance(evidence) + TINY)


def is_the_model(fit: Fit, before: Fit, evidence: Evidence) -> bool:
    """Whether the model is the SLALOM that was fitted without a prior.

    It meets every row. Rows that it was not fitted to show that this is no accident. And it
    predicts the same as with a prior for rows that were not asked: what the rows leave open,
    the prior decides.

    Args:
        fit: without a prior.
        before: the same with a prior.
        evidence: with the rows.
    """
    surrogate = fit.surrogate
    if share_left(fit, evidence) > EXACTNESS.exact:
        return False
    if evidence.choose is None:
        return not surrogate.has_sink or len(fit.residuals) > 2 * surrogate.units + 1
    unasked = evidence.unasked
    moved = ((surrogate.predict(unasked) - before.surrogate.predict(unasked)) ** 2).mean()
    errors = [(evidence.errors(surrogate, rows) ** 2).mean() for rows in evidence.choose.both]
    variance = _variance(evidence)
    if float(max(errors)) > EXACTNESS.shown * variance:
        return False
    return float(moved) <= EXACTNESS.left_open * variance


def nothing_left(fit: Fit, evidence: Evidence) -> bool:
    """Whether what a fit leaves of held-out rows is too little for another head."""
    predicted = evidence.choice.rows.predict(fit.surrogate)
    worst = float(max(held_out_errors(evidence, predicted)))
    return worst / (_variance(evidence) + TINY) <= EXACTNESS.negligible


def _variance(evidence: Evidence) -> float:
    outputs = evidence.fit.outputs
    return float(((outputs - outputs.mean(dim=0)) ** 2).mean())
