"""What a method is, the register of methods, and the steps that sampling methods share."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from slalom_xai.designs import LEAST_HELD_OUT, HeldOut, Masks, Plan, Pool, held_out, held_out_rows, more_rows, plan_rows
from slalom_xai.errors import InputError, one_of
from slalom_xai.models.inside import Inside
from slalom_xai.queries import Asking, Purpose, Queries
from slalom_xai.surrogates.additive import AdditiveFit, AdditiveSurrogate, fit_additive
from slalom_xai.surrogates.fit import Fit, fit_each, fit_many
from slalom_xai.surrogates.influence import inverse_variance
from slalom_xai.surrogates.problem import FitRequest
from slalom_xai.surrogates.quality import Fidelity, agreement
from slalom_xai.surrogates.rows import Counts, table_of
from slalom_xai.surrogates.scores import SCORES
from slalom_xai.surrogates.slalom import SlalomSurrogate

Surrogate = SlalomSurrogate | AdditiveSurrogate


@dataclass(frozen=True)
class Findings:
    """What a method found out about one text, for all explained columns at once.

    Attributes:
        surrogate: the function that predicts deletions.
        standard_errors: per column, by score name, (n,) each.
        fidelity: per column; None where no rows were left to check.
        notes: what a reader should know, a sentence each.
    """

    surrogate: Surrogate
    standard_errors: tuple[dict[str, Tensor], ...]
    fidelity: tuple[Fidelity, ...] | None
    notes: tuple[str, ...] = ()


class Estimator(Protocol):
    """A method. Implement this, decorate the class with ``register``, and it is a method like any other."""

    name: ClassVar[str]
    summary: ClassVar[str]
    additive: ClassVar[bool]  # one score per unit, no importances

    # May also say:
    # combines = True         holds no lock while it asks, so that several texts may be under way and ask together
    # stops_by_itself = True  without a budget, begins with ``queries.first`` calls and may stop before ``queries.budget``

    def parameters(self, units: int, kinds: int) -> int:
        """How many numbers a fit to so many units, of so many different kinds, must determine; sets the least budget."""

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
    order = sorted(_register, key=lambda name: (not name.startswith("slalom"), name != "linear", name))
    return {name: _register[name].summary for name in order}


def estimator(method: str | Estimator) -> Estimator:
    """A method by name, with its default settings, or the configured instance itself."""
    if isinstance(method, str):
        if method not in _register:
            raise one_of("method", method, _register)
        return _register[method]()
    if isinstance(method, type) or not hasattr(method, "explain"):
        raise InputError(f"method is {method!r}: give a name ({', '.join(_register)}) or an instance such as Slalom()")
    return method


@dataclass(frozen=True)
class Answered:
    """Rows with the model's answers: counts (m, n), where 1 keeps a unit with all its occurrences, and outputs (m, C)."""

    rows: Counts
    outputs: Tensor

    @functools.cached_property
    def counts(self) -> Tensor:
        """The counts as a table."""
        return table_of(self.rows)

    @property
    def deleted(self) -> Tensor:
        """Units missing from each row, (m,)."""
        return self.counts.shape[1] - self.counts.sum(dim=1)

    def joined(self, other: Answered) -> Answered:
        """These rows and then others."""
        return Answered(torch.cat([self.counts, other.counts]), torch.cat([self.outputs, other.outputs]))


@dataclass(frozen=True)
class AnsweredHeldOut:
    """Held-out rows with answers."""

    local: Answered
    wide: Answered


@dataclass(frozen=True)
class Evidence:
    """All a sampling method knows: rows to fit, to choose and to report on.

    Attributes:
        full: (C,), the model's outputs on the whole text.
        offsets: (n,), the log of each unit's occurrences: its importance before anything is known of it.
        asking: works out fits, perhaps with those of other texts.
    """

    fit: Answered
    choose: AnsweredHeldOut | None
    report: AnsweredHeldOut | None
    full: Tensor
    offsets: Tensor
    asking: Asking

    def solved(self, request: FitRequest) -> Fit:
        """A SLALOM fitted as requested."""
        return self.asking.worked_out(fit_many, request)

    def all_solved(self, requests: Sequence[FitRequest]) -> list[Fit]:
        """SLALOMs fitted as requested, those that are alike together."""
        return self.asking.worked_out(fit_each, requests)

    def errors(self, surrogate: Surrogate, rows: Answered) -> Tensor:
        """Predicted minus true change against the whole text, (m, C)."""
        everything = torch.ones_like(rows.counts[:1])
        predicted = surrogate.predict(rows.counts) - surrogate.predict(everything)
        return predicted - (rows.outputs - self.full)


