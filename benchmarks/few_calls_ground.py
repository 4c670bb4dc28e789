"""What the model answers about one text beside an explanation, for ``benchmarks/few_calls.py``.

Held-out rows are drawn first. The yardsticks are fitted to other rows: linear fits to rows of one
regime alone, and Gaussian processes to the rows that the method ``gp`` would ask.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slalom_xai import Explainer, Explanation
from slalom_xai.designs import LOCAL, Masks, Plan, RowPool, plan_rows, uniform_counts
from slalom_xai.designs.budgets import count_distinct_rows
from slalom_xai.estimators import Findings, estimator
from slalom_xai.models import Prompt, TextModel
from slalom_xai.queries import Batches, Queries
from slalom_xai.surrogates.additive import fit_additive
from slalom_xai.surrogates.process_fit import fit_process

TEST = 500  # held-out rows of either regime
REGIMES = ("local", "wide")
SPARE = 4  # a budget needs a text with so many times as many distinct rows

Keys = NDArray[np.int64]
Errors = dict[str, float]
Predict = Callable[[Tensor], Tensor]


class Watched(Explainer):
    """An explainer that remembers which rows it asked.

    Args:
        model: as read by another explainer.
        method: its name.
        budget: calls per text.

    Attributes:
        asked: by text, the keys of its rows.
    """

    def __init__(self, model: TextModel, method: str, budget: int) -> None:
        super().__init__(model, method=method, budget=budget, show_progress=False)
        self.asked: dict[str, Keys] = {}

    def _explanation(self, queries: Queries, target: int, findings: Findings) -> Explanation:
        self.asked[queries.prompt.reading.text] = queries.asked
        return super()._explanation(queries, target, findings)


@dataclass(frozen=True)
class Answered:
    """Rows with the model's answers.

    Attributes:
        keys: (m,), equal where rows read the same.
        counts: (m, n).
        outputs: (m, C).
    """

    keys: Keys
    counts: Tensor
    outputs: Tensor

    def unlike(self, asked: Keys) -> Answered:
        """Those whose keys are not among others."""
        fresh = ~np.isin(self.keys, asked)
        chosen = torch.as_tensor(np.flatnonzero(fresh), device=self.counts.device)
        return Answered(self.keys[fresh], self.counts[chosen], self.outputs[chosen])


class Ground:
    """Held-out rows of one text, and rows for the yardsticks, all with answers.

    Args:
        batches: ask the model.
        question: the text as the model reads it.
        budgets: of the explanations; those with too few distinct rows are left out.
        rng: draws the rows.

    Attributes:
        budgets: those that the text has rows for.
        units: of the text.
    """

    def __init__(
        self,
        batches: Batches,
        question: Prompt,
        budgets: Sequence[int],
        rng: np.random.Generator,
    ) -> None:
        self.units = len(question.units)
        codes = question.interchangeable
        rows = count_distinct_rows(codes)
        self.budgets = [budget for budget in budgets if rows >= SPARE * budget]
        self._device = batches.model.device
        self._queries = Queries(batches, question, budget=2**60)
        pool = RowPool(codes, question.keys)
        counts = {
            "local": uniform_counts(1, min(LOCAL, self.units - 1), rng),
            "wide": uniform_counts(1, self.units - 1, rng),
        }
        test = {name: pool.draw(TEST, counts[name], rng, quota=True) for name in REGIMES}
        self._tested = np.concatenate([question.keys(masks) for masks in test.values()])
        most = max(self.budgets, default=0)
        linear = {}
        for name in REGIMES:  # each regime has all rows but those of the test
            linear[name] = self._fresh_pool().draw(most, counts[name], rng)
        parameters = estimator("gp").parameters(self.units, question.distinct)
        plans = {}
        for budget in self.budgets:
            plans[budget] = plan_rows(codes, budget, parameters, rng, pool=self._fresh_pool())
        self._ask([*test.values(), *linear.values(), *map(_every_row, plans.values())])
        self.full = self._queries.ask_whole("check").to(self._device)
        self.test = {name: self._answered(masks) for name, masks in test.items()}
        self._linear = {name: self._answered(masks) for name, masks in linear.items()}
        self._plans = plans

    @property
    def fitted(self) -> Keys:
        """The keys of all rows that a yardstick may be fitted to."""
        question = self._queries.prompt
        plans = [question.keys(_every_row(plan)) for plan in self._plans.values()]
        return np.concatenate([*(rows.keys for rows in self._linear.values()), *plans])

    def errors(self, predict: Predict, asked: Keys) -> Errors:
        """Mean squared errors of predicted changes on held-out rows that were not asked."""
        errors = {}
        for name, rows in self.test.items():
            fresh = rows.unlike(asked)
            whole = predict(torch.ones_like(fresh.counts[:1]))
            predicted, true = predict(fresh.counts) - whole, fresh.outputs - self.full
            errors[name] = float((predicted - true).pow(2).mean())
        return errors

    def variances(self, asked: Keys) -> Errors:
        """Of the changes on the same rows."""
        fresh = {name: rows.unlike(asked).outputs for name, rows in self.test.items()}
        return {name: float(rows.var(dim=0, correction=0).mean()) for name, rows in fresh.items()}

    def linear_errors(self, budget: int, asked: Keys) -> Errors:
        """Of ridge regressions made for one regime alone, on all calls of a budget."""
        errors = {}
        for name, rows in self._linear.items():
            some = slice(budget - 1)  # the whole text is a call as well
            fit = fit_additive(rows.counts[some], rows.outputs[some], self.full)
            errors[name] = self.errors(fit.surrogate.predict, asked)[name]
        return errors

    def process_errors(
        self, budget: int, asked: Keys, *, all_calls: bool = False, places: bool = False
    ) -> Errors:
        """Of Gaussian processes.

        Args:
            budget: calls.
            asked: keys of rows that do not count.
            all_calls: fit to all of them; otherwise keep those back that ``gp`` tests itself with.
            places: let it know how far units have moved up, which ``gp`` does not.
        """
        plan = self._plans[budget]
        rows = self._answered(_every_row(plan) if all_calls else _fitted_rows(plan))
        generator = torch.Generator().manual_seed(0)
        process = fit_process(rows.counts, rows.outputs, self.full, generator, moves=places)
        return self.errors(process.predict, asked)

    def _fresh_pool(self) -> RowPool:
        """Hands out all rows but those of the test."""
        question = self._queries.prompt
        pool = RowPool(question.interchangeable, question.keys)
        pool.claim(self._tested)
        return pool

    def _ask(self, sets: Sequence[Masks]) -> None:
        """Asks all rows at once: large batches are fastest."""
        self._queries.ask(np.concatenate(sets), "check")

    def _answered(self, masks: Masks) -> Answered:
        """Rows that have been asked, where the model is."""
        rows = self._queries.prompt.rows(masks)
        outputs = self._queries.ask_rows((rows, "check"))[0].to(self._device)
        counts = torch.as_tensor(masks, device=self._device).to(outputs.dtype)
        return Answered(rows.keys, counts, outputs)


def _fitted_rows(plan: Plan) -> Masks:
    """What ``gp`` fits: its rows and those that other methods choose by."""
    if plan.choose is None:
        return plan.fit
    return np.concatenate([plan.fit, plan.choose.local, plan.choose.wide])


def _every_row(plan: Plan) -> Masks:
    """All rows of a budget."""
    if plan.report is None:
        return _fitted_rows(plan)
    return np.concatenate([_fitted_rows(plan), plan.report.local, plan.report.wide])
