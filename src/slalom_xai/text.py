"""Units and spans: the pieces of a text that receive scores."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

GRANULARITIES = ("token", "type", "word", "phrase", "sentence")

ALL_UNKNOWN = (
    "Every token of the text is unknown to the model's tokenizer, which reads them all alike: "
    "give a text in the language that the model was trained on, or another model."
)
MANY_UNKNOWN = 1 / 3  # the share of unknown tokens from which a reader is warned

# Scripts that are written without spaces between words: Chinese, Japanese, Thai, Lao, Tibetan, Burmese, Khmer.
_UNSPACED = re.compile(
    "[\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
    "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u19e0-\u19ff]+"
)
_WIDE_STOPS = (
    "\u3002\uff01\uff1f"  # the full stop, exclamation and question mark of Chinese and Japanese
)
_WIDE_PAUSES = _WIDE_STOPS + "\u3001\uff0c\uff1b\uff1a"
_CLOSING = "[\"')\\]\u00bb\u201d\u2019]*"
_SENTENCE_END = re.compile(rf"[.!?…]+{_CLOSING}\s+|[{_WIDE_STOPS}]+\s*|\n\s*\n")
_PHRASE_END = re.compile(rf"[,;:.!?…\u2013\u2014]+{_CLOSING}\s+|[{_WIDE_PAUSES}]+\s*|\n+")

# Words whose full stop is part of them. The first kind always goes on; the second goes on before a number; the third may also end a
# sentence, which is told by what follows.
_GOES_ON = re.compile(
    r"mr|mrs|ms|mx|dr|prof|rev|hon|st|mt|ft|gen|col|maj|capt|lt|sgt|cmdr|adm|gov|sen|rep|pres"
    r"|vs|cf|e\.?g|i\.?e|viz|approx|ca|dept|est|al"
)
_NUMBERED = re.compile(r"no|nos|vol|fig|figs|pp|eq|sec|ch|ed|eds")
_MAY_END = re.compile(r"inc|ltd|corp|co|llc|plc|bros|jr|sr|etc|a\.?m|p\.?m|ph\.d|ave|blvd|rd")
_LAST_WORD = re.compile(r"[^\W_](?:[^\W_]|[.&'’-](?=[^\W_]))*$")
_LETTERS = re.compile(
    r"(?:[^\W\d_]\.)*[^\W\d_]"
)  # an initial, or letters with stops between them: "J", "U.S"
_OPENS = re.compile(  # words that begin a sentence behind such a stop
    r"(?:A|An|The|This|That|These|Those|It|Its|He|His|She|Her|We|Our|They|Their|I|My|You|Your|There|Here|But|And|Or|So|Yet|Then"
    r"|If|When|While|As|At|By|For|From|In|On|To|With|After|Before|However|Although|Because|Since|Still|What|Who|Why|How|Not|No)\b"
)


@dataclass(frozen=True)
class Unit:
    """One piece of a text.

    Attributes:
        text: the characters as they stand in the text.
        start: offset of the first character.
        end: offset behind the last character.
        token_ids: the model's token ids of this piece; empty for models that take strings.
        part: 0 for a piece of the text, 1 for one of the second text of a pair; offsets count in that text.
    """

    text: str
    start: int
    end: int
    token_ids: tuple[int, ...] = ()
    part: int = 0


def words(text: str) -> tuple[Unit, ...]:
    """Splits a text at white space, and punctuation off both ends of each word.

    A run without any letter or digit (dots, an emoji with its joiners) stays whole, and
    so does punctuation inside a word ("isn't", "3.5"). In scripts that are written without spaces
    each character, with the marks it carries, is a word.
    """
    chunks = [
        span
        for match in re.finditer(r"\S+", text)
        for span in _peel(text, match.start(), match.end())
    ]
    return tuple(
        Unit(text[start:end], start, end)
        for chunk in chunks
        for start, end in _characters(text, *chunk)
    )


def is_unspaced(character: str) -> bool:
    """Whether a character belongs to a script that is written without spaces."""
    return _UNSPACED.match(character) is not None


def _characters(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """A chunk whole, but characters of scripts without spaces one by one."""
    cuts = {start, end}
    for run in _UNSPACED.finditer(text, start, end):
        cuts.update((run.start(), run.end()))
        cuts.update(
            place for place in range(run.start(), run.end()) if not _is_carried(text[place])
        )
    places = sorted(cuts)
    return list(pairwise(places))


def _is_carried(character: str) -> bool:
    """A combining mark, or a vowel sign that stands behind its consonant."""
    return (
        unicodedata.category(character)[0] == "M"
        or character in "\u0e30\u0e33\u0eb0\u0eb3\u30fc\u3005"
    )


def _peel(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """The span of one chunk, as leading punctuation, word, trailing punctuation."""
    left, right = start, end
    while left < end and _is_mark(text[left]):
        left += 1
    while right > left and _is_mark(text[right - 1]):
        right -= 1
    if left == end:
        return [(start, end)]
    return [span for span in ((start, left), (left, right), (right, end)) if span[0] < span[1]]


def _is_mark(character: str) -> bool:
    """Punctuation and symbols, with the joiners and the variation selector that emoji carry."""
    return (
        unicodedata.category(character) == "Cf"
        or unicodedata.category(character)[0] in "PS"
        or character == "\ufe0f"
    )


def owners(
    texts: Sequence[str],
    pieces: Sequence[Unit],
    codes: NDArray[np.int64],
    granularity: str,
    tokenizer_words: NDArray[np.int64] | None = None,
) -> NDArray[np.int64]:
    """The unit each piece belongs to, numbered in reading order.

    Args:
        texts: the whole text, or the two of a pair.
        pieces: its tokens or words.
        codes: (pieces,), equal where two read the same.
        granularity: one of ``GRANULARITIES``.
        tokenizer_words: (pieces,), the tokenizer's own words, where there is a tokenizer.
    """
    if granularity == "token":
        return np.arange(len(pieces))
    keys: list[tuple[int, int]] = [(0, code) for code in codes.tolist()]
    if granularity != "type":
        starts = [
            _starts(text, part, pieces, granularity, tokenizer_words)
            for part, text in enumerate(texts)
        ]
        keys = [(piece.part, bisect_right(starts[piece.part], piece.start)) for piece in pieces]
    numbers: dict[tuple[int, int], int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)


def joined(texts: Sequence[str], pieces: Sequence[Unit]) -> Unit:
    """One unit made of neighbouring pieces."""
    if len(pieces) == 1:
        return pieces[0]
    part = pieces[0].part
    start, end = trimmed(
        texts[part], min(piece.start for piece in pieces), max(piece.end for piece in pieces)
    )
    return Unit(
        texts[part][start:end],
        start,
        end,
        tuple(token for piece in pieces for token in piece.token_ids),
        part,
    )


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """A span without the white space at its ends, which some tokenizers count in, unless that is all of it."""
    piece = text[start:end]
    if not piece.strip():
        return start, end
    return start + len(piece) - len(piece.lstrip()), end - (len(piece) - len(piece.rstrip()))


def unspaced_note(
    texts: Sequence[str],
    pieces: Sequence[Unit],
    granularity: str,
    tokenizer_words: NDArray[np.int64] | None,
) -> str | None:
    """What stands for words in scripts that have no spaces; None where there are none or units are the tokenizer's tokens."""
    by_words = granularity == "word" or (
        tokenizer_words is None and granularity in ("token", "type")
    )
    runs = [(part, run) for part, text in enumerate(texts) for run in _UNSPACED.finditer(text)]
    if not by_words or not runs:
        return None
    own = tokenizer_words is not None and any(
        len(_tokenizer_starts(part, run, pieces, tokenizer_words)) > 1 for part, run in runs
    )
    return f"Parts of the text are written without spaces: there, {'the words are those of the tokenizer' if own else 'every character counts as a word'}."


