"""Units and the characters they stand for: strings and tokens to spans of a text, and units to pieces that read as the text."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from slalom_xai.errors import InputError
from slalom_xai.text import Unit

if TYPE_CHECKING:
    from slalom_xai.explanation import Explanation

_MARKERS = re.compile(
    r"^(?:##|[ĠĊ▁]+)|</w>$"
)  # how word pieces, byte-level and sentence pieces say where a word begins or ends
_SPECIAL = re.compile(
    r"\[(?:CLS|SEP|PAD|UNK|MASK|BOS|EOS)\]|</?s>|<(?:pad|unk|mask|cls|sep|bos|eos)>|<\|.*\|>",
    re.IGNORECASE,
)


def placed(text: str, units: Sequence[Any]) -> list[Unit]:
    """Each unit with its span in the text, in the order given.

    Args:
        text: the whole text.
        units: all strings, all (start, end) pairs, or all ``Unit``; only the last may overlap, as tokens of one character do.
    """
    if all(isinstance(unit, str) for unit in units):
        return _found(text, units)
    if all(isinstance(unit, Unit) for unit in units):
        for place, unit in enumerate(units):
            if (
                unit.part
                or not 0 <= unit.start <= unit.end <= len(text)
                or text[unit.start : unit.end] not in (unit.text, "")
            ):
                raise InputError(
                    f"unit {place} ({unit.text!r}) is not at {unit.start} to {unit.end} in the text: give the text that it comes from"
                )
        return list(units)
    spans = [_span(place, unit, len(text)) for place, unit in enumerate(units)]
    for one, other in pairwise(sorted(spans)):
        if other[0] < one[1]:
            raise InputError(f"the spans {one} and {other} overlap: give spans that do not overlap")
    return [Unit(text=text[start:end], start=start, end=end) for start, end in spans]


def _span(place: int, unit: Any, length: int) -> tuple[int, int]:
    if (
        not isinstance(unit, (tuple, list, np.ndarray))
        or len(unit) != 2
        or not all(isinstance(edge, (int, np.integer)) for edge in unit)
    ):
        raise InputError(
            f"unit {place} is {unit!r}: give all units as strings, as (start, end) pairs of whole numbers, or as Units"
        )
    start, end = int(unit[0]), int(unit[1])
    if not 0 <= start < end <= length:
        raise InputError(
            f"unit {place} has the span ({start}, {end}): expected 0 <= start < end <= {length}, the length of the text"
        )
    return start, end


def _found(text: str, tokens: Sequence[str]) -> list[Unit]:
    """Strings found from left to right: as whole words if all are such, else anywhere, else with tokens of one character sharing it.

    Each time as they are written, then in any case.
    """
    wanted = [[needle for needle in (token.strip(), _bare(token)) if needle] for token in tokens]
    if [] in wanted:
        raise InputError(
            f"unit {wanted.index([])} is empty ({tokens[wanted.index([])]!r}): leave it and its score out"
        )
    furthest = 0
    for whole, shared in ((True, False), (False, False), (False, True)):
        for flags in (0, re.IGNORECASE):
            units = _search(text, wanted, whole, shared, flags)
            if len(units) == len(tokens):
                return units
            furthest = max(furthest, len(units))
    raise InputError(
        f"unit {furthest} ({tokens[furthest]!r}) does not occur in the text after the units before it: "
        "give the units in reading order, or (start, end) spans of characters"
    )


def _search(
    text: str, wanted: list[list[str]], whole: bool, shared: bool, flags: int
) -> list[Unit]:
    """As many units from the first on as are found one behind the other."""
    units: list[Unit] = []
    for needles in wanted:
        cursor = units[-1].end if units else 0
        if (
            shared
            and units
            and needles[0] == units[-1].text
            and len(needles[0]) == 1
            and units.count(units[-1]) < len(needles[0].encode())
        ):
            units.append(units[-1])  # another byte of one letter or emoji
            continue
        matches = (_pattern(needle, whole, flags).search(text, cursor) for needle in needles)
        match = next((match for match in matches if match), None)
        if match is None:
            break
        units.append(Unit(text=match.group(), start=match.start(), end=match.end()))
    return units


def _pattern(needle: str, whole: bool, flags: int) -> re.Pattern[str]:
    before = r"(?<!\w)" if whole and re.match(r"\w", needle[0]) else ""
    after = r"(?!\w)" if whole and re.match(r"\w", needle[-1]) else ""
    return re.compile(before + re.escape(needle) + after, flags)


def _bare(token: str) -> str:
    """A token without the markers of its tokenizer."""
    return _MARKERS.sub("", token.strip()).strip()


def has_place(token: str, text: str) -> bool:
    """Whether a token stands for characters: it is in the text as it is, or it is neither empty nor a special token."""
    plain = token.strip()
    return plain != "" and (
        plain in text or (_bare(token) != "" and _SPECIAL.fullmatch(plain) is None)
    )


def read_tokens(tokens: Sequence[str]) -> str:
    """Tokens as a text, by whatever markers they carry."""
    if any(token.startswith(("Ġ", "▁")) for token in tokens):
        return re.sub("[Ġ▁]", " ", "".join(tokens)).replace("Ċ", "\n").strip()
    if any(token.endswith("</w>") for token in tokens):
        return "".join(tokens).replace("</w>", " ").strip()
    if any(token[:1].isspace() or token[-1:].isspace() for token in tokens):
        return "".join(tokens).strip()
    return " ".join(tokens).replace(" ##", "")


def tiles(explanation: Explanation) -> list[str]:
    """The text of each unit with what follows it, so that together they read as the text from its first unit on."""
    if explanation.granularity == "type":
        return [unit.text + " " for unit in explanation.units]
    pieces: list[str] = []
    for part, text in enumerate((explanation.text, explanation.text_pair or "")):
        units = [unit for unit in explanation.units if unit.part == part]
        filled = {unit.start for unit in units if unit.start < unit.end}
        starts = sorted(filled or {unit.start for unit in units})
        end = len(text.removesuffix(explanation.left_out))
        if pieces and units:
            pieces[-1] += "\n"
        cursor = starts[0] if starts else 0
        for unit in units:  # units that share a start, such as the byte tokens of an emoji: the first shows the characters
            if filled and unit.start == unit.end:  # a token without characters
                pieces.append("")
                continue
            after = bisect_right(starts, unit.start)
            stop = max(cursor, starts[after] if after < len(starts) else max(end, unit.end))
            pieces.append(text[cursor:stop])
            cursor = stop
    return pieces


def units_in_tiles(pieces: list[str], feature_names: Any) -> Iterator[Unit | None]:
    """The units inside the pieces of a text, by their names where those are in the pieces; None for pieces without characters."""
    names = [piece.strip() for piece in pieces]
    given = (
        []
        if feature_names is None or isinstance(feature_names, str)
        else [str(name) for name in feature_names]
    )
    if len(given) == len(pieces) and all(
        name in piece or not piece for name, piece in zip(given, pieces, strict=True)
    ):
        names = given
    cursor, before = 0, None
    for name, piece in zip(names, pieces, strict=True):
        start = cursor + max(piece.find(name), 0)
        cursor += len(piece)
        if not name:
            yield None
        elif name in piece:
            before = Unit(text=name, start=start, end=start + len(name))
            yield before
        else:  # no characters of its own: it shares those of the token before it
            yield (
                before
                if before is not None and before.text == name
                else Unit(text=name, start=start, end=start)
            )
