"""The text itself, its words coloured by a score, wrapped into lines that fit the page.

Everything is placed by hand, in points (1/72 inch) from the upper left corner.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from slalom_xai.errors import InputError
from slalom_xai.explanation import Explanation
from slalom_xai.methods.scores import DEFAULT_SCORE
from slalom_xai.models.text import is_unspaced
from slalom_xai.reports.colour import printable
from slalom_xai.reports.figures.canvas import (
    DARK,
    GREY,
    TITLES,
    WIDTH,
    headline,
    label,
    look,
    new_figure,
    relative,
    score_title,
    strong,
    tint,
)
from slalom_xai.reports.figures.words import (
    Word,
    has_longer_words,
    merge_units,
    word_effects,
    word_scores,
)
from slalom_xai.reports.wording import runs_leftwards

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# A scored text as lines that fit a width: runs, places to break, and the order on the page.
#
# A run is a stretch of characters with one colour. Runs that no line break may part make a chunk,
# and chunks that fit between the margins make a line.


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
    words = merge_units(explanation)
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
            parts.append(Chunk(_join_runs(current), chunk.space and not parts))
            current, used = [], 0.0
        current.append(character)
        used += measure(character.text)
    return [*parts, Chunk(_join_runs(current), chunk.space and not parts)]


def _characters(chunk: Chunk) -> Iterator[Run]:
    for run in chunk.runs:
        for character in run.text:
            yield Run(character, run.intensity)


def _join_runs(runs: Sequence[Run]) -> tuple[Run, ...]:
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


# The text itself, its words coloured by a score, wrapped into lines that fit the page.


_POINTS_PER_INCH = 72
_MARGIN = 8.0  # points around the text
_PITCH = 1.65  # from one baseline to the next, in font sizes
_SMALL = 0.85  # of the font size, for the key
_SWATCH = 3.0  # the width of a sample of colour, in letters
_FAINT = 0.04  # weaker words stay without a box
_EXPLAINED = {
    "value": ("value above 0", "below 0"),
    "importance": ("weighs more than the typical unit", "weighs less"),
    "alone": ("alone it predicts above 0", "below 0"),
}

_Entry = tuple[str, float | None]  # of the key: a text, and the intensity of its sample of colour


@dataclass(frozen=True)
class _Pen:
    """What writing on the page needs.

    Attributes:
        axes: the whole page, in points.
        fontsize: in points.
        measure: the width of a text in points.
    """

    axes: Axes
    fontsize: float
    measure: Measure

    def write(self, x: float, baseline: float, text: str, **options: Any) -> None:
        """Writes a text as it is; tokens are no TeX."""
        options.setdefault("fontsize", self.fontsize)
        self.axes.text(x, baseline, text, va="baseline", ha="left", parse_math=False, **options)

    def box(self, x: float, baseline: float, width: float, size: float, intensity: float) -> None:
        """A coloured ground for letters of this size; a dashed line below negative scores."""
        from matplotlib.patches import FancyBboxPatch

        box = FancyBboxPatch(
            (x - 0.04 * size, baseline - 0.93 * size),
            width + 0.08 * size,
            1.24 * size,
            boxstyle=f"round,pad=0,rounding_size={0.15 * size}",
            color=tint(intensity, 0.75),
            linewidth=0,
        )
        box.set_gid(f"box{intensity:+.4f}")
        self.axes.add_patch(box)
        if intensity < 0:
            self.axes.plot(
                [x, x + width],
                [baseline + 0.27 * size] * 2,
                color=strong(False),
                linewidth=0.09 * size,
                linestyle=(0, (2.2, 1.4)),
            )


def highlighted(
    explanation: Explanation,
    *,
    score: str = DEFAULT_SCORE,
    width: float = WIDTH,
    fontsize: float = 10,
    lines: int = 60,
) -> Figure:
    """The text with every word on a coloured ground.

    Sub-word tokens are merged, and words carry the score of the whole word. Blue boxes are positive
    scores; orange ones with a dashed line below are negative; the darker, the larger. Words without
    effect have grey letters.

    Args:
        explanation: of any method.
        score: any name that ``explanation.scores`` takes.
        width: of the figure in inches; the height follows from the text.
        fontsize: in points.
        lines: how many to draw at most; a last line says how much of the text is missing.
    """
    if lines < 1 or fontsize <= 0 or width <= 0:
        raise InputError(
            f"lines is {lines}, fontsize is {fontsize} and width is {width}: give positive numbers"
        )
    title = f"{TITLES.get(score, score)}, {headline(explanation)}"
    with look([explanation.text, explanation.text_pair or "", label(explanation.target)]):
        figure = new_figure(title, width, 1, constrained=False)
        measure = _measure(fontsize)
        room = width * _POINTS_PER_INCH - 2 * _MARGIN
        every_line = scored_lines(explanation, score, room, measure)
        shown, hidden = every_line[:lines], every_line[lines:]
        key = _key_lines(explanation, score, room, measure)
        pitch = _PITCH * fontsize
        height = pitch * (len(shown) + bool(hidden) + len(key) + 1.6) + 2 * _MARGIN
        pen = _Pen(_page(figure, width, height), fontsize, measure)
        pen.write(_MARGIN, pitch, headline(explanation), weight="bold")
        top = 2.3 * pitch
        for index, line in enumerate(shown):
            _draw_line(pen, line, top + index * pitch, width * _POINTS_PER_INCH)
        if hidden:
            words = sum(len(line.chunks) for line in hidden)
            below = top + len(shown) * pitch
            pen.write(_MARGIN, below, f"… and {words} more words", style="italic")
        for index, entries in enumerate(reversed(key)):
            _draw_key(pen, entries, height - _MARGIN - index * pitch)
    return figure


def _page(figure: Figure, width: float, height: float) -> Axes:
    """Axes that fill a figure of ``width`` inches and ``height`` points, downwards, in points."""
    figure.set_size_inches(width, height / _POINTS_PER_INCH)
    limits: Any = {"xlim": (0, width * _POINTS_PER_INCH), "ylim": (height, 0)}
    axes = figure.add_axes((0, 0, 1, 1), **limits)
    axes.set_axis_off()
    return axes


def _measure(fontsize: float) -> Measure:
    """How far the pen moves over a text, in points; every distinct one is measured once."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextToPath

    tool, font, known = TextToPath(), FontProperties(size=fontsize), dict[str, float]()

    def ink(text: str) -> float:
        return float(tool.get_text_width_height_descent(text, font, False)[0])

    frame = ink("||")

    def width(text: str) -> float:
        if text not in known:  # framed, because ink alone would leave out the white at both ends
            known[text] = ink(f"|{text}|") - frame
        return known[text]

    return width


