"""Three smaller claims that need a word: Algorithm 2's second step, Table 6's GAM, and the Naive-Bayes weights."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING

import pandas as pd
import torch
from torch import Tensor

from slalom_xai.estimators.naive_bayes import NaiveBayes
from slalom_xai.surrogates.additive import fit_additive
from slalom_xai.surrogates.fit import fit_slalom
from slalom_xai.surrogates.published import nonnegative_scale
from slalom_xai.theory.base import Outcome, Settings, at_least, at_most, reproduction
from slalom_xai.theory.drawing import BLUE, GREY, ORANGE, RED, panels
from slalom_xai.theory.paper.synthetic import LONGEST, WORDS, Shape, counts, sample_rows, trained
from slalom_xai.theory.paper.transformer import random_slalom

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_UNITS = 30


@reproduction(
    name="alternating",
    title=(
        "Algorithm 2's second step as Eq. 77 minimises something else than the error, so rounds "
        "stall and weights vanish"
    ),
    source="Leemann et al. 2024, Appendix D.2, Eqs. 74 to 79",
)
def alternating(settings: Settings) -> Outcome:
    """Eq. 77 beside the error it stands for, round by round, with and without noise."""
    generator = torch.Generator().manual_seed(settings.seed)
    known = random_slalom(_UNITS, seed=settings.seed)
    rows = (
        torch.rand(1500, _UNITS, generator=generator) < torch.rand(1500, 1, generator=generator)
    ).double()
    rows = rows[rows.sum(dim=1) > 0]
    clean = known.predict(rows)
    noisy = clean + 0.3 * torch.randn(clean.shape, generator=generator, dtype=torch.float64)
    traces, least = {}, {}
    for name, outputs in (("exact answers", clean), ("noisy answers", noisy)):
        traces[name], least[name] = _rounds(rows, outputs, rounds=60)
    joint = {
        name: _joint(rows, outputs)
        for name, outputs in (("exact answers", clean), ("noisy answers", noisy))
    }
    table = pd.DataFrame(
        {
            "answers": list(traces),
            "error at the start": [trace[0] for trace in traces.values()],
            "least error in 60 rounds": [min(trace) for trace in traces.values()],
            "error after 60 rounds": [trace[-1] for trace in traces.values()],
            "error of the joint fit": list(joint.values()),
            "rounds that raised it": [
                sum(after > before * (1 + 1e-9) for before, after in itertools.pairwise(trace))
                for trace in traces.values()
            ],
            "least weight": list(least.values()),
        }
    )
    exact, noise = table.iloc[0], table.iloc[1]
    return Outcome(
        checks=(
            at_most(
                "E s̄ against the row's total weight times its residual: largest difference",
                _identity(rows, noisy),
                1e-10,
            ),
            at_least(
                "exact answers: least error in 60 rounds over that of the joint fit",
                exact["least error in 60 rounds"] / exact["error of the joint fit"],
                100,
            ),
            at_least(
                "noisy answers: rounds of 60 that raise the error",
                noise["rounds that raised it"],
                1,
            ),
            at_least(
                "noisy answers: last error over that of the joint fit",
                noise["error after 60 rounds"] / noise["error of the joint fit"],
                1.05,
            ),
            at_most(
                "noisy answers, no floor: the least weight, of a mean of 1",
                noise["least weight"],
                1e-6,
            ),
        ),
        tables={"rounds": table},
        figures={"rounds": lambda: _draw_rounds(traces, joint)},
        remarks=(
            (
                "Errors are mean squares. slalom-fidel with the paper's solver keeps the best "
                "round, stops after three without progress, and has a floor."
            ),
        ),
    )


def _identity(rows: Tensor, outputs: Tensor) -> float:
    known = random_slalom(_UNITS, seed=1)
    weight = known.importances[0].exp()
    left = (rows * (known.values[0, :, 0] - outputs)) @ weight
    right = (rows @ weight) * (known.predict(rows) - outputs)[:, 0]
    return float((left - right).abs().max())


def _rounds(rows: Tensor, outputs: Tensor, rounds: int) -> tuple[list[float], float]:
    """The error of each round of Algorithm 2 with Eq. 77 and no floor to speak of, and the least weight at the end."""
    scale, errors = torch.ones(_UNITS, dtype=torch.float64), []
    for _ in range(rounds):
        raw = rows * scale
        shares = raw / raw.sum(dim=1, keepdim=True).clamp(min=1e-300)
        values = torch.linalg.lstsq(shares, outputs, driver="gelsd").solution
        errors.append(float((shares @ values - outputs).square().mean()))
        scale = nonnegative_scale(rows * (values[:, 0] - outputs), scale, floor=1e-9)
    return errors, float(scale.min())


def _joint(rows: Tensor, outputs: Tensor) -> float:
    return float(fit_slalom(rows, outputs, sink=False, prior=1e-9).residuals.square().mean())


def _draw_rounds(traces: dict[str, list[float]], joint: dict[str, float]) -> Figure:
    figure, made = panels(len(traces), width=3.4, height=2.7)
    for axes, (name, trace) in zip(made, traces.items(), strict=True):
        axes.semilogy(range(1, len(trace) + 1), trace, color=RED, label="alternating with Eq. 77")
        axes.axhline(max(joint[name], 1e-12), color=BLUE, label="values and importances together")
        axes.set(xlabel="round", title=name)
        axes.legend(fontsize=7, frameon=False)
    made[0].set_ylabel("mean squared error")
    return figure


@reproduction(
    name="gam-table",
    title=(
        "A GAM contains the linear model: its larger error in Table 6 is the work of a fixed "
        "LASSO penalty"
    ),
    source="Leemann et al. 2024, Appendix F.1, Table 6",
)
def gam_table(settings: Settings) -> Outcome:
    """Linear model, GAM and SLALOM fitted to transformers trained on the linear language."""
    shapes = [
        Shape("encoder", 2, positions=True, special=True),
        Shape("decoder", 2, positions=True),
    ]
    seen, fresh = sample_rows(3000, settings.seed + 1), sample_rows(3000, settings.seed + 2)
    found = []
    for shape in settings.track(shapes, "training small transformers"):
        model = trained(shape, settings.seed)
        found.append(
            {
                "model": str(shape),
                **_surrogate_errors(
                    seen, fresh, model.log_odds(seen)[:, None], model.log_odds(fresh)[:, None]
                ),
            }
        )
    table = pd.DataFrame(found)
    return Outcome(
        checks=(
            at_most(
                "counts of words as sums of the GAM's features: largest difference",
                float(
                    (_places(seen).reshape(-1, LONGEST, len(WORDS)).sum(dim=1) - counts(seen))
                    .abs()
                    .max()
                ),
                0,
            ),
            at_most(
                "least squares on the fitted rows: GAM's error as a part of the linear model's",
                (table["fitted rows: GAM"] / table["fitted rows: linear"]).max(),
                1.0,
            ),
            at_least(
                "LASSO with λ = 0.01, fresh rows: GAM's error over the linear model's",
                (table["GAM, LASSO 0.01"] / table["linear"]).min(),
                1.1,
            ),
            at_most(
                "cross-validated penalty, fresh rows: GAM's error as a part of the LASSO's",
                (table["GAM, cross-validated"] / table["GAM, LASSO 0.01"]).max(),
                0.8,
            ),
            at_most(
                "SLALOM with a sink, fresh rows: error as a part of the best additive model's",
                (
                    table["SLALOM with sink"]
                    / table[["linear", "GAM, cross-validated"]].min(axis=1)
                ).max(),
                1.0,
            ),
        ),
        tables={"errors": table},
        figures={"errors": lambda: _draw_errors(table)},
        remarks=(
            (
                "Mean squared errors on 3,000 fresh rows of the linear language, for surrogates "
                "fitted to 3,000 others."
            ),
        ),
    )


def _places(rows: list[list[int]]) -> Tensor:
    """The GAM's features, (m, 30 × words): which word stands where."""
    made = torch.zeros(len(rows), LONGEST, len(WORDS), dtype=torch.float64)
    for number, row in enumerate(rows):
        made[number, torch.arange(len(row)), torch.tensor(row)] = 1.0
    return made.reshape(len(rows), -1)