def unknown_note(unknown: NDArray[np.bool_] | None) -> str | None:
    """A warning where a tokenizer knows few of its tokens, (pieces,); None where it knows enough."""
    if unknown is None or not len(unknown) or unknown.mean() < MANY_UNKNOWN:
        return None
    if unknown.all():
        return ALL_UNKNOWN
    return (
        f"{unknown.sum()} of {len(unknown)} tokens are unknown to the model's tokenizer, which reads them all alike: "
        "their scores say nothing about the words behind them."
    )


def _starts(
    text: str,
    part: int,
    pieces: Sequence[Unit],
    granularity: str,
    tokenizer_words: NDArray[np.int64] | None,
) -> list[int]:
    """Where the words, phrases or sentences of one text begin.

    Phrases end at punctuation and line breaks; sentences at a full stop, question or exclamation mark before white space,
    and at empty lines.
    """
    if granularity != "word":
        ends = _PHRASE_END if granularity == "phrase" else _SENTENCE_END
        return [
            0,
            *(match.end() for match in ends.finditer(text) if not _is_abbreviation(text, match)),
        ]
    starts = {unit.start for unit in words(text)}
    if tokenizer_words is None:
        return sorted(starts)
    for run in _UNSPACED.finditer(text):
        own = _tokenizer_starts(part, run, pieces, tokenizer_words)
        if len(own) > 1:
            starts = {start for start in starts if not run.start() < start < run.end()} | own
    return sorted(starts)


