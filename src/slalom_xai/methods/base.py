"""What a method is, and the register of methods.

A method asks a model about shortened texts through ``queries``, or looks inside it, and
returns its ``Findings``. ``attributed`` makes these from plain scores.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import ClassVar, TypeVar

import numpy as np
import torch
from torch import Tensor

from slalom_xai.errors import InputError, one_of
from slalom_xai.methods.additive import AdditiveFit, AdditiveSurrogate
from slalom_xai.methods.evidence import AnsweredRows, Evidence, Surrogate, ask_held_out, row_pool
from slalom_xai.methods.held_out import measure
from slalom_xai.methods.paper.formula import SlalomSurrogate
from slalom_xai.methods.scores import OneScore, additive_standard_errors
from slalom_xai.models import Prompt
from slalom_xai.queries import Queries
from slalom_xai.slalom.plan import HeldOut, draw_held_out
from slalom_xai.slalom.rows import DESIGN, default_budget, held_out_size, least_budget
from slalom_xai.slalom.trust import Fidelity

# What a method found out about one text, and three ways to get there that methods share.


@dataclass(frozen=True)
class Findings:
    """What a method found out about one text, for all explained columns at once.

    Attributes:
        surrogate: the function that predicts deletions.
        standard_errors: per column, by score name, (n,) each.
        fidelity: per column; None where no rows were left to check.
        notes: what a reader should know, a sentence each.
        passes: rows put through the model from within, beside the calls that ``queries`` counts.
        measured: scores that are the model's own answers, by name, (n, C) each.
    """

    surrogate: Surrogate
    standard_errors: tuple[dict[str, Tensor], ...]
    fidelity: tuple[Fidelity, ...] | None
    notes: tuple[str, ...] = ()
    passes: int = 0
    measured: Mapping[str, Tensor] = field(default_factory=dict)


def linear_findings(evidence: Evidence, fit: AdditiveFit, notes: tuple[str, ...] = ()) -> Findings:
    """A linear fit as what a method found out."""
    fidelity = measure(evidence, fit.surrogate)
    return Findings(fit.surrogate, additive_standard_errors(fit), fidelity, notes)


def attributed(
    queries: Queries, scores: Tensor, rng: np.random.Generator, notes: tuple[str, ...] = ()
) -> Findings:
    """An additive explanation of given scores, tested on deletions that were not asked before.

    Args:
        queries: with what the method has asked; the calls it left are used for the test.
        scores: (n, C), what removing each unit takes away from each column; C is
            ``len(queries.ask_whole("check"))``.
        rng: draws the deletions.
        notes: what a reader should know.

    Raises:
        InputError: scores of another type or shape.
    """
    full = queries.ask_whole("check")
    _check_scores(scores, len(queries.prompt.units), len(full))
    return predicted_by(queries, AdditiveSurrogate(scores.to(full), full), rng, notes)


def predicted_by(
    queries: Queries, surrogate: OneScore, rng: np.random.Generator, notes: tuple[str, ...] = ()
) -> Findings:
    """A function with one score per unit, tested on deletions that were not asked before.

    Args:
        queries: with what the method has asked; the calls it left are used for the test.
        surrogate: predicts deletions, on the device of the answers.
        rng: draws the deletions.
        notes: what a reader should know.
    """
    full, units = queries.ask_whole("check"), len(queries.prompt.units)
    report = ask_held_out(queries, _rows_to_test(queries, rng), "check")
    whole = AnsweredRows(full.new_ones(1, units), full[None])
    evidence = Evidence(whole, None, report, full, queries.work)
    fidelity = measure(evidence, surrogate)
    return Findings(surrogate, ({},) * len(full), fidelity, notes)


def _check_scores(scores: object, units: int, columns: int) -> None:
    """Refuses scores that are not a tensor (units, columns)."""
    expected = (units, columns)
    if isinstance(scores, Tensor) and scores.shape == expected:
        return
    given = f"of type {type(scores).__name__}"
    if isinstance(scores, Tensor):
        given = f"a tensor of shape {tuple(scores.shape)}"
    raise InputError(
        f"scores is {given}: give attributed a tensor of shape {expected}, "
        "with a row for each unit and a number for each explained column"
    )


def _rows_to_test(queries: Queries, rng: np.random.Generator) -> HeldOut | None:
    """Rows that were not asked, as many as the budget leaves; None where it leaves too few."""
    left = queries.budget - queries.calls
    size = min(held_out_size(queries.budget), left)
    if size < DESIGN.least_held_out or len(queries.prompt.units) < 2:
        return None
    pool = row_pool(queries)
    pool.claim(queries.asked)
    rows = draw_held_out(pool, size, rng)
    return rows if rows.complete else None


def one_distinct_unit(queries: Queries, additive: bool) -> Findings:
    """A text of one distinct unit: its value is the model's output; nothing competes with it.

    Where removed units leave something in their place, equal units share what the output differs
    from that of a text with nothing else in it. Otherwise they share the output.

    Args:
        queries: asks about the text, whose whole was asked.
        additive: whether the method gives no importances.
    """
    units = len(queries.prompt.units)
    outputs = queries.ask_whole("check").double().cpu()
    no_errors: tuple[dict[str, Tensor], ...] = ({},) * len(outputs)
    if additive:
        change = outputs
        if queries.prompt.reading.in_place and queries.calls < queries.budget:
            change = outputs - queries.ask(~queries.prompt.whole, "fit")[0].double().cpu()
        shares = change.repeat(units, 1) / units
        return Findings(AdditiveSurrogate(shares, outputs), no_errors, None)
    importances = torch.zeros(1, units, dtype=torch.float64)
    values = outputs.repeat(units, 1)
    surrogate = SlalomSurrogate(values[None], importances)
    return Findings(surrogate, no_errors, None, measured={"value": values})


# What a method is, and the register of methods.


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


def _load_methods() -> dict[str, type[Estimator]]:
    """Every method by its name, once all families are imported."""
    from slalom_xai.methods import FAMILIES

    for family in FAMILIES:
        import_module(f"slalom_xai.methods.{family}")
    return _register


def methods() -> dict[str, str]:
    """Every method's name and what it does, in one line; ours first."""
    known = _load_methods()

    def rank(name: str) -> tuple[bool, bool, str]:
        return not name.startswith("slalom"), name != "linear", name

    return {name: known[name].summary for name in sorted(known, key=rank)}


def estimated_by(method: str) -> str:
    """What the one score of an additive method is said to be; "removal" where nobody knows."""
    return _load_methods().get(method, Estimator).estimates


def estimator(method: str | Estimator) -> Estimator:
    """A method by name, with its default settings, or the configured instance itself."""
    if isinstance(method, str):
        method = _OLD_NAMES.get(method, method)
        known = _load_methods()
        if method not in known:
            raise one_of("method", method, known)
        return known[method]()
    if not isinstance(method, Estimator):
        names = ", ".join(methods())
        raise InputError(
            f"method is {method!r}: give a name ({names}) or an instance such as Slalom()"
        )
    return method
