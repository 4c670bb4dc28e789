"""What an explainer asks of the model itself: whether it repeats itself, and its range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from slalom_xai.methods import Estimator
from slalom_xai.models import Prompt, prompt
from slalom_xai.models.base import AnswersQuestion, KnowsWords, SaysItsNoise
from slalom_xai.queries import AnswerSource, Queries
from slalom_xai.slalom.output_range import OutputRange, probe_range
from slalom_xai.slalom.rows import least_budget

# Models that do not repeat themselves: how they are noticed, and what is done about it.
#
# Every change is measured from the answer to the whole text, so that its noise is in every score.
# The first text of an explainer is asked twice. Where the two answers differ by more than
# rounding, the whole text is asked several times more, and its mean is explained.


@dataclass(frozen=True)
class NoiseSettings:
    """When a model is noisy, and how many calls that is worth.

    Attributes:
        rounding: share of an answer's size. Two answers to one question that differ by less
            differ by rounding: half precision and other batches stay below it.
        most_repeats: calls; the mean of a hundred answers has a tenth of the noise of one.
        calls_per_repeat: calls; no more than one in so many of a budget repeats the whole text.
    """

    rounding: float = 1e-3
    most_repeats: int = 100
    calls_per_repeat: int = 30


NOISE = NoiseSettings()


class NoiseCheck:
    """Finds out once whether a model repeats itself, and remembers it for all texts.

    Args:
        source: answers rows.
        settings: when a model is noisy.
    """

    def __init__(self, source: AnswerSource, settings: NoiseSettings = NOISE) -> None:
        self._source = source
        self._settings = settings
        self._difference: float | None = None  # None: not asked yet

    @property
    def calls(self) -> int:
        """Rows asked to find out."""
        return int(self._difference is not None)

    @property
    def noisy(self) -> bool:
        """Whether the model was seen not to repeat itself, or says so."""
        difference = self._difference
        seen = difference is not None and difference > self._settings.rounding
        return seen or self._said is not None

    @property
    def _said(self) -> str | None:
        """What the model itself says about its noise."""
        return None if self._telling is None else self._telling.noise_note

    @cached_property
    def _telling(self) -> SaysItsNoise | None:
        """The model, where it may say something about its noise."""
        model = self._source.model
        return model if isinstance(model, SaysItsNoise) else None

    def probe(self, queries: Queries) -> int:
        """Asks the whole text again, unless some text was asked twice before.

        A cache must not answer: the model is asked for a second answer to the same row.

        Args:
            queries: with the model's first answer to the whole text.

        Returns:
            How often the model has been asked about the whole text: twice, or once where another
            text was asked twice.
        """
        if self._difference is not None:
            return 1
        question = queries.prompt
        again = self._source.columns([question.rows(question.whole)], before=[1])[0][0].cpu()
        before = queries.ask_whole("check").cpu()
        self._difference = float((again - before).abs().max() / (1 + before.abs().max()))
        return 2

    def repeats(self, question: Prompt, method: Estimator, budget: int) -> int:
        """How often the whole text is asked again: never, where the model is steady."""
        if not self.noisy:
            return 0
        parameters = method.parameters(len(question.units), question.distinct)
        spare = budget - least_budget(question.interchangeable, parameters)
        affordable = budget // self._settings.calls_per_repeat
        return min(self._settings.most_repeats, affordable, spare)

    def notes(self, queries: Queries) -> tuple[str, ...]:
        """What a reader should know of a noisy model."""
        difference = self._difference
        if difference is None or not self.noisy:
            return ()
        noticed = self._said or (
            "The model is noisy: asked the same twice, its answers differed by "
            f"{100 * difference:.2g}% of their size."
        )
        if queries.whole_variance is None:
            return (
                f"{noticed} The intervals do not include the noise of the answer to the whole "
                "text; raise the budget.",
            )
        return (
            f"{noticed} The whole text was asked several times, and the mean is explained. "
            "The intervals include the noise; a larger budget narrows them.",
        )


# Between which ends the outputs of an explainer's model lie, found once.


class RangeProbe:
    """Finds the range of a model before the first text, and remembers it for all others.

    Args:
        source: sends texts to the model.
    """

    def __init__(self, source: AnswerSource) -> None:
        self._source = source
        self._found: OutputRange | None = None

    @property
    def calls(self) -> int:
        """Calls that were needed."""
        return 0 if self._found is None else self._found.calls

    def find(self) -> tuple[Tensor, Tensor] | None:
        """The lowest and the highest output, (C,) each; None where single words tell nothing of it.

        That is so for a model without a vocabulary, and for the answer of a language model: each
        question has a range of its own, and a context of one random word is none of its texts.
        """
        if self._found is None:
            model = self._source.model
            if not isinstance(model, KnowsWords) or isinstance(model, AnswersQuestion):
                return None
            words = model.known_words()
            if not words:
                return None
            self._found = probe_range(words, self._send)
        return self._found.low, self._found.high

    def _send(self, texts: Sequence[str]) -> Tensor:
        rows = []
        for text in texts:
            question = prompt(self._source.model.read(text), "token")
            rows.append(question.rows(question.whole))
        return torch.cat([part.cpu() for part in self._source.columns(rows)])