def _surrogate_errors(
    seen: list[list[int]], fresh: list[list[int]], outputs: Tensor, truth: Tensor
) -> dict[str, float]:
    plain, placed = (counts(seen), counts(fresh)), (_places(seen), _places(fresh))

    def error(predicted: Tensor, wanted: Tensor) -> float:
        return float((predicted - wanted).square().mean())

    linear, gam = (_least_squares(features[0], outputs) for features in (plain, placed))
    shrunk = lasso(placed[0], outputs, 0.01)
    centre, middle = placed[0].mean(dim=0), outputs.mean(dim=0)
    ridge = fit_additive(
        1 + placed[0] - centre, outputs - middle, torch.zeros(1, dtype=torch.float64)
    ).surrogate
    surrogates = {
        name: fit_slalom(plain[0], outputs, sink=sink, prior=1e-5).surrogate
        for name, sink in (("SLALOM", False), ("SLALOM with sink", True))
    }
    return {
        "fitted rows: linear": error(_with_one(plain[0]) @ linear, outputs),
        "fitted rows: GAM": error(_with_one(placed[0]) @ gam, outputs),
        "linear": error(_with_one(plain[1]) @ linear, truth),
        "GAM, LASSO 0.01": error(_with_one(placed[1]) @ shrunk, truth),
        "GAM, cross-validated": error(ridge.predict(1 + placed[1] - centre) + middle, truth),
        **{name: error(one.predict(plain[1]), truth) for name, one in surrogates.items()},
    }


def _with_one(features: Tensor) -> Tensor:
    return torch.cat([features, features.new_ones(len(features), 1)], dim=1)