def _draw_line(pen: _Pen, line: Line, baseline: float, width: float) -> None:
    """One line, from the margin where its paragraph begins, on a page of this width in points."""
    ordered = visual_order(line)
    gap = pen.measure(" ")
    x = _MARGIN
    if line.leftwards:
        gaps = gap * sum(chunk.space for chunk in line.chunks[1:])
        x = width - _MARGIN - (sum(chunk_width(chunk, pen.measure) for chunk in ordered) + gaps)
    for index, chunk in enumerate(ordered):
        if index and (chunk.space or ordered[index - 1].space):
            x += gap
        runs = list(chunk.runs)
        if runs_leftwards(chunk.text, line.leftwards):
            runs.reverse()
        for run in runs:
            _draw_run(pen, run, x, baseline)
            x += pen.measure(run.text)


def _draw_run(pen: _Pen, run: Run, x: float, baseline: float) -> None:
    if run.intensity is None:
        pen.write(x, baseline, run.text)
        return
    if abs(run.intensity) >= _FAINT:
        pen.box(x, baseline, pen.measure(run.text), pen.fontsize, run.intensity)
    pen.write(x, baseline, run.text, gid="word", color=DARK if run.intensity else GREY)


def _key_lines(
    explanation: Explanation, score: str, room: float, measure: Measure
) -> list[list[_Entry]]:
    """What the colours mean, as lines of entries that fit."""
    up, down = _EXPLAINED.get(score, (f"argues for {label(explanation.target)}", "argues against"))
    lines: list[list[_Entry]] = [[]]
    used = 0.0
    entries: list[_Entry] = [(up, 0.8), (down, -0.8)]
    entries.append((f"score: {score_title(explanation, score)}", None))
    if not explanation.has_effect.all():
        entries.append(("grey: without effect", None))
    if explanation.source(score) == "measured" and has_longer_words(explanation):
        entries.append(("of words of several tokens: fitted", None))
    for entry in entries:
        wide = _SMALL * measure(entry[0]) + _SWATCH * measure("n") * 2
        if lines[-1] and used + wide > room:
            lines.append([])
            used = 0.0
        lines[-1].append(entry)
        used += wide
    return lines


def _draw_key(pen: _Pen, entries: list[_Entry], baseline: float) -> None:
    """One line of the key."""
    size = _SMALL * pen.fontsize
    swatch = _SWATCH * pen.measure("n")
    x = _MARGIN
    for text, intensity in entries:
        if intensity is not None:
            pen.box(x, baseline, swatch - 0.5 * pen.fontsize, size, intensity)
            x += swatch
        pen.write(x, baseline, text, fontsize=size)
        x += _SMALL * pen.measure(text) + swatch
