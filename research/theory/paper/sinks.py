"""With a token in front or with positions, repeats do count: Proposition 4.1 and what bends it.

A special token such as [CLS] stands in every row and takes part in the average. After n repeats of
a word with weight e^s and value v the answer is

    (v0 + n e^s v) / (1 + n e^s),

where v0 is the special token's value and its weight is 1. This rises (or falls) from v0 and
flattens towards v. We call the part that no removal changes the sink.

How soon it is flat depends on the rows that a model has seen. The paper's have Bin(30, 1/2) words,
so 15 give or take a few: one copy is then as good as twenty (its Fig. 3). Rows of 1 to 30 words,
each length as often, teach a model to count copies for a while.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd
import torch
from torch import Tensor

from research.base import Check, Outcome, Settings, at_least, at_most, reproduction
from research.drawing import COLOURS, panels
from research.theory.paper.repeats import SAME
from research.theory.paper.synthetic import (
    LONGEST,
    WEIGHTS,
    WORDS,
    Shape,
    SmallTransformer,
    rms,
)
from research.theory.paper.training_lengths import (
    answers_by_length,
    draw_lengths,
    length_checks,
    length_table,
    trained_evenly,
)
from research.theory.paper.transformer import answers, planted, random_slalom
from slalom_xai.methods.paper.exact import recover_with_sink
from slalom_xai.methods.paper.formula import SlalomSurrogate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SHAPES: tuple[Shape, ...] = (
    Shape("encoder", 2),
    Shape("encoder", 2, special=True),
    Shape("decoder", 2, special=True),
    Shape("encoder", 2, positions=True),
    Shape("encoder", 2, positions=True, special=True),
)
_MOST = 64  # repeats on which the sink found from 0, 1 and 2 repeats is tried


class RepeatCurve(NamedTuple):
    """Answers to so many repeats of a word, and the nearest curve of a sink; (m,) each."""

    times: Tensor
    log_odds: Tensor
    sink: Tensor


def sink_curve(times: Tensor, log_odds: Tensor) -> SlalomSurrogate:
    """The SLALOM with a sink, of one unit, that is nearest to the answers in the least squares.

    For a given log weight s the answers are linear in the sink's value and in the difference
    v - v0, so a grid over s with a small regression at each point finds them all.

    Args:
        times: (m,), how often the unit is repeated.
        log_odds: (m,), the answers.
    """
    best, best_error = None, float("inf")
    for log_weight in torch.linspace(-8, 6, 561, dtype=torch.float64):
        share = times * log_weight.exp() / (times * log_weight.exp() + 1)  # (m,), of the unit
        design = torch.stack([torch.ones_like(share), share], dim=1)  # (m, 2)
        solved = torch.linalg.lstsq(design, log_odds[:, None]).solution  # (2, 1): v0, v - v0
        error = float(((design @ solved)[:, 0] - log_odds).square().mean())
        if error < best_error:
            value = (solved[0] + solved[1]).reshape(1, 1, 1)
            sink_value = solved[0].reshape(1, 1)
            sink_log_weight = torch.zeros(1, dtype=torch.float64)
            best = SlalomSurrogate(value, log_weight.reshape(1, 1), sink_value, sink_log_weight)
            best_error = error
    assert best is not None
    return best.normalise()


@reproduction(
    name="repeated-token-sink",
    title="With a [CLS] token or positions, repeats can count; with a token in front, they follow "
    "the curve of a sink, which is flat at once after training on the paper's lengths",
    source="Leemann et al. 2024, Proposition 4.1 and Appendix C.2; the sink is ours",
)
def repeated_token_sink(settings: Settings) -> Outcome:
    """How a special token and positions bend the constant of Proposition 4.1."""
    words = (WORDS.index("good"), WORDS.index("perfect"))
    rows, curves = [], {}
    shapes = _SHAPES
    if settings.small:
        shapes = (_SHAPES[0].shallow(), _SHAPES[1])
    for shape in settings.track(shapes, "training small transformers"):
        model = trained_evenly(shape, settings)
        for word in words:
            curve = _curve(model, word)
            curves[str(shape), WORDS[word]] = curve
            rows.append({"model": str(shape), "word": WORDS[word], **_curve_errors(curve)})
    table = pd.DataFrame(rows)
    with_special = trained_evenly(shapes[1], settings)
    settled = _settling(with_special, WORDS.index("perfect"))
    exact = _exact_sink(settings.seed)
    answered = answers_by_length(settings)
    lengths = length_table(answered)
    return Outcome(
        checks=(
            *_span_checks(table),
            *_sink_checks(table, settled, exact),
            *length_checks(lengths),
        ),
        tables={"curves": table, "limit": settled, "lengths": lengths},
        figures={"curves": lambda: _draw(curves), "lengths": lambda: draw_lengths(answered)},
        remarks=(
            "The proposition is about transformers without a special token, and right. With [CLS] "
            "in front the answer may count repeats until the token's share in the average is "
            "nearly one. The models of the first two tables were trained on rows of 1 to 30 words, "
            "each length as often. Trained on the paper's lengths, Bin(30, ½), they do not "
            "count, as in the paper's Fig. 3.",
        ),
    )


def _curve(model: SmallTransformer, word: int) -> RepeatCurve:
    """A model's answers to repeats; only a model with a special token reads an empty row."""
    fewest = 1
    if model.shape.special:
        fewest = 0
    times = torch.arange(fewest, LONGEST + 1).double()
    log_odds = model.log_odds([[word] * int(count) for count in times])
    sink = sink_curve(times, log_odds).predict(times[:, None])[:, 0]
    return RepeatCurve(times, log_odds, sink)


