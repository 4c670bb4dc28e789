"""Putting texts together is not adding: Fig. 1's concatenation and Fig. 9's counterexample."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from slalom_xai.models.base import TextModel
from slalom_xai.models.load import text_model
from slalom_xai.surrogates.fit import fit_slalom
from slalom_xai.surrogates.formula import SlalomSurrogate
from slalom_xai.surrogates.recover import recover
from slalom_xai.theory.base import Outcome, Settings, at_least, at_most, reproduction
from slalom_xai.theory.drawing import BLUE, GREY, RED, panels
from slalom_xai.theory.paper.repeats import additive_bound
from slalom_xai.theory.paper.synthetic import (
    WEIGHTS,
    WORDS,
    Shape,
    counts,
    linear_log_odds,
    sample_rows,
    trained,
)
from slalom_xai.theory.paper.transformer import (
    answers,
    planted,
    random_rows,
    random_slalom,
    row_counts,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Each an opinion and something neutral to put before it.
PAIRS = (
    (
        "A moving and beautiful film.",
        (
            "We took the late train into town, found our seats in the third row, and shared a bag "
            "of crisps;"
        ),
    ),
    (
        "The acting is wonderful.",
        (
            "My cousin had chosen it because the cinema is next to her office and parking there "
            "is free."
        ),
    ),
    (
        "I loved every minute of it.",
        (
            "The story takes place in a small harbour town in the winter of a year that is never "
            "named."
        ),
    ),
    (
        "An awful, boring mess.",
        (
            "It runs for almost two hours, with a short break after the first half for the reels "
            "to be changed."
        ),
    ),
    (
        "The worst script in years.",
        (
            "Our group of six met on a Tuesday, as we do each month, to see whatever was on that "
            "evening."
        ),
    ),
    (
        "A dull and pointless sequel.",
        "There are two brothers, a lighthouse, a letter that arrives late, and a dog called Major.",
    ),
)
_SHAPES = (
    Shape("encoder", 2),
    Shape("encoder", 2, special=True),
    Shape("encoder", 2, positions=True, special=True),
    Shape("decoder", 2, positions=True),
)
_Asked = Callable[[Sequence[Sequence[int]]], Tensor]


def embedded_log_odds(texts: Sequence[str]) -> Tensor:
    """The log odds (m,) of the movie-review classifier that comes with the package."""
    model = _embedded()
    rows = []
    for text in texts:
        reading = model.read(text)
        rows.append(reading.shorten(np.ones(len(reading.pieces), dtype=bool)))
    logits = model.answer(rows).double().cpu()
    return logits[:, 1] - logits[:, 0]


@functools.lru_cache(maxsize=1)
def _embedded() -> TextModel:
    return text_model(None, device="cpu")


@reproduction(
    name="concatenation",
    title="The log odds of two texts put together are no sum of theirs but an average",
    source="Leemann et al. 2024, Fig. 1",
)
def concatenation(settings: Settings) -> Outcome:
    """Two texts after one another: on a planted SLALOM, on trained transformers and on the embedded model."""
    between, mediant = _planted_pairs(settings.seed)
    learnt, points = _learnt_pairs(settings)
    pairs, doubled = _embedded_pairs(), _embedded_doubled()
    offset = pairs["f(u) + f(t)"] - pairs["f(u t)"]  # the same for all pairs, were the model linear
    ratio, as_paper = learnt["sum / SLALOM"], learnt["lengths"] == "as in the paper"
    within = (
        (pairs["f(u t)"] > pairs[["f(u)", "f(t)"]].min(axis=1))
        & (pairs["f(u t)"] < pairs[["f(u)", "f(t)"]].max(axis=1))
    ).mean()
    return Outcome(
        checks=(
            at_most(
                "planted SLALOM: how far F([u, t]) leaves the range from F(u) to F(t)",
                between,
                1e-12,
            ),
            at_most(
                "planted SLALOM: difference to the average of F(u) and F(t) weighted by their "
                "total weights",
                mediant,
                1e-12,
            ),
            at_least(
                "trained as in the paper: error of the sum over that of a SLALOM fitted to other "
                "rows",
                ratio[as_paper].min(),
                2.0,
            ),
            at_least("trained on all lengths: the same", ratio[~as_paper].min(), 1.0),
            at_least(
                "embedded model: error that every linear model has, whatever its weights and "
                "offset",
                (offset.max() - offset.min()) / 6,
                0.2,
            ),
            at_least(
                "embedded model: part of the pairs whose f(u t) lies between f(u) and f(t)",
                within,
                0.8,
            ),
            at_most(
                "embedded model, a text written twice: error of 'the same' as a part of the error "
                "of 'twice as much'",
                (doubled["f(t t)"] - doubled["f(t)"]).abs().mean()
                / (doubled["f(t t)"] - 2 * doubled["f(t)"]).abs().mean(),
                1.0,
            ),
        ),
        tables={"embedded": pairs, "twice": doubled, "trained": learnt},
        figures={"sums": lambda: _draw_sums(points, pairs)},
        remarks=(
            "The language that the small transformers learnt from is a sum: there f([u, t]) = "
            "f(u) + f(t) without error. Trained on texts "
            "of all lengths, a transformer that has a special token or positions learns to add "
            "while the sum is small, as the curves of "
            "repeated-token-sink show, so that adding is less wrong there.",
            "Any linear model has f(u) + f(t) − f(u t) = its offset for every pair. Where two "
            "pairs differ in this by D, a linear model is "
            "off by at least D / 6 on one of their six texts.",
        ),
    )


def _planted_pairs(seed: int) -> tuple[float, float]:
    known = random_slalom(12, seed=seed)
    model = planted(known)
    left, right = random_rows(200, 12, 8, seed + 1), random_rows(200, 12, 8, seed + 2)
    first, second = answers(model, left)[:, 0], answers(model, right)[:, 0]
    both = answers(model, [one + other for one, other in zip(left, right, strict=True)])[:, 0]
    outside = torch.maximum(
        both - torch.maximum(first, second), torch.minimum(first, second) - both
    ).clamp(min=0)
    weight = known.importances[0].exp()
    heavy, light = row_counts(left, 12) @ weight, row_counts(right, 12) @ weight
    return float(outside.max()), float(
        ((heavy * first + light * second) / (heavy + light) - both).abs().max()
    )


def _learnt_pairs(
    settings: Settings,
) -> tuple[pd.DataFrame, dict[str, tuple[Tensor, Tensor, Tensor]]]:
    """On trained transformers: the sum of the parts and the prediction of a SLALOM that saw other rows, against the answer."""
    rows, points = [], {}
    kinds = [*((shape, False) for shape in _SHAPES), *((shape, True) for shape in _SHAPES[1::2])]
    for shape, even in settings.track(kinds, "training small transformers"):
        model = (
            trained(shape, settings.seed, steps=400, even=True)
            if even
            else trained(shape, settings.seed)
        )
        seen = sample_rows(1500, settings.seed + 1, even=True)
        fitted = fit_slalom(
            counts(seen), model.log_odds(seen)[:, None], sink=True, prior=1e-4
        ).surrogate
        halves = [row[:15] for row in sample_rows(400, settings.seed + 2, even=True)]
        left, right = halves[::2], halves[1::2]
        together = [one + other for one, other in zip(left, right, strict=True)]
        truth = model.log_odds(together)
        added, predicted = (
            model.log_odds(left) + model.log_odds(right),
            fitted.predict(counts(together))[:, 0],
        )
        if not even:
            points[str(shape)] = (truth, added, predicted)
        errors = [float((guess - truth).square().mean().sqrt()) for guess in (added, predicted)]
        exact = linear_log_odds(left) + linear_log_odds(right) - linear_log_odds(together)
        rows.append(
            (
                str(shape),
                "1 to 30 alike" if even else "as in the paper",
                *errors,
                errors[0] / errors[1],
                float(exact.abs().max()),
            )
        )
    names = [
        "model",
        "lengths",
        "rms error: sum of the parts",
        "rms error: SLALOM",
        "sum / SLALOM",
        "error of the sum on the truth",
    ]
    return pd.DataFrame(rows, columns=names), points


def _embedded_pairs() -> pd.DataFrame:
    first, second = (embedded_log_odds([pair[place] for pair in PAIRS]) for place in (1, 0))
    both = embedded_log_odds([f"{before} {opinion}" for opinion, before in PAIRS])
    return pd.DataFrame(
        {
            "t": [opinion for opinion, _ in PAIRS],
            "f(u)": first.tolist(),
            "f(t)": second.tolist(),
            "f(u) + f(t)": (first + second).tolist(),
            "f(u t)": both.tolist(),
        }
    )


def _embedded_doubled() -> pd.DataFrame:
    texts = [f"{before} {opinion}" for opinion, before in PAIRS]
    once, twice = embedded_log_odds(texts), embedded_log_odds([f"{text} {text}" for text in texts])
    return pd.DataFrame(
        {
            "t": [opinion for opinion, _ in PAIRS],
            "f(t)": once.tolist(),
            "2 f(t)": (2 * once).tolist(),
            "f(t t)": twice.tolist(),
        }
    )


def _draw_sums(points: dict[str, tuple[Tensor, Tensor, Tensor]], pairs: pd.DataFrame) -> Figure:
    shown = (str(_SHAPES[0]), str(_SHAPES[2]), str(_SHAPES[3]))
    figure, made = panels(len(shown) + 1, width=2.6, height=2.8)
    for axes, name in zip(made, shown, strict=False):
        truth, added, predicted = points[name]
        _diagonal(axes, truth)
        axes.plot(truth[::2], added[::2], ".", color=RED, markersize=3, label="f(u) + f(t)")
        axes.plot(truth[::2], predicted[::2], ".", color=BLUE, markersize=3, label="SLALOM")
        axes.set_title(name.replace(", ", "\n", 1), fontsize=8)
        axes.set_xlabel("f([u, t])")
    _diagonal(made[-1], torch.tensor(pairs["f(u t)"].to_numpy()))
    made[-1].plot(pairs["f(u t)"], pairs["f(u) + f(t)"], "o", color=RED, markersize=4)
    made[-1].set_title("embedded model\nsix pairs of texts", fontsize=8)
    made[-1].set_xlabel("f(u t)")
    made[0].legend(fontsize=7, frameon=False)
    return figure


def _diagonal(axes: Axes, truth: Tensor) -> None:
    ends = [float(truth.min()), float(truth.max())]
    axes.plot(ends, ends, color=GREY, linewidth=0.8)


@reproduction(
    name="counterexample",
    title="Five answers about two words contradict every additive model, and hardly a SLALOM",
    source="Leemann et al. 2024, Fig. 9",
)
def counterexample(settings: Settings) -> Outcome:
    """The answers to perfect, worst and their pairs, and what they force an additive model to answer."""
    best, worst = WORDS.index("perfect"), WORDS.index("worst")
    asked: dict[str, _Asked] = {"planted SLALOM": _planted_words(settings.seed)}
    for shape in settings.track(_SHAPES, "training small transformers"):
        asked[f"trained {shape}"] = trained(shape, settings.seed).log_odds
    asked["embedded model"] = lambda rows: embedded_log_odds(
        [" ".join(WORDS[word] for word in row) for row in rows]
    )
    rows = []
    for name, ask in asked.items():
        found = ask([[best], [best, best], [worst], [worst, worst], [worst, best], [best, worst]])
        rows.append(
            {
                "model": name,
                **_assigned(found),
                "error of any GAM ≥": max(
                    additive_bound(ask, worst, best), additive_bound(ask, best, worst)
                ),
            }
        )
    table = pd.DataFrame(rows)
    gam, slalom = table["GAM: error"], table["SLALOM: error"]
    exact = table["model"] == "planted SLALOM"
    return Outcome(
        checks=(
            at_least(
                "smallest error of every additive model, whatever its weights, on one of these "
                "rows",
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
        ),
        tables={"answers": table},
        figures={"answers": lambda: _draw_answers(table)},
        remarks=(
            "The GAM takes its weights from perfect, perfect perfect, worst and worst worst, and "
            "is tried on both mixed pairs; the SLALOM "
            "takes its four numbers from perfect, worst and worst perfect, and is tried on the "
            "other three. The figure in the paper adds "
            "w1(perfect) and w2(worst) for the row worst perfect; the order asks for w1(worst) + "
            "w2(perfect). Either is far off.",
        ),
    )


def _planted_words(seed: int) -> _Asked:
    """A SLALOM whose values are twice the linear weights, with random importances."""
    values = 2 * torch.tensor(WEIGHTS, dtype=torch.float64)[None, :, None]
    model = planted(SlalomSurrogate(values, random_slalom(len(WORDS), seed=seed).importances))
    return lambda rows: answers(model, rows)[:, 0]


def _assigned(found: Tensor) -> dict[str, float]:
    """The answers to p, pp, w, ww, wp, pw, and the errors of the additive model and of the SLALOM they lead to."""
    one, two, other, others, mixed, turned = found.tolist()
    gam = {"wp": other + (two - one), "pw": one + (others - other)}
    fitted, _ = recover(
        found[[0, 2]][:, None], torch.tensor([[mixed], [mixed]], dtype=torch.float64)
    )
    rows = torch.tensor([[2.0, 0.0], [0.0, 2.0], [1.0, 1.0]], dtype=torch.float64)
    predicted = fitted.predict(rows)[:, 0].tolist()
    return {
        "perfect": one,
        "perfect perfect": two,
        "worst": other,
        "worst worst": others,
        "worst perfect": mixed,
        "perfect worst": turned,
        "GAM: perfect worst": gam["pw"],
        "SLALOM: perfect worst": predicted[2],
        "GAM: error": max(abs(gam["wp"] - mixed), abs(gam["pw"] - turned)),
        "SLALOM: error": max(
            abs(guess - truth)
            for guess, truth in zip(predicted, (two, others, turned), strict=True)
        ),
    }


def _draw_answers(table: pd.DataFrame) -> Figure:
    figure, (axes,) = panels(1, width=6.4, height=3.2)
    places = np.arange(len(table))
    axes.axhline(0, color=GREY, linewidth=0.6)
    axes.plot(
        places,
        table["perfect worst"],
        "o",
        color="black",
        markersize=5,
        label="the model on [perfect, worst]",
    )
    axes.plot(
        places,
        table["GAM: perfect worst"],
        "x",
        color=RED,
        markersize=7,
        label="what the GAM must answer",
    )
    axes.plot(
        places,
        table["SLALOM: perfect worst"],
        "_",
        color=BLUE,
        markersize=14,
        label="SLALOM, from [worst, perfect]",
    )
    axes.set_xticks(
        places,
        [
            name.replace(", ", "\n").replace(" and ", "\n").replace("trained ", "")
            for name in table["model"]
        ],
        fontsize=7,
    )
    axes.set_ylabel("log odds")
    axes.legend(fontsize=7, frameon=False)
    return figure
