"""A matplotlib figure that is written the same way everywhere.

This module imports matplotlib, so it is itself imported only where something is drawn.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib
from matplotlib import font_manager
from matplotlib.figure import Figure

from slalom_xai.reports.figures.canvas import DARK, GREY

# Text as outlines in SVG, so that every viewer shows the widths that were measured;
# as embedded TrueType in PDF, where it stays searchable.
_FILES: Any = {
    "svg.fonttype": "path",
    "svg.hashsalt": "slalom-xai",
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "savefig.bbox": None,
    "text.hinting": "none",
}
_LOOK: Any = {
    "text.usetex": False,  # tokens are no TeX
    "text.color": DARK,
    "axes.labelcolor": DARK,
    "axes.edgecolor": GREY,
    "axes.facecolor": "white",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": "medium",
    "axes.labelsize": "medium",
    "axes.grid": False,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": DARK,
    "ytick.labelcolor": DARK,
    "xtick.labelsize": "small",
    "ytick.labelsize": "small",
    "legend.frameon": False,
    "legend.fontsize": "small",
    "legend.labelcolor": DARK,
    "hatch.linewidth": 0.7,
    "figure.facecolor": "white",
    "figure.dpi": 100,
}
_SMALL: Any = {  # points, whatever the user's font size
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
}
# Outline fonts that hold what DejaVu Sans, which comes with matplotlib, does not.
_MORE_FONTS = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Source Han Sans SC",
    "WenQuanYi Zen Hei",
    "WenQuanYi Micro Hei",
    "PingFang SC",
    "Hiragino Sans",
    "Microsoft YaHei",
    "Yu Gothic",
    "Malgun Gothic",
    "Noto Sans Devanagari",
    "Noto Sans Bengali",
    "Noto Sans Tamil",
    "Noto Sans Thai",
    "Noto Sans Arabic",
    "Noto Sans Hebrew",
    "Noto Emoji",
    "Segoe UI Emoji",
    "Symbola",
    "Arial Unicode MS",
    "Unifont",
)


# What leaves the date out of a file, by format.
_UNDATED: dict[str, dict[str, None]] = {
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
    "png": {},
}


class Drawing(Figure):
    """A figure that writes the same bytes twice and shows itself in a notebook.

    Attributes:
        outlines: whether letters in SVG files are outlines, or text.
    """

    outlines = True

    def savefig(self, fname: Any, *, transparent: bool | None = None, **kwargs: Any) -> None:
        """As in matplotlib, with embedded fonts and without dates."""
        suffix = str(kwargs.get("format") or str(fname).rpartition(".")[2]).lower()
        if suffix in _UNDATED:
            metadata: dict[str, Any] = dict(_UNDATED[suffix])
            if self.get_label():
                metadata["Title"] = self.get_label()
            kwargs["metadata"] = metadata | (kwargs.get("metadata") or {})
        if suffix == "png":
            kwargs.setdefault("dpi", 200)
        files = dict(_FILES)
        if not self.outlines:
            files["svg.fonttype"] = "none"
        with matplotlib.rc_context(files):
            super().savefig(fname, transparent=transparent, **kwargs)

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=130)
        return buffer.getvalue()


@contextmanager
def look(texts: Iterable[str] = (), *, small: bool = False) -> Iterator[None]:
    """The look of every figure.

    The font stays the user's, with others for characters it lacks; so does its size unless
    ``small`` asks for smaller letters.
    """
    settings = dict(_LOOK)
    if small:
        settings |= _SMALL
    with matplotlib.rc_context(settings):
        matplotlib.rcParams["font.family"] = _families(set().union(*texts))
        yield


def _families(characters: set[str]) -> list[str]:
    """The user's fonts, and further ones for characters that the first of them lacks."""
    families = list(matplotlib.rcParams["font.family"])
    visible = {character for character in characters if not character.isspace()}
    missing = visible - _held(families, visible)
    if not missing:
        return families
    installed = set(font_manager.fontManager.get_font_names())
    for name in _MORE_FONTS:
        if not missing:
            break
        if name not in installed:
            continue
        held = _held([name], missing)
        if held:
            families.append(name)
            missing -= held
    return families


def _held(families: list[str], characters: set[str]) -> set[str]:
    """The characters that the first of these fonts can draw."""
    properties = font_manager.FontProperties(family=families)
    font = font_manager.get_font(font_manager.findfont(properties))
    return {character for character in characters if font.get_char_index(ord(character))}
