"""Metrics: how good an explanation is, each metric a small class registered by name."""

from slalom_xai.metrics.agreement import AgreementWithOthers, Stability, align
from slalom_xai.metrics.base import (
    Case,
    Direction,
    Measured,
    Metric,
    Need,
    Number,
    catalogue,
    measure,
    metric,
    metrics,
    register,
)
from slalom_xai.metrics.cost import Cost
from slalom_xai.metrics.fidelity import FidelityLocal, FidelityWide
from slalom_xai.metrics.meaning import Meaning
from slalom_xai.metrics.model_answers import Asker, asker
from slalom_xai.metrics.perturbation import Aopc, Deletion, Insertion, RemovalRank
from slalom_xai.metrics.plausibility import (
    AtLeast,
    Human,
    HumanDistinct,
    NaiveBayesRank,
    Rationale,
    to_units,
)
from slalom_xai.metrics.simulatability import Simulatability
from slalom_xai.metrics.statistics import Comparison, Interval, against_best, bootstrap

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
    "align",
    "asker",
    "bootstrap",
    "catalogue",
    "measure",
    "metric",
    "metrics",
    "register",
    "to_units",
]
