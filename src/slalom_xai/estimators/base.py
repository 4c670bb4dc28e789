"""What a method is, the register of methods, and the steps that several of them share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import numpy as np
import torch
from torch import Tensor

from slalom_xai.designs import LEAST_HELD_OUT, Pool, held_out, held_out_rows
from slalom_xai.errors import InputError, one_of
from slalom_xai.estimators.evidence import Answered, Evidence, Surrogate, answered_held_out, measure
from slalom_xai.models.base import OpensInternals
from slalom_xai.models.internals import Internals
from slalom_xai.queries import Queries
from slalom_xai.surrogates.additive import AdditiveFit, AdditiveSurrogate
from slalom_xai.surrogates.formula import SlalomSurrogate
from slalom_xai.surrogates.quality import Fidelity
from slalom_xai.surrogates.scores import additive_standard_errors


@dataclass(frozen=True)
class Findings:
    """What a method found out about one text, for all explained columns at once.

    Attributes:
        surrogate: the function that predicts deletions.
        standard_errors: per column, by score name, (n,) each.
        fidelity: per column; None where no rows were left to check.
        notes: what a reader should know, a sentence each.
        passes: rows put through the model from within, beside the calls that ``queries`` counts.
    """

    surrogate: Surrogate
    standard_errors: tuple[dict[str, Tensor], ...]
    fidelity: tuple[Fidelity, ...] | None
    notes: tuple[str, ...] = ()
    passes: int = 0


class Estimator(ABC):
    """A method. Inherit from this, decorate the class with ``register``, and it is a method like any other.

    Attributes:
        name: what users call it.
        summary: one line on what it does, needs and costs.
        additive: it gives one score per unit and no importances.
        combines: it only asks the model and holds no lock meanwhile, so that several texts may be under
            way at once and share batches and fits.
        stops_by_itself: without a budget, it begins with ``queries.first`` calls and may stop before
            ``queries.budget``.
        probes_noise: it has standard errors, so that a noisy model is asked about the whole text several
            times.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    additive: ClassVar[bool] = True
    combines: ClassVar[bool] = False
    stops_by_itself: ClassVar[bool] = False
    probes_noise: ClassVar[bool] = False

    def parameters(self, units: int, distinct: int) -> int:
        """How many numbers a fit must determine, which sets the least budget; by default one per unit.

        Args:
            units: of the text.
            distinct: how many of them differ from each other.
        """
        return units

    @abstractmethod
    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Asks the model through ``queries`` and fits."""


_Class = TypeVar("_Class", bound=type[Estimator])
_register: dict[str, type[Estimator]] = {}


def register(method: _Class) -> _Class:
    """Class decorator: makes a method known by its name."""
    _register[method.name] = method
    return method


def methods() -> dict[str, str]:
    """Every method's name and what it does, in one line; ours first."""
    order = sorted(
        _register, key=lambda name: (not name.startswith("slalom"), name != "linear", name)
    )
    return {name: _register[name].summary for name in order}


def estimator(method: str | Estimator) -> Estimator:
    """A method by name, with its default settings, or the configured instance itself."""
    if isinstance(method, str):
        if method not in _register:
            raise one_of("method", method, _register)
        return _register[method]()
    if not isinstance(method, Estimator):
        raise InputError(
            f"method is {method!r}: give a name ({', '.join(_register)}) or an instance such as Slalom()"
        )
    return method


def linear_findings(evidence: Evidence, fit: AdditiveFit, notes: tuple[str, ...] = ()) -> Findings:
    """A linear fit as what a method found out."""
    errors = additive_standard_errors(fit)
    return Findings(fit.surrogate, errors, measure(evidence, fit.surrogate, fit.surrogate), notes)


def fitting_budget(queries: Queries) -> int:
    """Calls that a method may still spend before the report takes its share."""
    return queries.budget - queries.calls - held_out_rows(queries.budget)


def attributed(
    queries: Queries, scores: Tensor, rng: np.random.Generator, notes: tuple[str, ...] = ()
) -> Findings:
    """An additive explanation of given scores, tested on deletions that were not asked before.

    Args:
        queries: with what the method has asked; the calls it left are used for the test.
        scores: (n, C), what removing each unit takes away from each column.
        rng: draws the deletions.
        notes: what a reader should know.
    """
    full = queries.ask(np.ones((1, len(scores)), dtype=bool), "check")[0]
    surrogate = AdditiveSurrogate(scores.to(full), full)
    pool = Pool(queries.prompt.interchangeable, queries.prompt.keys)
    pool.claim(queries.asked)
    spare = min(held_out_rows(queries.budget), queries.budget - queries.calls)
    rows = held_out(pool, spare, rng) if spare >= LEAST_HELD_OUT and len(scores) > 1 else None
    report = answered_held_out(
        queries, rows if rows is not None and rows.complete else None, "check"
    )
    everything = Answered(
        torch.ones(1, len(scores), dtype=full.dtype, device=full.device), full[None]
    )
    offsets = torch.zeros(len(scores), dtype=full.dtype, device=full.device)
    evidence = Evidence(everything, None, report, full, offsets, queries.pool)
    return Findings(surrogate, ({},) * len(full), measure(evidence, surrogate, surrogate), notes)


def open_internals(queries: Queries, method: str) -> Internals:
    """The model of a white-box method, open on the whole text.

    Raises:
        InputError: the model answers, and shows nothing more.
    """
    if not isinstance(queries.model, OpensInternals):
        raise InputError(
            f"method {method!r} looks inside the model, but {queries.model.name} can only be asked: give a transformers model or a torch module, "
            "or use a method that only asks, such as slalom, lime or kernel-shap"
        )
    return queries.model.internals(
        queries.prompt.row(np.ones(len(queries.prompt.units), dtype=bool))
    )


def by_unit(queries: Queries, tokens: Tensor) -> Tensor:
    """Scores of all tokens of the whole text, special ones included, (tokens, ...), summed over each unit's, (n, ...)."""
    positions = queries.prompt.reading.positions
    assert positions is not None
    owner = torch.as_tensor(queries.prompt.owner, device=tokens.device)
    summed = tokens.new_zeros(len(queries.prompt.units), *tokens.shape[1:])
    return summed.index_add_(0, owner, tokens[torch.as_tensor(positions, device=tokens.device)])


def one_distinct_unit(full: list[float], units: int, additive: bool) -> Findings:
    """A text of one distinct unit: its value is the model's output, and nothing competes with it."""
    outputs = torch.tensor(full, dtype=torch.float64)
    surrogate: Surrogate
    if additive:
        surrogate = AdditiveSurrogate(outputs.repeat(units, 1) / units, outputs)
    else:
        surrogate = SlalomSurrogate(
            outputs.repeat(1, units, 1), torch.zeros(1, units, dtype=torch.float64)
        )
    return Findings(surrogate, ({},) * len(full), None)
