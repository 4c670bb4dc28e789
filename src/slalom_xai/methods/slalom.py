"""The main method: a value and an importance per unit, from few calls or many.

It sends perturbed texts to the model (``slalom.design``), fits the formula to the outputs
(``slalom.fit``), tests it on calls that were not used, beside one score per unit fitted to the same
calls, and says how sure it is of every score.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from slalom_xai.errors import InputError
from slalom_xai.methods.base import Estimator, Findings, register
from slalom_xai.methods.evidence import (
    AnsweredHeldOut,
    AnsweredRows,
    accepts_empty,
    ask_held_out,
    ask_masks,
    count_rows,
    row_pool,
)
from slalom_xai.methods.held_out import count_changes
from slalom_xai.models import Prompt
from slalom_xai.queries import Queries
from slalom_xai.slalom.design import draw_fit, draw_test
from slalom_xai.slalom.fit import FirstFit, FitRequest, FittedForm, begin_fits, complete_fits
from slalom_xai.slalom.rows import count_distinct_rows
from slalom_xai.slalom.settings import CALLS, FIT, CallSettings, FitSettings
from slalom_xai.slalom.summary import Summary, SummaryRequest, summarise
from slalom_xai.slalom.trust import FewAndAny, Fidelity


@dataclass(frozen=True)
class SlalomSettings:
    """Numbers that need no attention.

    Attributes:
        least: calls without which nothing can be learnt.
        usual: calls of a budget that nobody gave.
        usual_per_unit: the same for long texts.
        most: calls of such a budget at most.
        first: share of the budget that the first round takes where nobody gave one.
        first_round: calls of that round at least.
        first_per_unit: or so many for each unit, where these are fewer.
        least_first: but no fewer than so many.
        enough: share of left-out calls' variance that needs no more calls.
        gain: what doubling the calls must add to that share.
        loss_gain: or by how much it must lower their relative error.
        orders: behind Shapley values, and behind their standard errors.
        orders_of_errors: likewise.
        least_few: calls with few units missing, below which few and any number are tested together.
        calls: how calls are shared out.
        fit: how values and importances follow from them.
    """

    least: int = 8
    usual: int = 1000
    usual_per_unit: int = 3
    most: int = 5000
    first: float = 0.25
    first_round: int = 250
    first_per_unit: int = 8
    least_first: int = 100
    enough: float = 0.98
    gain: float = 0.01
    loss_gain: float = 0.1
    orders: int = 2000
    orders_of_errors: int = 128
    least_few: int = 10
    calls: CallSettings = CALLS
    fit: FitSettings = FIT


SLALOM = SlalomSettings()
# Of a table's many texts each is one of many: a few dozen calls for a sentence.
FOR_TABLES = SlalomSettings(usual=64, usual_per_unit=6, most=1000)


@register
@dataclass(frozen=True)
class Slalom(Estimator):
    """A value and an importance per unit: a bounded, softmax-weighted average.

    Attributes:
        pairs: pairs of close units that may be heard together ("not good"), at most; 0 for none.
        filled: also send the text filled with each unit, one call for each distinct one. The
            outputs are the score "filled".
        tolerance: without a budget, calls grow in rounds until doubling them would add less than
            this to the share of left-out calls that is predicted.
        settings: tuned numbers that need no attention.
    """

    name: ClassVar[str] = "slalom"
    summary: ClassVar[str] = (
        "a value and an importance per word: a bounded softmax-weighted average, fitted to what "
        "removing words does"
    )
    additive: ClassVar[bool] = False
    combines: ClassVar[bool] = True
    stops_by_itself: ClassVar[bool] = True
    probes_noise: ClassVar[bool] = True
    probes_range: ClassVar[bool] = True

    pairs: int = 5
    filled: bool = False
    tolerance: float = SLALOM.gain
    settings: SlalomSettings = SLALOM

    def __post_init__(self) -> None:
        if isinstance(self.pairs, bool) or not isinstance(self.pairs, int) or self.pairs < 0:
            raise InputError(f"pairs is {self.pairs!r}: give a whole number, 0 for no pairs")
        if not 0 <= self.tolerance < math.inf:
            raise InputError(
                f"tolerance is {self.tolerance!r}: give a share of the variance, such as 0.02, "
                "or 0 to use the whole budget"
            )

    def least_calls(self, question: Prompt) -> int:
        """A few, however long the text is."""
        return min(self.settings.least, count_distinct_rows(question.interchangeable))

    def usual_calls(self, question: Prompt) -> int:
        """About a thousand, more for long texts, and never more than there are perturbed texts."""
        wanted = max(self.settings.usual, self.settings.usual_per_unit * len(question.units))
        possible = count_distinct_rows(question.interchangeable)
        return min(wanted, self.settings.most, max(possible, self.settings.least))

    def first_calls(self, question: Prompt) -> int:
        """The calls of the first round, where nobody gave a budget.

        All of them where the text is short or has many units for so few calls: such a round could
        not tell that it is enough.
        """
        settings, usual = self.settings, self.usual_calls(question)
        units = len(question.units)
        least = max(settings.least_first, settings.first_per_unit * units)
        if least < settings.first_round:
            return min(least, usual)
        enough = max(settings.first_round, settings.calls.scarce * units)
        return math.ceil(max(settings.first * usual, min(enough, usual)))

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Sends perturbed texts, in rounds where nobody gave a budget, and fits."""
        calls = Calls(queries, rng, self)
        begun = calls.begin_fit()
        while not calls.enough(begun):
            queries.show(partial(self._report, calls, begun))
            calls.extend()
            begun = calls.begin_fit()
        return self._report(calls, begun)

    def _report(self, calls: Calls, begun: FirstFit) -> Findings:
        """The formula with its Shapley values, its errors and its test."""
        fitted = calls.queries.work.run(complete_fits, begun)
        summary = calls.summarise(fitted)
        measured = calls.measure(self.filled)
        noise = calls.queries.whole_variance
        errors = []
        for column, found in enumerate(summary.errors):
            if noise is not None and found:
                found = found | {"removal": (found["removal"] ** 2 + float(noise[column])).sqrt()}
            errors.append(found | calls.measured_errors(measured, column))
        form = replace(fitted.form, shapley=summary.shapley)
        return Findings(form, tuple(errors), calls.judge(summary), measured=measured)


