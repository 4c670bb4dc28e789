"""Texts as a tokenizer sees them: pieces, special tokens around them, and rows with some pieces missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from slalom_xai.errors import InputError, shortened
from slalom_xai.models.base import Reading, unit_codes
from slalom_xai.models.token_rows import Encoded, Row, TokenText
from slalom_xai.text import Unit, disjoint, trimmed

_MARKERS = "\u2581\u0120 "  # how sentence pieces and byte-level tokens say that a word begins


class Tokens:
    """A tokenizer, and what a model takes from it.

    Special tokens are whatever the tokenizer adds around a text or between two; they stay in every row.

    Args:
        tokenizer: a fast tokenizer of the transformers library.
        limit: tokens the model reads at most, special ones included.
        segments: how many segments the model tells apart; 0 where it takes none.
        pairs: False where the model is known to read single texts only.
    """

    def __init__(
        self, tokenizer: Any, *, limit: int | None, segments: int, pairs: bool = True
    ) -> None:
        if not getattr(tokenizer, "is_fast", False):
            raise InputError(
                f"the tokenizer {type(tokenizer).__name__} does not report where its tokens stand in the text: load a fast one (AutoTokenizer with use_fast=True)"
            )
        self.tokenizer = tokenizer
        self.limit = limit
        self._segments = segments
        self._pairs = pairs

    def read(
        self,
        text: str,
        text_pair: str | None = None,
        *,
        truncation: bool = False,
        removal: str = "delete",
    ) -> Reading:
        """Splits a text, or a pair, into its tokens.

        Raises:
            InputError: no token in a text, more tokens than the model reads, a pair for a model of single texts, or no
                token to put in the place of removed ones.
        """
        encoding = self.tokenizer(
            text,
            text_pair,
            return_offsets_mapping=True,
            return_special_tokens_mask=True,
            verbose=False,
        )
        ids = np.array(encoding["input_ids"], dtype=np.int64)
        special = np.array(encoding["special_tokens_mask"], dtype=bool)
        parts = np.array([part or 0 for part in encoding.sequence_ids(0)], dtype=np.int64)
        content = np.flatnonzero(~special)
        texts = (text,) if text_pair is None else (text, text_pair)
        for part, one in enumerate(texts):
            if part not in parts[content]:
                raise InputError(
                    f"the tokenizer finds no token in {shortened(one)}: give a text with words in it"
                )
        types = encoding.get("token_type_ids") if self._segments else None
        streams = [ids] if types is None else [ids, np.array(types, dtype=np.int64)]
        around = _around(
            special, [int(content[parts[content] == part][0]) for part in range(len(texts))]
        )
        if text_pair is not None:
            self._check_pair(around, streams)
        content, left_out = self._cut(
            texts, content, parts, encoding["offset_mapping"], int(special.sum()), truncation
        )
        units = self._units(texts, ids, parts, content, encoding["offset_mapping"])
        part_of = parts[content]

        def compose(places: NDArray[np.int64]) -> Row:
            order = [around[0]]
            for part in range(len(texts)):
                order += [content[places[part_of[places] == part]], around[part + 1]]
            joined = np.concatenate(order)
            return tuple(tuple(stream[joined].tolist()) for stream in streams)

        filler = self._filler(removal)
        kept = np.sort(np.concatenate([*around, content]))

        def shorten(keep: NDArray[np.bool_]) -> Row:
            if filler is None:
                return compose(np.flatnonzero(keep))
            replaced = ids.copy()
            replaced[content[~keep]] = filler
            return tuple(tuple(stream[kept].tolist()) for stream in (replaced, *streams[1:]))

        words = np.array(
            [-1 if word is None else word for word in encoding.word_ids(0)], dtype=np.int64
        )
        codes = unit_codes(list(zip(part_of.tolist(), ids[content].tolist(), strict=True)))
        return Reading(
            text,
            units,
            codes,
            left_out,
            compose,
            shorten,
            text_pair=text_pair,
            in_place=filler is not None,
            words=words[content],
            positions=np.searchsorted(kept, content),
            tokens=TokenText(tuple(stream[kept] for stream in streams), filler),
            inert=None if filler is None else ids[content] == filler,
            unknown=self._unknown(ids[content]),
        )

    def show(self, row: Row) -> str:
        """A row as its tokens."""
        return " ".join(
            str(token)
            for token in self.tokenizer.convert_ids_to_tokens(list(cast(Encoded, row)[0]))
        )

    def _units(
        self,
        texts: Sequence[str],
        ids: NDArray[np.int64],
        parts: NDArray[np.int64],
        content: NDArray[np.int64],
        offsets: Sequence[tuple[int, int]],
    ) -> tuple[Unit, ...]:
        units = []
        for part, text in enumerate(texts):
            own = content[parts[content] == part]
            tokens = self.tokenizer.convert_ids_to_tokens(ids[own].tolist())
            spans = disjoint(
                [trimmed(text, *offsets[place]) for place in own],
                [not token.strip(_MARKERS) for token in tokens],
            )
            for place, token, (start, end) in zip(own, tokens, spans, strict=True):
                units.append(Unit(text[start:end] or token, start, end, (int(ids[place]),), part))
        return tuple(units)

    def _cut(
        self,
        texts: Sequence[str],
        content: NDArray[np.int64],
        parts: NDArray[np.int64],
        offsets: Sequence[tuple[int, int]],
        added: int,
        truncation: bool,
    ) -> tuple[NDArray[np.int64], str]:
        """The places of the tokens that fit, and the text behind them: the end of the last text goes."""
        if self.limit is None or len(content) + added <= self.limit:
            return content, ""
        what = "the text has" if len(texts) == 1 else "the two texts have"
        if not truncation:
            raise InputError(
                f"{what} {len(content) + added} tokens ({added} of them special), but the model reads at most {self.limit}: "
                f"shorten {'it' if len(texts) == 1 else 'them'}, or pass truncation=True (--truncation) to explain the beginning"
            )
        kept = content[: max(0, self.limit - added)]
        if parts[content[-1]] not in parts[kept]:
            raise InputError(
                f"{what} {len(content) + added} tokens, but the model reads only {self.limit}, {added} of them special: "
                f"nothing would be left of the {'text; use a model that reads more tokens' if len(texts) == 1 else 'second text; shorten the first'}"
            )
        return kept, texts[-1][offsets[kept[-1]][1] :]

    def _check_pair(
        self, around: Sequence[NDArray[np.int64]], streams: Sequence[NDArray[np.int64]]
    ) -> None:
        reason = None
        if not self._pairs:
            reason = "was trained on single texts"
        elif not len(around[1]):
            reason = "has a tokenizer that puts nothing between two texts"
        elif len(streams) > 1 and int(streams[1].max()) >= self._segments:
            reason = f"tells {self._segments} segment{'s' if self._segments > 1 else ''} apart, but the pair has {int(streams[1].max()) + 1}"
        if reason:
            raise InputError(
                f"a pair of texts was given, but the model {reason}: give one text, joined as the model expects it"
            )

    def _unknown(self, ids: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        """Which ids stand for anything the tokenizer does not know; None where it has no such id."""
        unknown = getattr(self.tokenizer, "unk_token_id", None)
        return None if unknown is None else ids == unknown

    def _filler(self, removal: str) -> int | None:
        if removal == "delete":
            return None
        found = getattr(self.tokenizer, f"{removal}_token_id", None)
        if found is None:
            raise InputError(
                f'removal="{removal}" needs a tokenizer with a {removal} token, but this one has none: use removal="delete"'
            )
        return int(found)


def _around(special: NDArray[np.bool_], starts: Sequence[int]) -> list[NDArray[np.int64]]:
    """The special tokens before the first text, between two and after the last, by where the texts start."""
    places = np.flatnonzero(special)
    group = np.searchsorted(starts, places)
    return [places[group == number] for number in range(len(starts) + 1)]
