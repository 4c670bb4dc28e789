"""What a method is, and the register of methods.

A method asks a model about shortened texts through ``queries``, or looks inside it, and
returns its ``Findings``. ``attributed`` makes these from plain scores.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, TypeVar

import numpy as np

from slalom_xai.designs import default_budget, least_budget
from slalom_xai.errors import InputError, one_of
from slalom_xai.estimators.findings import Findings, attributed
from slalom_xai.models import Prompt
from slalom_xai.queries import Queries

__all__ = [
    "Estimator",
    "Findings",
    "attributed",
    "estimated_by",
    "estimator",
    "methods",
    "register",
]


class Estimator(ABC):
    """A method. Inherit from this and decorate the class with ``register``.

    Attributes:
        name: what users call it.
        summary: one line on what it does, needs and costs.
        additive: it gives one score per unit and no importances.
        combines: it only asks the model and holds no lock meanwhile, so that several texts may
            be under way at once and share batches and fits.
        stops_by_itself: without a budget, it begins with ``queries.first`` calls and may stop
            before ``queries.budget``.
        probes_noise: it has standard errors, so that a noisy model is asked about the whole
            text several times.
        probes_range: it wants to know between which ends the model's outputs lie.
        estimates: what the one score of an additive method is said to be: "removal", what is
            lost without the unit, or "shapley".
        removal: what leaving out a unit means where nobody says; None: what suits the model.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    additive: ClassVar[bool] = True
    combines: ClassVar[bool] = False
    stops_by_itself: ClassVar[bool] = False
    probes_noise: ClassVar[bool] = False
    probes_range: ClassVar[bool] = False
    estimates: ClassVar[str] = "removal"
    removal: ClassVar[str | None] = None

    def parameters(self, units: int, distinct: int) -> int:
        """How many numbers a fit must determine, which sets the least budget.

        Args:
            units: of the text.
            distinct: how many of them differ from each other.

        Returns:
            By default one per unit.
        """
        return units

    def least_calls(self, question: Prompt) -> int:
        """The fewest calls with which the method explains a text."""
        parameters = self.parameters(len(question.units), question.distinct)
        return least_budget(question.interchangeable, parameters)

    def usual_calls(self, question: Prompt) -> int:
        """The calls for a text where nobody gave a budget."""
        parameters = self.parameters(len(question.units), question.distinct)
        return default_budget(question.interchangeable, parameters)

    def first_calls(self, question: Prompt) -> int:
        """The calls to begin with, for a method that stops by itself."""
        return self.usual_calls(question)

    @abstractmethod
    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Asks the model through ``queries`` and fits."""


_Class = TypeVar("_Class", bound=type[Estimator])
_register: dict[str, type[Estimator]] = {}
_OLD_NAMES = {"slalom-few": "slalom"}  # what was a method of its own is a small budget now


def register(method: _Class) -> _Class:
    """Class decorator: makes a method known by its name."""
    _register[method.name] = method
    return method


def methods() -> dict[str, str]:
    """Every method's name and what it does, in one line; ours first."""

    def rank(name: str) -> tuple[bool, bool, str]:
        return not name.startswith("slalom"), name != "linear", name

    return {name: _register[name].summary for name in sorted(_register, key=rank)}


def estimated_by(method: str) -> str:
    """What the one score of an additive method is said to be; "removal" where nobody knows."""
    if method not in _register:
        return Estimator.estimates
    return _register[method].estimates


def estimator(method: str | Estimator) -> Estimator:
    """A method by name, with its default settings, or the configured instance itself."""
    if isinstance(method, str):
        method = _OLD_NAMES.get(method, method)
        if method not in _register:
            raise one_of("method", method, _register)
        return _register[method]()
    if not isinstance(method, Estimator):
        names = ", ".join(_register)
        raise InputError(
            f"method is {method!r}: give a name ({names}) or an instance such as Slalom()"
        )
    return method
