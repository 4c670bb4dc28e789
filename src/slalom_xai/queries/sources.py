"""What answers rows, and what is told how far that is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from slalom_xai.models import TextModel
from slalom_xai.models.rows import Rows


class Progress(Protocol):
    """What a progress bar must do."""

    def start(self, total: int) -> None:
        """Expect this many more rows."""

    def advance(self, rows: int, spent: str = "") -> None:
        """Some rows are answered, by a model that has cost so much so far."""


class AnswerSource(Protocol):
    """What answers rows: ``Batches``, or whoever collects what several texts ask."""

    @property
    def model(self) -> TextModel:
        """What is asked."""

    def columns(
        self,
        asked: Sequence[Rows],
        progress: Progress | None = None,
        before: Sequence[int] | None = None,
    ) -> list[Tensor]:
        """The explained columns (m, C), float64, of each set of rows.

        A model answers with logits; ``Outputs.columns`` makes columns of them.

        Args:
            asked: sets of rows.
            progress: shown while asking.
            before: of each set, how often its row was asked before, where the model shall answer
                once more whatever is stored; None: nothing is asked once more.
        """
