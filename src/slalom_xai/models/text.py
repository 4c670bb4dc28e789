"""Texts cut into pieces, and pieces grouped into the units that receive scores.

From top to bottom: a unit and the span of characters that it covers; where words stand, by which
every model without a tokenizer is explained; where phrases and sentences begin; and which unit each
piece belongs to, with what a reader should know about the units.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

# Units, and the spans of characters that they cover.


GRANULARITIES = ("token", "type", "word", "phrase", "sentence", "passage")


@dataclass(frozen=True)
class Unit:
    """One piece of a text.

    Attributes:
        text: the characters as they stand in the text.
        start: offset of the first character.
        end: offset behind the last character.
        token_ids: the model's token ids of this piece; empty for models that take strings.
        part: 0 for a piece of the text, 1 for one of the second text of a pair; offsets count in
            that text.
    """

    text: str
    start: int
    end: int
    token_ids: tuple[int, ...] = ()
    part: int = 0


def equal_codes(keys: Sequence[Hashable]) -> NDArray[np.int64]:
    """Numbers (keys,) from 0 that are equal where the keys are, in the order of their first use."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)


def join_pieces(texts: Sequence[str], pieces: Sequence[Unit]) -> Unit:
    """One unit made of neighbouring pieces."""
    if len(pieces) == 1:
        return pieces[0]
    part = pieces[0].part
    text = texts[part]
    first = min(piece.start for piece in pieces)
    last = max(piece.end for piece in pieces)
    start, end = trim_span(text, first, last)
    token_ids = tuple(token for piece in pieces for token in piece.token_ids)
    return Unit(text[start:end], start, end, token_ids, part)


def trim_span(text: str, start: int, end: int) -> tuple[int, int]:
    """A span without white space at its ends, unless that is all of it.

    Some tokenizers count the space before a word as part of it.
    """
    piece = text[start:end]
    if not piece.strip():
        return start, end
    before = len(piece) - len(piece.lstrip())
    behind = len(piece) - len(piece.rstrip())
    return start + before, end - behind


def disjoint(spans: Sequence[tuple[int, int]], bare: Sequence[bool]) -> list[tuple[int, int]]:
    """Spans in reading order, cut until any two of them are apart or the same.

    A tokenizer that rewrites a text before it splits it may give one character to several tokens,
    and to some of them together with its neighbours. Such a character stays with the tokens that
    have nothing else.

    Args:
        spans: start and end of each token.
        bare: whether a token stands for no character, as the marker of a word's beginning does.
    """
    cut = [list(span) for span in spans]
    for index, (here, after) in enumerate(pairwise(cut)):
        if bare[index] and here[0] == after[0] and here != after:
            here[1] = here[0]
    filled = [span for span in cut if span[0] < span[1]]
    for index in range(1, len(filled)):
        before, here = filled[index - 1], filled[index]
        if here[0] >= before[1] or here == before:
            continue
        if before[0] < here[0]:
            _end_at(filled, index - 1, here[0])
        elif before[0] == here[0] and before[1] < here[1]:
            here[0] = before[1]
        else:
            here[:] = before
    return [(start, end) for start, end in cut]


def _end_at(spans: list[list[int]], index: int, end: int) -> None:
    """Ends a span earlier, and with it those before it that are the same."""
    whole = list(spans[index])
    while index >= 0 and spans[index] == whole:
        spans[index][1] = end
        index -= 1


# Where the words of a text stand, without asking a tokenizer.


# Scripts that are written without spaces between words: Chinese, Japanese, Thai, Lao, Tibetan,
# Burmese, Khmer.
_UNSPACED = re.compile(
    "[\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\uff66-\uff9f\U00020000-\U0003ffff"
    "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u19e0-\u19ff]+"
)
_VOWEL_SIGNS = "\u0e30\u0e33\u0eb0\u0eb3\u30fc\u3005"  # they stand behind their consonant
_EMOJI_SELECTOR = "\ufe0f"


def words(text: str) -> tuple[Unit, ...]:
    """Splits a text at white space, and punctuation off both ends of each word.

    A run without any letter or digit (dots, an emoji with its joiners) stays whole, and
    so does punctuation inside a word ("isn't", "3.5"). In scripts that are written without spaces
    each character, with the marks it carries, is a word.
    """
    return tuple(Unit(text[start:end], start, end) for start, end in _word_spans(text))


def _word_spans(text: str) -> Iterator[tuple[int, int]]:
    """Where each word begins and ends."""
    spaced = _UNSPACED.search(text) is None
    for chunk in re.finditer(r"\S+", text):
        for peeled in _peel(text, *chunk.span()):
            if spaced:
                yield peeled
            else:
                yield from _characters(text, *peeled)


def is_unspaced(character: str) -> bool:
    """Whether a character belongs to a script that is written without spaces."""
    return _UNSPACED.match(character) is not None


