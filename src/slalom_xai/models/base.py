"""The seam between the package and whatever is explained: what a model must do, and what it may.

Every model is a ``TextModel``. The other protocols are abilities that some models have besides.
Whoever needs one asks with ``isinstance``; a model without it is asked in the plain way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from slalom_xai.models.internals import Internals
from slalom_xai.models.outputs import Outputs
from slalom_xai.models.reading import AnyReading
from slalom_xai.models.rows import Row, TokenText
from slalom_xai.models.token_batch import TokenBatch


@runtime_checkable
class TextModel(Protocol):
    """Anything that can be explained; tests and new adapters implement just this."""

    @property
    def name(self) -> str:
        """How the model is called in results."""

    @property
    def outputs(self) -> Outputs:
        """What its answers mean."""

    @property
    def device(self) -> torch.device:
        """Where it runs."""

    @property
    def probe_calls(self) -> int:
        """Rows asked so far to learn how the model behaves, apart from any explanation."""

    def read(
        self,
        text: str,
        text_pair: str | None = None,
        *,
        truncation: bool = False,
        removal: str = "delete",
    ) -> AnyReading:
        """Splits a text, or a pair of texts, into its smallest pieces.

        Args:
            text: as the user gave it.
            text_pair: the second text of a pair.
            truncation: cut a text that is too long, instead of refusing it.
            removal: what a shortened row has in the place of a removed piece: "delete" (nothing),
                "mask" or "unk". Models with ``HidesTokens`` take "hide" besides.
        """

    def size(self, row: Row) -> int:
        """The length of a row, in tokens."""

    def answer(self, rows: Sequence[Row]) -> Tensor:
        """Logits (len(rows), width) for a batch of rows, in their order."""

    def show(self, row: Row) -> str:
        """A row as text, for error messages."""


@runtime_checkable
class TakesTokens(Protocol):
    """A model that may also be asked about rows of token ids that are not written out."""

    def answer_tokens(self, batch: TokenBatch) -> Tensor:
        """Logits (len(batch), width)."""


@runtime_checkable
class LendsPrefixes(TakesTokens, Protocol):
    """A decoder: what it makes of the beginning of a text serves all rows that begin like it."""

    @property
    def lends(self) -> bool:
        """Whether this one can."""

    def lend_prefix(self, text: TokenText) -> AbstractContextManager[int]:
        """Reads the whole text once; gives the tokens that rows may then borrow, 0 where none."""


@runtime_checkable
class HidesTokens(Protocol):
    """A model from which tokens can be hidden: the others keep their positions.

    Its ``read`` takes ``removal="hide"``, and raises ``CannotHideError`` where it turns out that
    this model, or a text of this length, does not allow it.
    """

    @property
    def hides(self) -> bool:
        """Whether it may, as far as its configuration tells."""

    @property
    def hiding_opposes_deleting(self) -> bool:
        """Whether hiding tokens was seen to move its output another way than deleting them."""


@runtime_checkable
class OpensInternals(Protocol):
    """A model whose embeddings, gradients and attention weights can be seen."""

    def internals(self, row: Row) -> Internals:
        """The model open on one row."""


@runtime_checkable
class SaysItsSize(Protocol):
    """A model that knows whether many threads would only slow it down."""

    @property
    def light(self) -> bool:
        """Whether it runs on a CPU in steps so small that threads mostly wait for each other."""


@runtime_checkable
class TakesThreads(SaysItsSize, TakesTokens, Protocol):
    """A model that several threads may ask at once, while one of them holds it for all."""

    def hold_for_threads(self) -> AbstractContextManager[bool]:
        """Keeps everybody else away; gives whether threads may now call ``answer_beside``."""

    def answer_beside(self, batch: TokenBatch) -> Tensor:
        """Logits (len(batch), width), while others are being answered."""

    def must_be_alone(self, batch: TokenBatch) -> bool:
        """Whether this batch is to be asked by itself, because the model learns from it."""


@runtime_checkable
class AnswersQuestion(TextModel, Protocol):
    """A language model that was asked something about a text: what is explained is its answer."""

    @property
    def question(self) -> str:
        """What was asked."""

    @property
    def context(self) -> str:
        """The text that it was asked about."""

    @property
    def reply(self) -> str:
        """The answer that is explained."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know about the answer, a sentence each."""


@runtime_checkable
class TakesQuestions(Protocol):
    """A language model, to be asked about a text before anything can be explained.

    It may run here (``language.AnswerModel``) or on a server that scores given text
    (``remote.RemoteAnswerModel``). What it needs is a ``TextModel`` per question, whose rows are
    prompts and whose logits are those of ``answer_spans``.
    """

    def asking(
        self, context: str | Sequence[str], question: str, *, answer: str | None = None
    ) -> AnswersQuestion:
        """The model with one question about one text.

        Args:
            context: the text, or its passages one by one.
            question: what to ask about it.
            answer: the answer to explain; None: the model's own.
        """


@runtime_checkable
class SaysItsLimit(Protocol):
    """A model that reads texts up to a certain length only."""

    @property
    def limit(self) -> int | None:
        """Tokens it reads at most, special ones included; None where nothing limits it."""


@runtime_checkable
class KnowsWords(Protocol):
    """A model with a vocabulary of its own, from which texts can be made."""

    def known_words(self) -> Sequence[str]:
        """Words that are one token each, always in the same order; empty where there are none."""


@runtime_checkable
class ShowsItsWeights(Protocol):
    """A local model that can be told from every other one, so that its answers can be stored."""

    def weights_fingerprint(self) -> str:
        """Everything that decides its answers, as a hash."""


@runtime_checkable
class AnswersTogether(Protocol):
    """A model that orders and bundles rows itself, such as one behind a network."""

    def answer_together(self, rows: Sequence[Row], done: Callable[[int], None]) -> Tensor:
        """Logits (len(rows), width) of all rows of a round, in their order.

        Args:
            rows: what is asked.
            done: is told how many more rows are answered, in the thread that asks.
        """


@runtime_checkable
class IsPaidFor(Protocol):
    """A model whose calls are counted, and may cost something."""

    @property
    def spent(self) -> str:
        """The calls so far and what they cost, in a few words."""


@runtime_checkable
class SaysNotes(Protocol):
    """A model about whose answers a reader should know something."""

    def notes_on(self, asked: Collection[int]) -> tuple[str, ...]:
        """A sentence for each thing to know.

        Args:
            asked: the rows that an explanation rests on, by their keys.
        """


@runtime_checkable
class SaysItsNoise(Protocol):
    """A model that may know that its answers are noisy, whatever two of them look like."""

    @property
    def noise_note(self) -> str | None:
        """Where its noise comes from, in a sentence; None where it may well be steady."""


# The seam between models whose answers are paid for and what keeps those answers.


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
