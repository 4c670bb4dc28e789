"""Texts as a tokenizer sees them: pieces, and the special tokens around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from slalom_xai.errors import CannotHideError, InputError, ModelError, quote_text
from slalom_xai.models.reading import TokenReading
from slalom_xai.models.rows import Indices, Row, Streams, TokenRow, TokenText
from slalom_xai.models.text import Unit, disjoint, equal_codes, trim_span

# How sentence pieces and byte-level tokens say that a word begins.
_MARKERS = "\u2581\u0120 "


class Tokens:
    """A tokenizer, and what a model takes from it.

    Special tokens are whatever the tokenizer adds around a text or between two; they stay in every
    row.

    Args:
        tokenizer: a fast tokenizer of the transformers library.
        limit: tokens the model reads at most, special ones included.
        segments: how many segments the model tells apart; 0 where it takes none.
        pairs: False where the model is known to read single texts only.
        passages: where the passages of its texts begin, for a text that was given in passages.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        limit: int | None,
        segments: int,
        pairs: bool = True,
        passages: tuple[int, ...] | None = None,
    ) -> None:
        if not getattr(tokenizer, "is_fast", False):
            raise InputError(
                f"the tokenizer {type(tokenizer).__name__} does not report where its tokens stand "
                "in the text: load a fast one (AutoTokenizer with use_fast=True)"
            )
        self.tokenizer = tokenizer
        self.limit = limit
        self._segments = segments
        self._pairs = pairs
        self._passages = passages

    def read(
        self,
        text: str,
        text_pair: str | None = None,
        *,
        truncation: bool = False,
        removal: str = "delete",
    ) -> TokenReading:
        """Splits a text, or a pair, into its tokens.

        Raises:
            InputError: no token in a text, more tokens than the model reads, a pair for a model of
                single texts, or no token to put in the place of removed ones.
        """
        encoded = self._encode(text, text_pair)
        if text_pair is not None:
            self._check_pair(encoded)
        content, left_out = self._cut(encoded, truncation)
        kept = np.sort(np.concatenate([encoded.special, content]))
        filler = self._filler(removal)
        streams = tuple(stream[kept] for stream in encoded.streams)
        ids = encoded.ids[content]
        parts = encoded.parts[content]
        return TokenReading(
            text,
            self._pieces(encoded, content),
            equal_codes(list(zip(parts.tolist(), ids.tolist(), strict=True))),
            left_out,
            tokens=TokenText(streams, filler),
            positions=np.searchsorted(kept, content),
            word_numbers=encoded.words[content],
            unknown=self._unknown(ids),
            text_pair=text_pair,
            passages=self._passages,
        )

    def known_words(self) -> list[str]:
        """Words of three letters or more that are one token each, in alphabetical order."""
        vocabulary = sorted(self.tokenizer.get_vocab())
        begun = [token[1:] for token in vocabulary if token[:1] in _MARKERS]
        words = begun or vocabulary
        return [word for word in words if len(word) >= 3 and word.isalpha()]

    def show(self, row: Row) -> str:
        """A row as its tokens."""
        ids = cast(TokenRow, row)[0]
        tokens = self.tokenizer.convert_ids_to_tokens(list(ids))
        return " ".join(str(token) for token in tokens)

    def _tokenize(self, text: str, text_pair: str | None, *, special: bool = True) -> Any:
        """What the tokenizer makes of a text.

        Raises:
            ModelError: it fails. One with damaged files may do so only when it is used.
        """
        try:
            return self.tokenizer(
                text,
                text_pair,
                add_special_tokens=special,
                return_offsets_mapping=True,
                return_special_tokens_mask=True,
                verbose=False,
            )
        except MemoryError:
            raise
        except Exception as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            raise ModelError(
                f"the tokenizer fails on {quote_text(text)} ({reason}): "
                "check its files, or save it again with save_pretrained"
            ) from error

    def _encode(self, text: str, text_pair: str | None) -> EncodedText:
        encoding = self._tokenize(text, text_pair)
        streams = [np.array(encoding["input_ids"], dtype=np.int64)]
        types = encoding.get("token_type_ids")
        if self._segments and types is not None:
            streams.append(np.array(types, dtype=np.int64))
        encoded = EncodedText(
            texts=(text,) if text_pair is None else (text, text_pair),
            streams=tuple(streams),
            is_special=np.array(encoding["special_tokens_mask"], dtype=bool),
            parts=_numbers(encoding.sequence_ids(0), instead=0),
            words=_numbers(encoding.word_ids(0), instead=-1),
            offsets=encoding["offset_mapping"],
        )
        for part, one in enumerate(encoded.texts):
            if not len(encoded.content_of(part)):
                raise InputError(
                    f"the tokenizer finds no token in {quote_text(one)}: "
                    "give a text with words in it"
                )
        return encoded

    def _pieces(self, encoded: EncodedText, content: Indices) -> tuple[Unit, ...]:
        pieces = []
        for part, text in enumerate(encoded.texts):
            own = content[encoded.parts[content] == part]
            ids = encoded.ids[own].tolist()
            tokens = self.tokenizer.convert_ids_to_tokens(ids)
            spans = disjoint(
                [trim_span(text, *encoded.offsets[index]) for index in own],
                [not token.strip(_MARKERS) for token in tokens],
            )
            for token_id, token, (start, end) in zip(ids, tokens, spans, strict=True):
                pieces.append(Unit(text[start:end] or token, start, end, (token_id,), part))
        return tuple(pieces)

    def _cut(self, encoded: EncodedText, truncation: bool) -> tuple[Indices, str]:
        """The indices of the tokens that fit, and the text behind them.

        What goes is the end of the last text.
        """
        content, added = encoded.content, len(encoded.special)
        whole = len(content) + added
        if self.limit is None or whole <= self.limit:
            return content, ""
        what, it, instead = "the text has", "it", "text; use a model that reads more tokens"
        if len(encoded.texts) > 1:
            what, it, instead = "the two texts have", "them", "second text; shorten the first"
        if not truncation:
            raise InputError(
                f"{what} {whole} tokens ({added} of them special), but the model reads at most "
                f"{self.limit}: shorten {it}, or pass truncation=True (--truncation) to explain "
                "the beginning"
            )
        kept = content[: max(0, self.limit - added)]
        if encoded.parts[content[-1]] not in encoded.parts[kept]:
            raise InputError(
                f"{what} {whole} tokens, but the model reads only {self.limit}, {added} of them "
                f"special: nothing would be left of the {instead}"
            )
        end_of_kept = encoded.offsets[kept[-1]][1]
        return kept, encoded.texts[-1][end_of_kept:]

    def _check_pair(self, encoded: EncodedText) -> None:
        reason = None
        known = self._segments
        if not self._pairs:
            reason = "was trained on single texts"
        elif not encoded.has_separator:
            reason = "has a tokenizer that puts nothing between two texts"
        elif encoded.segments > known:
            plural = "s" if known > 1 else ""
            reason = f"tells {known} segment{plural} apart, but the pair has {encoded.segments}"
        if reason:
            raise InputError(
                f"a pair of texts was given, but the model {reason}: "
                "give one text, joined as the model expects it"
            )

    def _unknown(self, ids: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        """Which ids stand for what the tokenizer does not know; None where it has no such id."""
        unknown = getattr(self.tokenizer, "unk_token_id", None)
        if unknown is None:
            return None
        return np.equal(ids, int(unknown))

    def _filler(self, removal: str) -> int | None:
        """The id that stands for a removed token; None where it is deleted."""
        if removal == "delete":
            return None
        if removal == "hide":
            raise CannotHideError.because("this is not a model of the transformers library")
        filler = getattr(self.tokenizer, f"{removal}_token_id", None)
        if filler is None:
            raise InputError(
                f'removal="{removal}" needs a tokenizer with a {removal} token, '
                'but this one has none: use removal="delete"'
            )
        return int(filler)


@dataclass(frozen=True)
class EncodedText:
    """What a tokenizer makes of a text or a pair: T tokens, special ones among them.

    Attributes:
        texts: the text, or the two of a pair.
        streams: (T,) each: ids and, where the model takes them, segments.
        is_special: (T,), what the tokenizer added.
        parts: (T,), the text that a token is part of; 0 for special ones.
        words: (T,), the tokenizer's own word that a token is part of; -1 for special ones.
        offsets: start and end of each token in its text.
    """

    texts: tuple[str, ...]
    streams: Streams
    is_special: NDArray[np.bool_]
    parts: NDArray[np.int64]
    words: NDArray[np.int64]
    offsets: Sequence[tuple[int, int]]

    @property
    def ids(self) -> NDArray[np.int64]:
        """Token ids (T,)."""
        return self.streams[0]

    @property
    def content(self) -> Indices:
        """Where the tokens of the texts are."""
        return np.flatnonzero(~self.is_special)

    @property
    def special(self) -> Indices:
        """Where the special tokens are."""
        return np.flatnonzero(self.is_special)

    @property
    def segments(self) -> int:
        """How many segments there are; 0 where the model takes none."""
        if len(self.streams) == 1:
            return 0
        return int(self.streams[1].max()) + 1

    @property
    def has_separator(self) -> bool:
        """Whether a special token stands between the two texts of a pair."""
        first, second = (int(self.content_of(part)[0]) for part in (0, 1))
        return bool(self.is_special[first:second].any())

    def content_of(self, part: int) -> Indices:
        """Where the tokens of one text are."""
        return np.flatnonzero(~self.is_special & (self.parts == part))


def _numbers(given: Sequence[int | None], instead: int) -> NDArray[np.int64]:
    """Numbers, with another one in the place of None."""
    known = [instead if number is None else number for number in given]
    return np.array(known, dtype=np.int64)
