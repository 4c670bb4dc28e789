"""Modules under the names that they had before: documented imports go on to work.

An old name stands for a module that looks its names up in the new one, which is imported when the
first of them is used.
"""

from __future__ import annotations

import sys
from collections.abc import MutableSequence
from importlib import import_module
from types import ModuleType
from typing import Any

_PACKAGE = "slalom_xai"
_OLD_NAMES = {
    "audit": "data.audit",
    "bench": "data.bench",
    "corpus": "data.corpus",
    "diff": "data.diff",
    "estimators": "methods",
    "estimators.base": "methods.base",
    "estimators.one_score": "methods.yardsticks",
    "metrics.case": "metrics.base",
    "outputs": "models.outputs",
    "surrogates.additive": "methods.additive",
    "surrogates.formula": "methods.paper.formula",
    "surrogates.pairs": "methods.additive",
    "surrogates.process": "methods.process",
    "tables": "data.tables",
    "text": "models.text",
    "training": "data.training",
    "vocabulary": "data.vocabulary",
}


class _Moved(ModuleType):
    """A module under its old name."""

    __path__: MutableSequence[str] = []  # noqa: RUF012 - a package may have been there

    def __init__(self, name: str, now: str) -> None:
        super().__init__(name, f"The old name of ``{now}``.")
        self._now = now

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(import_module(self._now), name)


def install() -> None:
    """Makes the old names known; nothing is imported."""
    for old, now in _OLD_NAMES.items():
        name = f"{_PACKAGE}.{old}"
        module = sys.modules[name] = _Moved(name, f"{_PACKAGE}.{now}")
        parent, _, own = name.rpartition(".")
        if parent in sys.modules:
            setattr(sys.modules[parent], own, module)
