"""A scored text as lines that fit a width: runs, places to break, and the order on the page.

A run is a stretch of characters with one colour. Runs that no line break may part make a chunk, and
chunks that fit between the margins make a line.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np

from slalom_xai.explanation import Explanation
from slalom_xai.reports.colour import printable
from slalom_xai.reports.figures.canvas import relative
from slalom_xai.reports.figures.words import Word, merged, word_effects, word_scores
from slalom_xai.reports.wording import runs_leftwards
from slalom_xai.text import is_unspaced

Measure = Callable[[str], float]


@dataclass(frozen=True)
class Run:
    """Characters of one colour.

    The intensity is None for those without a score, and 0 for words without effect.
    """

    text: str
    intensity: float | None


@dataclass(frozen=True)
class Line:
    """Chunks that fit between the margins, in reading order.

    Attributes:
        chunks: the parts of the line.
        leftwards: whether its paragraph runs from right to left.
    """

    chunks: tuple[Chunk, ...]
    leftwards: bool


@dataclass(frozen=True)
class Chunk:
    """Runs that no line break may part.

    Attributes:
        runs: the characters.
        space: whether there is white space in front of them.
    """

    runs: tuple[Run, ...]
    space: bool

    @property
    def text(self) -> str:
        """All its characters."""
        return "".join(run.text for run in self.runs)


def scored_lines(explanation: Explanation, score: str, room: float, measure: Measure) -> list[Line]:
    """The whole text in lines of at most ``room``.

    Args:
        explanation: of any method.
        score: gives words their intensity, scaled to [-1, 1] by the largest.
        room: the width of a line.
        measure: the width of a text, on the same scale.
    """
    lines: list[Line] = []
    for paragraph in _paragraphs(explanation, score):
        lines += _wrap(list(_chunks(paragraph)), room, measure)
    while len(lines) > 1 and not lines[-1].chunks:
        lines.pop()
    return lines


def _paragraphs(explanation: Explanation, score: str) -> Iterator[list[Run]]:
    """The text as runs, a list for each paragraph.

    An empty list sets the two texts of a pair apart.
    """
    words = merged(explanation)
    scores = word_scores(explanation, words, score)
    intensities = relative(np.where(word_effects(explanation, words), scores, 0.0))
    texts = [explanation.text]
    if explanation.text_pair is not None:
        texts.append(explanation.text_pair)
    for part, text in enumerate(texts):
        if part == 1:
            yield []
        end = len(text)
        if part == len(texts) - 1:
            end -= len(explanation.left_out)
        scored = zip(words, intensities, strict=True)
        own = [(word, float(intensity)) for word, intensity in scored if word.part == part]
        yield from _split_lines(_runs(text, end, own))


def _runs(text: str, end: int, scored: Sequence[tuple[Word, float]]) -> list[Run]:
    """A text up to ``end`` as runs: its words with their intensities, and what is between them."""
    runs: list[Run] = []
    position = 0
    for word, intensity in scored:
        runs.append(Run(text[position : word.start], None))
        runs.append(Run(text[max(word.start, position) : word.end], intensity))
        position = max(position, word.end)
    return [*runs, Run(text[position:end], None)]


def _split_lines(runs: Sequence[Run]) -> Iterator[list[Run]]:
    """Runs parted at the line breaks of the text."""
    current: list[Run] = []
    for run in runs:
        first, *rest = run.text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        current.append(Run(first, run.intensity))
        for line in rest:
            yield current
            current = [Run(line, run.intensity)]
    yield current


def _chunks(runs: Sequence[Run]) -> Iterator[Chunk]:
    """A paragraph parted where a line may break.

    That is at white space, and between the characters of scripts without it.
    """
    current: list[Run] = []
    space = False
    for run in runs:
        for is_white, characters in groupby(run.text, key=str.isspace):
            if is_white:
                if current:
                    yield Chunk(tuple(current), space)
                current, space = [], True
                continue
            for bit in _breakable("".join(characters)):
                if current and is_unspaced(bit[0]):
                    yield Chunk(tuple(current), space)
                    current, space = [], False
                current.append(Run(printable(bit), run.intensity))
    if current:
        yield Chunk(tuple(current), space)


def _breakable(characters: str) -> list[str]:
    """Characters without white space, cut before each one of a script without spaces.

    Marks stay with the character they belong to.
    """
    cuts = [0]
    for index in range(1, len(characters)):
        is_mark = unicodedata.category(characters[index])[0] == "M"
        if is_unspaced(characters[index]) and not is_mark:
            cuts.append(index)
    cuts.append(len(characters))
    return [characters[start:end] for start, end in pairwise(cuts)]


def _wrap(paragraph: Sequence[Chunk], room: float, measure: Measure) -> list[Line]:
    """Lines of chunks that fit; a chunk wider than a line is cut."""
    leftwards = runs_leftwards("".join(chunk.text for chunk in paragraph))
    fitting: list[Chunk] = []
    for chunk in paragraph:
        fitting += _cut(chunk, room, measure)
    lines: list[Line] = []
    current: list[Chunk] = []
    used = 0.0
    for chunk in fitting:
        wide = chunk_width(chunk, measure)
        gap = 0.0
        if current and chunk.space:
            gap = measure(" ")
        if current and used + gap + wide > room:
            lines.append(Line(tuple(current), leftwards))
            current, used, gap = [], 0.0, 0.0
        current.append(chunk)
        used += gap + wide
    return [*lines, Line(tuple(current), leftwards)]


def chunk_width(chunk: Chunk, measure: Measure) -> float:
    """How wide a chunk is."""
    return sum(measure(run.text) for run in chunk.runs)


def _cut(chunk: Chunk, room: float, measure: Measure) -> list[Chunk]:
    """The chunk if it fits, else its characters as several chunks that do."""
    if chunk_width(chunk, measure) <= room:
        return [chunk]
    parts: list[Chunk] = []
    current: list[Run] = []
    used = 0.0
    for character in _characters(chunk):
        if current and used + measure(character.text) > room:
            parts.append(Chunk(_joined(current), chunk.space and not parts))
            current, used = [], 0.0
        current.append(character)
        used += measure(character.text)
    return [*parts, Chunk(_joined(current), chunk.space and not parts)]


def _characters(chunk: Chunk) -> Iterator[Run]:
    for run in chunk.runs:
        for character in run.text:
            yield Run(character, run.intensity)


def _joined(runs: Sequence[Run]) -> tuple[Run, ...]:
    """Neighbouring runs of one intensity as one."""
    joined = []
    for intensity, alike in groupby(runs, key=lambda run: run.intensity):
        joined.append(Run("".join(run.text for run in alike), intensity))
    return tuple(joined)


def visual_order(line: Line) -> list[Chunk]:
    """Chunks from left to right: words that are written from right to left are turned round.

    A short form of the Unicode rules: words take the direction of their first letter, those without
    one that of the line.
    """

    def turned(chunk: Chunk) -> bool:
        return runs_leftwards(chunk.text, line.leftwards)

    stretches: list[list[Chunk]] = []
    for leftwards, chunks in groupby(line.chunks, key=turned):
        stretch = list(chunks)
        if leftwards:
            stretch.reverse()
        stretches.append(stretch)
    if line.leftwards:
        stretches.reverse()
    return [chunk for stretch in stretches for chunk in stretch]
