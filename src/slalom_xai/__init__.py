"""Two scores per token: why a transformer text classifier decided as it did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slalom_xai.estimators import methods
    from slalom_xai.explainer import Explainer, explain
    from slalom_xai.explanation import Explanation
    from slalom_xai.models.language import AnswerModel

__all__ = ["AnswerModel", "Explainer", "Explanation", "explain", "methods"]
__version__ = "0.1.0"

_HOMES = {
    "AnswerModel": "models.language",
    "Explainer": "explainer",
    "explain": "explainer",
    "Explanation": "explanation",
    "methods": "estimators",
}


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used, so that ``import slalom_xai`` costs nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module 'slalom_xai' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"slalom_xai.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
