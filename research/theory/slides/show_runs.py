"""Five runs of LIME beside the closed forms, and the lemmas behind them."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from research.base import Check, Outcome, Settings, at_least, at_most, reproduction
from research.drawing import BLUE, GREEN, NEUTRAL, RED, panels
from research.theory.paper.synthetic import one_thread
from research.theory.slides.arrays import Floats
from research.theory.slides.averages import WordAverages, random_averages, word_averages
from research.theory.slides.classifier import AttentionClassifier
from research.theory.slides.lemmas import mean_of_sum, ratio_bound, variance_of_sum
from research.theory.slides.lime import lime
from research.theory.slides.lime_forms import (
    relative_error,
    theorem_along,
    theorem_mended,
    theorem_printed,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RUN_WORDS = 99  # different words of the text
RUNS, RUN_SAMPLES = 5, 1_000  # of LIME, and rows of each
SHOWN_WORDS = 10  # words in the figure
TEXTS, SETS = 10, 3_000  # texts of each length, and random sets of each text
RUN_BANDWIDTHS = {"0.25": 0.25, "infinite": float("inf")}
STYLES = {  # colour, mark, and how far to the right
    "printed": (RED, "x", -0.2),
    "mended": (BLUE, "+", 0.0),
    "along the way": (GREEN, "_", 0.2),
}


@reproduction(
    name="lime-runs",
    title="Five runs of LIME on a text of 99 words, with the closed forms on top",
    source="Lopardo, Precioso and Garreau 2024, experimental check",
)
@one_thread()
def five_runs(settings: Settings) -> Outcome:
    """Runs LIME on a classifier with random weights and a text of different words."""
    text = _long_text(settings.seed)
    rng = np.random.default_rng(settings.seed)
    rows, runs = [], {}
    for name, bandwidth in settings.track(RUN_BANDWIDTHS.items(), "bandwidths"):
        some = [
            lime(text.output, RUN_WORDS, RUN_SAMPLES, rng, bandwidth=bandwidth) for _ in range(RUNS)
        ]
        runs[name] = np.stack(some)  # (RUNS, RUN_WORDS)
        rows.append({"bandwidth": name, **_distances(text, runs[name], bandwidth)})
    table = pd.DataFrame(rows)
    return Outcome(
        checks=_run_checks(table),
        tables={"distances": table},
        figures={"boxes": lambda: _draw_boxes(text, runs)},
        remarks=(
            f"A classifier with random weights, 3 heads, {RUN_WORDS} different words and no "
            f"filling, {RUN_SAMPLES} samples a run. The printed and the mended form know no "
            "bandwidth; the one along the way is taken at that of the run.",
        ),
    )


def _distances(text: WordAverages, runs: Floats, bandwidth: float) -> dict[str, float]:
    """How far each form is from the mean of the runs (RUNS, words), and how sure that mean is."""
    mean = runs.mean(axis=0)
    forms = _forms(text, bandwidth).items()
    distances = {name: relative_error(form, mean) for name, form in forms}
    noise = np.sqrt(runs.var(axis=0, ddof=1).sum() / RUNS)
    distances["noise of the runs"] = float(noise / np.linalg.norm(mean))
    return distances


def _run_checks(table: pd.DataFrame) -> tuple[Check, ...]:
    """Distances are held against the noise of the mean, which differs from text to text."""
    printed, along, noise = table["printed"], table["along the way"], table["noise of the runs"]
    return (
        at_least(
            "printed form: least relative distance to the mean of five runs", printed.min(), 0.2
        ),
        at_least("the same over the noise of that mean", (printed / noise).min(), 2.5),
        at_most(
            "form along the way: largest distance over the noise",
            (along / noise).max(),
            1.5,
        ),
    )


def _long_text(seed: int) -> WordAverages:
    """A text of different words, read by a classifier with random weights."""
    model = AttentionClassifier(
        RUN_WORDS + 2, 0, length=RUN_WORDS + 1, heads=3, width=24, seed=seed
    )
    model = model.double()
    with torch.no_grad():
        model.key.mul_(0.5)  # so that no one word has most of the attention
    ids = torch.cat([torch.tensor([1]), torch.arange(2, RUN_WORDS + 2)])
    averages, _ = word_averages(model, ids)
    return averages


def _forms(text: WordAverages, bandwidth: float) -> dict[str, Floats]:
    return {
        "printed": theorem_printed(text),
        "mended": theorem_mended(text),
        "along the way": theorem_along(text, bandwidth),
    }


def _draw_boxes(text: WordAverages, runs: dict[str, Floats]) -> Figure:
    """About every tenth word by its coefficient, so that large and small ones are seen."""
    figure, axes = panels(len(runs), width=4.6, height=3.0, share_y=True)
    spread = np.linspace(3, RUN_WORDS - 4, SHOWN_WORDS).astype(int)
    order = np.argsort(theorem_along(text))[spread]
    for panel, (name, some) in zip(axes, runs.items(), strict=True):
        _draw_runs(panel, some[:, order], order)
        for form, values in _forms(text, RUN_BANDWIDTHS[name]).items():
            colour, mark, aside = STYLES[form]
            ticks = np.arange(SHOWN_WORDS) + aside
            panel.plot(ticks, values[order], mark, color=colour, label=form, markersize=7, zorder=3)
        panel.set_title(f"bandwidth {name}", fontsize=9)
    axes[0].set_ylabel("LIME coefficient")
    axes[0].legend(fontsize=8, frameon=False)
    return figure


def _draw_runs(panel: Axes, runs: Floats, order: NDArray[np.int64]) -> None:
    """A box for each of some words, over the runs (RUNS, SHOWN_WORDS)."""
    ticks = np.arange(SHOWN_WORDS)
    grey = {"color": NEUTRAL}
    panel.boxplot(runs, positions=ticks, widths=0.5, whis=(0, 100), medianprops=grey)
    panel.axhline(0, color=NEUTRAL, linewidth=0.5)
    labels = [f"word {int(word) + 1}" for word in order]
    panel.set_xticks(ticks, labels, rotation=60, fontsize=7)


@reproduction(
    name="lime-lemmas",
    title="Ratios and sums over random sets: the two lemmas behind the LIME theorem",
    source="Lopardo, Precioso and Garreau 2024, sketch of the proof",
)
def lemmas(settings: Settings) -> Outcome:
    """The sums over all sets, and the ratio's error within its bound as texts grow."""
    sums = pd.DataFrame([_sums(d, settings.seed) for d in (4, 6, 8, 10)])
    lengths = settings.track((25, 50, 100, 200, 400), "lengths")
    ratios = pd.DataFrame([_mean_ratio(d, settings.seed) for d in lengths])
    return Outcome(
        checks=(
            at_most("mean of the sum over all sets, minus its formula", sums["mean"].max(), 1e-10),
            at_most(
                "variance of the sum over all sets, minus its formula",
                sums["variance"].max(),
                1e-10,
            ),
            *_ratio_checks(ratios),
        ),
        tables={"sums": sums, "ratios": ratios},
        figures={"ratios": lambda: _draw_ratios(ratios)},
        remarks=(
            f"Half of the words are removed, the first one never. Errors and bounds are means over "
            f"{TEXTS} texts, with {SETS:,} sets each; the linear part of a set's error has no mean "
            "and is left out. One text would not do: its error has a sign, and may pass through "
            "zero at some length.",
        ),
    )


