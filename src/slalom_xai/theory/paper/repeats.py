"""Transformers are no sums: what happens when one token is repeated (Proposition 4.1 and its corollaries)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from slalom_xai.surrogates.formula import SlalomSurrogate
from slalom_xai.surrogates.recover import recover_with_sink
from slalom_xai.theory.base import Check, Outcome, Settings, at_least, at_most, reproduction
from slalom_xai.theory.drawing import COLOURS, GREY, panels
from slalom_xai.theory.paper.synthetic import (
    LONGEST,
    WEIGHTS,
    WORDS,
    Shape,
    SmallTransformer,
    sample_rows,
    trained,
)
from slalom_xai.theory.paper.transformer import answers, planted, random_slalom

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SAME = 1e-9  # two answers in float64 are the same within this
_Asked = Callable[[Sequence[Sequence[int]]], Tensor]


def spread_over_repeats(ask: _Asked, words: int = len(WORDS), longest: int = LONGEST) -> float:
    """The largest difference between the answers to [t], [t, t], ..., over all tokens."""
    rows = [[word] * times for word in range(words) for times in range(1, longest + 1)]
    found = ask(rows).reshape(words, longest)
    return float((found.amax(dim=1) - found.amin(dim=1)).max())


def additive_bound(ask: _Asked, first: int, second: int) -> float:
    """A lower bound for the largest error of every additive model, whatever its weights at each position.

    An additive model has w_2(b) = F([a, b]) - F([a]) = F([b, b]) - F([b]). Where a function breaks
    the second equation by D, any additive model is off by at least D / 4 on one of the four rows.
    """
    mixed, one, twice, once = ask([[first, second], [first], [second, second], [second]]).tolist()
    return float(abs((mixed - one) - (twice - once)) / 4)


@reproduction(
    name="repeated-token",
    title=(
        "A transformer without positions and special tokens gives one answer to [t], [t, t], ..., "
        "so it is no sum"
    ),
    source="Leemann et al. 2024, Proposition 4.1, Corollaries 4.2 and 4.3",
)
def repeated_token(settings: Settings) -> Outcome:
    """Encoders and decoders of several depths, random and trained."""
    shapes = [Shape(family, layers) for family in ("encoder", "decoder") for layers in (1, 2, 4)]
    rows, curves = [], {}
    probe = sample_rows(300, settings.seed + 1)
    best, worst = WORDS.index("perfect"), WORDS.index("worst")
    for shape in settings.track(shapes, "training small transformers"):
        random = SmallTransformer(shape, settings.seed, spread=0.3)
        learnt = trained(shape, settings.seed)
        for kind, model in (("random", random), ("trained", learnt)):
            same_first = model.log_odds([[0, *row[1:]] for row in probe])
            rows.append(
                (
                    str(shape),
                    kind,
                    spread_over_repeats(model.log_odds),
                    float(same_first.amax() - same_first.amin()),
                    additive_bound(model.log_odds, worst, best),
                )
            )
        curves[str(shape)] = learnt.log_odds([[best] * times for times in range(1, 21)]).tolist()
    names = [
        "model",
        "weights",
        "largest change over repeats",
        "range with the same first token",
        "error of any additive model ≥",
    ]
    table = pd.DataFrame(rows, columns=names)
    return Outcome(
        checks=_repeat_checks(table),
        tables={"models": table},
        figures={"curves": lambda: _draw_repeats(curves)},
        remarks=(
            "The range shows that the answers depend on more than the first token, so Corollary "
            "4.2 applies. The last column holds for "
            "every additive model, also one with other weights at each position: it needs "
            "F([worst, perfect]) − F([worst]) = "
            "F([perfect, perfect]) − F([perfect]).",
        ),
    )


def _repeat_checks(table: pd.DataFrame) -> tuple[Check, ...]:
    change, span, error = table.columns[2:]
    learnt = table[table["weights"] == "trained"]
    layers = table["model"].str.contains("1 layer")
    return (
        at_most(
            "Prop. 4.1: largest change of the answer over 1 to 30 repeats, one layer",
            table.loc[layers, change].max(),
            SAME,
        ),
        at_most(
            "Cor. 4.3: the same with two and four layers", table.loc[~layers, change].max(), SAME
        ),
        at_least(
            "Cor. 4.2: smallest range of the answers to texts with the same first token",
            table[span].min(),
            0.05,
        ),
        at_least(
            "Cor. 4.2: smallest error that every additive model of a trained transformer has",
            learnt[error].min(),
            0.1,
        ),
    )


def _draw_repeats(curves: dict[str, list[float]]) -> Figure:
    figure, (axes,) = panels(1, width=5.2, height=3.0)
    times = np.arange(1, 21)
    axes.plot(
        times,
        WEIGHTS[WORDS.index("perfect")] * times,
        color=GREY,
        linestyle=":",
        label="what was to be learnt",
    )
    for place, (name, curve) in enumerate(curves.items()):
        axes.plot(times, curve, color=COLOURS[place % len(COLOURS)], label=name, linewidth=1.3)
    axes.set(
        xlabel='times "perfect" is repeated',
        ylabel="log odds",
        ylim=(0, 15),
        title="Trained on a sum, without positions and [CLS]",
    )
    axes.set_xticks([1, 5, 10, 15, 20])
    axes.legend(fontsize=7, frameon=False, ncols=2)
    return figure


def sink_curve(times: Tensor, found: Tensor) -> SlalomSurrogate:
    """The SLALOM with a sink, of one unit, nearest to the answers (m,) to so many repeats (m,), by least squares."""
    best, best_error = None, float("inf")
    for log_weight in torch.linspace(-8, 6, 561, dtype=torch.float64):
        share = times * log_weight.exp() / (times * log_weight.exp() + 1)
        design = torch.stack([torch.ones_like(share), share], dim=1)
        solved = torch.linalg.lstsq(design, found[:, None]).solution
        error = float(((design @ solved)[:, 0] - found).square().mean())
        if error < best_error:
            value = (solved[0] + solved[1]).reshape(1, 1, 1)
            best = SlalomSurrogate(
                value,
                log_weight.reshape(1, 1),
                solved[0].reshape(1, 1),
                torch.zeros(1, dtype=torch.float64),
            )
            best_error = error
    assert best is not None
    return best.normalised()


@reproduction(
    name="repeated-token-sink",
    title=(
        "With a [CLS] token or positions repeats do count: with a token in front, near the curve "
        "of a sink, rising and then flat"
    ),
    source="Leemann et al. 2024, Proposition 4.1 and Appendix C.2; the sink is ours",
)
def repeated_token_sink(settings: Settings) -> Outcome:
    """How a special token and positions bend the constant of Proposition 4.1."""
    shapes = [
        Shape("encoder", 2),
        Shape("encoder", 2, special=True),
        Shape("decoder", 2, special=True),
    ]
    shapes += [
        Shape("encoder", 2, positions=True),
        Shape("encoder", 2, positions=True, special=True),
    ]
    good, perfect = WORDS.index("good"), WORDS.index("perfect")
    rows, curves = [], {}
    for shape in settings.track(shapes, "training small transformers"):
        model = trained(shape, settings.seed, steps=400, even=True)
        for word in (good, perfect):
            times = torch.arange(0 if shape.special else 1, LONGEST + 1).double()
            found = model.log_odds([[word] * int(count) for count in times])
            sink = sink_curve(times, found).predict(times[:, None])[:, 0]
            curves[str(shape), WORDS[word]] = (times.tolist(), found.tolist(), sink.tolist())
            rows.append(
                (
                    str(shape),
                    WORDS[word],
                    float(found.amax() - found.amin()),
                    *_curve_errors(times, found, sink),
                )
            )
    table = pd.DataFrame(
        rows,
        columns=[
            "model",
            "word",
            "range over repeats",
            "rms error: constant",
            "rms error: line",
            "rms error: sink",
        ],
    )
    settled = _settling(trained(shapes[1], settings.seed, steps=400, even=True), perfect)
    exact = _exact_sink(settings.seed)
    return Outcome(
        checks=_sink_checks(table, settled, exact),
        tables={"curves": table, "limit": settled},
        figures={"curves": lambda: _draw_sinks(curves)},
        remarks=(
            "The proposition is right as stated and does not carry over to a BERT as it is used: "
            "with a [CLS] token in front the "
            "answer counts repeats until the token's share in the average is nearly one.",
        ),
    )


def _curve_errors(times: Tensor, found: Tensor, sink: Tensor) -> tuple[float, float, float]:
    line = torch.stack([torch.ones_like(times), times], dim=1)
    fitted = (line @ torch.linalg.lstsq(line, found[:, None]).solution)[:, 0]
    constant, straight, curved = (
        (found - other).square().mean().sqrt().item() for other in (found.mean(), fitted, sink)
    )
    return constant, straight, curved


def _settling(model: SmallTransformer, word: int) -> pd.DataFrame:
    """How much twice as many repeats still change the answer: half as much each time, where the special token's share is all that is left."""
    sizes = (64, 128, 256, 512, 1024)
    found = model.log_odds([[word] * size for size in sizes]).tolist()
    steps = [abs(after - before) for before, after in itertools.pairwise(found)]
    return pd.DataFrame({"repeats": sizes[:-1], "change on doubling them": steps})


