"""Figure 1: an opinion, a neutral prefix, and both together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

from research.base import PAPER, Outcome, Settings, at_most, reproduction
from research.drawing import BLUE, NEUTRAL, panels
from research.paper.imdb import STUDY, Found, Study
from research.paper.imdb_sizes import Size
from research.paper.review_models import REVIEWS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OPINION = "this is a fantastic movie ."
PREFIX = (
    "it has been a long time since we saw the last movie because something always happened to "
    "come up . however ,"
)
TEXTS = (OPINION, PREFIX, f"{PREFIX} {OPINION}")
TERMS = ("f(t)", "f(u)", "f(t) + f(u)", "f([t, u])")
BERT, LINEAR = "BERT type", "linear"
_PRINTED = {BERT: (1.09, 0.29, 1.38, 0.45), LINEAR: (0.93, 0.19, 1.12, 1.12)}


@reproduction(
    name="fig-1",
    title="Log odds of an opinion and of a neutral prefix do not add up in a transformer",
    source=f"{PAPER}, Figure 1",
    study=STUDY,
    hours=1,
    data=(REVIEWS,),
)
def fig_1(settings: Settings) -> Outcome:
    """The paper's two sentences, alone and together."""
    return outcome(study(settings))


def study(settings: Settings, size: Size | None = None) -> Found:
    """Answers to the sentences; see ``Study.answers``."""
    return Study(settings, "fig-1", size).answers("sentences", TEXTS)


def outcome(found: Found) -> Outcome:
    """The numbers of the figure."""
    (numbers,) = found.rows[found.models[0].key].values()
    terms = {BERT: _terms(numbers["log odds"]), LINEAR: _terms(numbers["naive-bayes"])}
    table = pd.DataFrame(
        {"model": model, "log odds": name, "paper": printed, "ours": ours, "s.e.": float("nan")}
        for model, of_model in terms.items()
        for name, printed, ours in zip(TERMS, _PRINTED[model], of_model, strict=True)
    )
    table["texts"] = 1
    opinion, prefix, added, together = terms[BERT]
    low, high = sorted((opinion, prefix))
    linear = terms[LINEAR]
    return Outcome(
        checks=(
            at_most("linear model: f([t, u]) off the sum", abs(linear[3] - linear[2]), 1e-9),
            at_most("transformer: f([t, u]) over the sum", together / added, 0.8),
            at_most(
                "transformer: how far f([t, u]) leaves the range of f(u) and f(t), over that range",
                max(together - high, low - together, 0) / (high - low),
                0.1,
            ),
        ),
        tables={"sentences": table},
        figures={"sentences": lambda: _draw(table)},
        remarks=(
            f't is "{OPINION}", u is "{PREFIX}". There is one pair of texts, and so no standard '
            "error; the claim concatenation has more pairs.",
            "The linear model is the sum of the words' Naive-Bayes weights in 5,000 reviews, α = "
            "40.",
            *found.remarks[:1],
        ),
        finding=(
            f"The transformer gives {opinion:.2f} and {prefix:.2f}, which add up to {added:.2f}, "
            f"and {together:.2f} for both together; the linear model {linear[0]:.2f}, "
            f"{linear[1]:.2f} and {linear[3]:.2f}."
        ),
    )


def _terms(answers: Sequence[float]) -> tuple[float, float, float, float]:
    """Of t, of u, their sum, and of both together."""
    opinion, prefix, together = answers
    return opinion, prefix, opinion + prefix, together


def _draw(table: pd.DataFrame) -> Figure:
    """A panel for each model: ours as bars, the paper's as crosses."""
    figure, made = panels(2, width=3.2, share_y=True)
    for axes, (model, part) in zip(made, table.groupby("model", sort=False), strict=True):
        axes.bar(part["log odds"], part["ours"], color=BLUE, label="ours")
        axes.scatter(part["log odds"], part["paper"], color=NEUTRAL, marker="x", label="paper")
        axes.set(title=model)
        axes.tick_params(axis="x", labelsize="x-small")
    made[0].set_ylabel("log odds")
    made[0].legend(fontsize="x-small")
    return figure