class Calls:
    """The calls about one text: those to fit, and those that only test.

    Args:
        queries: sends them.
        rng: draws them.
        method: the settings.
    """

    def __init__(self, queries: Queries, rng: np.random.Generator, method: Slalom) -> None:
        self.queries, self._rng, self._method = queries, rng, method
        self._shares = method.settings.calls
        self._pool = row_pool(queries)
        units = len(queries.prompt.units)
        budget = min(queries.distinct_budget, count_rows(queries) + 1)
        self._spare = self._reserve(units) if method.filled else 0
        first = budget if queries.first is None else min(queries.first, budget)
        whole = self._pool.take_whole()
        self._budget = budget
        test = draw_test(self._pool, first, budget, rng, self._shares)
        empty = np.zeros((0, units), dtype=bool)
        if accepts_empty(queries) and first > self._shares.scarce * units / 2:
            empty = np.zeros((1, units), dtype=bool)
        left = first - 1 - len(empty) - (0 if test is None else test.size) - self._spare
        self._single = first >= self._shares.single * units
        fit = draw_fit(self._pool, left, budget, rng, self._shares, self._single)
        self._test = _both_on_cpu(ask_held_out(queries, test, "check"))
        self.rows = _on_cpu(ask_masks(queries, np.concatenate([whole, empty, fit]), "fit"))
        self._last: FirstFit | None = None
        self._extended = queries.first is None or len(fit) < left

    @property
    def full(self) -> Tensor:
        """The model's outputs on the whole text, (C,)."""
        return self.rows.outputs[0]

    def _reserve(self, units: int) -> int:
        return min(len(set(self.queries.prompt.codes.tolist())), self.queries.distinct_budget // 2)

    def begin_fit(self) -> FirstFit:
        """What follows from the calls so far, and how well that predicts."""
        queries, outputs = self.queries, self.rows.outputs
        occurrences = torch.as_tensor(np.log(queries.prompt.occurrences), dtype=outputs.dtype)
        low, high = queries.output_range or (outputs.amin(dim=0), outputs.amax(dim=0))
        request = FitRequest(
            self.rows.table,
            outputs,
            occurrences,
            low.cpu(),
            high.cpu(),
            probed=queries.output_range is not None,
            device=queries.model.device,
            most_pairs=self._method.pairs,
            settings=self._method.settings.fit,
        )
        return queries.work.run(begin_fits, request)

    def enough(self, begun: FirstFit) -> bool:
        """Whether more calls would help too little, or there are none."""
        left = self.queries.distinct_budget - self.queries.calls - self._spare
        if self._extended or left < 1:
            return True
        settings, share, before = self._method.settings, begun.left_out_r2, self._last
        self._last = begun
        if self._rarely_changes or not self._method.tolerance:
            return False
        if share >= settings.enough:
            return True
        loss_gain = settings.loss_gain * self._method.tolerance / settings.gain
        if before is None or before.loss - begun.loss > loss_gain:
            return False
        return share - before.left_out_r2 < self._method.tolerance

    @property
    def _rarely_changes(self) -> bool:
        """Whether most calls so far gave the output of the whole text: what matters is rare."""
        changed, calls = count_changes(self.full, [self.rows])
        return 0 < changed < calls // 4

    def extend(self) -> None:
        """As many calls again, or what the budget leaves."""
        left = self.queries.distinct_budget - self.queries.calls - self._spare
        calls = min(self.queries.calls, left)
        test = None
        if self._test is not None:
            test = draw_test(self._pool, calls, self._budget, self._rng, self._shares)
        fitted = calls - (0 if test is None else test.size)
        units = len(self.queries.prompt.units)
        single = not self._single and self.queries.calls + calls >= self._shares.single * units
        self._single = self._single or single
        rows = draw_fit(self._pool, fitted, self._budget, self._rng, self._shares, single)
        more = _both_on_cpu(ask_held_out(self.queries, test, "check"))
        if more is not None and self._test is not None:
            self._test = self._test.join(more)
        if len(rows):
            self.rows = self.rows.join(_on_cpu(ask_masks(self.queries, rows, "fit")))
        else:
            self._extended = True

    def measure(self, filled: bool) -> dict[str, Tensor]:
        """The scores that are the model's own outputs, (n, C) each, by name."""
        measured = {}
        if self._single:
            without = ~np.eye(len(self.queries.prompt.units), dtype=bool)
            # Those that test stay what they are: nothing is fitted to them here.
            measured["removal"] = self.full - self.queries.ask(without, "check").cpu()
        if filled and self._spare:
            measured["filled"] = self._fill()
        return measured

    def measured_errors(self, names: Iterable[str], column: int) -> dict[str, Tensor]:
        """Standard errors of measured scores of one column, (n,) each: the model's own noise."""
        queries = self.queries
        no_noise = torch.zeros(len(queries.prompt.units), dtype=self.full.dtype)
        if queries.noise is None:
            return dict.fromkeys(names, no_noise)
        found = {}
        for name in names:
            variance = float(queries.noise[column])
            if name == "removal" and queries.whole_variance is not None:
                variance += float(queries.whole_variance[column])
            found[name] = no_noise + math.sqrt(variance)
        return found

    def _fill(self) -> Tensor:
        """The outputs to the text filled with each unit, (n, C)."""
        units = len(self.queries.prompt.units)
        repeated = np.repeat(np.arange(units)[:, None], units, axis=1)
        return self.queries.ask_sequences(repeated, "fit").cpu()

    def summarise(self, fitted: FittedForm) -> Summary:
        """What the fit says, beside a linear fit to the same calls."""
        settings, tests = self._method.settings, None
        if self._test is not None and not self._test_is_idle:
            few, every = self._test.both
            tests = (few.table, few.outputs), (every.table, every.outputs)
        request = SummaryRequest(
            fitted,
            (self.rows.table, self.rows.outputs),
            tests,
            settings.orders,
            settings.orders_of_errors,
            settings.least,
            settings.least_few,
        )
        return self.queries.work.run(summarise, request)

    @property
    def _test_is_idle(self) -> bool:
        """Whether what matters is rare, and the test does not hold any of it."""
        assert self._test is not None
        tested = [*self._test.both]
        if count_changes(self.full, tested)[0]:
            return False
        return count_changes(self.full, [self.rows])[0] > 0

    def judge(self, summary: Summary) -> tuple[Fidelity, ...] | None:
        """Fidelity per column, on calls kept for that, or on each call had it not been used."""
        if summary.few is None or summary.any is None:
            return None
        parts = [self.rows] if self._test is None else [self.rows, *self._test.both]
        changed, calls = count_changes(self.full, parts)
        return tuple(
            Fidelity(
                few[0],
                every[0],
                FewAndAny(few[1], every[1]),
                FewAndAny(few[2], every[2]),
                changed,
                calls,
            )
            for few, every in zip(summary.few, summary.any, strict=True)
        )


def _on_cpu(rows: AnsweredRows) -> AnsweredRows:
    """Outputs of a model on a GPU, where the fit is."""
    return AnsweredRows(rows.table.cpu(), rows.outputs.cpu())


def _both_on_cpu(rows: AnsweredHeldOut | None) -> AnsweredHeldOut | None:
    if rows is None:
        return None
    return AnsweredHeldOut(_on_cpu(rows.local), _on_cpu(rows.wide))
