"""Answers about two words that no additive model can give (Fig. 9).

An additive model with a weight for each word at each position is fixed on rows of up to two words
by its answers to [a], [a, a], [b] and [b, b]:

    F([b, a]) = F([b]) + F([a, a]) − F([a]),   F([a, b]) = F([a]) + F([b, b]) − F([b]).

A SLALOM of two words is fixed by its answers to [a], [b] and [b, a].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from research.base import Check, Outcome, Settings, at_least, at_most, reproduction
from research.drawing import BLUE, NEUTRAL, RED, panels
from research.theory.paper.concatenation import SHAPES
from research.theory.paper.embedded import embedded_log_odds
from research.theory.paper.repeats import additive_bound
from research.theory.paper.synthetic import WEIGHTS, WORDS, Ask, trained
from research.theory.paper.transformer import answers, planted, random_slalom
from slalom_xai.methods.paper.exact import recover
from slalom_xai.methods.paper.formula import SlalomSurrogate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PLANTED = "planted SLALOM"


@reproduction(
    name="counterexample",
    title="Five answers about two words contradict every additive model, and hardly any SLALOM",
    source="Leemann et al. 2024, Fig. 9",
)
def counterexample(settings: Settings) -> Outcome:
    """Asks several models about perfect, worst and their pairs."""
    models: dict[str, Ask] = {_PLANTED: _planted_words(settings.seed)}
    shapes = SHAPES
    if settings.small:
        shapes = SHAPES[:1]
    for shape in settings.track(shapes, "training small transformers"):
        models[f"trained {shape}"] = trained(shape, settings.seed).log_odds
    models["embedded model"] = _ask_embedded
    table = pd.DataFrame([{"model": name, **_compared(ask)} for name, ask in models.items()])
    return Outcome(
        checks=_checks(table),
        tables={"answers": table},
        figures={"answers": lambda: _draw(table)},
        remarks=(
            "The GAM takes its weights from perfect, perfect perfect, worst and worst worst, and "
            "is tried on both mixed pairs; the SLALOM takes its four numbers from perfect, worst "
            "and worst perfect, and is tried on the other three. The figure in the paper adds "
            "w1(perfect) and w2(worst) for the row worst perfect; the order asks for w1(worst) + "
            "w2(perfect). Either is far off.",
        ),
    )


def _planted_words(seed: int) -> Ask:
    """A SLALOM whose values are twice the linear weights, with random importances."""
    values = 2 * torch.tensor(WEIGHTS, dtype=torch.float64)[None, :, None]
    importances = random_slalom(len(WORDS), seed=seed).importances
    model = planted(SlalomSurrogate(values, importances))
    return lambda rows: answers(model, rows)[:, 0]


def _ask_embedded(rows: Sequence[Sequence[int]]) -> Tensor:
    return embedded_log_odds([" ".join(WORDS[word] for word in row) for row in rows])


def _compared(ask: Ask) -> dict[str, float]:
    """One model's answers, and how far off the two models that they lead to are."""
    p, w = WORDS.index("perfect"), WORDS.index("worst")
    log_odds = ask([[p], [p, p], [w], [w, w], [w, p], [p, w]])
    bound = max(additive_bound(ask, w, p), additive_bound(ask, p, w))
    return {**_assigned(log_odds), "error of any GAM ≥": bound}


def _assigned(log_odds: Tensor) -> dict[str, float]:
    """The GAM and the SLALOM that the answers (6,) to p, pp, w, ww, wp, pw lead to."""
    p, pp, w, ww, wp, pw = log_odds.tolist()
    gam_wp = w + (pp - p)
    gam_pw = p + (ww - w)
    singles = log_odds[[0, 2]][:, None]
    pairs = torch.tensor([[wp], [wp]], dtype=torch.float64)
    slalom, _ = recover(singles, pairs)
    rows = torch.tensor([[2.0, 0.0], [0.0, 2.0], [1.0, 1.0]], dtype=torch.float64)  # pp, ww, pw
    slalom_pp, slalom_ww, slalom_pw = slalom.predict(rows)[:, 0].tolist()
    return {
        "perfect": p,
        "perfect perfect": pp,
        "worst": w,
        "worst worst": ww,
        "worst perfect": wp,
        "perfect worst": pw,
        "GAM: perfect worst": gam_pw,
        "SLALOM: perfect worst": slalom_pw,
        "GAM: error": max(abs(gam_wp - wp), abs(gam_pw - pw)),
        "SLALOM: error": max(abs(slalom_pp - pp), abs(slalom_ww - ww), abs(slalom_pw - pw)),
    }


def _checks(table: pd.DataFrame) -> tuple[Check, ...]:
    gam, slalom = table["GAM: error"], table["SLALOM: error"]
    exact = table["model"] == _PLANTED
    return (
        at_least(
            "smallest error of every additive model, whatever its weights, on one of these rows",
            table["error of any GAM ≥"].min(),
            0.2,
        ),
        at_most(
            "planted SLALOM: error of the SLALOM found from three answers on the other three",
            slalom[exact].max(),
            1e-9,
        ),
        at_most(
            "trained and embedded: error of that SLALOM as a part of the GAM's",
            (slalom / gam)[~exact].max(),
            0.5,
        ),
    )


def _draw(table: pd.DataFrame) -> Figure:
    """The answer to one mixed pair beside what either model must answer."""
    figure, (axes,) = panels(1, width=6.4, height=3.2)
    positions = np.arange(len(table))
    axes.axhline(0, color=NEUTRAL, linewidth=0.6)
    shown = (
        ("perfect worst", "o", "black", 5, "the model on [perfect, worst]"),
        ("GAM: perfect worst", "x", RED, 7, "what the GAM must answer"),
        ("SLALOM: perfect worst", "_", BLUE, 14, "SLALOM, from [worst, perfect]"),
    )
    for name, mark, colour, size, label in shown:
        axes.plot(positions, table[name], mark, color=colour, markersize=size, label=label)
    axes.set_xticks(positions, [_short(name) for name in table["model"]], fontsize=7)
    axes.set_ylabel("log odds")
    axes.legend(fontsize=7, frameon=False)
    return figure


def _short(name: str) -> str:
    """A model's name on several lines."""
    return name.replace(", ", "\n").replace(" and ", "\n").replace("trained ", "")
