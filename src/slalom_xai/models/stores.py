"""The seam between models whose answers are paid for and what keeps those answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable


class AnswerStore(Protocol):
    """Keeps answers that were paid for, beyond the life of this process."""

    def find(self, keys: Sequence[str]) -> dict[str, Any]:
        """What is stored under each of these keys that is there: plain JSON values."""

    def keep(self, key: str, answer: Any) -> None:
        """Stores one answer; when this returns, a kill of this process no longer loses it.

        Called from several threads.
        """


@runtime_checkable
class KeepsAnswers(Protocol):
    """A model that stores each answer as it comes in, because it was paid for.

    It remembers its answers also where nobody gave it a store, for as long as it lives. Equal rows
    that are asked in one go are numbered, and each number has an answer of its own: asking a row
    twice in one go shows the noise of a model, and asking it in two goes does not.
    """

    @property
    def fingerprint(self) -> str:
        """Everything that decides its answers, as a hash: no key and no password.

        That is the address, the model, the prompt, the labels, the parameters, and the version of
        the mapping from responses to answers.
        """

    def use(self, store: AnswerStore) -> None:
        """From now on asks the store first."""
