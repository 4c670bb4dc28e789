"""What any method must beat: scores that know nothing of the model, and one score per unit.

``linear`` is the honest yardstick: a linear explanation of the calls that ``slalom`` gets.
``one-score`` has the model's own bound as well. ``random`` and ``zero`` know nothing of the model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch

from slalom_xai.methods.base import Estimator, Findings, attributed, linear_findings, register
from slalom_xai.methods.evidence import gather
from slalom_xai.methods.held_out import linear_fit
from slalom_xai.methods.slalom import SLALOM, Calls, Slalom
from slalom_xai.models import Prompt
from slalom_xai.queries import Queries
from slalom_xai.slalom.fit import complete_fits, fit_one_scores
from slalom_xai.slalom.shapley import compute_shapley, fit_rest
from slalom_xai.slalom.trust import Fidelity


@register
@dataclass(frozen=True)
class Linear(Estimator):
    """One additive score per unit, by ridge regression with a cross-validated penalty."""

    name: ClassVar[str] = "linear"
    summary: ClassVar[str] = (
        "one additive score per token: ridge regression on the same calls as slalom, penalty by "
        "cross-validation"
    )
    combines: ClassVar[bool] = True
    probes_noise: ClassVar[bool] = True

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Asks the model and fits."""
        question = queries.prompt
        parameters = self.parameters(len(question.units), question.distinct)
        evidence = gather(queries, parameters, rng)
        return linear_findings(evidence, linear_fit(evidence))


# One score per unit behind the model's own bound: the other yardstick beside ``linear``.
#
# It is the formula of ``slalom`` with all importances equal, fitted to the same calls.


@register
@dataclass(frozen=True)
class OneScoreMethod(Estimator):
    """Values with equal importances, between the ends of the model's range."""

    name: ClassVar[str] = "one-score"
    summary: ClassVar[str] = (
        "one score per word behind the model's own bound: slalom with equal importances, on the "
        "same calls"
    )
    additive: ClassVar[bool] = False
    combines: ClassVar[bool] = True
    probes_range: ClassVar[bool] = True

    def least_calls(self, question: Prompt) -> int:
        """As few as ``slalom`` needs."""
        return Slalom().least_calls(question)

    def usual_calls(self, question: Prompt) -> int:
        """As many as ``slalom`` takes."""
        return Slalom().usual_calls(question)

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Sends perturbed texts and fits."""
        calls = Calls(queries, rng, Slalom(pairs=0))
        [fitted] = complete_fits([calls.begin_fit()])
        form, rows = fit_one_scores([fitted])[0].form, calls.rows
        rest = fit_rest(rows.table, rows.outputs - form.predict(rows.table))
        form = replace(form, shapley=compute_shapley(form.split(), SLALOM.orders).T + rest)
        tested = calls.judge(calls.summarise(fitted))
        fidelity = None
        if tested is not None:
            fidelity = tuple(_own(column) for column in tested)
        return Findings(form, ({},) * len(calls.full), fidelity, measured=calls.measure(False))


def _own(fidelity: Fidelity) -> Fidelity:
    """The agreement of the one score itself, which has nothing to stand beside but a linear fit."""
    assert fidelity.one_score is not None
    few, every = fidelity.one_score.few, fidelity.one_score.any
    return replace(fidelity, few=few, any=every, one_score=None)


@dataclass(frozen=True)
class _Floor(Estimator):
    """A method that does not ask the model, but for the test."""

    def parameters(self, units: int, distinct: int) -> int:
        """Nothing is fitted."""
        return 0


@register
@dataclass(frozen=True)
class Random(_Floor):
    """Standard normal scores."""

    name: ClassVar[str] = "random"
    summary: ClassVar[str] = "a floor to beat: random scores; calls the model only for the test"

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Draws the scores."""
        scores = rng.standard_normal(_shape(queries))
        return attributed(queries, torch.as_tensor(scores), rng)


@register
@dataclass(frozen=True)
class Zero(_Floor):
    """No unit matters."""

    name: ClassVar[str] = "zero"
    summary: ClassVar[str] = "a floor to beat: all scores are 0; calls the model only for the test"

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Says nothing."""
        scores = torch.zeros(_shape(queries), dtype=torch.float64)
        return attributed(queries, scores, rng)


def _shape(queries: Queries) -> tuple[int, int]:
    """Units and explained columns."""
    return len(queries.prompt.units), len(queries.ask_whole("check"))
