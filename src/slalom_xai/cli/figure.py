"""The command ``slalom figure``, and the figures of ``slalom explain``."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slalom_xai.cli.options import argument, without_default
from slalom_xai.system.files import check_writable
from slalom_xai.system.interrupts import exit_on_interrupt

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from slalom_xai.explanation import Explanation

KINDS = ("scatter", "text", "bars", "side-by-side", "corpus")

_EPILOG = """\
Examples:

    slalom figure explanation.json --out scatter.svg

    slalom figure explanation.json --kind bars --score removal --out bars.pdf

    slalom figure slalom.json lime.json --kind side-by-side --out methods.pdf
"""


_MOST_LABELS = 40  # what figures.scatter names by default, too

_Results = Annotated[
    list[Path], argument("Saved explanations: one, or several for side-by-side and corpus.")
]
_Out = Annotated[
    Path, without_default("File to write; the suffix .svg, .pdf or .png sets the format.")
]
_Kind = Annotated[
    str, typer.Option(help="What to draw: scatter, text, bars, side-by-side or corpus.")
]
_Score = Annotated[
    str | None,
    without_default("The score that text, bars and side-by-side show. Default: shapley."),
]
_Labels = Annotated[int, typer.Option(help="Most words that scatter and corpus name.")]


def register(app: typer.Typer) -> None:
    """Adds the command to the command line."""
    app.command("figure", epilog=_EPILOG)(_figure)


def _figure(
    results: _Results,
    out: _Out,
    kind: _Kind = "scatter",
    score: _Score = None,
    labels: _Labels = _MOST_LABELS,
) -> None:
    """Draws saved explanations for print: SVG, PDF or PNG."""
    with exit_on_interrupt():
        check_figure("--out", out, kind)

        from slalom_xai.explanation import Explanation

    draw_figure([Explanation.load(path) for path in results], kind, out, score=score, labels=labels)
    typer.echo(f"Saved: {out}")


def check_figure(option: str, path: Path, kind: str) -> None:
    """Refuses a figure that could not be drawn or saved, before anything is computed."""
    from slalom_xai.errors import one_of, optional_package

    if kind not in KINDS:
        raise one_of("kind of figure", kind, KINDS)
    from slalom_xai.reports.figures.canvas import check_path

    check_path(path)
    check_writable(option, path)
    optional_package("matplotlib", "drawing a figure")


def draw_figure(
    explanations: Sequence[Explanation],
    kind: str,
    out: Path,
    *,
    score: str | None = None,
    labels: int = _MOST_LABELS,
) -> Path:
    """Draws one kind of figure and saves it; what the reader should know goes to standard error."""
    from slalom_xai.errors import InputError
    from slalom_xai.methods.scores import DEFAULT_SCORE
    from slalom_xai.reports import figures

    if kind in ("scatter", "text", "bars") and len(explanations) != 1:
        raise InputError(
            f"{len(explanations)} results were given, but --kind {kind} draws only one: "
            "give one, or --kind side-by-side or corpus"
        )
    figure = _draw(explanations, kind, score or DEFAULT_SCORE, labels)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        saved = figures.save(figure, out)
    for warning in caught:
        typer.echo(f"note: {warning.message}", err=True)
    return saved


def _draw(explanations: Sequence[Explanation], kind: str, score: str, labels: int) -> Figure:
    """The figure of one kind."""
    from slalom_xai.reports import figures

    if kind == "scatter":
        return figures.scatter(explanations[0], labels=labels)
    if kind == "text":
        return figures.highlighted(explanations[0], score=score)
    if kind == "bars":
        return figures.bars(explanations[0], score=score)
    if kind == "side-by-side":
        return figures.side_by_side(explanations, score=score)
    return figures.corpus_scatter(explanations, labels=labels)
