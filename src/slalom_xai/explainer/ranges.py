"""Between which ends the outputs of an explainer's model lie, found once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from slalom_xai.models import prompt
from slalom_xai.models.base import AnswersQuestion, KnowsWords
from slalom_xai.queries import AnswerSource
from slalom_xai.slalom.output_range import OutputRange, probe_range


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
        model = self._source.model
        if not isinstance(model, KnowsWords) or isinstance(model, AnswersQuestion):
            return None
        if self._found is None:
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
