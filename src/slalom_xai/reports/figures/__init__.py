"""Explanations as figures for print: SVG, PDF and PNG, drawn with matplotlib.

Every function returns a ``matplotlib.figure.Figure`` that belongs to no window and no global state; ``save`` writes it, and a notebook
shows it. Blue triangles that point up and plain boxes argue for the explained label, orange ones that point down, hatched or with a
dashed line argue against it, so that colours are never needed to read a figure.
"""

from slalom_xai.reports.figures.canvas import save
from slalom_xai.reports.figures.corpus import TokenType, corpus_scatter, token_types
from slalom_xai.reports.figures.curves import Curve, deletion_errors, fidelity_curve
from slalom_xai.reports.figures.passage import highlighted
from slalom_xai.reports.figures.plane import scatter
from slalom_xai.reports.figures.ranked import bars, side_by_side

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
