"""A scored text as lines that fit a width: pieces, places to break, and the order of words on the page."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from slalom_xai.explanation import Explanation
from slalom_xai.reports.colour import printable
from slalom_xai.reports.figures.canvas import relative
from slalom_xai.reports.figures.words import merged, word_scores
from slalom_xai.text import is_unspaced

Measure = Callable[[str], float]


@dataclass(frozen=True)
class Piece:
    """Characters of one colour; None for those without a score."""

    text: str
    intensity: float | None


@dataclass(frozen=True)
class Line:
    """Chunks that fit between the margins, in reading order; ``leftwards`` where the paragraph runs from right to left."""

    chunks: tuple[Chunk, ...]
    leftwards: bool


@dataclass(frozen=True)
class Chunk:
    """Pieces that no line break may part, and the white space in front of them."""

    pieces: tuple[Piece, ...]
    space: bool

    @property
    def text(self) -> str:
        """All its characters."""
        return "".join(piece.text for piece in self.pieces)


def scored_lines(explanation: Explanation, score: str, room: float, measure: Measure) -> list[Line]:
    """The whole text in lines of at most ``room``.

    Args:
        explanation: of any method.
        score: gives words their intensity, scaled to [-1, 1] by the largest.
        room: the width of a line.
        measure: the width of a text, on the same scale.
    """
    return _wrap(
        [list(_chunks(paragraph)) for paragraph in _paragraphs(explanation, score)], room, measure
    )


def _paragraphs(explanation: Explanation, score: str) -> Iterator[list[Piece]]:
    """The text as pieces, a list for each paragraph; an empty one sets the two texts of a pair apart."""
    found = merged(explanation)
    intensities = relative(word_scores(explanation, found, score))
    for part, text in enumerate((explanation.text, explanation.text_pair)):
        if text is None:
            continue
        if part == 1:
            yield []
        is_last = part == 1 or explanation.text_pair is None
        end = len(text) - (len(explanation.left_out) if is_last else 0)
        pieces: list[Piece] = []
        position = 0
        for word, intensity in zip(found, intensities, strict=True):
            if word.part == part:
                pieces += [
                    Piece(text[position : word.start], None),
                    Piece(text[max(word.start, position) : word.end], float(intensity)),
                ]
                position = max(position, word.end)
        yield from _split_lines([*pieces, Piece(text[position:end], None)])


def _split_lines(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    """Pieces parted at the line breaks of the text."""
    current: list[Piece] = []
    for piece in pieces:
        first, *rest = piece.text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        current.append(Piece(first, piece.intensity))
        for line in rest:
            yield current
            current = [Piece(line, piece.intensity)]
    yield current


def _chunks(pieces: Sequence[Piece]) -> Iterator[Chunk]:
    """A paragraph parted at white space, and between the characters of scripts without it; both are places to break a line."""
    current: list[Piece] = []
    space = False
    for piece in pieces:
        for is_break, characters in groupby(piece.text, key=str.isspace):
            run = "".join(characters)
            if is_break:
                if current:
                    yield Chunk(tuple(current), space)
                current, space = [], True
                continue
            for bit in _breakable(run):
                if current and is_unspaced(bit[0]) and piece.text:
                    yield Chunk(tuple(current), space)
                    current, space = [], False
                current.append(Piece(printable(bit), piece.intensity))
    if current:
        yield Chunk(tuple(current), space)


def _breakable(run: str) -> list[str]:
    """A run without white space, cut before each character of a script without spaces (marks stay with theirs)."""
    cuts = (
        [0]
        + [
            place
            for place in range(1, len(run))
            if is_unspaced(run[place]) and unicodedata.category(run[place])[0] != "M"
        ]
        + [len(run)]
    )
    return [run[start:end] for start, end in pairwise(cuts)]


def _wrap(paragraphs: Sequence[Sequence[Chunk]], room: float, measure: Measure) -> list[Line]:
    """Lines of chunks that fit; a chunk wider than a line is cut."""
    rows: list[Line] = []
    for paragraph in paragraphs:
        leftwards = direction("".join(chunk.text for chunk in paragraph), False)
        row: list[Chunk] = []
        used = 0.0
        for chunk in (part for whole in paragraph for part in _fitting(whole, room, measure)):
            wide = chunk_width(chunk, measure)
            gap = measure(" ") if row and chunk.space else 0.0
            if row and used + gap + wide > room:
                rows.append(Line(tuple(row), leftwards))
                row, used, gap = [], 0.0, 0.0
            row.append(chunk)
            used += gap + wide
        rows.append(Line(tuple(row), leftwards))
    while len(rows) > 1 and not rows[-1].chunks:
        rows.pop()
    return rows


def chunk_width(chunk: Chunk, measure: Measure) -> float:
    """How wide a chunk is."""
    return sum(measure(piece.text) for piece in chunk.pieces)


def _fitting(chunk: Chunk, room: float, measure: Measure) -> list[Chunk]:
    """The chunk, or its characters as chunks that fit between them."""
    if chunk_width(chunk, measure) <= room:
        return [chunk]
    parts: list[Chunk] = []
    current: list[Piece] = []
    used = 0.0
    for piece in (
        Piece(character, whole.intensity) for whole in chunk.pieces for character in whole.text
    ):
        if current and used + measure(piece.text) > room:
            parts.append(Chunk(_joined(current), chunk.space and not parts))
            current, used = [], 0.0
        current.append(piece)
        used += measure(piece.text)
    return [*parts, Chunk(_joined(current), chunk.space and not parts)]


def _joined(pieces: Sequence[Piece]) -> tuple[Piece, ...]:
    return tuple(
        Piece("".join(piece.text for piece in run), intensity)
        for intensity, run in groupby(pieces, key=lambda piece: piece.intensity)
    )


def visual_order(row: Sequence[Chunk], leftwards: bool) -> list[Chunk]:
    """Chunks from left to right: runs of words that are written from right to left are turned round.

    A short form of the Unicode rules: words take the direction of their first letter, those without one that of the line.
    """
    runs: list[list[Chunk]] = []
    before = None
    for chunk in row:
        turned_round = direction(chunk.text, leftwards)
        if turned_round != before:
            runs.append([])
        runs[-1].append(chunk)
        before = turned_round
    turned = [run[::-1] if direction(run[0].text, leftwards) else run for run in runs]
    return [chunk for run in (turned[::-1] if leftwards else turned) for chunk in run]


def direction(text: str, otherwise: bool) -> bool:
    """Whether the first letter of a text belongs to a script that runs from right to left."""
    for character in text:
        kind = unicodedata.bidirectional(character)
        if kind in ("L", "R", "AL"):
            return kind != "L"
    return otherwise
