"""Many classes: shared importances, values that sum to zero, and how many parameters that makes (Appendix C.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
import torch
from torch import Tensor

from slalom_xai.surrogates.formula import averages, weights
from slalom_xai.surrogates.recover import recover, references
from slalom_xai.theory.base import Outcome, Settings, at_least, at_most, reproduction
from slalom_xai.theory.drawing import BLUE, GREY, RED, panels
from slalom_xai.theory.paper.transformer import (
    answers,
    planted,
    random_rows,
    random_slalom,
    row_counts,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@reproduction(
    name="many-classes",
    title=(
        "A SLALOM of |Y| classes has |Y||V| − 1 free parameters, shares its importances, and is "
        "recovered from as few calls"
    ),
    source="Leemann et al. 2024, Appendix C.1, mended",
)
def many_classes(settings: Settings) -> Outcome:
    """The planted transformer with many outputs, its parameter count and its recovery."""
    frame = pd.DataFrame(
        [_case(classes, units, settings.seed) for classes in (2, 3, 5) for units in (3, 5, 8)]
    )
    found, ours, theirs = frame["independent directions"], frame["|Y||V| − 1"], frame["as printed"]
    return Outcome(
        checks=(
            at_most(
                "planted transformer: largest difference of a class's output to the formula",
                frame["error of the outputs"].max(),
                1e-6,
            ),
            at_most(
                "probabilities: largest change when every value of a token is moved by a constant",
                _shifted(settings.seed),
                1e-12,
            ),
            at_most(
                "independent directions of the outputs against |Y||V| − 1",
                (found - ours).abs().max(),
                0,
            ),
            at_least(
                "independent directions beyond the printed (|Y| − 1)|V| − 1",
                (found - theirs).min(),
                2,
            ),
            at_most(
                "recovery from 2|V| − 1 calls: largest error",
                frame["error of the recovery"].max(),
                1e-6,
            ),
            at_most("two classes: log odds against 2 F_1", _log_odds(settings.seed), 1e-12),
        ),
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


def _case(classes: int, units: int, seed: int) -> dict[str, float]:
    known = random_slalom(units, outputs=classes, seed=seed)
    model = planted(known, layers=2, at=1)
    rows = random_rows(100, units, 12, seed)
    outputs = answers(model, rows)
    singles = answers(model, [[token] for token in range(units)])
    chosen, _, high = references(singles)
    pairs = singles.clone()
    asked = [token for token in range(units) if token != high]
    pairs[asked] = answers(model, [[token, int(chosen[token])] for token in asked])
    found, _ = recover(singles, pairs)
    off = max(
        float((found.values - known.values).abs().max()),
        float((found.importances - known.importances).abs().max()),
    )
    return {
        "classes": classes,
        "tokens": units,
        "independent directions": _directions(known.values, known.importances, rows),
        "|Y||V| − 1": classes * units - 1,
        "as printed": (classes - 1) * units - 1,
        "error of the outputs": float(
            (outputs - known.predict(row_counts(rows, units))).abs().max()
        ),
        "calls": units + len(asked),
        "error of the recovery": off,
    }


def _directions(values: Tensor, importances: Tensor, rows: list[list[int]]) -> int:
    """The rank of the derivative of all log probabilities by all parameters: how many numbers the answers can tell."""
    counts = row_counts(rows, values.shape[1])

    def log_probabilities(v: Tensor, s: Tensor) -> Tensor:
        return torch.log_softmax(averages(weights(counts, s), v)[:, 0], dim=1).reshape(-1)

    by_values, by_importances = torch.autograd.functional.jacobian(
        log_probabilities, (values, importances)
    )  # type: ignore[no-untyped-call]
    size = by_values.shape[0]
    return int(
        torch.linalg.matrix_rank(
            torch.cat([by_values.reshape(size, -1), by_importances.reshape(size, -1)], dim=1),
            rtol=1e-9,
        )
    )


def _shifted(seed: int) -> float:
    known = random_slalom(6, outputs=4, seed=seed)
    moved = planted(known)
    rows = random_rows(50, 6, 10, seed)
    before = torch.softmax(answers(moved, rows), dim=1)
    with torch.no_grad():
        moved.embedding[:, 1:5] += torch.arange(6.0, dtype=torch.float64)[
            :, None
        ]  # the values, by another constant for each token
    return float((torch.softmax(answers(moved, rows), dim=1) - before).abs().max())


def _log_odds(seed: int) -> float:
    known = random_slalom(6, outputs=2, seed=seed)
    outputs = known.predict(row_counts(random_rows(50, 6, 10, seed), 6))
    logs = torch.log_softmax(outputs, dim=1)
    return float((logs[:, 1] - logs[:, 0] - 2 * outputs[:, 1]).abs().max())


def _draw(frame: pd.DataFrame) -> Figure:
    figure, (axes,) = panels(1, width=4.2, height=3.0)
    found = frame["independent directions"]
    axes.plot([0, found.max()], [0, found.max()], color=GREY, linewidth=0.8)
    axes.plot(found, frame["as printed"], "x", color=RED, label="(|Y| − 1)|V| − 1, as printed")
    axes.plot(found, frame["|Y||V| − 1"], "o", color=BLUE, markersize=4, label="|Y||V| − 1")
    axes.set(xlabel="independent directions of the outputs", ylabel="parameters counted")
    axes.legend(fontsize=8, frameon=False)
    return figure
