"""Whether a model is exactly the paper's SLALOM that was fitted."""

from __future__ import annotations

from dataclasses import dataclass

from slalom_xai.estimators.evidence import Evidence
from slalom_xai.surrogates.fit import Fit
from slalom_xai.surrogates.near_zero import TINY


@dataclass(frozen=True)
class ExactnessSettings:
    """Shares of the variance of the fitted answers.

    Attributes:
        exact: a fit that leaves less of its own rows is exact. Single precision leaves about
            1e-12 of an exact SLALOM; models that are none leave far more.
    """

    exact: float = 1e-8


EXACTNESS = ExactnessSettings()


def share_left(fit: Fit, evidence: Evidence) -> float:
    """The share of the variance that a fit leaves of its own rows."""
    return float((fit.residuals**2).mean()) / (_variance(evidence) + TINY)


def _variance(evidence: Evidence) -> float:
    outputs = evidence.fit.outputs
    return float(((outputs - outputs.mean(dim=0)) ** 2).mean())
