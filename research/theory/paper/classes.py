"""SLALOMs of many classes (Appendix C.1): their scores, and how many numbers they have.

All classes share the importances s, and each class c has its own values v_c:

    F_c = sum_t α_t v_tc,   α = the softmax of s over the row.

Probabilities do not change when all values of a token move by a constant, so values sum to zero
over the classes. That leaves (|Y| − 1)|V| values and |V| − 1 importances: |Y||V| − 1 numbers.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pandas as pd
import torch
from torch import Tensor

from research.base import Check, Outcome, Settings, at_least, at_most, reproduction
from research.drawing import BLUE, RED, diagonal, panels
from research.theory.paper.transformer import (
    PlainTransformer,
    answers,
    planted,
    random_rows,
    random_slalom,
    row_counts,
)
from slalom_xai.methods.paper.exact import recover, references
from slalom_xai.methods.paper.formula import SlalomSurrogate, averages, weights

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@reproduction(
    name="many-classes",
    title="A SLALOM of |Y| classes has |Y||V| − 1 free parameters, shares its importances, and is "
    "recovered from no more calls than one of two classes",
    source="Leemann et al. 2024, Appendix C.1, mended",
)
def many_classes(settings: Settings) -> Outcome:
    """The planted transformer with many outputs, its parameter count and its recovery."""
    cases = itertools.product((2, 3, 5), (3, 5, 8))
    frame = pd.DataFrame([_case(classes, units, settings.seed) for classes, units in cases])
    return Outcome(
        checks=_checks(frame, settings.seed),
        tables={"sizes": frame},
        figures={"parameters": lambda: _draw(frame)},
        remarks=(
            "Values give (|Y| − 1)|V| numbers and importances |V| − 1, together |Y||V| − 1, which "
            "for two classes is the 2|V| − 1 of "
            "the main text; the printed count forgets the importances of all tokens but counts "
            "their constraint. Eq. 72 repeats the log "
            "odds of two classes: with values that sum to zero over the classes these are F_1 − "
            "F_0 = 2 F_1.",
        ),
    )


def _checks(frame: pd.DataFrame, seed: int) -> tuple[Check, ...]:
    directions = frame["independent directions"]
    return (
        at_most(
            "planted transformer: largest difference of a class's output to the formula",
            frame["error of the outputs"].max(),
            1e-6,
        ),
        at_most(
            "probabilities: largest change when every value of a token is moved by a constant",
            _shifted(seed),
            1e-12,
        ),
        at_most(
            "independent directions of the outputs against |Y||V| − 1",
            (directions - frame["|Y||V| − 1"]).abs().max(),
            0,
        ),
        at_least(
            "independent directions beyond the printed (|Y| − 1)|V| − 1",
            (directions - frame["as printed"]).min(),
            2,
        ),
        at_most(
            "recovery from 2|V| − 1 calls: largest error",
            frame["error of the recovery"].max(),
            1e-6,
        ),
        at_most("two classes: log odds against 2 F_1", _log_odds(seed), 1e-12),
    )


def _case(classes: int, units: int, seed: int) -> dict[str, float]:
    """A planted transformer of so many classes and tokens, asked and recovered."""
    known = random_slalom(units, outputs=classes, seed=seed)
    model = planted(known, layers=2, at=1)
    rows = random_rows(100, units, 12, seed)
    outputs = answers(model, rows)
    predicted = known.predict(row_counts(rows, units))
    calls, recovered = _recovered(model, units)
    off_values = (recovered.values - known.values).abs().max()
    off_importances = (recovered.importances - known.importances).abs().max()
    return {
        "classes": classes,
        "tokens": units,
        "independent directions": _directions(known.values, known.importances, rows),
        "|Y||V| − 1": classes * units - 1,
        "as printed": (classes - 1) * units - 1,
        "error of the outputs": float((outputs - predicted).abs().max()),
        "calls": calls,
        "error of the recovery": max(float(off_values), float(off_importances)),
    }


def _recovered(model: PlainTransformer, units: int) -> tuple[int, SlalomSurrogate]:
    """How many calls it takes to recover the scores, and what is recovered.

    One token is its own reference, so that no pair has to be asked for it.
    """
    singles = answers(model, [[token] for token in range(units)])  # (n, C)
    beside, _, own_reference = references(singles)
    others = [token for token in range(units) if token != own_reference]
    pairs = singles.clone()
    pairs[others] = answers(model, [[token, int(beside[token])] for token in others])
    recovered, _ = recover(singles, pairs)
    return units + len(others), recovered


def _directions(values: Tensor, importances: Tensor, rows: list[list[int]]) -> int:
    """How many numbers the answers to rows can tell.

    This is the rank of the derivative of all log probabilities by all parameters.

    Args:
        values: (1, n, C).
        importances: (1, n).
        rows: of tokens.
    """
    counts = row_counts(rows, values.shape[1])

    def log_probabilities(v: Tensor, s: Tensor) -> Tensor:
        return torch.log_softmax(averages(weights(counts, s), v)[:, 0], dim=1).reshape(-1)

    by_values, by_importances = torch.autograd.functional.jacobian(
        log_probabilities, (values, importances)
    )  # type: ignore[no-untyped-call]
    size = by_values.shape[0]
    parts = [by_values.reshape(size, -1), by_importances.reshape(size, -1)]
    return int(torch.linalg.matrix_rank(torch.cat(parts, dim=1), rtol=1e-9))


def _shifted(seed: int) -> float:
    """How far probabilities move with the values of each token, by another constant for each."""
    model = planted(random_slalom(6, outputs=4, seed=seed))
    rows = random_rows(50, 6, 10, seed)
    before = torch.softmax(answers(model, rows), dim=1)
    constants = torch.arange(6.0, dtype=torch.float64)[:, None]
    with torch.no_grad():
        model.embedding[:, 1:5] += constants  # the first entry is the importance
    after = torch.softmax(answers(model, rows), dim=1)
    return float((after - before).abs().max())


def _log_odds(seed: int) -> float:
    """How far the log odds of two classes are from 2 F_1."""
    known = random_slalom(6, outputs=2, seed=seed)
    outputs = known.predict(row_counts(random_rows(50, 6, 10, seed), 6))
    logs = torch.log_softmax(outputs, dim=1)
    return float((logs[:, 1] - logs[:, 0] - 2 * outputs[:, 1]).abs().max())


def _draw(frame: pd.DataFrame) -> Figure:
    """Both counts of parameters against what the outputs show."""
    figure, (axes,) = panels(1, width=4.2, height=3.0)
    directions, ours = frame["independent directions"], frame["|Y||V| − 1"]
    diagonal(axes, 0, directions.max())
    printed = "(|Y| − 1)|V| − 1, as printed"
    axes.plot(directions, frame["as printed"], "x", color=RED, label=printed)
    axes.plot(directions, ours, "o", color=BLUE, markersize=4, label="|Y||V| − 1")
    axes.set(xlabel="independent directions of the outputs", ylabel="parameters counted")
    axes.legend(fontsize=8, frameon=False)
    return figure
