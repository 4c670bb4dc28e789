"""One score per unit behind the model's own bound: the other yardstick beside ``linear``.

It is the formula of ``slalom`` with all importances equal, fitted to the same calls.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from slalom_xai.estimators.base import Estimator, Findings, register
from slalom_xai.estimators.slalom import SLALOM, Calls, Slalom
from slalom_xai.models import Prompt
from slalom_xai.queries import Queries
from slalom_xai.slalom.shapley import compute_shapley, fit_rest
from slalom_xai.slalom.trust import Fidelity


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
        fitted = calls.fit()
        form, rows = fitted.one_score, calls.rows
        rest = fit_rest(rows.table, rows.outputs - form.predict(rows.table))
        form = replace(form, shapley=compute_shapley(form.split(), SLALOM.orders).T + rest)
        tested = calls.test(fitted)
        fidelity = None
        if tested is not None:
            fidelity = tuple(_own(column) for column in tested)
        return Findings(form, ({},) * len(calls.full), fidelity, measured=calls.measure(False))


def _own(fidelity: Fidelity) -> Fidelity:
    """The agreement of the one score itself, which has nothing to stand beside but a linear fit."""
    assert fidelity.one_score is not None
    few, every = fidelity.one_score.few, fidelity.one_score.any
    return replace(fidelity, few=few, any=every, one_score=None)
