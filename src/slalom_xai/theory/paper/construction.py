"""Transformers can be SLALOMs: Proposition 5.1 with weights that do it, and the printed weights that do not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch

from slalom_xai.theory.base import Outcome, Settings, at_least, at_most, reproduction
from slalom_xai.theory.drawing import BLUE, GREY, ORANGE, RED, panels
from slalom_xai.theory.paper.transformer import (
    answers,
    planted,
    printed,
    random_rows,
    random_slalom,
    row_counts,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXACT = 1e-6
_UNITS = 12


@reproduction(
    name="planted-slalom",
    title="A transformer can be any given SLALOM: one attention layer with weights set by hand",
    source="Leemann et al. 2024, Proposition 5.1 and Appendix B.5, mended",
)
def planted_slalom(settings: Settings) -> Outcome:
    """The mended construction for several layers, heads and outputs, and the printed one beside it."""
    rows = random_rows(200, _UNITS, 20, settings.seed)
    counts = row_counts(rows, _UNITS)
    table = []
    for causal in (False, True):
        for layers, at in ((1, 0), (2, 1), (4, 2)):
            for heads, own, outputs in ((1, 1, 1), (4, 1, 1), (4, 3, 1), (2, 2, 3)):
                known = random_slalom(
                    _UNITS, heads=own, outputs=outputs, seed=settings.seed + layers + heads
                )
                found = answers(
                    planted(known, layers=layers, heads=heads, at=at, causal=causal), rows
                )
                off = float((found - known.predict(counts)).abs().max())
                table.append(
                    ("decoder" if causal else "encoder", layers, at + 1, heads, own, outputs, off)
                )
    names = [
        "model",
        "layers",
        "working layer",
        "heads",
        "heads of the SLALOM",
        "outputs",
        "largest difference",
    ]
    frame = pd.DataFrame(table, columns=names)
    known = random_slalom(_UNITS, seed=settings.seed)
    truth = known.predict(counts)[:, 0].numpy()
    ours = answers(planted(known), rows)[:, 0].numpy()
    as_printed = answers(printed(known), rows)[:, 0].numpy()
    half_mended = answers(printed(known, move_values=True), rows)[:, 0].numpy()
    model = printed(known)
    attention = model.attention(model.embedding[torch.arange(_UNITS)][None], 0).detach()
    means = (counts @ known.values[0, :, 0] / counts.sum(dim=1)).numpy()
    return Outcome(
        checks=(
            at_most(
                "mended weights: largest difference to the formula over all models and 200 rows",
                frame.iloc[:, -1].max(),
                EXACT,
            ),
            at_most(
                "printed weights: largest difference of an attention weight from 1/n",
                float((attention - 1 / _UNITS).abs().max()),
                1e-12,
            ),
            at_most("printed weights: largest output", float(np.abs(as_printed).max()), 1e-12),
            at_least(
                "printed weights: largest difference to the formula",
                float(np.abs(as_printed - truth).max()),
                1.0,
            ),
            at_most(
                "printed keys and queries, mended value map: largest difference to the plain mean "
                "of the values",
                float(np.abs(half_mended - means).max()),
                1e-12,
            ),
            at_least(
                "printed keys and queries, mended value map: largest difference to the formula",
                float(np.abs(half_mended - truth).max()),
                0.5,
            ),
        ),
        tables={"models": frame},
        figures={"outputs": lambda: _draw(truth, ours, half_mended, as_printed)},
        remarks=(
            (
                "Without layer norm, as in the paper's proof; each head is as wide as the "
                "embedding, which for one head and one output is 3."
            ),
        ),
    )


def _draw(
    truth: np.ndarray, ours: np.ndarray, half_mended: np.ndarray, as_printed: np.ndarray
) -> Figure:
    figure, (axes,) = panels(1, width=4.2, height=3.2)
    axes.plot([truth.min(), truth.max()], [truth.min(), truth.max()], color=GREY, linewidth=0.8)
    for found, colour, label in (
        (as_printed, RED, "as printed"),
        (half_mended, ORANGE, "value map mended only"),
        (ours, BLUE, "mended"),
    ):
        axes.plot(
            truth[:80],
            found[:80],
            linestyle="none",
            marker="o",
            markersize=2.5,
            color=colour,
            label=label,
            alpha=0.7,
        )
    axes.set(
        xlabel="the SLALOM's formula",
        ylabel="the transformer's output",
        title="80 rows of up to 20 tokens",
    )
    axes.legend(fontsize=8, frameon=False)
    return figure