def unspaced_runs(text: str) -> Iterator[re.Match[str]]:
    """The parts of a text that are written without spaces, each as long as it can be."""
    return _UNSPACED.finditer(text)


def _characters(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """A chunk whole, but characters of scripts without spaces one by one."""
    cuts = {start, end}
    for run in _UNSPACED.finditer(text, start, end):
        cuts.update((run.start(), run.end()))
        inside = range(run.start(), run.end())
        cuts.update(offset for offset in inside if not _is_carried(text[offset]))
    return list(pairwise(sorted(cuts)))


def _is_carried(character: str) -> bool:
    """A combining mark, or a vowel sign that stands behind its consonant."""
    return unicodedata.category(character)[0] == "M" or character in _VOWEL_SIGNS


def _peel(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """The span of one chunk, as leading punctuation, word, trailing punctuation."""
    left, right = start, end
    while left < end and _is_mark(text[left]):
        left += 1
    while right > left and _is_mark(text[right - 1]):
        right -= 1
    if left == end:
        return [(start, end)]
    spans = ((start, left), (left, right), (right, end))
    return [span for span in spans if span[0] < span[1]]


def _is_mark(character: str) -> bool:
    """Punctuation and symbols, with the joiners and the variation selector that emoji carry."""
    category = unicodedata.category(character)
    return category == "Cf" or category[0] in "PS" or character == _EMOJI_SELECTOR


# Where the phrases, sentences and passages of a text begin.
#
# Passages end at empty lines. Phrases end at punctuation and line breaks. Sentences end at a full
# stop, question or exclamation mark before white space, and at empty lines. A full stop that
# belongs to an abbreviation ends neither.


# The full stop, exclamation and question mark of Chinese and Japanese, and their commas.
_WIDE_STOPS = "\u3002\uff01\uff1f"
_WIDE_PAUSES = _WIDE_STOPS + "\u3001\uff0c\uff1b\uff1a"
_CLOSING = "[\"')\\]\u00bb\u201d\u2019]*"
_SENTENCE_END = re.compile(rf"[.!?…]+{_CLOSING}\s+|[{_WIDE_STOPS}]+\s*|\n\s*\n")
_PHRASE_END = re.compile(rf"[,;:.!?…\u2013\u2014]+{_CLOSING}\s+|[{_WIDE_PAUSES}]+\s*|\n+")
_PASSAGE_END = re.compile(r"\n\s*\n")
_NEARBY = 20  # characters before and behind a full stop that tell what it is

# Words whose full stop is part of them. The first kind always goes on. The second goes on before a
# number. The third may also end a sentence, which is told by what follows.
_GOES_ON = re.compile(
    r"mr|mrs|ms|mx|dr|prof|rev|hon|st|mt|ft|gen|col|maj|capt|lt|sgt|cmdr|adm|gov|sen|rep|pres"
    r"|vs|cf|e\.?g|i\.?e|viz|approx|ca|dept|est|al"
)
_BEFORE_NUMBER = re.compile(r"no|nos|vol|fig|figs|pp|eq|sec|ch|ed|eds")
_MAY_END = re.compile(r"inc|ltd|corp|co|llc|plc|bros|jr|sr|etc|a\.?m|p\.?m|ph\.d|ave|blvd|rd")
_LAST_WORD = re.compile(r"[^\W_](?:[^\W_]|[.&'’-](?=[^\W_]))*$")
# An initial, or letters with stops between them: "J", "U.S".
_LETTERS = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]")
# Words that begin a sentence behind such a stop.
_OPENS = re.compile(
    r"(?:A|An|The|This|That|These|Those|It|Its|He|His|She|Her|We|Our|They|Their|I|My|You|Your"
    r"|There|Here|But|And|Or|So|Yet|Then|If|When|While|As|At|By|For|From|In|On|To|With|After"
    r"|Before|However|Although|Because|Since|Still|What|Who|Why|How|Not|No)\b"
)


def phrase_starts(text: str) -> list[int]:
    """Offsets at which phrases begin."""
    return _starts_behind(_PHRASE_END, text)


def sentence_starts(text: str) -> list[int]:
    """Offsets at which sentences begin."""
    return _starts_behind(_SENTENCE_END, text)


def passage_starts(text: str) -> list[int]:
    """Offsets at which passages begin."""
    return _starts_behind(_PASSAGE_END, text)


def _starts_behind(ends: re.Pattern[str], text: str) -> list[int]:
    starts = [0]
    for match in ends.finditer(text):
        if not _is_abbreviation(text, match):
            starts.append(match.end())
    return starts


def _is_abbreviation(text: str, end: re.Match[str]) -> bool:
    """Whether a single full stop belongs to the word before it, as in "Mr." or "U.S."."""
    if end.group().rstrip() != ".":
        return False
    before = _LAST_WORD.search(text, max(0, end.start() - _NEARBY), end.start())
    if before is None:
        return False
    word = before.group().lower()
    after = text[end.end() : end.end() + _NEARBY]
    if _BEFORE_NUMBER.fullmatch(word):
        return after[:1].isdigit()
    if _GOES_ON.fullmatch(word):
        return True
    may_end = _MAY_END.fullmatch(word) is not None
    if not after or not (may_end or _is_initials(before.group())):
        return False
    return not _OPENS.match(after)


def _is_initials(word: str) -> bool:
    """Whether a word is an initial or made of them; "I" alone is a word."""
    lower = word.lower()
    if _LETTERS.fullmatch(lower) is None:
        return False
    return "." in lower or (lower != "i" and word.isupper())


# Which unit each piece of a text belongs to, and what a reader should know about the units.


ALL_UNKNOWN = (
    "Every token of the text is unknown to the model's tokenizer, which reads them all alike: "
    "give a text in the language that the model was trained on, or another model."
)
MANY_UNKNOWN = 1 / 3  # the share of unknown tokens from which a reader is warned


def owners(
    texts: Sequence[str],
    pieces: Sequence[Unit],
    codes: NDArray[np.int64],
    granularity: str,
    tokenizer_words: NDArray[np.int64] | None = None,
    passages: Sequence[int] | None = None,
) -> NDArray[np.int64]:
    """The unit (pieces,) each piece belongs to, numbered in reading order.

    Args:
        texts: the whole text, or the two of a pair.
        pieces: its tokens or words.
        codes: (pieces,), equal where two read the same.
        granularity: one of ``GRANULARITIES``.
        tokenizer_words: (pieces,), the tokenizer's own words, where there is a tokenizer.
        passages: where the passages of the first text begin, where a user gave them one by one;
            otherwise they end at empty lines.
    """
    if granularity == "token":
        return np.arange(len(pieces))
    if granularity == "type":
        return equal_codes(codes.tolist())
    starts = [
        _starts(text, part, pieces, granularity, tokenizer_words) for part, text in enumerate(texts)
    ]
    if granularity == "passage" and passages is not None:
        starts[0] = list(passages)
    return equal_codes(
        [(piece.part, bisect_right(starts[piece.part], piece.start)) for piece in pieces]
    )


def unspaced_note(
    texts: Sequence[str],
    pieces: Sequence[Unit],
    granularity: str,
    tokenizer_words: NDArray[np.int64] | None,
) -> str | None:
    """What stands for words in scripts that have no spaces.

    None where there are none, or where units are the tokenizer's tokens.
    """
    pieces_are_words = tokenizer_words is None and granularity in ("token", "type")
    if granularity != "word" and not pieces_are_words:
        return None
    runs = [(part, run) for part, text in enumerate(texts) for run in unspaced_runs(text)]
    if not runs:
        return None
    meant = "every character counts as a word"
    if tokenizer_words is not None:
        inside = [_tokenizer_starts(part, run, pieces, tokenizer_words) for part, run in runs]
        if any(len(starts) > 1 for starts in inside):
            meant = "the words are those of the tokenizer"
    return f"Parts of the text are written without spaces: there, {meant}."


def unknown_note(unknown: NDArray[np.bool_] | None) -> str | None:
    """A warning where a tokenizer knows few of its tokens, (pieces,); None where it knows most."""
    if unknown is None or not len(unknown) or unknown.mean() < MANY_UNKNOWN:
        return None
    if unknown.all():
        return ALL_UNKNOWN
    return (
        f"{unknown.sum()} of {len(unknown)} tokens are unknown to the model's tokenizer, "
        "which reads them all alike: their scores say nothing about the words behind them."
    )


def _starts(
    text: str,
    part: int,
    pieces: Sequence[Unit],
    granularity: str,
    tokenizer_words: NDArray[np.int64] | None,
) -> list[int]:
    """Where the words, phrases, sentences or passages of one text begin."""
    if granularity == "phrase":
        return phrase_starts(text)
    if granularity == "sentence":
        return sentence_starts(text)
    if granularity == "passage":
        return passage_starts(text)
    starts = {start for start, _ in _word_spans(text)}
    if tokenizer_words is None:
        return sorted(starts)
    for run in unspaced_runs(text):
        own = _tokenizer_starts(part, run, pieces, tokenizer_words)
        if len(own) > 1:
            outside = {start for start in starts if not run.start() < start < run.end()}
            starts = outside | own
    return sorted(starts)


def _tokenizer_starts(
    part: int, run: re.Match[str], pieces: Sequence[Unit], tokenizer_words: NDArray[np.int64]
) -> set[int]:
    """Where the tokenizer's words begin inside a run of characters without spaces."""
    first: dict[int, int] = {}
    for piece, word in zip(pieces, tokenizer_words.tolist(), strict=True):
        if piece.part == part and run.start() <= piece.start < run.end():
            first.setdefault(word, piece.start)
    return set(first.values())