def _least_squares(features: Tensor, outputs: Tensor) -> Tensor:
    solved: Tensor = torch.linalg.lstsq(_with_one(features), outputs, driver="gelsd").solution
    return solved


def lasso(features: Tensor, outputs: Tensor, penalty: float, rounds: int = 200) -> Tensor:
    """Weights and a last, free intercept (n + 1, 1) that minimise |y − Xw − b|² / (2m) + penalty |w|₁, by coordinate descent."""
    middle, centre = features.mean(dim=0), outputs.mean(dim=0)
    centred = features - middle
    gram, target = (
        centred.T @ centred / len(features),
        (centred.T @ (outputs - centre))[:, 0] / len(features),
    )
    weight = torch.zeros(features.shape[1], dtype=torch.float64)
    for _ in range(rounds):
        before = weight.clone()
        for place in torch.nonzero(gram.diagonal() > 0)[:, 0].tolist():
            pull = target[place] - gram[place] @ weight + gram[place, place] * weight[place]
            weight[place] = (
                torch.sign(pull) * (pull.abs() - penalty).clamp(min=0) / gram[place, place]
            )
        if float((weight - before).abs().max()) < 1e-7:
            break
    return torch.cat([weight, centre - middle @ weight])[:, None]


def _draw_errors(table: pd.DataFrame) -> Figure:
    names = ["linear", "GAM, LASSO 0.01", "GAM, cross-validated", "SLALOM", "SLALOM with sink"]
    figure, made = panels(len(table), width=3.6, height=2.4)
    for axes, (_, row) in zip(made, table.iterrows(), strict=True):
        axes.barh(names, [row[name] for name in names], color=[GREY, RED, ORANGE, BLUE, BLUE])
        axes.invert_yaxis()
        axes.set(xlabel="mean squared error", title=row["model"])
    return figure


@reproduction(
    name="naive-bayes",
    title=(
        "The Naive-Bayes weight of a word is the logarithm of the ratio of its counts, not the "
        "ratio"
    ),
    source="Leemann et al. 2024, Appendix E.4, Eq. 82",
)
def naive_bayes(settings: Settings) -> Outcome:
    """Word weights from corpora of three sizes, and the log odds of fresh texts they add up to."""
    generator = torch.Generator().manual_seed(settings.seed)
    chances = torch.softmax(
        0.5 * torch.randn(2, 40, generator=generator, dtype=torch.float64), dim=1
    )
    truth = (chances[1] / chances[0]).log()
    fresh = torch.stack(
        [
            torch.bincount(one, minlength=40)
            for one in torch.multinomial(
                chances.mean(dim=0), 200 * 12, True, generator=generator
            ).reshape(200, 12)
        ]
    )
    log_odds = fresh.double() @ truth
    rows = []
    for words in (1000, 10000, 100000):
        ratio = _ratio(chances, words, generator)
        logs, plain = fresh.double() @ ratio.log(), fresh.double() @ ratio
        rows.append(
            (words, *(float((guess - log_odds).square().mean().sqrt()) for guess in (logs, plain)))
        )
    table = pd.DataFrame(
        rows,
        columns=[
            "words of each class",
            "rms error: log of the ratio",
            "rms error: ratio as printed",
        ],
    )
    good, bad = table.iloc[:, 1].to_numpy(), table.iloc[:, 2].to_numpy()
    return Outcome(
        checks=(
            at_most(
                "with the logarithm, ten times the words: the error as a part of that before, at "
                "most",
                float((good[1:] / good[:-1]).max()),
                0.6,
            ),
            at_most("with the logarithm, 100,000 words: error of the log odds", good[-1], 0.2),
            at_least("as printed: the least error over all sizes", bad.min(), 5.0),
        ),
        tables={"sizes": table},
        figures={"sizes": lambda: _draw_bayes(table)},
        remarks=(
            (
                "The ratio is positive for every word, so that its sum can only grow with the "
                "length of a text."
            ),
        ),
    )


def _ratio(chances: Tensor, words: int, generator: torch.Generator) -> Tensor:
    """The ratio of smoothed counts (40,) in corpora of so many words of each class, through the package's own method."""
    corpora = [
        Counter(
            f"w{word}"
            for word in torch.multinomial(chances[label], words, True, generator=generator).tolist()
        )
        for label in (0, 1)
    ]
    method = NaiveBayes(texts=["w0"], labels=[0])
    return torch.as_tensor(method.weights(corpora, [f"w{word}" for word in range(40)]))[:, 0].exp()


def _draw_bayes(table: pd.DataFrame) -> Figure:
    figure, (axes,) = panels(1, width=4.0, height=2.7)
    axes.loglog(
        table.iloc[:, 0], table.iloc[:, 1], color=BLUE, marker="o", label="log of the ratio"
    )
    axes.loglog(
        table.iloc[:, 0], table.iloc[:, 2], color=RED, marker="o", label="ratio, as printed"
    )
    axes.set(xlabel="words of each class", ylabel="rms error of the log odds")
    axes.legend(fontsize=8, frameon=False)
    return figure
