"""Metrics: how good an explanation is, each metric a small class registered by name."""

from slalom_xai.metrics.agreement import AgreementWithOthers, Stability
from slalom_xai.metrics.alignment import aligned
from slalom_xai.metrics.aopc import Aopc
from slalom_xai.metrics.base import (
    Direction,
    Measured,
    Metric,
    Number,
    catalogue,
    measure,
    metric,
    metrics,
    register,
)
from slalom_xai.metrics.case import Case
from slalom_xai.metrics.cost import Cost
from slalom_xai.metrics.fidelity import FidelityLocal, FidelityWide
from slalom_xai.metrics.intervals import Comparison, Interval, against_best, bootstrap
from slalom_xai.metrics.meaning import Meaning
from slalom_xai.metrics.model_answers import Asker, asker
from slalom_xai.metrics.needs import Need
from slalom_xai.metrics.perturbation import Deletion, Insertion, RemovalRank
from slalom_xai.metrics.plausibility import Human, HumanDistinct, NaiveBayesRank
from slalom_xai.metrics.rationale import AtLeast, Rationale, to_units
from slalom_xai.metrics.simulatability import Simulatability

# Names that these two had before, and that other classes of the package have, too.
Agreement = AgreementWithOthers
NaiveBayes = NaiveBayesRank

__all__ = [
    "Agreement",
    "AgreementWithOthers",
    "Aopc",
    "Asker",
    "AtLeast",
    "Case",
    "Comparison",
    "Cost",
    "Deletion",
    "Direction",
    "FidelityLocal",
    "FidelityWide",
    "Human",
    "HumanDistinct",
    "Insertion",
    "Interval",
    "Meaning",
    "Measured",
    "Metric",
    "NaiveBayes",
    "NaiveBayesRank",
    "Need",
    "Number",
    "Rationale",
    "RemovalRank",
    "Simulatability",
    "Stability",
    "against_best",
    "aligned",
    "asker",
    "bootstrap",
    "catalogue",
    "measure",
    "metric",
    "metrics",
    "register",
    "to_units",
]