def gather(queries: Queries, parameters: int, rng: np.random.Generator) -> Evidence:
    """Plans rows for the whole budget and asks them."""
    return Gathering(queries, parameters, rng).first(queries.budget)


class Gathering:
    """Asks in rounds; no row is asked twice, and none changes its purpose."""

    def __init__(self, queries: Queries, parameters: int, rng: np.random.Generator) -> None:
        self._queries, self._parameters, self._rng = queries, parameters, rng
        self._pool = Pool(queries.prompt.interchangeable, queries.prompt.keys)

    def first(self, budget: int) -> Evidence:
        """The first round, of so many calls."""
        queries = self._queries
        plan = plan_rows(queries.prompt.interchangeable, budget, self._parameters, self._rng, pool=self._pool)
        fit, choose, report = answered_plan(queries, plan)
        return Evidence(
            fit,
            choose,
            report,
            fit.outputs[0],
            torch.as_tensor(np.log(queries.prompt.occurrences), device=fit.outputs.device),
            queries.asking,
        )

    def more(self, evidence: Evidence, calls: int) -> Evidence:
        """The evidence with so many more calls."""
        queries = self._queries
        plan = more_rows(self._pool, calls, self._rng)
        fit, choose, report = answered_plan(queries, plan)
        return replace(
            evidence, fit=evidence.fit.joined(fit), choose=_joined(evidence.choose, choose), report=_joined(evidence.report, report)
        )


def _joined(before: AnsweredHeldOut | None, after: AnsweredHeldOut | None) -> AnsweredHeldOut | None:
    if before is None or after is None:
        return before
    return AnsweredHeldOut(before.local.joined(after.local), before.wide.joined(after.wide))


def answered(queries: Queries, masks: Masks, purpose: Purpose) -> Answered:
    """Asks rows."""
    return with_answers(masks, queries.ask(masks, purpose))


def answered_sets(queries: Queries, *sets: tuple[Masks, Purpose]) -> list[Answered]:
    """Asks several sets of rows at once: large batches of similar length are fastest."""
    outputs = queries.ask_rows(*((queries.prompt.rows(masks), purpose) for masks, purpose in sets))
    return [with_answers(masks, answers) for (masks, _), answers in zip(sets, outputs, strict=True)]


def answered_plan(queries: Queries, plan: Plan) -> tuple[Answered, AnsweredHeldOut | None, AnsweredHeldOut | None]:
    """Asks the rows to fit, to choose and to report on."""
    held_out = held_out_sets(plan.choose, "fit") + held_out_sets(plan.report, "check")
    fit, *others = answered_sets(queries, (plan.fit, "fit"), *held_out)
    choose = AnsweredHeldOut(*others[:2]) if plan.choose is not None else None
    return fit, choose, AnsweredHeldOut(*others[-2:]) if plan.report is not None else None


def held_out_sets(rows: HeldOut | None, purpose: Purpose) -> list[tuple[Masks, Purpose]]:
    """The sets of masks of held-out rows, local and wide; none where there are no such rows."""
    return [] if rows is None else [(rows.local, purpose), (rows.wide, purpose)]


def answered_held_out(queries: Queries, rows: HeldOut | None, purpose: Purpose) -> AnsweredHeldOut | None:
    """Asks held-out rows."""
    return None if rows is None else AnsweredHeldOut(*answered_sets(queries, *held_out_sets(rows, purpose)))


def with_answers(masks: Masks, outputs: Tensor) -> Answered:
    """Masks (m, n) and what the model answered, (m, C)."""
    return Answered(torch.as_tensor(masks, device=outputs.device).to(outputs.dtype), outputs)


def held_out_loss(evidence: Evidence, surrogate: Surrogate) -> float:
    """What choices minimise: the log error on local plus that on wide rows, so that neither regime drowns the other."""
    assert evidence.choose is not None
    floor = 1e-14 * (evidence.fit.outputs**2).mean() + 1e-300
    both = [(evidence.errors(surrogate, rows) ** 2).mean() for rows in (evidence.choose.local, evidence.choose.wide)]
    return float(torch.stack(both).clamp(min=floor).log().sum())


