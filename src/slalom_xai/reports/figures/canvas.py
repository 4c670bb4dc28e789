"""What all figures of the package share: their look, an empty figure, colours, and files.

Whoever draws with matplotlib, a report, a benchmark or a reproduction, does it in three steps:

    with look(texts_in_the_figure):
        figure, axes = panels(2, width=3.6, height=2.8)  # or new_figure(title, width, height)
        axes[0].plot(...)
    save(figure, path)

matplotlib is imported only when something is drawn, so that this module costs nothing to import.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from slalom_xai.errors import InputError, optional_package
from slalom_xai.explanation import Array, Explanation
from slalom_xai.reports.colour import DOWN, UP, printable
from slalom_xai.reports.wording import with_source
from slalom_xai.system.files import write_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.backends.backend_agg import RendererAgg
    from matplotlib.figure import Figure

    from slalom_xai.reports.figures.drawing import Drawing

FORMATS = ("svg", "pdf", "png")
WIDTH = 6.3  # inches, the text width of a page
DARK = "#1a1a1a"  # letters, error bars
GREY = "#6b6b6b"  # axes
FAINT = "#9a9a9a"  # lines that help to read, behind the points
GRID = "#e6e6e6"
_SHOWN_GLYPHS = 5  # missing characters that a warning names


@contextmanager
def look(texts: Iterable[str] = (), *, small: bool = False) -> Iterator[None]:
    """The look of every figure: colours, lines, and fonts that have the characters of these texts.

    Args:
        texts: what will be written in the figure beside plain English.
        small: smaller letters, for several panels in a row.

    Raises:
        InputError: matplotlib is not installed.
    """
    optional_package("matplotlib", "drawing a figure")
    from slalom_xai.reports.figures import drawing

    with drawing.look(texts, small=small), without_glyph_warnings():
        yield


def new_figure(
    title: str, width: float, height: float, *, constrained: bool = True, outlines: bool = True
) -> Drawing:
    """An empty figure that belongs to no window; matplotlib must be there.

    Args:
        title: goes into the description inside the file.
        width: in inches.
        height: in inches.
        constrained: matplotlib keeps labels from overlapping.
        outlines: letters in SVG files are drawn as outlines, so that every viewer shows the widths
            that were measured. False writes them as text, which keeps files small.
    """
    from slalom_xai.reports.figures.drawing import Drawing

    layout: Literal["constrained"] | None = None
    if constrained:
        layout = "constrained"
    figure = Drawing(figsize=(width, height), layout=layout)
    figure.set_label(printable(title))
    figure.outlines = outlines
    return figure


def panels(
    count: int = 1,
    *,
    width: float,
    height: float,
    share_y: bool = False,
    title: str = "",
    outlines: bool = True,
) -> tuple[Drawing, list[Axes]]:
    """An empty figure with ``count`` panels side by side, each ``width`` by ``height`` inches."""
    figure = new_figure(title, width * count, height, outlines=outlines)
    return figure, list(figure.subplots(1, count, squeeze=False, sharey=share_y)[0])


def renderer(figure: Figure) -> RendererAgg:
    """Measures texts as they will be drawn."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    return FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-any-return, no-untyped-call]


