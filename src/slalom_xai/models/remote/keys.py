"""Keys: read from the environment when a request is sent, and held nowhere else."""

from __future__ import annotations

import os
import re
from itertools import takewhile
from typing import Any

from slalom_xai.errors import InputError

HIDDEN = "[key]"
_STARS = "***"  # how servers repeat a part of a key that they refuse
_WORD = re.compile(r"\S+")
_ESCAPED = re.compile(r'\\(?:u([0-9a-fA-F]{4})|(["\\/]))')  # a character as JSON writes it
_WRAPPED = 3  # a message may be JSON in JSON in JSON
# Characters that the beginning of a key has at least. In messages few, because nothing is lost with
# them; in answers more, because a word of a text may begin as a key does.
_IN_MESSAGES, _IN_ANSWERS = 4, 8
_HALF = re.compile("[\ud800-\udfff]")  # of a character, which no file can hold


class EnvironmentKey:
    """A key in an environment variable. The object knows the variable's name, not the key.

    Args:
        variable: its name; None: there is no key.
        header: that carries the key.
    """

    def __init__(self, variable: str | None, header: str) -> None:
        self.variable = variable
        self.header = header

    @property
    def is_set(self) -> bool:
        """Whether there is a key."""
        return bool(self._key())

    def check(self) -> None:
        """Refuses a key that no header can hold, without repeating it."""
        if not all("!" <= character <= "~" for character in self._key()):
            raise InputError(
                f"the key in {self.variable} has characters that a header cannot hold, such as "
                "spaces or line breaks: set it again"
            )

    def headers(self) -> dict[str, str]:
        """What a request carries."""
        key = self._key()
        if not key:
            return {}
        return {self.header: f"Bearer {key}" if self.header == "Authorization" else key}

    def without(self, answer: Any) -> Any:
        """The JSON of an answer, in which no string holds the key or a beginning of it.

        Halves of characters (lone surrogates) become U+FFFD. A key of fewer than 8 characters, such
        as "EMPTY" for a server of one's own, is no secret, and may be a word of the text.

        Raises:
            RecursionError: it is nested too deep.
        """
        key = self._key()
        return _cleaned(answer, key if len(key) >= _IN_ANSWERS else "")

    def hidden(self, text: str) -> str:
        """A message of a server without the key and beginnings of it, also where it is escaped."""
        for _ in range(_WRAPPED):
            text = _ESCAPED.sub(_unescaped, text)
        text = _masked(text, self._key(), _IN_MESSAGES)
        return _WORD.sub(lambda word: HIDDEN if _STARS in word[0] else word[0], text)

    def _key(self) -> str:
        return os.environ.get(self.variable, "").strip() if self.variable else ""


def _cleaned(answer: Any, key: str) -> Any:
    if isinstance(answer, str):
        return _HALF.sub("\ufffd", _masked(answer, key, _IN_ANSWERS))
    if isinstance(answer, list):
        return [_cleaned(each, key) for each in answer]
    if isinstance(answer, dict):
        return {_cleaned(name, key): _cleaned(each, key) for name, each in answer.items()}
    return answer


def _masked(text: str, key: str, least: int) -> str:
    """A text in which a key, and a beginning of it of at least so many characters, is hidden."""
    if not key:
        return text
    start, rest = key[:least], key[least:]
    before, *others = text.split(start)
    return HIDDEN.join([before, *(each[_count_equal(each, rest) :] for each in others)])


def _count_equal(one: str, other: str) -> int:
    """How many characters two texts begin with both."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _unescaped(found: re.Match[str]) -> str:
    return chr(int(found[1], 16)) if found[1] else found[2]