def _curve_errors(curve: RepeatCurve) -> dict[str, float]:
    """How well a constant, a line and a sink describe a curve."""
    times, log_odds, sink = curve
    design = torch.stack([torch.ones_like(times), times], dim=1)  # (m, 2)
    line = (design @ torch.linalg.lstsq(design, log_odds[:, None]).solution)[:, 0]
    return {
        "range over repeats": float(log_odds.amax() - log_odds.amin()),
        "rms error: constant": rms(log_odds - log_odds.mean()),
        "rms error: line": rms(log_odds - line),
        "rms error: sink": rms(log_odds - sink),
    }


def _settling(model: SmallTransformer, word: int) -> pd.DataFrame:
    """How much twice as many repeats still change the answer.

    Each change is half of the one before, once the special token's share is all that is left.
    """
    sizes = (64, 128, 256, 512, 1024)
    log_odds = model.log_odds([[word] * size for size in sizes]).tolist()
    steps = [abs(after - before) for before, after in itertools.pairwise(log_odds)]
    return pd.DataFrame({"repeats": sizes[:-1], "change on doubling them": steps})


def _exact_sink(seed: int) -> float:
    """The error of the sink found from 0, 1 and 2 repeats, on up to 64 repeats.

    The model is one attention layer that reads a [CLS] token linearly: a planted SLALOM of four
    tokens, of which the last stands in front of every row.
    """
    special, words = 3, 3
    model = planted(random_slalom(words + 1, seed=seed))
    rows = [[special] + [word] * times for word in range(words) for times in range(_MOST + 1)]
    outputs = answers(model, rows).reshape(words, _MOST + 1)
    fitted, _ = recover_with_sink(outputs[0, :1], outputs[:, 1:2], outputs[:, 2:3])
    repeats = torch.arange(_MOST + 1, dtype=torch.float64)[:, None]
    counts = torch.kron(torch.eye(words, dtype=torch.float64), repeats)  # (words * 65, words)
    predicted = fitted.predict(counts)[:, 0].reshape(words, _MOST + 1)
    return float((predicted - outputs).abs().max())


def _special(table: pd.DataFrame) -> pd.Series:
    """Which models have a special token and no positions."""
    names = table["model"].str
    return names.contains("CLS|start") & ~names.contains("positions")


def _span_checks(table: pd.DataFrame) -> tuple[Check, ...]:
    """How far the answers to 1 to 30 repeats lie apart, by kind of model."""
    special = _special(table)
    plain = ~table["model"].str.contains("CLS|start|positions")
    spans = table["range over repeats"]
    checks = [
        at_most("without either, the answers to 1 to 30 repeats span", spans[plain].max(), SAME),
        at_least("with a special token they span at least", spans[special].min(), 1.0),
    ]
    placed = spans[~special & ~plain]
    if len(placed):  # not in a small run
        checks.append(at_least("with positions they span at least", placed.min(), 0.3))
    return tuple(checks)


def _sink_checks(table: pd.DataFrame, settled: pd.DataFrame, exact: float) -> tuple[Check, ...]:
    special = _special(table)
    error = table["rms error: sink"]
    steps = settled["change on doubling them"].to_numpy()
    return (
        at_most(
            "one layer read linearly: the sink found from 0, 1, 2 repeats is off on up to 64 "
            "repeats by",
            exact,
            SAME,
        ),
        at_most(
            "trained, with a special token: the sink's error is this part of the constant's",
            (error / table["rms error: constant"])[special].max(),
            0.35,
        ),
        at_most(
            "and this part of a line's",
            (error / table["rms error: line"])[special].max(),
            0.6,
        ),
        at_most(
            "doubling 64, 128, 256, 512 repeats: each change as a part of the one before",
            float((steps[1:] / steps[:-1]).max()),
            0.75,
        ),
    )


def _draw(curves: dict[tuple[str, str], RepeatCurve]) -> Figure:
    """A panel for each model; dots are answers, lines sinks, dotted lines what was taught."""
    models = list(dict.fromkeys(model for model, _ in curves))[1:]  # the first is flat
    words = list(dict.fromkeys(word for _, word in curves))
    figure, made = panels(len(models), width=2.4, height=2.6, share_y=True)
    for axes, model in zip(made, models, strict=True):
        for word, colour in zip(words, COLOURS, strict=False):
            _draw_curve(axes, curves[model, word], word, colour)
        axes.set(xlabel="repeats", ylim=(-0.5, 7))
        axes.set_title(model.replace(", ", "\n", 1), fontsize=8)
    made[0].set_ylabel("log odds")
    made[0].legend(fontsize=7, frameon=False)
    return figure


def _draw_curve(axes: Axes, curve: RepeatCurve, word: str, colour: str) -> None:
    times = curve.times.tolist()
    taught = [WEIGHTS[WORDS.index(word)] * count for count in times]
    axes.plot(times, taught, color=colour, linestyle=":", linewidth=1)
    axes.plot(
        times,
        curve.log_odds.tolist(),
        color=colour,
        linestyle="none",
        marker="o",
        markersize=2.5,
        label=f'"{word}"',
    )
    axes.plot(times, curve.sink.tolist(), color=colour, linewidth=1.2)