def _ratio_checks(ratios: pd.DataFrame) -> tuple[Check, ...]:
    error, bound = ratios["error of the ratio"], ratios["bound"]
    scaled = bound * ratios["words"]
    return (
        at_most(
            "error of E[X]/E[Y] over its bound, largest of all texts",
            ratios["largest error / bound"].max(),
            1.0,
        ),
        at_most(
            "the error itself at 400 words over that at 25",
            error.iloc[-1] / error.iloc[0],
            0.3,
        ),
        at_most(
            "the bound times the length: largest over least, which stays put if the bound falls "
            "like 1/length",
            scaled.max() / scaled.min(),
            2.0,
        ),
    )


def _sums(words: int, seed: int) -> dict[str, float]:
    """The largest errors of the two formulas, over every size of a set."""
    rng = np.random.default_rng(seed + words)
    kept, removed = rng.normal(size=(2, words))
    mean = variance = 0.0
    for size in range(1, words - 1):
        totals = []
        for gone in combinations(range(1, words), size):
            mask = np.isin(np.arange(words), gone)
            totals.append(float(np.where(mask, removed, kept).sum()))
        mean_error = abs(float(np.mean(totals)) - mean_of_sum(kept, removed, size, 0))
        variance_error = abs(float(np.var(totals)) - variance_of_sum(kept, removed, size, 0))
        mean, variance = max(mean, mean_error), max(variance, variance_error)
    return {"words": words, "mean": float(mean), "variance": float(variance)}


def _mean_ratio(words: int, seed: int) -> dict[str, float]:
    """The mean error and the mean bound over several texts, and the largest part of a bound."""
    texts = pd.DataFrame([_ratio(words, TEXTS * seed + text) for text in range(TEXTS)])
    return {
        "words": words,
        "error of the ratio": float(texts["error"].mean()),
        "bound": float(texts["bound"].mean()),
        "largest error / bound": float((texts["error"] / texts["bound"]).max()),
    }


def _ratio(words: int, seed: int) -> dict[str, float]:
    """E[X/Y] against E[X]/E[Y] for the classifier's numerator X and denominator Y.

    Half of the words are removed, and the first one never is.
    """
    text = random_averages(words, 0, np.random.default_rng(seed), heads=1)
    rng = np.random.default_rng(seed + words)
    size = words // 2
    top = text.kept_values[0], text.removed_values[0]
    bottom = text.kept[0], text.removed[0]
    x, y = mean_of_sum(*top, size, 0), mean_of_sum(*bottom, size, 0)
    order = rng.random((SETS, words))
    order[:, 0] = 2.0  # the first word is never among those removed
    above, below = text.heads(order.argsort(axis=1).argsort(axis=1) >= size)
    # The linear part has a mean of zero: leaving it out leaves little noise.
    linear = (above - x) / y - x * (below - y) / y**2
    error = abs(float((above / below - x / y - linear)[0].mean()))
    variance = variance_of_sum(*bottom, size, 0)
    covariance_bound = float(np.sqrt(variance_of_sum(*top, size, 0) * variance))
    floor = float(np.minimum(*bottom).sum())
    return {"error": error, "bound": ratio_bound(covariance_bound, variance, x, floor)}


def _draw_ratios(ratios: pd.DataFrame) -> Figure:
    """The bound and the error over the length of the text."""
    figure, (axes,) = panels(1, width=4.2)
    words, bound, error = ratios["words"], ratios["bound"], ratios["error of the ratio"]
    falling = bound.iloc[0] * words.iloc[0] / words
    axes.loglog(words, bound, "o-", color=BLUE, label="bound of the lemma")
    axes.loglog(words, error, "x-", color=RED, label="|E[X/Y] − E[X]/E[Y]|")
    axes.loglog(words, falling, ":", color=NEUTRAL, label="1 / length")
    axes.set_xticks(words, [str(count) for count in words])
    axes.minorticks_off()
    axes.set_xlabel("words in the text")
    axes.set_ylabel("size")
    axes.legend(fontsize=8, frameon=False)
    return figure
