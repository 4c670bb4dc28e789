"""One text explained by one method, as metrics take it."""

from __future__ import annotations

import time
from dataclasses import dataclass

from slalom_xai.explainer import Explainer
from slalom_xai.methods import Estimator
from slalom_xai.metrics import Case, asker
from slalom_xai.metrics.model_answers import Ask
from slalom_xai.models import TextModel


@dataclass(frozen=True)
class Request:
    """How texts are explained and judged.

    Attributes:
        calls: of each explanation at most.
        seed: of the methods.
        removal: what leaving out a unit means to the method; judges always delete.
        target: the label to explain; None: the second of two.
    """

    calls: int
    seed: int = 0
    removal: str = "delete"
    target: str | None = None


def explained(
    model: TextModel,
    text: str,
    method: str | Estimator,
    request: Request,
    *,
    ask: Ask | None = None,
    score: str | None = None,
    label: str | None = None,
) -> Case:
    """One text explained by one method, for metrics, with the seconds that it took.

    Args:
        model: what is explained; its tokens are the units.
        text: if it is too long, its beginning is explained.
        method: a name, or an instance with settings of its own.
        request: calls and seed.
        ask: the model's answers to deletions, shared by all cases of a text so that each row is
            asked once; None makes a new one.
        score: the score that ranks units; None: the metrics' own.
        label: the true one, as the model calls it.
    """
    target: str | int | None = request.target
    if target is None and model.outputs.kind == "binary":
        target = 1
    explainer = Explainer(
        model,
        method=method,
        budget=request.calls,
        granularity="token",
        removal=request.removal,
        target=target,
        truncation=True,
        random_state=request.seed,
        show_progress=False,
    )
    began = time.perf_counter()
    explanation = explainer(text)
    seconds = time.perf_counter() - began
    return Case(
        explanation,
        ask or asker(explainer, explanation),
        score=score,
        seconds=seconds,
        seed=request.seed,
        label=label,
    )
