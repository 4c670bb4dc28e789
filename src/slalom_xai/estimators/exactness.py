"""Whether a model is exactly the SLALOM that was fitted, or so nearly that nothing is left to add."""

from __future__ import annotations

from slalom_xai.estimators.evidence import Evidence, held_out_errors
from slalom_xai.surrogates.fit import Fit

EXACT = 1e-8  # a fit that leaves less of the variance is exact: single precision leaves about 1e-12
SHOWN = 1e-5  # and of rows that it was not fitted to no more than this: rounding is amplified there
OPEN = 0.1  # where a prior moves predictions by more of the variance, the rows leave them open
NEGLIGIBLE = 1e-6  # a share of the variance that is not worth another head


def share_left(fit: Fit, evidence: Evidence) -> float:
    """The share of the variance that a fit leaves of its own rows."""
    return float((fit.residuals**2).mean()) / (_variance(evidence) + 1e-300)


def is_the_model(fit: Fit, before: Fit, evidence: Evidence) -> bool:
    """Whether the model is the SLALOM that was fitted without a prior, after one with a prior.

    It meets every row. Rows that it was not fitted to show that this is no accident. And it predicts
    the same as before for rows that were not asked: what the rows leave open, the prior decides.
    """
    surrogate = fit.surrogate
    if share_left(fit, evidence) > EXACT:
        return False
    if evidence.choose is None:
        return not surrogate.has_sink or len(fit.residuals) > 2 * surrogate.units + 1
    rows = evidence.unasked
    moved = ((surrogate.predict(rows) - before.surrogate.predict(rows)) ** 2).mean()
    errors = [(evidence.errors(surrogate, rows) ** 2).mean() for rows in evidence.choose.both]
    variance = _variance(evidence)
    return float(max(errors)) <= SHOWN * variance and float(moved) <= OPEN * variance


def nothing_left(fit: Fit, evidence: Evidence) -> bool:
    """Whether what a fit leaves of held-out rows is too little for another head."""
    return _held_out_share(fit, evidence) <= NEGLIGIBLE


def _held_out_share(fit: Fit, evidence: Evidence) -> float:
    """The share of the variance that a fit leaves of the rows to choose by, few or many deletions."""
    worst = float(max(held_out_errors(evidence, fit.surrogate)))
    return worst / (_variance(evidence) + 1e-300)


def _variance(evidence: Evidence) -> float:
    outputs = evidence.fit.outputs
    return float(((outputs - outputs.mean(dim=0)) ** 2).mean())
