"""Models that do not repeat themselves: how they are noticed, and what is done about it.

Every change is measured from the answer to the whole text, so that its noise is in every
score. The first text of an explainer is asked twice. Where the two answers differ by more
than rounding, the whole text is asked several times more, and its mean is explained.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from slalom_xai.designs import least_budget
from slalom_xai.estimators import Estimator
from slalom_xai.models import Prompt
from slalom_xai.models.base import SaysItsNoise
from slalom_xai.queries import AnswerSource, Queries


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
        model = self._source.model
        return model.noise_note if isinstance(model, SaysItsNoise) else None

    def probe(self, question: Prompt, first: Tensor) -> int:
        """Asks the whole text again, unless some text was asked twice before.

        A cache must not answer: the model is asked for a second answer to the same row.

        Args:
            question: the text.
            first: (C,), the model's first answer to it.

        Returns:
            How often the model has been asked about the whole text: twice, or once where another
            text was asked twice.
        """
        if self._difference is not None:
            return 1
        again = self._source.columns([question.rows(question.whole)], before=[1])[0][0].cpu()
        before = first.cpu()
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
