"""LIME's limits and the theorem's closed form, run against LIME."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from slalom_xai.theory.base import Outcome, Settings, at_least, at_most, reproduction
from slalom_xai.theory.drawing import BLUE, GREEN, NEUTRAL, RED, panels
from slalom_xai.theory.slides.averages import random_averages
from slalom_xai.theory.slides.lime import (
    all_rows,
    exact_means,
    infinite_samples,
    lime,
    regress,
    row_weights,
    wide_limit,
    wide_limit_printed,
)
from slalom_xai.theory.slides.lime_forms import (
    relative_error,
    theorem_along,
    theorem_mended,
    theorem_printed,
    wide_means,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
SIZES, BANDWIDTHS, SAMPLES = (
    (4, 6, 8, 10, 12),
    (0.25, 1.0, 4.0, 16.0, 64.0),
    (1_000, 4_000, 16_000, 64_000),
)
LENGTHS = (12, 25, 50, 100, 200, 400)
FORMS = {"printed": (RED, "x"), "mended": (BLUE, "o"), "along the way": (GREEN, "s")}


@reproduction(
    name="lime-wide",
    title="LIME with a large bandwidth is an expectation, with a term more than the slides print",
    source="Mardaoui and Garreau 2021 on the slides of Lopardo, Precioso and Garreau 2024",
)
def wide_bandwidth(settings: Settings) -> Outcome:
    """Compares LIME over all sets of words with the explicit limits, and watches it get there."""
    sizes = pd.DataFrame([_size(d, settings.seed) for d in settings.track(SIZES, "sizes")])
    bandwidths, samples = _to_the_limit(settings.seed), _more_samples(settings)
    last = bandwidths["distance to the limit"].to_numpy()
    noise = samples["distance to the limit"].to_numpy()
    return Outcome(
        checks=(
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
            at_least(
                "the same minus the printed limit, relative", sizes["printed limit"].min(), 0.1
            ),
            at_most(
                "the distance shrinks with the square of the bandwidth: largest ratio per factor 4",
                (last[2:] / last[1:-1]).max(),
                0.07,
            ),
            at_most(
                "the distance shrinks with the number of samples: ratio over a factor 64",
                noise[-1] / noise[0],
                0.25,
            ),
            at_most(
                "f = mean of the kept words, d = 10: mended limit minus 0.1",
                abs(_mean_of_words(10)[0] - 0.1),
                1e-12,
            ),
            at_most(
                "the same: the printed limit, which should be 0.1",
                abs(_mean_of_words(10)[1]),
                1e-12,
            ),
        ),
        tables={"sizes": sizes, "bandwidths": bandwidths, "samples": samples},
        figures={"limits": lambda: _draw_limits(sizes, bandwidths, samples)},
        remarks=(
            (
                "Errors are largest differences, those of the printed limit relative to the "
                "coefficients' length; outputs are random numbers, one for each set of words."
            ),
        ),
    )


def _size(words: int, seed: int) -> dict[str, float]:
    keep, chances = all_rows(words)
    outputs = np.random.default_rng(seed + words).normal(size=len(keep)) + keep.sum(axis=1) / words
    narrow = regress(keep, outputs, chances * row_weights(keep, 0.25))
    wide = regress(keep, outputs, chances)
    means = exact_means(outputs, words)
    return {
        "words": words,
        "explicit, bandwidth 0.25": float(
            np.abs(narrow - infinite_samples(exact_means(outputs, words, 0.25), words, 0.25)).max()
        ),
        "mended limit": float(np.abs(wide - wide_limit(means, words)).max()),
        "printed limit": relative_error(wide_limit_printed(means, words), wide),
    }


def _mean_of_words(words: int) -> tuple[float, float]:
    """The mended and the printed limit of the first word for the share of words that are kept."""
    means = exact_means(all_rows(words)[0].mean(axis=1), words)
    return float(wide_limit(means, words)[0]), float(wide_limit_printed(means, words)[0])


def _to_the_limit(seed: int) -> pd.DataFrame:
    words = 8
    keep, chances = all_rows(words)
    outputs = random_averages(words, 4, np.random.default_rng(seed)).output(keep)
    limit = wide_limit(exact_means(outputs, words), words)
    found = [
        regress(keep, outputs, chances * row_weights(keep, bandwidth)) for bandwidth in BANDWIDTHS
    ]
    return pd.DataFrame(
        {
            "bandwidth": BANDWIDTHS,
            "distance to the limit": [relative_error(one, limit) for one in found],
        }
    )


def _more_samples(settings: Settings) -> pd.DataFrame:
    """The distance of LIME runs to their limit at bandwidth 0.25, as a root mean square over ten runs."""
    words = 8
    text = random_averages(words, 4, np.random.default_rng(settings.seed))
    limit = infinite_samples(exact_means(text.output(all_rows(words)[0]), words, 0.25), words, 0.25)
    rng = np.random.default_rng(settings.seed + 1)
    rows = []
    for count in settings.track(SAMPLES, "samples"):
        errors = [relative_error(lime(text.output, words, count, rng), limit) for _ in range(10)]
        rows.append(
            {"samples": count, "distance to the limit": float(np.sqrt(np.mean(np.square(errors))))}
        )
    return pd.DataFrame(rows)


def _draw_limits(sizes: pd.DataFrame, bandwidths: pd.DataFrame, samples: pd.DataFrame) -> Figure:
    figure, axes = panels(3, width=3.1)
    axes[0].semilogy(sizes["words"], sizes["printed limit"], "x-", color=RED, label="printed")
    axes[0].semilogy(sizes["words"], sizes["mended limit"], "o-", color=BLUE, label="mended")
    axes[0].set_xlabel("words in the text")
    axes[0].set_ylabel("error of the limit")
    axes[0].legend(fontsize=8, frameon=False)
    for place, frame, slope in ((1, bandwidths, -2.0), (2, samples, -0.5)):
        x, y = frame.iloc[:, 0].to_numpy(), frame.iloc[:, 1].to_numpy()
        axes[place].loglog(x, y, "o-", color=BLUE)
        axes[place].loglog(
            x, y[-1] * (x / x[-1]) ** slope, ":", color=NEUTRAL, label=f"power {slope:g}"
        )
        axes[place].set_xlabel(frame.columns[0])
        axes[place].set_ylabel("distance of LIME to its limit")
        axes[place].legend(fontsize=8, frameon=False)
    axes[2].set_yticks([1e-3, 2e-3, 5e-3], ["0.001", "0.002", "0.005"])
    axes[2].minorticks_off()
    return figure


@reproduction(
    name="lime-theorem",
    title=(
        "What LIME says of one attention layer, in closed form: the printed one misses, the "
        "mended ones converge"
    ),
    source="Lopardo, Precioso and Garreau 2024, LIME theorem",
)
def closed_forms(settings: Settings) -> Outcome:
    """Relative errors of three closed forms over the length of the text, with and without filling."""
    rows = []
    for words in settings.track(LENGTHS, "lengths"):
        for filling in ("words squared", "none"):
            places = words**2 - words if filling == "words squared" else 0
            text = random_averages(
                words, places, np.random.default_rng(settings.seed + 1), tilt=0.5
            )
            true = wide_limit(wide_means(text), words)
            forms = {
                "printed": theorem_printed(text),
                "mended": theorem_mended(text),
                "along the way": theorem_along(text),
            }
            rows.append(
                {
                    "words": words,
                    "filling": filling,
                    **{name: relative_error(form, true) for name, form in forms.items()},
                }
            )
    table = pd.DataFrame(rows)
    filled, bare = (table[table["filling"] == kind] for kind in ("words squared", "none"))
    return Outcome(
        checks=(
            at_least(
                "printed form: least relative error at any length, with and without filling",
                table["printed"].min(),
                0.2,
            ),
            at_most(
                "mended form, text in a square of filling: error at 400 words",
                filled["mended"].iloc[-1],
                2e-3,
            ),
            at_most(
                "the same: error at 400 words over error at 12",
                filled["mended"].iloc[-1] / filled["mended"].iloc[0],
                0.1,
            ),
            at_least(
                "mended form without filling: error at 400 words, which does not fall",
                bare["mended"].iloc[-1],
                0.03,
            ),
            at_most(
                "form along the way, without filling: error at 400 words",
                bare["along the way"].iloc[-1],
                2e-3,
            ),
            at_most(
                "the same: error at 400 words over error at 12",
                bare["along the way"].iloc[-1] / bare["along the way"].iloc[0],
                0.1,
            ),
        ),
        tables={"errors": table},
        figures={"errors": lambda: _draw_forms(filled, bare)},
        remarks=(
            "The truth is LIME with infinitely many samples and a large bandwidth, computed by "
            "quadrature without sampling. The theorem lets "
            "the filling outgrow the text; the slides' own example has none.",
        ),
    )


def _draw_forms(filled: pd.DataFrame, bare: pd.DataFrame) -> Figure:
    figure, axes = panels(2, width=3.8, share_y=True)
    for place, (frame, title) in enumerate(
        (
            (filled, "T words among T² places (the theorem)"),
            (bare, "T words, T places (the example)"),
        )
    ):
        _forms(axes[place], frame)
        axes[place].set_title(title, fontsize=9)
        axes[place].set_xlabel("words in the text, T")
        axes[place].set_xticks(LENGTHS, [str(length) for length in LENGTHS])
        axes[place].minorticks_off()
    axes[0].set_ylabel("relative error")
    axes[0].legend(fontsize=8, frameon=False)
    return figure


def _forms(axes: Axes, frame: pd.DataFrame) -> None:
    for name, (colour, mark) in FORMS.items():
        axes.loglog(frame["words"], frame[name], f"{mark}-", color=colour, label=name, markersize=4)
