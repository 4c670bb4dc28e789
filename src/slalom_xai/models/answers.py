"""What functions, modules and sessions return, checked and as logits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slalom_xai.errors import ModelError, few_numbers, one_of, shortened
from slalom_xai.outputs import Outputs

EXACT, FLOAT16, BFLOAT16 = (
    1e-3,
    2e-3,
    1.6e-2,
)  # how far probabilities may sum off 1: twice what one rounding of each of them does
ROUNDED = 0.05  # and how far off a sum is taken for one of rounded probabilities, not of logits
CONVENTIONS = ("auto", "probabilities", "logits")


class Answers:
    """Turns raw answers of a black box into logits, and learns from the first how many classes there are.

    Args:
        name: of the model, for messages.
        probabilities: whether the answers are probabilities; logits otherwise.
        outputs: what the answers mean, where that is known.
        labels: the names of the classes, where the caller gave some.
    """

    def __init__(
        self,
        name: str,
        *,
        probabilities: bool,
        outputs: Outputs | None = None,
        labels: tuple[str, ...] | None = None,
    ) -> None:
        self._name = name
        self._probabilities = probabilities
        self._labels = labels
        self._outputs = None if outputs is None else outputs.renamed(labels, name)

    @property
    def outputs(self) -> Outputs:
        """What the answers mean; known once there was one."""
        if self._outputs is None:
            raise ModelError(
                f"the number of classes of {self._name} is not known before its first answer: ask it a text first"
            )
        return self._outputs

    def logits(self, raw: Any, count: int, show: Callable[[int], str]) -> Tensor:
        """Logits (count, width) of a raw answer.

        Args:
            raw: an array, a tensor or nested lists.
            count: how many rows were asked.
            show: a row as text, by its place.

        Raises:
            ModelError: no numbers, the wrong shape, or no probabilities where they should be.
        """
        tolerance = _rounding(raw)
        try:
            answers = (
                raw.detach()
                if isinstance(raw, Tensor)
                else torch.as_tensor(np.asarray(raw, dtype=np.float64))
            )
        except (TypeError, ValueError) as error:
            raise ModelError(
                f"{self._name} returned {type(raw).__name__} for {count} texts, not numbers: return an array (n, classes)"
            ) from error
        if answers.ndim == 1:
            answers = answers[:, None]
        if answers.ndim != 2 or len(answers) != count or answers.shape[1] == 0:
            raise ModelError(
                f"{self._name} returned shape {tuple(np.shape(raw))} for {count} texts, the first {shortened(show(0))}: return an array (n, classes)"
            )
        if answers.dtype in (torch.float16, torch.bfloat16) or not answers.is_floating_point():
            answers = answers.float()
        if self._probabilities and answers.shape[1] == 1:
            answers = torch.cat([1 - answers, answers], dim=1)
        if self._outputs is None:
            self._outputs = Outputs.numbered(answers.shape[1]).renamed(self._labels, self._name)
        elif self._outputs.width != answers.shape[1]:
            raise ModelError(
                f"{self._name} returned {answers.shape[1]} numbers for {shortened(show(0))}, but {self._outputs.width} were expected: return one number per class for every text"
            )
        return self._log(answers, tolerance, show) if self._probabilities else answers

    def _log(self, answers: Tensor, tolerance: float, show: Callable[[int], str]) -> Tensor:
        """Log probabilities, after checking that these are probabilities, which sum to 1 within the rounding of their precision."""
        finite = answers.isfinite().all(dim=1)
        if not bool(finite.all()):
            return torch.where(
                finite[:, None], torch.ones_like(answers), answers
            )  # refused, with its text, by the caller
        outside = ((answers < 0) | (answers > 1)).any(dim=1)
        total = answers.sum(dim=1, dtype=torch.float64)
        wrong = outside | ((total - 1).abs() > tolerance)
        if bool(wrong.any()):
            place = int(wrong.nonzero()[0])
            nearly = not bool(outside[place]) and bool((total[place] - 1).abs() < ROUNDED)
            why = (
                f"which sum to {float(total[place]):.4f} and not to 1"
                if nearly
                else "which are not probabilities that sum to 1"
            )
            advice = (
                "compute them in float32, or divide them by their sum"
                if nearly
                else 'pass output="logits" if they are logits'
            )
            raise ModelError(
                f"{self._name} returned {few_numbers(answers[place].tolist())} for {shortened(show(place))}, {why}: {advice}"
            )
        certain = ((answers == 0) | (answers == 1)).any(dim=1)
        if bool(certain.any()):
            place = int(certain.nonzero()[0])
            raise ModelError(
                f"{self._name} returned a probability of exactly 0 or 1, {few_numbers(answers[place].tolist())}, for {shortened(show(place))}, and its log odds are infinite: "
                'return logits and pass output="logits", or keep probabilities above 0 and below 1 (half precision rounds them to 0 or 1)'
            )
        return answers.log()


def _rounding(raw: Any) -> float:
    """How far a sum of probabilities may be off 1, by the precision they come in."""
    kind = str(getattr(raw, "dtype", "")).removeprefix("torch.")
    return {"bfloat16": BFLOAT16, "float16": FLOAT16}.get(kind, EXACT)


def check_convention(output: str) -> None:
    """Refuses an ``output`` that is none."""
    if output not in CONVENTIONS:
        raise one_of("output", output, CONVENTIONS)
