"""Two scores per token: why a transformer text classifier decided as it did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slalom_xai.system.lazy_names import lazy_names

if TYPE_CHECKING:
    from slalom_xai.estimators import methods
    from slalom_xai.explainer import Explainer, explain
    from slalom_xai.explanation import Explanation
    from slalom_xai.models.language import AnswerModel

__all__ = ["AnswerModel", "Explainer", "Explanation", "explain", "methods"]
__version__ = "0.1.0"

# Imported when they are first used, so that ``import slalom_xai`` costs nothing.
__getattr__ = lazy_names(
    __name__,
    {
        "AnswerModel": "models.language",
        "Explainer": "explainer",
        "explain": "explainer",
        "Explanation": "explanation",
        "methods": "estimators",
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
