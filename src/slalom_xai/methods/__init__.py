"""Every method, a small class registered by name: ``from slalom_xai.methods import Slalom``.

Each turns answers of a model, or what is inside it, into an explanation. ``base`` says what a
method is, ``slalom`` is the main one, ``paper`` has those of the paper. The functions that they
predict with (``additive``, ``process``, ``paper.formula``) know nothing of models, so that a result
is read without any. A family is imported when it is used.

``slalom_xai.methods()`` lists all of them: this module can be called.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

from slalom_xai.system.lazy_names import lazy_names

if TYPE_CHECKING:
    from slalom_xai.methods.anchors import Anchors
    from slalom_xai.methods.attention import AttentionMax, AttentionMean, AttentionRollout
    from slalom_xai.methods.base import Estimator, Findings, estimated_by, estimator, methods
    from slalom_xai.methods.deletion import Gam, Lime, Occlusion
    from slalom_xai.methods.gaussian_process import GaussianProcess
    from slalom_xai.methods.gradients import Gradient, IntegratedGradients, SmoothGrad
    from slalom_xai.methods.lrp import AttnLRP
    from slalom_xai.methods.naive_bayes import NaiveBayes
    from slalom_xai.methods.pairs import Pairs
    from slalom_xai.methods.paper.eff import SlalomEff
    from slalom_xai.methods.paper.exact import SlalomExact
    from slalom_xai.methods.paper.fidel import SlalomFidel
    from slalom_xai.methods.shap_methods import KernelShap, PartitionShap, PermutationShap
    from slalom_xai.methods.shapiq_methods import LeverageShap, ProxySpex, RegressionMsr
    from slalom_xai.methods.slalom import Slalom
    from slalom_xai.methods.yardsticks import Linear, OneScoreMethod, Random, Zero

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

# Each family with its classes. A new method is registered by a line here.
FAMILIES = {
    "anchors": ("Anchors",),
    "attention": ("AttentionMax", "AttentionMean", "AttentionRollout"),
    "deletion": ("Gam", "Lime", "Occlusion"),
    "gaussian_process": ("GaussianProcess",),
    "gradients": ("Gradient", "IntegratedGradients", "SmoothGrad"),
    "lrp": ("AttnLRP",),
    "naive_bayes": ("NaiveBayes",),
    "pairs": ("Pairs",),
    "paper.eff": ("SlalomEff",),
    "paper.exact": ("SlalomExact",),
    "paper.fidel": ("SlalomFidel",),
    "shap_methods": ("KernelShap", "PartitionShap", "PermutationShap"),
    "shapiq_methods": ("LeverageShap", "ProxySpex", "RegressionMsr"),
    "slalom": ("Slalom",),
    "yardsticks": ("Linear", "OneScoreMethod", "Random", "Zero"),
}
_BASE = ("Estimator", "Findings", "estimated_by", "estimator", "methods")

__getattr__ = lazy_names(
    __name__,
    {name: family for family, names in {**FAMILIES, "base": _BASE}.items() for name in names},
)


class _ListsMethods(ModuleType):
    """A module that is called as the function of its name."""

    def __call__(self) -> dict[str, str]:
        from slalom_xai.methods.base import methods

        return methods()


sys.modules[__name__].__class__ = _ListsMethods