def save(figure: Figure, path: str | Path) -> Path:
    """Writes a figure as SVG, PDF or PNG, by the suffix of the path; returns the path.

    The same figure gives the same bytes. Characters that no installed font has are drawn as boxes,
    and one warning names them.

    Raises:
        InputError: another suffix, or a place that cannot be written.
    """
    path = check_path(path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        drawn = io.BytesIO()  # matplotlib hides some errors of a full disk behind others
        figure.savefig(drawn, format=path.suffix.lower().removeprefix("."))
        write_file(path, drawn.getvalue())
    missing = set()
    for warning in caught:
        if str(warning.message).startswith("Glyph "):
            missing.add(int(str(warning.message).split()[1]))
        else:
            _warn_again(warning)
    if missing:
        warnings.warn(
            f"no installed font has {_shown_glyphs(sorted(missing))}: they are drawn as boxes in "
            f"{path}; install a font such as Noto Sans CJK or Noto Emoji",
            stacklevel=2,
        )
    return path


def _warn_again(caught: warnings.WarningMessage) -> None:
    warnings.warn_explicit(caught.message, caught.category, caught.filename, caught.lineno)


def _shown_glyphs(code_points: Sequence[int]) -> str:
    """The first of some characters, each with its code point."""
    shown = [f"{chr(point)} (U+{point:04X})" for point in code_points[:_SHOWN_GLYPHS]]
    if len(code_points) > _SHOWN_GLYPHS:
        shown.append("…")
    return ", ".join(shown)


def check_path(path: str | Path) -> Path:
    """Refuses a path whose suffix names no format."""
    path = Path(path)
    if path.suffix.lower().removeprefix(".") not in FORMATS:
        suffixes = ", ".join("." + name for name in FORMATS)
        raise InputError(f"cannot draw {path}: give a file name that ends in {suffixes}")
    return path


@contextmanager
def without_glyph_warnings() -> Iterator[None]:
    """Measuring a text is no time to complain about fonts: ``save`` does, once."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+")
        yield


def tint(intensity: float, most: float = 0.85) -> tuple[float, float, float]:
    """A number in [-1, 1] as a colour: white for 0, towards blue above and orange below."""
    share = abs(intensity) ** 0.6 * most
    full = _direction_colour(intensity >= 0)
    red, green, blue = (1 - share + share * channel / 255 for channel in full)
    return red, green, blue


def strong(up: bool) -> str:
    """The full colour of a direction."""
    return "#" + "".join(f"{channel:02x}" for channel in _direction_colour(up))


def _direction_colour(up: bool) -> tuple[int, int, int]:
    if up:
        return UP
    return DOWN


def relative(scores: Array) -> Array:
    """Scores (n,) as intensities in [-1, 1]; those that are not finite count as 0."""
    finite = np.nan_to_num(scores, nan=0.0, posinf=0.0, neginf=0.0)
    largest = float(np.abs(finite).max(initial=0.0))
    if largest == 0:
        return np.zeros_like(finite)
    return finite / largest


def find_strongest(scores: Array, count: int) -> list[int]:
    """Indices of the scores that are largest either way, strongest first; NaN counts as 0."""
    order = np.argsort(-np.abs(np.nan_to_num(scores)), kind="stable")
    return [int(index) for index in order[: max(count, 0)]]


# The words in figures: names of scores and scales, headlines, and short names.


TITLES = {
    "value": "value",
    "importance": "importance",
    "alone": "prediction from this alone",
    "linearized": "linearized score",
    "slope": "slope",
    "removal": "lost when removed",
    "shapley": "Shapley value",
    "filled": "output of the text filled with it",
}
SCALES = {
    "binary": "log odds",
    "multiclass": "centred log probability",
    "multilabel": "logit",
    "answers": "logit",
    "single": "logit",
    "regression": "output",
}


def score_title(explanation: Explanation, score: str) -> str:
    """The name of a score in a figure, and whether it was measured or fitted."""
    return with_source(explanation, score, TITLES[score])


def measured_in(explanation: Explanation) -> str:
    """What the numbers of an explanation are measured in."""
    return f"{SCALES[explanation.outputs.kind]} of {label(explanation.target)}"


def headline(explanation: Explanation) -> str:
    """The explained label and the model's output."""
    scale = SCALES[explanation.outputs.kind]
    return f"{label(explanation.target)}: {scale} {format_signed(explanation.prediction)}"


def format_signed(number: float) -> str:
    """A number with its sign, and with a minus that is as wide as the plus."""
    if not math.isfinite(number):
        return str(number)
    return f"{number:+.2f}".replace("-", "\N{MINUS SIGN}")


def label(text: str, limit: int = 24) -> str:
    """A text on one short line; nothing in it moves a cursor."""
    clean = printable(" ".join(text.split())) or "(blank)"
    if len(clean) <= limit:
        return clean
    return clean[: limit - 1].rstrip() + "…"
