"""Two scores per token: why a transformer text classifier decided as it did.

These names are the front door, and each is imported when it is first used, so that
``import slalom_xai`` costs nothing. ``docs/api.md`` says which others are public; everything else
is private to the package and may change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slalom_xai.system import old_names
from slalom_xai.system.lazy_names import lazy_names

if TYPE_CHECKING:
    from slalom_xai.errors import BudgetError, InputError, ModelError, SlalomError
    from slalom_xai.explainer import Explainer, explain
    from slalom_xai.explanation import Explanation
    from slalom_xai.methods.base import Estimator, methods
    from slalom_xai.methods.slalom import Slalom
    from slalom_xai.metrics.base import measure
    from slalom_xai.models.base import TextModel
    from slalom_xai.models.language import AnswerModel
    from slalom_xai.models.outputs import Outputs
    from slalom_xai.models.remote import (
        Connection,
        JsonClassifier,
        Price,
        RemoteAnswerModel,
        RemoteClassifier,
        Spending,
    )
    from slalom_xai.models.text import Unit
    from slalom_xai.queries import AnswerCache
    from slalom_xai.reports.html import write_report
    from slalom_xai.slalom import BoundedSlalom
    from slalom_xai.slalom.trust import Fidelity

__all__ = [
    "AnswerCache",
    "AnswerModel",
    "BoundedSlalom",
    "BudgetError",
    "Connection",
    "Estimator",
    "Explainer",
    "Explanation",
    "Fidelity",
    "InputError",
    "JsonClassifier",
    "ModelError",
    "Outputs",
    "Price",
    "RemoteAnswerModel",
    "RemoteClassifier",
    "Slalom",
    "SlalomError",
    "Spending",
    "TextModel",
    "Unit",
    "explain",
    "measure",
    "methods",
    "write_report",
]
__version__ = "0.1.0"

__getattr__ = lazy_names(
    __name__,
    {
        "AnswerCache": "queries",
        "AnswerModel": "models.language",
        "BoundedSlalom": "slalom",
        "BudgetError": "errors",
        "Connection": "models.remote",
        "Estimator": "methods.base",
        "Explainer": "explainer",
        "Explanation": "explanation",
        "Fidelity": "slalom.trust",
        "InputError": "errors",
        "JsonClassifier": "models.remote",
        "ModelError": "errors",
        "Outputs": "models.outputs",
        "Price": "models.remote",
        "RemoteAnswerModel": "models.remote",
        "RemoteClassifier": "models.remote",
        "Slalom": "methods",
        "SlalomError": "errors",
        "Spending": "models.remote",
        "TextModel": "models",
        "Unit": "models.text",
        "explain": "explainer",
        "measure": "metrics",
        "methods": "methods",
        "write_report": "reports.html",
    },
)
old_names.install()


def __dir__() -> list[str]:
    return sorted(__all__)
