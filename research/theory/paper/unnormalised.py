"""Would attention without the softmax learn a sum? A reader's question, tried.

Softmax attention averages values, so that weights compete. If each weight is a sigmoid of its own
logit instead, attention adds values up,

    softmax:       sum_t e^{l_t} v_t / sum_t e^{l_t}        unnormalised:  sum_t σ(l_t) v_t,

and a sum over the text is one weight and one value per token. Small models with either kind, with
and without a [CLS] in front, learn the linear language from texts of the paper's lengths, and are
asked about such texts and about texts twice as long.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd
import torch
from torch import Tensor

from research.base import Outcome, Settings, at_least, at_most, reproduction
from research.drawing import COLOURS, NEUTRAL, panels
from research.theory.paper.synthetic import (
    WEIGHTS,
    WORDS,
    linear_log_odds,
    one_thread,
    rms,
    sample_rows,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WIDTH = 32
_BATCH = 64
_RATE = 3e-3  # the largest of a one-cycle schedule, as for the other small transformers
_STEPS, _FEW_STEPS = 600, 300
_TESTED = 400
_COPIES = 20
_SPECIAL, _PAD = len(WORDS), len(WORDS) + 1
_SOFTMAX, _UNNORMALISED = "softmax", "unnormalised"
_IN, _OUT = "rms error, lengths as learnt", "rms error, twice as long"
_SLOPE = 'log odds of one more "perfect", 1 to 20'


class OneLayer(torch.nn.Module):
    """One layer of attention and one feed-forward layer with skip connections, read in front.

    Args:
        kind: "softmax" or "unnormalised".
        special: whether a [CLS] stands in front of each row.
        seed: of the weights.
    """

    def __init__(self, kind: str, *, special: bool, seed: int) -> None:
        super().__init__()
        self.kind, self.special = kind, special
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.embedding = torch.nn.Embedding(len(WORDS) + 2, _WIDTH)
            self.query, self.key, self.value = (torch.nn.Linear(_WIDTH, _WIDTH) for _ in range(3))
            self.inner = torch.nn.Linear(_WIDTH, 2 * _WIDTH)
            self.outer = torch.nn.Linear(2 * _WIDTH, _WIDTH)
            self.classifier = torch.nn.Linear(_WIDTH, 1)

    def forward(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Rows of words to log odds, (m,)."""
        front = [_SPECIAL] if self.special else []
        longest = max(len(row) for row in rows)
        ids = torch.tensor([[*front, *row, *[_PAD] * (longest - len(row))] for row in rows])
        hidden = self.embedding(ids)
        logits = (self.key(hidden) @ self.query(hidden[:, :1]).mT)[..., 0] / math.sqrt(_WIDTH)
        there = ids != _PAD
        if self.kind == _SOFTMAX:
            weights = torch.softmax(logits.masked_fill(~there, -math.inf), dim=1)
        else:
            weights = torch.sigmoid(logits) * there
        read = hidden[:, 0] + (weights[..., None] * self.value(hidden)).sum(dim=1)
        read = read + self.outer(torch.relu(self.inner(read)))
        log_odds: Tensor = self.classifier(read)[:, 0]
        return log_odds

    @one_thread()
    def learn(self, steps: int, seed: int) -> None:
        """Learns the linear language from the true chances of the classes."""
        optimizer = torch.optim.AdamW(self.parameters(), lr=_RATE)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, _RATE, total_steps=steps)
        pool = sample_rows(steps * _BATCH, seed)
        for start in range(0, len(pool), _BATCH):
            rows = pool[start : start + _BATCH]
            truth = torch.sigmoid(linear_log_odds(rows)).float()
            loss = torch.nn.functional.binary_cross_entropy_with_logits(self(rows), truth)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()

    def log_odds(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Its answers, (m,)."""
        with torch.no_grad():
            answered: Tensor = self(rows).double()
        return answered


@reproduction(
    name="unnormalised-attention",
    title="Attention whose weights are not divided by their sum learns a sum, for longer texts, "
    "too; softmax attention is off, with and without [CLS]",
    source="A reader's question about Leemann et al. 2024: whether other attention could represent "
    "additive models; ours",
)
def unnormalised_attention(settings: Settings) -> Outcome:
    """Four small models on the linear language."""
    steps = _FEW_STEPS if settings.small else _STEPS
    kinds = [(kind, special) for kind in (_SOFTMAX, _UNNORMALISED) for special in (False, True)]
    usual = sample_rows(_TESTED, settings.seed + 1)
    halves = sample_rows(2 * _TESTED, settings.seed + 2)
    longer = [one + other for one, other in zip(halves[::2], halves[1::2], strict=True)]
    rows, curves = [], {}
    for kind, special in settings.track(kinds, "training attention"):
        model = OneLayer(kind, special=special, seed=settings.seed)
        model.learn(steps, settings.seed)
        name = f"{kind}, [CLS]" if special else kind
        curves[name] = model.log_odds([[WORDS.index("perfect")] * k for k in range(1, _COPIES + 1)])
        rows.append({"attention": name, **_measured(model, usual, longer, curves[name])})
    table = pd.DataFrame(rows).set_index("attention", drop=False)
    softmax, sums = (
        table[table["attention"].str.startswith(kind)] for kind in (_SOFTMAX, _UNNORMALISED)
    )
    return Outcome(
        checks=(
            at_most(
                "lengths as learnt: largest error of unnormalised attention over the smallest of "
                "softmax",
                sums[_IN].max() / softmax[_IN].min(),
                1.0,
            ),
            at_most(
                "twice as long: the same",
                sums[_OUT].max() / softmax[_OUT].min(),
                0.5,
            ),
            at_least(
                "one more copy of a word of weight 1.5: smallest step of unnormalised attention",
                sums[_SLOPE].min(),
                1.0,
            ),
            at_most(
                "the same step of softmax without [CLS], as Prop. 4.1 says",
                float(table[_SLOPE].abs()[_SOFTMAX]),
                1e-5,
            ),
        ),
        tables={"models": table},
        figures={"copies": lambda: _draw(curves)},
        remarks=(
            "The language's log odds have a standard deviation of "
            f"{float(linear_log_odds(usual).std()):.2f} at the lengths as learnt and of "
            f"{float(linear_log_odds(longer).std()):.2f} on texts twice as long. All models have "
            "one layer, the same width and the same training. Softmax attention with [CLS] can "
            "come near a sum (near-sums), and its steps from copy to copy grow with training.",
        ),
    )


def _measured(
    model: OneLayer, usual: list[list[int]], longer: list[list[int]], curve: Tensor
) -> dict[str, float]:
    """Errors to the language, and the mean step from copy to copy."""
    return {
        _IN: rms(model.log_odds(usual) - linear_log_odds(usual)),
        _OUT: rms(model.log_odds(longer) - linear_log_odds(longer)),
        _SLOPE: float((curve[-1] - curve[0]) / (_COPIES - 1)),
    }


def _draw(curves: dict[str, Tensor]) -> Figure:
    """Log odds by copies of a word."""
    figure, (axes,) = panels(1, width=4.4)
    copies = range(1, _COPIES + 1)
    weight = WEIGHTS[WORDS.index("perfect")]
    taught = [weight * count for count in copies]
    axes.plot(copies, taught, color=NEUTRAL, linestyle=":", label="the language")
    for (name, curve), colour in zip(curves.items(), COLOURS, strict=False):
        axes.plot(copies, curve, color=colour, label=name)
    axes.set(xlabel='copies of "perfect"', ylabel="log odds")
    axes.legend(fontsize="x-small")
    return figure
