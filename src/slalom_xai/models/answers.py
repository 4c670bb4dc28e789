"""What functions, modules and sessions return, checked and as logits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slalom_xai.errors import ModelError, few_numbers, one_of, quote_text
from slalom_xai.models.base import TextModel
from slalom_xai.models.outputs import Outputs

CONVENTIONS = ("auto", "probabilities", "logits")


@dataclass(frozen=True)
class SumTolerances:
    """How far the sum of a row of probabilities may be off 1.

    Attributes:
        exact: in float32 and float64. Twice what rounding each of them once does, as the next two.
        float16: in half precision.
        bfloat16: in the other half precision.
        rounded: up to here a sum that is refused is taken for one of rounded probabilities, and
            beyond for one of logits; it only decides what the message advises.
    """

    exact: float = 1e-3
    float16: float = 2e-3
    bfloat16: float = 1.6e-2
    rounded: float = 0.05

    def of(self, raw: Any) -> float:
        """The tolerance for the precision that an answer comes in."""
        kind = str(getattr(raw, "dtype", "")).removeprefix("torch.")
        return {"bfloat16": self.bfloat16, "float16": self.float16}.get(kind, self.exact)


SUM_TOLERANCES = SumTolerances()


class Answers:
    """Turns raw answers of a black box into logits, and learns how many classes there are.

    Args:
        name: of the model, for messages.
        probabilities: whether the answers are probabilities; logits otherwise.
        outputs: what the answers mean, where that is known.
        labels: the names of the classes, where the caller gave some.
        said: whether the caller said that they are probabilities. One number per text may be
            anything, so that it is refused otherwise.
        instead: what to give where the answers are labels.
    """

    def __init__(
        self,
        name: str,
        *,
        probabilities: bool,
        outputs: Outputs | None = None,
        labels: tuple[str, ...] | None = None,
        said: bool = True,
        instead: str = "return probabilities (n, classes), such as those of predict_proba",
    ) -> None:
        self._name = name
        self._probabilities = probabilities
        self._said, self._instead = said, instead
        self._labels = labels
        self._outputs = None if outputs is None else outputs.rename(labels, name)

    @property
    def outputs(self) -> Outputs:
        """What the answers mean; known once there was one."""
        if self._outputs is None:
            raise ModelError(
                f"the number of classes of {self._name} is not known before its first answer: "
                "ask it a text first"
            )
        return self._outputs

    def logits(self, raw: Any, count: int, show: Callable[[int], str]) -> Tensor:
        """Logits (count, width) of a raw answer.

        Args:
            raw: an array, a tensor or nested lists.
            count: how many rows were asked.
            show: a row as text, by its index.

        Raises:
            ModelError: no numbers, the wrong shape, or no probabilities where they should be.
        """
        answers = self._table(raw, count, show)
        if answers.dtype in (torch.float16, torch.bfloat16) or not answers.is_floating_point():
            answers = answers.float()
        if self._probabilities and answers.shape[1] == 1:
            self._check_one_number(answers[:, 0], show)
            answers = torch.cat([1 - answers, answers], dim=1)
        width = answers.shape[1]
        if self._outputs is None:
            self._outputs = Outputs.numbered(width).rename(self._labels, self._name)
        elif self._outputs.width != width:
            raise ModelError(
                f"{self._name} returned {width} numbers for {quote_text(show(0))}, but "
                f"{self._outputs.width} were expected: return one number per class for every text"
            )
        if not self._probabilities:
            return answers
        return self._log(answers, SUM_TOLERANCES.of(raw), show)

    def _table(self, raw: Any, count: int, show: Callable[[int], str]) -> Tensor:
        """A raw answer as a tensor (count, width)."""
        try:
            if isinstance(raw, Tensor):
                answers = raw.detach()
            else:
                answers = torch.as_tensor(np.asarray(raw, dtype=np.float64))
        except (TypeError, ValueError) as error:
            raise ModelError(
                f"{self._name} returned {_first_of(raw)} for {quote_text(show(0))}, not numbers: "
                f"{self._instead}"
            ) from error
        if answers.ndim == 1:
            answers = answers[:, None]
        if answers.ndim != 2 or len(answers) != count or answers.shape[1] == 0:
            raise ModelError(
                f"{self._name} returned shape {tuple(np.shape(raw))} for {count} texts, "
                f"the first {quote_text(show(0))}: return an array (n, classes)"
            )
        return answers

    def _check_one_number(self, numbers: Tensor, show: Callable[[int], str]) -> None:
        """Refuses one number per text (n,) unless it is sure to be a probability.

        Raises:
            ModelError: it may be a label, a cosine, a percentage, or anything else.
        """
        if not bool(numbers.isfinite().all()):  # refused by the caller
            return
        outside = (numbers < 0) | (numbers > 1)
        whole = bool((numbers == numbers.round()).all())
        if self._said and not bool(outside.any()):
            return
        index = int(outside.nonzero()[0]) if bool(outside.any()) else 0
        number = float(numbers[index])
        told = f"{self._name} returned {number:.4g} for {quote_text(show(index))}"
        score = 'pass output="logits" to explain a score, such as a cosine, as it is'
        if whole:
            raise ModelError(
                f"{told}, a whole number, which looks like a label or a decision and no "
                f"probability: {self._instead}; or {score}"
            )
        if 1 < number <= 100:
            raise ModelError(
                f"{told}, which is no probability: divide percentages by 100, or {score}"
            )
        if bool(outside.any()):
            raise ModelError(f"{told}, which is no probability: {score}")
        raise ModelError(
            f"{told}, one number for a text, which may be a probability or not: "
            'pass output="probabilities" if it is that of the second of two classes, '
            f"or {score}"
        )

    def _log(self, answers: Tensor, tolerance: float, show: Callable[[int], str]) -> Tensor:
        """Log probabilities (n, width), after checking that these are probabilities.

        They must sum to 1 within the rounding of their precision.
        """
        finite = answers.isfinite().all(dim=1)
        if not bool(finite.all()):  # refused, with its text, by the caller
            return torch.where(finite[:, None], torch.ones_like(answers), answers)
        outside = ((answers < 0) | (answers > 1)).any(dim=1)
        total = answers.sum(dim=1, dtype=torch.float64)
        wrong = outside | ((total - 1).abs() > tolerance)
        if bool(wrong.any()):
            index = int(wrong.nonzero()[0])
            inside = not bool(outside[index])
            raise self._no_probabilities(answers[index], float(total[index]), inside, show(index))
        certain = ((answers == 0) | (answers == 1)).any(dim=1)
        if bool(certain.any()):
            index = int(certain.nonzero()[0])
            raise ModelError(
                f"{self._name} returned a probability of exactly 0 or 1, "
                f"{few_numbers(answers[index].tolist())}, for {quote_text(show(index))}, and its "
                'log odds are infinite: return logits and pass output="logits", or keep '
                "probabilities above 0 and below 1 (half precision rounds them to 0 or 1; "
                "decisions are no probabilities, use those of predict_proba)"
            )
        return answers.log()

    def _no_probabilities(
        self, answer: Tensor, total: float, inside: bool, text: str
    ) -> ModelError:
        """The error for an answer (width,) that does not sum to 1, or is not between 0 and 1."""
        why = "which are not probabilities that sum to 1"
        advice = 'pass output="logits" if they are logits'
        if inside and abs(total - 1) < SUM_TOLERANCES.rounded:
            why = f"which sum to {total:.4f} and not to 1"
            advice = "compute them in float32, or divide them by their sum"
        elif bool((answer >= 0).all()) and abs(total - 100) < 100 * SUM_TOLERANCES.rounded:
            why = f"which sum to {total:.4g} and not to 1"
            advice = "divide percentages by 100"
        numbers = few_numbers(answer.tolist())
        return ModelError(
            f"{self._name} returned {numbers} for {quote_text(text)}, {why}: {advice}"
        )


def _first_of(raw: Any) -> str:
    """What was answered to the first text, for a message."""
    try:
        first = raw[0]
    except (TypeError, LookupError):
        return f"a {type(raw).__name__}"
    if isinstance(first, str):
        return quote_text(first, 60)
    keys = f" of {', '.join(map(str, list(first)[:4]))}" if isinstance(first, Mapping) else ""
    return f"a {type(first).__name__}{keys}"


def check_logits(answer: Any, rows: int, model: TextModel) -> Tensor:
    """What a model answered, once it is sure to be logits (rows, width).

    An adapter may be anybody's. Without this check, a wrong shape would fail far from its cause, or
    would not fail at all.

    Args:
        answer: what the model returned.
        rows: how many were asked.
        model: what was asked; it has answered, so that its outputs are known.

    Raises:
        ModelError: no tensor, or a tensor of another shape.
    """
    expected = (rows, model.outputs.width)
    if isinstance(answer, Tensor) and answer.shape == expected:
        return answer
    returned = f"a {type(answer).__name__}"
    if isinstance(answer, Tensor):
        returned = f"a tensor of shape {tuple(answer.shape)}"
    labels = quote_text(", ".join(model.outputs.labels))[1:-1]
    raise ModelError(
        f"{model.name} returned {returned}, but a tensor of shape {expected} was expected: "
        f"return logits for each row asked, one number per label ({labels})"
    )


def check_convention(output: str) -> None:
    """Refuses an ``output`` that is none."""
    if output not in CONVENTIONS:
        raise one_of("output", output, CONVENTIONS)
