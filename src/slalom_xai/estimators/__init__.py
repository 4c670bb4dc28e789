"""The methods: small classes registered by name.

Each turns answers of a model, or what is inside it, into an explanation. ``base`` says what a
method is.
"""

from slalom_xai.estimators.anchors import Anchors
from slalom_xai.estimators.attention import AttentionMax, AttentionMean, AttentionRollout
from slalom_xai.estimators.base import Estimator, Findings, estimated_by, estimator, methods
from slalom_xai.estimators.deletion_methods import Gam, Lime, Occlusion
from slalom_xai.estimators.floors import Random, Zero
from slalom_xai.estimators.gaussian_process import GaussianProcess
from slalom_xai.estimators.gradients import Gradient, IntegratedGradients, SmoothGrad
from slalom_xai.estimators.linear import Linear
from slalom_xai.estimators.lrp import AttnLRP
from slalom_xai.estimators.naive_bayes import NaiveBayes
from slalom_xai.estimators.one_score import OneScoreMethod
from slalom_xai.estimators.pairs import Pairs
from slalom_xai.estimators.paper import SlalomEff, SlalomExact, SlalomFidel
from slalom_xai.estimators.shap_methods import KernelShap, PartitionShap, PermutationShap
from slalom_xai.estimators.shapiq_methods import LeverageShap, ProxySpex, RegressionMsr
from slalom_xai.estimators.slalom import Slalom

__all__ = [
    "Anchors",
    "AttentionMax",
    "AttentionMean",
    "AttentionRollout",
    "AttnLRP",
    "Estimator",
    "Findings",
    "Gam",
    "GaussianProcess",
    "Gradient",
    "IntegratedGradients",
    "KernelShap",
    "LeverageShap",
    "Lime",
    "Linear",
    "NaiveBayes",
    "Occlusion",
    "OneScoreMethod",
    "Pairs",
    "PartitionShap",
    "PermutationShap",
    "ProxySpex",
    "Random",
    "RegressionMsr",
    "Slalom",
    "SlalomEff",
    "SlalomExact",
    "SlalomFidel",
    "SmoothGrad",
    "Zero",
    "estimated_by",
    "estimator",
    "methods",
]
