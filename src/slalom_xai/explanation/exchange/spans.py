"""Units and the characters they stand for: strings, spans and tokens as units of a text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from slalom_xai.errors import InputError
from slalom_xai.models.text import Unit

# How word pieces, byte-level and sentence pieces say where a word begins or ends.
_MARKERS = re.compile(r"^(?:##|[ĠĊ▁]+)|</w>$")
_SPECIAL = re.compile(
    r"\[(?:CLS|SEP|PAD|UNK|MASK|BOS|EOS)\]|</?s>|<(?:pad|unk|mask|cls|sep|bos|eos)>|<\|.*\|>",
    re.IGNORECASE,
)

# How strings are looked for, strictest first: (as whole words, tokens of one character share it).
_WAYS = ((True, False), (False, False), (False, True))


def place_units(text: str, units: Sequence[Any]) -> list[Unit]:
    """Each unit with its span in the text, in the order given.

    Args:
        text: the whole text.
        units: all strings, all (start, end) pairs, or all ``Unit``; only the last may overlap, as
            tokens of one character do.
    """
    if all(isinstance(unit, str) for unit in units):
        return _from_strings(text, units)
    if all(isinstance(unit, Unit) for unit in units):
        for index, unit in enumerate(units):
            _check_unit(index, unit, text)
        return list(units)
    spans = [_check_span(index, unit, len(text)) for index, unit in enumerate(units)]
    for one, other in pairwise(sorted(spans)):
        if other[0] < one[1]:
            raise InputError(f"the spans {one} and {other} overlap: give spans that do not overlap")
    return [Unit(text=text[start:end], start=start, end=end) for start, end in spans]


def _check_unit(index: int, unit: Unit, text: str) -> None:
    inside = unit.part == 0 and 0 <= unit.start <= unit.end <= len(text)
    if inside and text[unit.start : unit.end] in (unit.text, ""):
        return
    raise InputError(
        f"unit {index} ({unit.text!r}) is not at {unit.start} to {unit.end} in the text: "
        "give the text that it comes from"
    )


def _check_span(index: int, unit: Any, length: int) -> tuple[int, int]:
    """A pair (start, end) inside a text of this length."""
    if not _is_pair(unit):
        raise InputError(
            f"unit {index} is {unit!r}: give all units as strings, "
            "as (start, end) pairs of whole numbers, or as Units"
        )
    start, end = int(unit[0]), int(unit[1])
    if not 0 <= start < end <= length:
        raise InputError(
            f"unit {index} has the span ({start}, {end}): "
            f"expected 0 <= start < end <= {length}, the length of the text"
        )
    return start, end


def _is_pair(unit: Any) -> bool:
    if not isinstance(unit, (tuple, list, np.ndarray)) or len(unit) != 2:
        return False
    return all(isinstance(edge, (int, np.integer)) for edge in unit)


def _from_strings(text: str, tokens: Sequence[str]) -> list[Unit]:
    """Strings found from left to right.

    As whole words if all are such, else anywhere, else with tokens of one character sharing it;
    each time as they are written, then in any case.
    """
    wanted = [_spellings(token) for token in tokens]
    if [] in wanted:
        index = wanted.index([])
        raise InputError(f"unit {index} is empty ({tokens[index]!r}): leave it and its score out")
    furthest = 0
    for whole, shared in _WAYS:
        for flags in (0, re.IGNORECASE):
            units = _search(text, wanted, whole, shared, flags)
            if len(units) == len(tokens):
                return units
            furthest = max(furthest, len(units))
    raise InputError(
        f"unit {furthest} ({tokens[furthest]!r}) does not occur in the text after the units "
        "before it: give the units in reading order, or (start, end) spans of characters"
    )


def _spellings(token: str) -> list[str]:
    """What to look for: the token as it is and without its tokenizer's markers, if not empty."""
    return [spelling for spelling in (token.strip(), _bare(token)) if spelling]


def _search(
    text: str, wanted: list[list[str]], whole: bool, shared: bool, flags: int
) -> list[Unit]:
    """As many units from the first on as are found one behind the other."""
    units: list[Unit] = []
    for spellings in wanted:
        if shared and units and _is_another_byte(spellings[0], units):
            units.append(units[-1])
            continue
        cursor = 0
        if units:
            cursor = units[-1].end
        unit = _next(text, spellings, cursor, whole, flags)
        if unit is None:
            break
        units.append(unit)
    return units


def _is_another_byte(token: str, units: list[Unit]) -> bool:
    """Whether a token is one more byte of the letter or emoji that the last unit stands for."""
    last = units[-1]
    return token == last.text and len(token) == 1 and units.count(last) < len(token.encode())


def _next(text: str, spellings: list[str], cursor: int, whole: bool, flags: int) -> Unit | None:
    """The first of these spellings that occurs from ``cursor`` on, where it first does."""
    for spelling in spellings:
        match = _pattern(spelling, whole, flags).search(text, cursor)
        if match is not None:
            return Unit(text=match.group(), start=match.start(), end=match.end())
    return None


def _pattern(spelling: str, whole: bool, flags: int) -> re.Pattern[str]:
    before, after = "", ""
    if whole and re.match(r"\w", spelling[0]):
        before = r"(?<!\w)"
    if whole and re.match(r"\w", spelling[-1]):
        after = r"(?!\w)"
    return re.compile(before + re.escape(spelling) + after, flags)


def _bare(token: str) -> str:
    """A token without the markers of its tokenizer."""
    return _MARKERS.sub("", token.strip()).strip()


def has_place(token: str, text: str) -> bool:
    """Whether a token stands for characters.

    It does if it is in the text as it is, or if it is neither empty nor a special token.
    """
    plain = token.strip()
    if not plain:
        return False
    if plain in text:
        return True
    return _bare(token) != "" and _SPECIAL.fullmatch(plain) is None


def read_tokens(tokens: Sequence[str]) -> str:
    """Tokens as a text, by whatever markers they carry."""
    if any(token.startswith(("Ġ", "▁")) for token in tokens):
        return re.sub("[Ġ▁]", " ", "".join(tokens)).replace("Ċ", "\n").strip()
    if any(token.endswith("</w>") for token in tokens):
        return "".join(tokens).replace("</w>", " ").strip()
    if any(token[:1].isspace() or token[-1:].isspace() for token in tokens):
        return "".join(tokens).strip()
    return " ".join(tokens).replace(" ##", "")