def _exact_sink(seed: int) -> float:
    """One attention layer that reads a [CLS] token linearly: the sink found from 0, 1 and 2 repeats against 3 to 64 repeats."""
    known = random_slalom(4, seed=seed)
    model = planted(known)  # token 3 plays [CLS]
    rows = [[3] + [word] * times for word in range(3) for times in range(65)]
    found = answers(model, rows).reshape(3, 65)
    fitted, _ = recover_with_sink(found[0, :1], found[:, 1:2], found[:, 2:3])
    counts = torch.kron(
        torch.eye(3, dtype=torch.float64), torch.arange(65, dtype=torch.float64)[:, None]
    )
    return float((fitted.predict(counts)[:, 0].reshape(3, 65) - found).abs().max())


def _sink_checks(table: pd.DataFrame, settled: pd.DataFrame, exact: float) -> tuple[Check, ...]:
    special = table["model"].str.contains("CLS|start") & ~table["model"].str.contains("positions")
    plain = ~table["model"].str.contains("CLS|start|positions")
    steps = settled.iloc[:, 1].to_numpy()
    return (
        at_most(
            "without either, the answers to 1 to 30 repeats span",
            table.loc[plain, "range over repeats"].max(),
            SAME,
        ),
        at_least(
            "with a special token they span at least",
            table.loc[special, "range over repeats"].min(),
            1.0,
        ),
        at_least(
            "with positions they span at least",
            table.loc[~special & ~plain, "range over repeats"].min(),
            0.3,
        ),
        at_most(
            "one layer read linearly: the sink found from 0, 1, 2 repeats is off on up to 64 "
            "repeats by",
            exact,
            SAME,
        ),
        at_most(
            "trained, with a special token: the sink's error is this part of the constant's",
            (table["rms error: sink"] / table["rms error: constant"])[special].max(),
            0.35,
        ),
        at_most(
            "and this part of a line's",
            (table["rms error: sink"] / table["rms error: line"])[special].max(),
            0.6,
        ),
        at_most(
            "doubling 64, 128, 256, 512 repeats: each change as a part of the one before",
            float((steps[1:] / steps[:-1]).max()),
            0.75,
        ),
    )


def _draw_sinks(
    curves: dict[tuple[str, str], tuple[list[float], list[float], list[float]]],
) -> Figure:
    models = list(dict.fromkeys(model for model, _ in curves))[1:]  # the first is flat
    figure, made = panels(len(models), width=2.4, height=2.6, share_y=True)
    for axes, model in zip(made, models, strict=True):
        for place, word in enumerate(dict.fromkeys(word for _, word in curves)):
            times, found, sink = curves[model, word]
            truth = [WEIGHTS[WORDS.index(word)] * count for count in times]
            axes.plot(times, truth, color=COLOURS[place], linestyle=":", linewidth=1)
            axes.plot(
                times,
                found,
                color=COLOURS[place],
                linestyle="none",
                marker="o",
                markersize=2.5,
                label=f'"{word}"',
            )
            axes.plot(times, sink, color=COLOURS[place], linewidth=1.2)
        axes.set(xlabel="repeats", ylim=(-0.5, 7))
        axes.set_title(model.replace(", ", "\n", 1), fontsize=8)
    made[0].set_ylabel("log odds")
    made[0].legend(fontsize=7, frameon=False)
    return figure
