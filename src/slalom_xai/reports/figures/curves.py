"""The fidelity curve: how wrong an explanation's predictions are as more and more of the text is deleted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from slalom_xai.designs import LOCAL, uniform_counts
from slalom_xai.errors import InputError
from slalom_xai.explainer import Explainer
from slalom_xai.explanation import Array, Explanation
from slalom_xai.metrics.case import Asker, asker
from slalom_xai.reports.figures.canvas import WIDTH, look, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colours of Okabe and Ito, each with its own marker and dashes: a line is known by any of the three.
_LINES = (
    ("#2166ac", "o", "-"),
    ("#c95c0f", "s", "--"),
    ("#1a1a1a", "^", "-."),
    ("#009e73", "D", ":"),
    ("#cc79a7", "v", (0, (6, 2))),
    ("#56b4e9", "P", (0, (4, 1, 1, 1, 1, 1))),
    ("#8a6d00", "X", (0, (1, 1))),
    ("#7a7a7a", "*", (0, (8, 2, 2, 2))),
)


@dataclass(frozen=True)
class Curve:
    """Errors of one method.

    Attributes:
        name: of the method.
        deleted: (k,), how many units were deleted.
        mse: (k,), mean squared error of the predicted changes.
        standard_errors: (k,), of ``mse``; NaN where there was one row.
        rows: (k,), deletions asked.
    """

    name: str
    deleted: Array
    mse: Array
    standard_errors: Array
    rows: Array


def deletion_errors(
    explainer: Explainer,
    explanations: Sequence[Explanation],
    *,
    most: int = LOCAL,
    rows: int = 40,
    random_state: int = 0,
) -> list[Curve]:
    """Asks the model about random deletions and compares its changes with those each explanation predicts.

    All explanations of one text are judged on the same deletions, which are drawn afresh; some may have been among the calls that
    an explanation was fitted to. Explanations of several texts by one method make one curve.

    Args:
        explainer: holds the model; its method does not matter.
        explanations: of one or several texts, by one or several methods.
        most: units deleted at most.
        rows: deletions asked for each text and each number of deleted units; fewer where there are not as many.
        random_state: draws the deletions.
    """
    if most < 1 or rows < 1:
        raise InputError(f"most is {most} and rows is {rows}: give whole numbers of at least 1")
    if not explanations:
        raise InputError("there is nothing to draw: give at least one explanation")
    found: dict[str, dict[int, list[Array]]] = {}
    questions: dict[tuple[object, ...], tuple[Asker, list[tuple[int, Array, Array]]]] = {}
    for explanation in explanations:
        key = (
            explanation.text,
            explanation.text_pair,
            explanation.granularity,
            explanation.removal,
            explanation.target_index,
        )
        if key not in questions:
            ask = asker(explainer, explanation)
            questions[key] = (
                ask,
                _answers(ask, len(explanation), most, rows, np.random.default_rng(random_state)),
            )
        whole = explanation.predict(np.ones((1, len(explanation))))
        for deleted, masks, changes in questions[key][1]:
            squares = (explanation.predict(masks) - whole - changes) ** 2
            found.setdefault(explanation.method, {}).setdefault(deleted, []).append(squares)
    if not any(found.values()):
        raise InputError("texts of one unit have nothing to delete: give a longer text")
    return [_curve(name, squares) for name, squares in found.items()]


def _answers(
    ask: Asker, units: int, most: int, rows: int, rng: np.random.Generator
) -> list[tuple[int, Array, Array]]:
    """For each number of deleted units the masks and how the model's output changed."""
    whole = ask(np.ones((1, units), dtype=bool))[0]
    pool = ask.pool()
    answers = []
    for deleted in range(1, min(most, units - 1) + 1):
        masks = pool.draw(rows, uniform_counts(deleted, deleted, rng), rng)
        if len(masks):
            answers.append((deleted, masks.astype(np.float64), ask(masks) - whole))
    return answers


def _curve(name: str, squares: dict[int, list[Array]]) -> Curve:
    deleted = sorted(squares)
    joined = [np.concatenate(squares[number]) for number in deleted]
    with np.errstate(invalid="ignore", divide="ignore"):
        errors = [
            float(row.std(ddof=1) / np.sqrt(len(row))) if len(row) > 1 else float("nan")
            for row in joined
        ]
    means = np.array([row.mean() for row in joined])
    return Curve(
        name,
        np.array(deleted, dtype=float),
        means,
        np.array(errors),
        np.array([len(row) for row in joined], dtype=float),
    )


def fidelity_curve(curves: Sequence[Curve], *, width: float = WIDTH, height: float = 3.4) -> Figure:
    """Mean squared error of predicted changes against the number of deleted units; lower is better.

    Bars are one standard error over the deletions asked. The error has a log scale, unless one of them is 0.

    Args:
        curves: from ``deletion_errors``.
        width: of the figure in inches.
        height: of the figure in inches.
    """
    if not curves:
        raise InputError("there is nothing to draw: give at least one curve")
    with look([curve.name for curve in curves]):
        figure = new_figure("Fidelity by number of deleted units", width, height)
        axes = figure.add_subplot()
        for place, curve in enumerate(curves):
            colour, marker, dashes = _LINES[place % len(_LINES)]
            apart = 0.07 * (
                place - (len(curves) - 1) / 2
            )  # so that error bars do not hide each other
            axes.errorbar(
                curve.deleted + apart,
                curve.mse,
                yerr=np.nan_to_num(curve.standard_errors),
                label=curve.name,
                color=colour,
                marker=marker,
                linestyle=dashes,
                markersize=4.5,
                linewidth=1.3,
                elinewidth=0.7,
                capsize=1.8,
            )
        if all((curve.mse > 0).all() for curve in curves):
            _log_scale(axes, curves)
        axes.locator_params(axis="x", integer=True)
        axes.set_xlabel("units deleted")
        axes.set_ylabel("mean squared error\nof the predicted change")
        axes.grid(axis="y", which="major", color="#e6e6e6", linewidth=0.6)
        axes.set_axisbelow(True)
        box = axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), handlelength=3.2)
        for text in box.get_texts():
            text.set_parse_math(False)
    return figure


def _log_scale(axes: Axes, curves: Sequence[Curve]) -> None:
    """A log axis with plain numbers; 2 and 5 are marked as well where there are few decades."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    errors = np.concatenate([curve.mse for curve in curves])
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(
        LogLocator(subs=(1, 2, 5) if errors.max() < 100 * errors.min() else (1,))
    )
    axes.yaxis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
