"""A model of two classes that answers with a probability instead of log odds."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from slalom_xai.models import AnyReading, Row, TextModel
from slalom_xai.models.base import TakesTokens
from slalom_xai.models.outputs import Outputs
from slalom_xai.models.token_batch import TokenBatch


class ProbabilityModel:
    """A model of two classes whose output is the probability of the second.

    The authors of the paper let LIME explain this one.

    Args:
        model: of two classes.
    """

    def __init__(self, model: TextModel) -> None:
        self._model = model
        self.name = model.name
        self.outputs = Outputs("regression", (model.outputs.labels[1],))
        self.device = model.device

    @property
    def probe_calls(self) -> int:
        """Those of the model."""
        return self._model.probe_calls

    def read(
        self,
        text: str,
        text_pair: str | None = None,
        *,
        truncation: bool = False,
        removal: str = "delete",
    ) -> AnyReading:
        """As the model reads it."""
        return self._model.read(text, text_pair, truncation=truncation, removal=removal)

    def size(self, row: Row) -> int:
        """As of the model."""
        return self._model.size(row)

    def show(self, row: Row) -> str:
        """As of the model."""
        return self._model.show(row)

    def answer(self, rows: Sequence[Row]) -> Tensor:
        """Probabilities, (rows, 1)."""
        return _second(self._model.answer(rows))

    def answer_tokens(self, batch: TokenBatch) -> Tensor:
        """Probabilities (rows, 1) of rows of token ids, which only a model of tokens reads."""
        assert isinstance(self._model, TakesTokens)
        return _second(self._model.answer_tokens(batch))


def _second(logits: Tensor) -> Tensor:
    """Logits (rows, 2) to the probability of the second class, (rows, 1)."""
    return logits.double().softmax(dim=1)[:, 1:]
