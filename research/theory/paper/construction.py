"""Transformers can be SLALOMs: Proposition 5.1, with weights that make one.

The paper proves the proposition by writing the weights down (Appendix B.5). As printed, the keys
are constant, so that attention is 1/n everywhere, and the value map leaves what the classifier
reads at zero. ``transformer.planted`` has weights that work, ``transformer.printed`` the paper's.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd
import torch
from torch import Tensor

from research.base import Check, Outcome, Settings, at_least, at_most, reproduction
from research.drawing import BLUE, ORANGE, RED, diagonal, panels
from research.theory.paper.transformer import (
    PlainTransformer,
    answers,
    planted,
    printed,
    random_rows,
    random_slalom,
    row_counts,
)
from slalom_xai.methods.paper.formula import SlalomSurrogate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SAME_AS_FORMULA = 1e-6  # a transformer and the formula are the same within this
_UNITS = 12
_LAYERS = ((1, 0), (2, 1), (4, 2))  # how many, and which one does the work
_HEADS = ((1, 1, 1), (4, 1, 1), (4, 3, 1), (2, 2, 3))  # per layer, of the SLALOM; outputs


class Constructions(NamedTuple):
    """Outputs (m,) for the same rows, by the formula and by three transformers."""

    formula: Tensor
    mended: Tensor
    half_mended: Tensor  # the value map alone
    printed: Tensor


@reproduction(
    name="planted-slalom",
    title="A transformer can be any given SLALOM: one attention layer with weights set by hand",
    source="Leemann et al. 2024, Proposition 5.1 and Appendix B.5, mended",
)
def planted_slalom(settings: Settings) -> Outcome:
    """The mended construction for several layers, heads and outputs, beside the printed one."""
    rows = random_rows(200, _UNITS, 20, settings.seed)
    counts = row_counts(rows, _UNITS)
    table = _every_size(rows, counts, settings.seed)
    known = random_slalom(_UNITS, seed=settings.seed)
    outputs = Constructions(
        formula=known.predict(counts)[:, 0],
        mended=_outputs(planted(known), rows),
        half_mended=_outputs(printed(known, move_values=True), rows),
        printed=_outputs(printed(known), rows),
    )
    largest = table["largest difference"].max()
    return Outcome(
        checks=(
            at_most(
                "mended weights: largest difference to the formula over all models and 200 rows",
                largest,
                SAME_AS_FORMULA,
            ),
            *_printed_checks(known, outputs),
            *_half_mended_checks(known, counts, outputs),
        ),
        tables={"models": table},
        figures={"outputs": lambda: _draw(outputs)},
        remarks=(
            "Without layer norm, as in the paper's proof; each head is as wide as the embedding, "
            "which for one head and one output is 3.",
        ),
    )


def _outputs(model: PlainTransformer, rows: list[list[int]]) -> Tensor:
    return answers(model, rows)[:, 0]


def _every_size(rows: list[list[int]], counts: Tensor, seed: int) -> pd.DataFrame:
    """The largest difference of the mended construction to the formula, for every size."""
    table = []
    sizes = itertools.product((("encoder", False), ("decoder", True)), _LAYERS, _HEADS)
    for (family, causal), (layers, at), (heads, own, outputs) in sizes:
        known = random_slalom(_UNITS, heads=own, outputs=outputs, seed=seed + layers + heads)
        model = planted(known, layers=layers, heads=heads, at=at, causal=causal)
        off = (answers(model, rows) - known.predict(counts)).abs().max()
        table.append(
            {
                "model": family,
                "layers": layers,
                "working layer": at + 1,
                "heads": heads,
                "heads of the SLALOM": own,
                "outputs": outputs,
                "largest difference": float(off),
            }
        )
    return pd.DataFrame(table)


def _printed_checks(known: SlalomSurrogate, outputs: Constructions) -> tuple[Check, ...]:
    model = printed(known)
    text = model.embedding[torch.arange(_UNITS)][None]  # (1, n, 3)
    attention = model.attention(text, 0).detach()
    return (
        at_most(
            "printed weights: largest difference of an attention weight from 1/n",
            float((attention - 1 / _UNITS).abs().max()),
            1e-12,
        ),
        at_most("printed weights: largest output", float(outputs.printed.abs().max()), 1e-12),
        at_least(
            "printed weights: largest difference to the formula",
            float((outputs.printed - outputs.formula).abs().max()),
            1.0,
        ),
    )


def _half_mended_checks(
    known: SlalomSurrogate, counts: Tensor, outputs: Constructions
) -> tuple[Check, ...]:
    means = counts @ known.values[0, :, 0] / counts.sum(dim=1)
    return (
        at_most(
            "printed keys and queries, mended value map: largest difference to the plain mean of "
            "the values",
            float((outputs.half_mended - means).abs().max()),
            1e-12,
        ),
        at_least(
            "printed keys and queries, mended value map: largest difference to the formula",
            float((outputs.half_mended - outputs.formula).abs().max()),
            0.5,
        ),
    )


def _draw(outputs: Constructions) -> Figure:
    """Outputs of the three transformers against the formula."""
    figure, (axes,) = panels(1, width=4.2, height=3.2)
    formula = outputs.formula
    diagonal(axes, float(formula.min()), float(formula.max()))
    for drawn, colour, label in (
        (outputs.printed, RED, "as printed"),
        (outputs.half_mended, ORANGE, "value map mended only"),
        (outputs.mended, BLUE, "mended"),
    ):
        axes.plot(
            formula[:80],
            drawn[:80],
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
