"""LIME's limits and the theorem's closed form, run against LIME."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from research.base import Check, Outcome, Settings, at_least, at_most, reproduction
from research.drawing import BLUE, GREEN, NEUTRAL, RED, panels
from research.theory.slides.arrays import Floats
from research.theory.slides.averages import random_averages
from research.theory.slides.lime import (
    all_rows,
    exact_means,
    infinite_samples,
    lime,
    regress,
    row_weights,
    wide_limit,
    wide_limit_printed,
)
from research.theory.slides.lime_forms import (
    relative_error,
    theorem_along,
    theorem_mended,
    theorem_printed,
    wide_means,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TEXT_SIZES = (4, 6, 8, 10, 12)  # words of texts of which all sets are asked
GROWING_BANDWIDTHS = (0.25, 1.0, 4.0, 16.0, 64.0)
GROWING_SAMPLES = (1_000, 4_000, 16_000, 64_000)
DEFAULT = 0.25  # LIME's own bandwidth
FOLLOWED_WORDS = 8  # of the text that is followed to its limits
TEXT_LENGTHS = (12, 25, 50, 100, 200, 400)  # words of the texts of the closed forms
SQUARE = "words squared"  # places in all, of which the text takes as many as it has words
FORMS = {"printed": (RED, "x"), "mended": (BLUE, "o"), "along the way": (GREEN, "s")}


@reproduction(
    name="lime-wide",
    title="LIME with a large bandwidth is an expectation, with one more term than the slides print",
    source="Mardaoui and Garreau 2021 on the slides of Lopardo, Precioso and Garreau 2024",
)
def wide_bandwidth(settings: Settings) -> Outcome:
    """Compares LIME over all sets of words with the explicit limits, and watches it get there."""
    sizes = pd.DataFrame([_size(d, settings.seed) for d in settings.track(TEXT_SIZES, "sizes")])
    bandwidths, samples = _to_the_limit(settings.seed), _more_samples(settings)
    return Outcome(
        checks=(
            *_size_checks(sizes),
            *_distance_checks(bandwidths, samples),
            *_mean_checks(),
        ),
        tables={"sizes": sizes, "bandwidths": bandwidths, "samples": samples},
        figures={"limits": lambda: _draw_limits(sizes, bandwidths, samples)},
        remarks=(
            "Errors are largest differences, those of the printed limit relative to the "
            "coefficients' length; outputs are random numbers, one for each set of words.",
        ),
    )


def _size(words: int, seed: int) -> dict[str, float]:
    """LIME over all sets of so many words, with random outputs, against the explicit forms."""
    keep, chances = all_rows(words)
    noise = np.random.default_rng(seed + words).normal(size=len(keep))
    outputs = noise + keep.sum(axis=1) / words
    narrow = regress(keep, outputs, chances * row_weights(keep, DEFAULT))
    explicit = infinite_samples(exact_means(outputs, words, DEFAULT), words, DEFAULT)
    wide = regress(keep, outputs, chances)
    means = exact_means(outputs, words)
    return {
        "words": words,
        "explicit, bandwidth 0.25": float(np.abs(narrow - explicit).max()),
        "mended limit": float(np.abs(wide - wide_limit(means, words)).max()),
        "printed limit": relative_error(wide_limit_printed(means, words), wide),
    }


def _size_checks(sizes: pd.DataFrame) -> tuple[Check, ...]:
    return (
        at_most(
            "LIME at the default bandwidth over all sets, minus its explicit form",
            sizes["explicit, bandwidth 0.25"].max(),
            1e-10,
        ),
        at_most(
            "LIME at a large bandwidth, minus the mended limit",
            sizes["mended limit"].max(),
            1e-10,
        ),
        at_least("the same minus the printed limit, relative", sizes["printed limit"].min(), 0.1),
    )


def _distance_checks(bandwidths: pd.DataFrame, samples: pd.DataFrame) -> tuple[Check, ...]:
    by_bandwidth = bandwidths["distance to the limit"].to_numpy()
    by_samples = samples["distance to the limit"].to_numpy()
    return (
        at_most(
            "the distance shrinks with the square of the bandwidth: largest ratio per factor 4",
            (by_bandwidth[2:] / by_bandwidth[1:-1]).max(),
            0.07,
        ),
        at_most(
            "the distance shrinks with the number of samples: ratio over a factor 64",
            by_samples[-1] / by_samples[0],
            0.25,
        ),
    )


def _mean_checks() -> tuple[Check, ...]:
    """The share of words that are kept, whose coefficients are known: a tenth for each of ten."""
    means = exact_means(all_rows(10)[0].mean(axis=1), 10)
    mended, printed = float(wide_limit(means, 10)[0]), float(wide_limit_printed(means, 10)[0])
    return (
        at_most(
            "f = mean of the kept words, d = 10: mended limit minus 0.1",
            abs(mended - 0.1),
            1e-12,
        ),
        at_most("the same: the printed limit, which should be 0.1", abs(printed), 1e-12),
    )


def _to_the_limit(seed: int) -> pd.DataFrame:
    """The distance of LIME to its limit as the bandwidth grows."""
    keep, chances = all_rows(FOLLOWED_WORDS)
    outputs = random_averages(FOLLOWED_WORDS, 4, np.random.default_rng(seed)).output(keep)
    limit = wide_limit(exact_means(outputs, FOLLOWED_WORDS), FOLLOWED_WORDS)
    distances = []
    for bandwidth in GROWING_BANDWIDTHS:
        coefficients = regress(keep, outputs, chances * row_weights(keep, bandwidth))
        distances.append(relative_error(coefficients, limit))
    return pd.DataFrame({"bandwidth": GROWING_BANDWIDTHS, "distance to the limit": distances})


def _more_samples(settings: Settings) -> pd.DataFrame:
    """The distance of LIME to its limit at bandwidth 0.25: a root mean square over ten runs."""
    text = random_averages(FOLLOWED_WORDS, 4, np.random.default_rng(settings.seed))
    outputs = text.output(all_rows(FOLLOWED_WORDS)[0])
    limit = infinite_samples(exact_means(outputs, FOLLOWED_WORDS, DEFAULT), FOLLOWED_WORDS, DEFAULT)
    rng = np.random.default_rng(settings.seed + 1)
    rows = []
    for count in settings.track(GROWING_SAMPLES, "samples"):
        errors = [
            relative_error(lime(text.output, FOLLOWED_WORDS, count, rng), limit) for _ in range(10)
        ]
        distance = float(np.sqrt(np.mean(np.square(errors))))
        rows.append({"samples": count, "distance to the limit": distance})
    return pd.DataFrame(rows)


def _draw_limits(sizes: pd.DataFrame, bandwidths: pd.DataFrame, samples: pd.DataFrame) -> Figure:
    """Errors of both limits, and how LIME comes near its limit."""
    figure, (errors, by_bandwidth, by_samples) = panels(3, width=3.1)
    errors.semilogy(sizes["words"], sizes["printed limit"], "x-", color=RED, label="printed")
    errors.semilogy(sizes["words"], sizes["mended limit"], "o-", color=BLUE, label="mended")
    errors.set_xlabel("words in the text")
    errors.set_ylabel("error of the limit")
    errors.legend(fontsize=8, frameon=False)
    _draw_distances(by_bandwidth, bandwidths, -2.0)
    _draw_distances(by_samples, samples, -0.5)
    by_samples.set_yticks([1e-3, 2e-3, 5e-3], ["0.001", "0.002", "0.005"])
    by_samples.minorticks_off()
    return figure


def _draw_distances(axes: Axes, frame: pd.DataFrame, slope: float) -> None:
    """Distances over what grows, beside a power of it."""
    x, y = frame.iloc[:, 0].to_numpy(), frame.iloc[:, 1].to_numpy()
    power = y[-1] * (x / x[-1]) ** slope
    axes.loglog(x, y, "o-", color=BLUE)
    axes.loglog(x, power, ":", color=NEUTRAL, label=f"power {slope:g}")
    axes.set_xlabel(frame.columns[0])
    axes.set_ylabel("distance of LIME to its limit")
    axes.legend(fontsize=8, frameon=False)


@reproduction(
    name="lime-theorem",
    title="What LIME says of one attention layer has a closed form; the printed one misses it, the "
    "mended ones converge to it",
    source="Lopardo, Precioso and Garreau 2024, LIME theorem",
)
def closed_forms(settings: Settings) -> Outcome:
    """Errors of three closed forms over the length of the text, with and without filling."""
    rows = []
    for words in settings.track(TEXT_LENGTHS, "lengths"):
        for name, filling in ((SQUARE, words**2 - words), ("none", 0)):
            errors = _form_errors(words, filling, settings.seed)
            rows.append({"words": words, "filling": name, **errors})
    table = pd.DataFrame(rows)
    filled = table[table["filling"] == SQUARE]
    bare = table[table["filling"] == "none"]
    return Outcome(
        checks=(
            at_least(
                "printed form: least relative error at any length, with and without filling",
                table["printed"].min(),
                0.2,
            ),
            *_mended_checks(filled["mended"].to_numpy(), bare["mended"].to_numpy()),
            *_along_checks(bare["along the way"].to_numpy()),
        ),
        tables={"errors": table},
        figures={"errors": lambda: _draw_forms(filled, bare)},
        remarks=(
            "The truth is LIME with infinitely many samples and a large bandwidth, computed by "
            "quadrature without sampling. The theorem lets the filling outgrow the text; the "
            "slides' own example has none.",
        ),
    )


def _form_errors(words: int, filling: int, seed: int) -> dict[str, float]:
    """Relative errors of the closed forms for a random text."""
    text = random_averages(words, filling, np.random.default_rng(seed + 1), tilt=0.5)
    true = wide_limit(wide_means(text), words)
    return {
        "printed": relative_error(theorem_printed(text), true),
        "mended": relative_error(theorem_mended(text), true),
        "along the way": relative_error(theorem_along(text), true),
    }


def _mended_checks(filled: Floats, bare: Floats) -> tuple[Check, ...]:
    """Errors by length, with a square of filling and without any."""
    return (
        at_most(
            "mended form, text in a square of filling: error at 400 words",
            filled[-1],
            2e-3,
        ),
        at_most("the same: error at 400 words over error at 12", filled[-1] / filled[0], 0.1),
        at_least(
            "mended form without filling: error at 400 words, which does not fall",
            bare[-1],
            0.03,
        ),
    )


def _along_checks(bare: Floats) -> tuple[Check, ...]:
    return (
        at_most("form along the way, without filling: error at 400 words", bare[-1], 2e-3),
        at_most("the same: error at 400 words over error at 12", bare[-1] / bare[0], 0.1),
    )


def _draw_forms(filled: pd.DataFrame, bare: pd.DataFrame) -> Figure:
    """Errors over the length of the text, with filling and without."""
    figure, (left, right) = panels(2, width=3.8, share_y=True)
    left.set_title("T words among T² places (the theorem)", fontsize=9)
    right.set_title("T words, T places (the example)", fontsize=9)
    for axes, frame in ((left, filled), (right, bare)):
        for name, (colour, mark) in FORMS.items():
            axes.loglog(
                frame["words"], frame[name], f"{mark}-", color=colour, label=name, markersize=4
            )
        axes.set_xlabel("words in the text, T")
        axes.set_xticks(TEXT_LENGTHS, [str(length) for length in TEXT_LENGTHS])
        axes.minorticks_off()
    left.set_ylabel("relative error")
    left.legend(fontsize=8, frameon=False)
    return figure