def _is_abbreviation(text: str, end: re.Match[str]) -> bool:
    """Whether a single full stop belongs to the word before it, as in "Mr." or "U.S.", and nothing ends there."""
    if end.group().rstrip() != ".":
        return False
    before = _LAST_WORD.search(text, max(0, end.start() - 20), end.start())
    if before is None:
        return False
    word, after = before.group().lower(), text[end.end() : end.end() + 20]
    if _NUMBERED.fullmatch(word):
        return after[:1].isdigit()
    if _GOES_ON.fullmatch(word):
        return True
    letters = _LETTERS.fullmatch(word) is not None and (
        "." in word or (word != "i" and before.group().isupper())
    )
    return (
        bool(after)
        and (letters or _MAY_END.fullmatch(word) is not None)
        and not _OPENS.match(after)
    )


def disjoint(spans: Sequence[tuple[int, int]], bare: Sequence[bool]) -> list[tuple[int, int]]:
    """Spans in reading order, cut until two of them are apart or the same.

    A tokenizer that rewrites a text before it splits it may give one character to several tokens, and to some of them together with
    its neighbours. Such a character stays with the tokens that have nothing else.

    Args:
        spans: start and end of each token.
        bare: whether a token stands for no character, as the marker of a word's beginning does.
    """
    found = [list(span) for span in spans]
    for place, (here, after) in enumerate(pairwise(found)):
        if bare[place] and here[0] == after[0] and here != after:
            here[1] = here[0]
    filled = [span for span in found if span[0] < span[1]]
    for place in range(1, len(filled)):
        before, here = filled[place - 1], filled[place]
        if here[0] >= before[1] or here == before:
            continue
        if before[0] < here[0]:
            _end_at(filled, place - 1, here[0])
        elif before[0] == here[0] and before[1] < here[1]:
            here[0] = before[1]
        else:
            here[:] = before
    return [(start, end) for start, end in found]


def _end_at(spans: list[list[int]], place: int, end: int) -> None:
    """Ends a span, and those before it that are the same, earlier."""
    whole = list(spans[place])
    while place >= 0 and spans[place] == whole:
        spans[place][1] = end
        place -= 1


def _tokenizer_starts(
    part: int, run: re.Match[str], pieces: Sequence[Unit], tokenizer_words: NDArray[np.int64]
) -> set[int]:
    """Where the tokenizer's words begin inside a run of characters without spaces."""
    first: dict[int, int] = {}
    for piece, word in zip(pieces, tokenizer_words.tolist(), strict=True):
        if piece.part == part and run.start() <= piece.start < run.end():
            first.setdefault(word, piece.start)
    return set(first.values())