def linear_fit(evidence: Evidence) -> AdditiveFit:
    """The linear explanation of the same calls, weighted like them or not, whichever held-out rows prefer."""
    rows = evidence.fit
    plain = fit_additive(rows.rows, rows.outputs, evidence.full)
    if evidence.choose is None:
        return plain
    weights = inverse_variance(plain.surrogate.predict(rows.counts) - rows.outputs, rows.deleted)
    weighted = fit_additive(rows.rows, rows.outputs, evidence.full, weights)
    return min(plain, weighted, key=lambda fit: held_out_loss(evidence, fit.surrogate))


def linear_findings(evidence: Evidence, fit: AdditiveFit, notes: tuple[str, ...] = ()) -> Findings:
    """A linear fit as what a method found out."""
    names = [name for name in SCORES if name not in ("importance", "alone")]
    errors = tuple(dict.fromkeys(names, column) for column in fit.standard_errors.T)
    return Findings(fit.surrogate, errors, measure(evidence, fit.surrogate, fit.surrogate), notes)


def measure(evidence: Evidence, surrogate: Surrogate, linear: AdditiveSurrogate) -> tuple[Fidelity, ...] | None:
    """Fidelity per column on the rows kept for the report."""
    if evidence.report is None:
        return None
    compared = []
    for fitted in (surrogate, linear):
        for rows in (evidence.report.local, evidence.report.wide):
            true = (rows.outputs - evidence.full).cpu()
            predicted = true + evidence.errors(fitted, rows).cpu()
            levels = rows.outputs.abs().amax(dim=0).tolist()
            compared.append([agreement(predicted[:, c], true[:, c], level) for c, level in enumerate(levels)])
    return tuple(Fidelity(*of_column) for of_column in zip(*compared, strict=True))


def fitting_budget(queries: Queries) -> int:
    """Calls that a method may still spend before the report takes its share."""
    return queries.budget - queries.calls - held_out_rows(queries.budget)


def attributed(queries: Queries, scores: Tensor, rng: np.random.Generator, notes: tuple[str, ...] = ()) -> Findings:
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
    report = answered_held_out(queries, rows if rows is not None and rows.complete else None, "check")
    everything = Answered(torch.ones(1, len(scores), dtype=full.dtype, device=full.device), full[None])
    offsets = torch.zeros(len(scores), dtype=full.dtype, device=full.device)
    evidence = Evidence(everything, None, report, full, offsets, queries.asking)
    return Findings(surrogate, ({},) * len(full), measure(evidence, surrogate, surrogate), notes)


def inside(queries: Queries, method: str) -> Inside:
    """The model of a white-box method, open on the whole text.

    Raises:
        InputError: the model answers, and shows nothing more.
    """
    look = getattr(queries.model, "inside", None)
    if look is None:
        raise InputError(
            f"method {method!r} looks inside the model, and {queries.model.name} can only be asked: give a transformers model or a torch module, "
            "or use a method that only asks, such as slalom, lime or kernel-shap"
        )
    opened: Inside = look(queries.prompt.row(np.ones(len(queries.prompt.units), dtype=bool)))
    return opened


def by_unit(queries: Queries, tokens: Tensor) -> Tensor:
    """Scores of all tokens of the whole text, special ones included, (tokens, ...), summed over each unit's, (n, ...)."""
    positions = queries.prompt.reading.positions
    assert positions is not None
    owner = torch.as_tensor(queries.prompt.owner, device=tokens.device)
    summed = tokens.new_zeros(len(queries.prompt.units), *tokens.shape[1:])
    return summed.index_add_(0, owner, tokens[torch.as_tensor(positions, device=tokens.device)])


def one_kind(full: list[float], units: int, additive: bool) -> Findings:
    """A text of one distinct unit: its value is the model's output, and nothing competes with it."""
    outputs = torch.tensor(full, dtype=torch.float64)
    surrogate: Surrogate
    if additive:
        surrogate = AdditiveSurrogate(outputs.repeat(units, 1) / units, outputs)
    else:
        surrogate = SlalomSurrogate(outputs.repeat(1, units, 1), torch.zeros(1, units, dtype=torch.float64))
    return Findings(surrogate, ({},) * len(full), None)
