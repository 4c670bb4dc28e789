"""The text itself, its words coloured by a score, wrapped into lines that fit the page.

Everything is placed by hand, in points (1/72 inch) from the upper left corner.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slalom_xai.errors import InputError
from slalom_xai.explanation import Explanation
from slalom_xai.reports.figures.canvas import DARK, GREY, WIDTH, look, new_figure, strong, tint
from slalom_xai.reports.figures.captions import TITLES, headline, label, score_title
from slalom_xai.reports.figures.lines import (
    Line,
    Measure,
    Run,
    chunk_width,
    scored_lines,
    visual_order,
)
from slalom_xai.reports.figures.words import has_longer_words
from slalom_xai.reports.wording import runs_leftwards
from slalom_xai.surrogates.scores import DEFAULT_SCORE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
