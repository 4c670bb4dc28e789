"""Where the words of a text stand, without asking a tokenizer."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise

from slalom_xai.text.units import Unit

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
    found = []
    for chunk in re.finditer(r"\S+", text):
        for peeled in _peel(text, chunk.start(), chunk.end()):
            for start, end in _characters(text, *peeled):
                found.append(Unit(text[start:end], start, end))
    return tuple(found)


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
