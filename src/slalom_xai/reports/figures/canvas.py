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
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from slalom_xai.errors import InputError, optional_package
from slalom_xai.explanation import Array, Explanation
from slalom_xai.reports.colour import DOWN, UP, printable
from slalom_xai.system.files import write_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.backends.backend_agg import RendererAgg
    from matplotlib.figure import Figure

    from slalom_xai.reports.figures.drawing import Drawing

FORMATS = ("svg", "pdf", "png")
WIDTH = 6.3  # inches, the text width of a page
TITLES = {
    "value": "value",
    "importance": "importance",
    "alone": "prediction from this alone",
    "linearized": "linearized score",
    "slope": "slope",
    "removal": "lost without it",
    "shapley": "Shapley value",
}
_SCALES = {
    "binary": "log odds",
    "multiclass": "centred log probability",
    "multilabel": "logit",
    "single": "logit",
    "regression": "output",
}


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

    The same figure gives the same bytes. Characters that no installed font has are drawn as boxes, and one warning names them.

    Raises:
        InputError: another suffix, or a place that cannot be written.
    """
    path = check_path(path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        drawn = io.BytesIO()  # matplotlib hides some errors of a full disk behind others
        figure.savefig(drawn, format=path.suffix.lower().removeprefix("."))
        write_file(path, drawn.getvalue())
    glyphs = sorted(
        {str(one.message).split()[1] for one in caught if _is_about_a_glyph(one)}, key=int
    )
    for other in caught:
        if not _is_about_a_glyph(other):
            warnings.warn_explicit(other.message, other.category, other.filename, other.lineno)
    if glyphs:
        shown = ", ".join(f"{chr(int(glyph))} (U+{int(glyph):04X})" for glyph in glyphs[:5]) + (
            ", …" if len(glyphs) > 5 else ""
        )
        warnings.warn(
            f"no installed font has {shown}: they are drawn as boxes in {path}; install a font such as Noto Sans CJK or Noto Emoji",
            stacklevel=2,
        )
    return path


def check_path(path: str | Path) -> Path:
    """Refuses a path whose suffix names no format."""
    path = Path(path)
    if path.suffix.lower().removeprefix(".") not in FORMATS:
        raise InputError(
            f"cannot draw {path}: give a file name that ends in {', '.join('.' + name for name in FORMATS)}"
        )
    return path


@contextmanager
def without_glyph_warnings() -> Iterator[None]:
    """Measuring a text is no time to complain about fonts: ``save`` does, once."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+")
        yield


def _is_about_a_glyph(caught: warnings.WarningMessage) -> bool:
    return str(caught.message).startswith("Glyph ")


def tint(intensity: float, most: float = 0.85) -> tuple[float, float, float]:
    """A number in [-1, 1] as a colour: white for 0, towards blue above and orange below."""
    share = abs(intensity) ** 0.6 * most
    red, green, blue = (
        1 - share + share * channel / 255 for channel in (UP if intensity >= 0 else DOWN)
    )
    return red, green, blue


def strong(up: bool) -> str:
    """The full colour of a direction."""
    return "#" + "".join(f"{channel:02x}" for channel in (UP if up else DOWN))


def relative(scores: Array) -> Array:
    """Scores as intensities in [-1, 1]; those that are not finite count as 0."""
    finite = np.nan_to_num(scores, nan=0.0, posinf=0.0, neginf=0.0)
    largest = float(np.abs(finite).max(initial=0.0))
    return finite / largest if largest > 0 else np.zeros_like(finite)


def scale(explanation: Explanation) -> str:
    """What the numbers of an explanation are measured in."""
    return f"{_SCALES[explanation.outputs.kind]} of {label(explanation.target)}"


def headline(explanation: Explanation) -> str:
    """The explained label and the model's output."""
    return f"{label(explanation.target)}: {_SCALES[explanation.outputs.kind]} {signed(explanation.prediction)}"


def signed(number: float) -> str:
    """A number with its sign, and with a minus that is as wide as the plus."""
    return f"{number:+.2f}".replace("-", "\N{MINUS SIGN}") if math.isfinite(number) else str(number)


def label(text: str, limit: int = 24) -> str:
    """A text on one short line; nothing in it moves a cursor."""
    clean = printable(" ".join(text.split())) or "(blank)"
    return clean if len(clean) <= limit else clean[: limit - 1].rstrip() + "…"
