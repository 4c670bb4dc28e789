"""Functions that take texts, explained by words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor

from slalom_xai.models.answers import Answers, check_convention
from slalom_xai.models.locks import lock_of
from slalom_xai.models.rows import Row
from slalom_xai.models.word_reading import ReadsWords
from slalom_xai.outputs import Outputs


class CallableModel(ReadsWords):
    """A function ``list[str] -> (n, classes)``.

    Args:
        function: answers a list of texts with one row of numbers each.
        output: "probabilities" ("auto" means the same, if there is a number for each class), or
            "logits".
        name: how it is called in results.
        outputs: what its numbers mean, where that is known.
        owner: the object that calls take turns with; the function itself by default.
        labels: the names of the classes, where the caller gave some.
    """

    device = torch.device("cpu")
    probe_calls = 0

    def __init__(
        self,
        function: Callable[[list[str]], Any],
        output: str = "auto",
        *,
        name: str | None = None,
        outputs: Outputs | None = None,
        owner: Any = None,
        labels: tuple[str, ...] | None = None,
    ) -> None:
        check_convention(output)
        self.name = str(name or getattr(function, "__qualname__", type(function).__name__))
        self._function = function
        self._lock = lock_of(function if owner is None else owner)
        self._answers = Answers(
            self.name,
            probabilities=output != "logits",
            outputs=outputs,
            labels=labels,
            said=output != "auto" or len(labels or ()) == 2,  # one number for two names
            **_advice(function),
        )

    @property
    def outputs(self) -> Outputs:
        """What the answers mean; known once the function has answered a text."""
        return self._answers.outputs

    def answer(self, rows: Sequence[Row]) -> Tensor:
        """Logits for a batch of texts."""
        texts = cast(list[str], list(rows))
        with self._lock:
            raw = self._function(list(texts))
        return self._answers.logits(raw, len(texts), texts.__getitem__).cpu().double()


def _advice(function: Callable[..., Any]) -> dict[str, str]:
    """What to give in the place of a method that chooses labels, such as a pipeline's predict."""
    owner = getattr(function, "__self__", None)
    if not hasattr(owner, "predict"):
        return {}
    kind = type(owner).__name__
    if hasattr(owner, "predict_proba"):
        return {"instead": f"pass the {kind} itself, or its predict_proba"}
    return {"instead": f"pass the {kind} itself"}
