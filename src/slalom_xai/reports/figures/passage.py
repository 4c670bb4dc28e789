"""The text itself, its words coloured by a score, wrapped into lines that fit the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slalom_xai.errors import InputError
from slalom_xai.explanation import Explanation
from slalom_xai.reports.figures.canvas import (
    TITLES,
    WIDTH,
    headline,
    label,
    look,
    new_figure,
    strong,
    tint,
)
from slalom_xai.reports.figures.lines import (
    Line,
    Measure,
    Piece,
    chunk_width,
    direction,
    scored_lines,
    visual_order,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARGIN = 8.0  # points around the text
_SMALL = 0.85  # of the font size, for the key
_SWATCH = 3.0  # the width of a sample of colour, in letters
_FAINT = 0.04  # weaker words stay without a box
_EXPLAINED = {
    "value": ("value above 0", "below 0"),
    "importance": ("weighs more than the typical unit", "weighs less"),
    "alone": ("alone it predicts above 0", "below 0"),
}


def highlighted(
    explanation: Explanation,
    *,
    score: str = "removal",
    width: float = WIDTH,
    fontsize: float = 10,
    lines: int = 60,
) -> Figure:
    """The text with every word on a coloured ground; sub-word tokens are merged, and words carry the score of the whole word.

    Blue boxes are positive scores; orange ones with a dashed line below are negative; the darker, the larger.

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
    with look([explanation.text, explanation.text_pair or "", label(explanation.target)]):
        figure = new_figure(
            f"{TITLES.get(score, score)}, {headline(explanation)}", width, 1, constrained=False
        )
        measure = _measure(fontsize)
        rows = scored_lines(explanation, score, width * 72 - 2 * _MARGIN, measure)
        shown, hidden = rows[:lines], rows[lines:]
        pitch = 1.65 * fontsize
        key = _key_lines(explanation, score, width * 72 - 2 * _MARGIN, measure)
        height = pitch * (len(shown) + bool(hidden) + len(key) + 1.6) + 2 * _MARGIN
        figure.set_size_inches(width, height / 72)
        axes = figure.add_axes((0, 0, 1, 1), xlim=(0, width * 72), ylim=(height, 0))
        axes.set_axis_off()
        _write(axes, _MARGIN, pitch, headline(explanation), fontsize, weight="bold")
        top = 2.3 * pitch
        for place, row in enumerate(shown):
            _draw_row(axes, row, top + place * pitch, width * 72, fontsize, measure)
        if hidden:
            words = sum(len(row.chunks) for row in hidden)
            _write(
                axes,
                _MARGIN,
                top + len(shown) * pitch,
                f"… and {words} more words",
                fontsize,
                style="italic",
            )
        for place, entries in enumerate(reversed(key)):
            _key(axes, entries, height - _MARGIN - place * pitch, fontsize, measure)
    return figure


def _measure(fontsize: float) -> Measure:
    """How far the pen moves over a text, in points; every distinct one is measured once."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextToPath

    tool, font, known = TextToPath(), FontProperties(size=fontsize), dict[str, float]()

    def ink(text: str) -> float:
        return float(tool.get_text_width_height_descent(text, font, False)[0])

    frame = ink("||")

    def width(text: str) -> float:
        if text not in known:
            known[text] = (
                ink(f"|{text}|") - frame
            )  # ink alone would leave out the white at both ends
        return known[text]

    return width


def _draw_row(
    axes: Axes, row: Line, baseline: float, width: float, fontsize: float, measure: Measure
) -> None:
    """One line, from the margin where its paragraph begins."""
    ordered = visual_order(row.chunks, row.leftwards)
    gap = measure(" ")
    total = sum(chunk_width(chunk, measure) for chunk in ordered) + gap * sum(
        chunk.space for chunk in row.chunks[1:]
    )
    x = width - _MARGIN - total if row.leftwards else _MARGIN
    for place, chunk in enumerate(ordered):
        if place and (chunk.space or ordered[place - 1].space):
            x += gap
        for piece in (
            reversed(chunk.pieces) if direction(chunk.text, row.leftwards) else chunk.pieces
        ):
            _draw_piece(axes, piece, x, baseline, measure(piece.text), fontsize)
            x += measure(piece.text)


def _draw_piece(
    axes: Axes, piece: Piece, x: float, baseline: float, width: float, fontsize: float
) -> None:
    intensity = piece.intensity
    if intensity is not None and abs(intensity) >= _FAINT:
        _box(axes, x, baseline, width, fontsize, intensity)
    _write(axes, x, baseline, piece.text, fontsize, gid=None if intensity is None else "word")


def _box(
    axes: Axes, x: float, baseline: float, width: float, fontsize: float, intensity: float
) -> None:
    """A coloured ground, with a dashed line below where the score is negative."""
    from matplotlib.patches import FancyBboxPatch

    corner = (x - 0.04 * fontsize, baseline - 0.93 * fontsize)
    box = FancyBboxPatch(
        corner,
        width + 0.08 * fontsize,
        1.24 * fontsize,
        boxstyle=f"round,pad=0,rounding_size={0.15 * fontsize}",
        color=tint(intensity, 0.75),
        linewidth=0,
    )
    box.set_gid(f"box{intensity:+.4f}")
    axes.add_patch(box)
    if intensity < 0:
        axes.plot(
            [x, x + width],
            [baseline + 0.27 * fontsize] * 2,
            color=strong(False),
            linewidth=0.09 * fontsize,
            linestyle=(0, (2.2, 1.4)),
        )


def _write(
    axes: Axes,
    x: float,
    baseline: float,
    text: str,
    fontsize: float,
    weight: str = "normal",
    style: str = "normal",
    gid: str | None = None,
) -> None:
    axes.text(
        x,
        baseline,
        text,
        fontsize=fontsize,
        va="baseline",
        ha="left",
        weight=weight,
        style=style,
        parse_math=False,
        gid=gid,
    )


def _key_lines(
    explanation: Explanation, score: str, room: float, measure: Measure
) -> list[list[tuple[str, float | None]]]:
    """What the colours mean, as lines of (text, intensity) that fit."""
    up, down = _EXPLAINED.get(score, (f"argues for {label(explanation.target)}", "argues against"))
    lines: list[list[tuple[str, float | None]]] = [[]]
    used = 0.0
    for entry in ((up, 0.8), (down, -0.8), (f"score: {TITLES[score]}", None)):
        wide = _SMALL * measure(entry[0]) + _SWATCH * measure("n") * 2
        if lines[-1] and used + wide > room:
            lines.append([])
            used = 0.0
        lines[-1].append(entry)
        used += wide
    return lines


def _key(
    axes: Axes,
    entries: list[tuple[str, float | None]],
    baseline: float,
    fontsize: float,
    measure: Measure,
) -> None:
    """One line of the key."""
    x = _MARGIN
    for text, intensity in entries:
        if intensity is not None:
            _box(
                axes,
                x,
                baseline,
                _SWATCH * measure("n") - 0.5 * fontsize,
                _SMALL * fontsize,
                intensity,
            )
            x += _SWATCH * measure("n")
        _write(axes, x, baseline, text, _SMALL * fontsize)
        x += _SMALL * measure(text) + _SWATCH * measure("n")
