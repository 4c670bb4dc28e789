"""Explanations as figures for print: SVG, PDF and PNG, drawn with matplotlib.

Every function returns a ``matplotlib.figure.Figure`` that belongs to no window and no global state;
``save`` writes it, and a notebook shows it. Blue triangles that point up and plain boxes argue for
the explained label. Orange triangles that point down, and boxes that are hatched or have a dashed
line, argue against it. So colours are never needed to read a figure.
"""

from typing import TYPE_CHECKING, Any

from slalom_xai.reports.figures.canvas import save
from slalom_xai.reports.figures.corpus import TokenType, corpus_scatter, token_types
from slalom_xai.reports.figures.curves import Curve, fidelity_curve
from slalom_xai.reports.figures.passage import highlighted
from slalom_xai.reports.figures.plane import scatter
from slalom_xai.reports.figures.ranked import bars, side_by_side

if TYPE_CHECKING:
    from slalom_xai.metrics.fidelity import deletion_errors

__all__ = [
    "Curve",
    "TokenType",
    "bars",
    "corpus_scatter",
    "deletion_errors",
    "fidelity_curve",
    "highlighted",
    "save",
    "scatter",
    "side_by_side",
    "token_types",
]


def __getattr__(name: str) -> Any:
    """Keeps the old path of ``deletion_errors``, which asks a model and so lives in ``metrics``."""
    if name != "deletion_errors":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return import_module("slalom_xai.metrics.fidelity").deletion_errors


def __dir__() -> list[str]:
    return sorted(__all__)
