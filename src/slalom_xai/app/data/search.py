"""What a person typed into the search field, as conditions on texts.

Every word must be in the text, in any case. Several words in quotes must follow each other, and a
star ends a word of which only the beginning is given: ``"not good" awf*``. Nothing else has a
meaning, so that no search is a mistake.

Words are looked up in an index. What the index does not see as a word is looked for in the texts
themselves: signs, emoji, and scripts that write no spaces between words.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from slalom_xai.errors import InputError

_TERM = re.compile(r'"([^"]*)"?|([^\s"]+)')
_MOST_TERMS = 20
# Thai to Myanmar, Khmer, Japanese, Chinese and their extensions: written without spaces.
_WITHOUT_SPACES = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3040-\u30ff\u31f0-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003ffff]"
)


@dataclass(frozen=True)
class Search:
    """What texts must hold.

    Attributes:
        words: an expression for FTS5; empty where the index is not needed.
        parts: strings that the texts must hold, in small letters (``str.casefold``).
    """

    words: str
    parts: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.words or self.parts)


def parsed(search: str, *, word_index: bool, longest: int) -> Search:
    """Understands a search.

    Args:
        search: what was typed.
        word_index: whether there is an index of words; otherwise all are looked for in the texts.
        longest: characters that a search may have.

    Raises:
        InputError: it is too long.
    """
    if len(search) > longest:
        raise InputError(
            f"the search has {len(search)} characters: give at most {longest}, the rarest words"
        )
    words, parts = [], []
    for quoted, single in _TERM.findall(search.replace("\0", " ")):
        term = (quoted or single).strip()
        bare = term.rstrip("*")
        if word_index and _is_indexed(bare):
            star = "*" if single.endswith("*") else ""
            words.append(f'"{bare}"{star}')
        elif bare or term:
            parts.append((bare or term).casefold())
    if len(words) + len(parts) > _MOST_TERMS:
        raise InputError(f"the search has more than {_MOST_TERMS} words: give the rarest of them")
    return Search(" AND ".join(words), tuple(parts))


def holds(text: str, part: str) -> bool:
    """Whether a text holds a part that is in small letters; SQLite calls it."""
    return part in text.casefold()


def _is_indexed(term: str) -> bool:
    """Whether the index of words sees a term as the words it consists of."""
    if _WITHOUT_SPACES.search(term):
        return False
    return any(unicodedata.category(character)[0] in "LN" for character in term)
