"""What App. C.2 says of [CLS] and of positions: a planted transformer comes near any sum.

Let [CLS] have the weight 1 and the value 0, and each token τ the weight ε and the value w(τ) / ε.
Then the average over a text of n tokens is

    F = sum_i ε w(t_i) / ε  /  (1 + n ε)  =  sum_i w(t_i) / (1 + n ε),

off the sum by the share n ε / (1 + n ε) of it. So Prop. 4.1 needs texts without such a token: with
one, any sum is reached up to any error on texts up to any length.

Positions do as well. The first place stands for [CLS]: a feed-forward layer of two ReLUs sets its
value to zero, its weight is 1, and the skip connection adds its own w(t_1). The paper counts the
sequences, |V|^C, against what a layer can represent. That bounds arbitrary functions of them; a
sum is not one.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import pandas as pd
import torch
from torch import Tensor

from research.base import Check, Outcome, Settings, at_least, at_most, reproduction
from research.drawing import BLUE, GREEN, NEUTRAL, panels
from research.theory.paper.transformer import (
    PlainTransformer,
    answers,
    planted,
    random_rows,
    row_counts,
)
from slalom_xai.methods.paper.formula import SlalomSurrogate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_UNITS = 10  # tokens of the language
_LONGEST = 30  # tokens of a text
_EPSILONS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
_TEXTS = 300
_CLS, _POSITIONS = "[CLS]", "positions"

# Width, hidden width, tokens and places, as the paper prints them and as the models have them.
_MODELS = {
    "as printed": (786, 3072, 30_000, 1024),
    "BERT": (768, 3072, 30_522, 512),
    "GPT-2": (768, 3072, 50_257, 1024),
}


def with_cls(weights: Tensor, epsilon: float) -> PlainTransformer:
    """A planted transformer whose last token, put in front, makes it nearly a sum.

    Args:
        weights: (n,), of the sum.
        epsilon: the weight of a token beside [CLS].
    """
    values = torch.cat([weights / epsilon, torch.zeros(1, dtype=torch.float64)])
    importances = torch.zeros(len(values), dtype=torch.float64)
    importances[:-1] = math.log(epsilon)
    return planted(SlalomSurrogate(values[None, :, None], importances[None]))


def with_positions(weights: Tensor, epsilon: float) -> PlainTransformer:
    """A planted transformer of two layers that is nearly a sum, with positions and no [CLS].

    Places are embedded as "first" or "later", added to a token's own embedding: id t stands for
    token t at a later place, and n + t for the same at the first one.

    Components of the embedding: importance, w, "first", what is attended to, what is read.

    Args:
        weights: (n,), of the sum.
        epsilon: the weight of a later place beside the first.
    """
    units = len(weights)
    importance, own, first, value, read = range(5)
    model = PlainTransformer(2 * units, 5, 1, layers=2)
    large = 2 * float(weights.abs().max()) / epsilon + 1
    with torch.no_grad():
        model.embedding[:, own] = weights.repeat(2)
        model.embedding[:units, importance] = math.log(epsilon)
        model.embedding[units:, first] = 1.0
        # A constant 1 for every token, which first and later places have in other components.
        later = 1 / math.log(epsilon)
        for hidden, scale in enumerate((1 / epsilon, 0.0)):
            model.inner[0, hidden, own] = scale
            model.inner[0, hidden, importance] = large * later  # large at later places, else 0
            model.inner[0, hidden, first] = -large
        model.outer[0, value, 0], model.outer[0, value, 1] = 1.0, -1.0
        model.query_bias[1, 0, importance] = math.sqrt(5)
        model.key[1, 0] = torch.eye(5)
        model.value[1, 0, read, value] = 1.0
        model.project[1, 0] = torch.eye(5)
        model.classifier[0, read] = 1.0
        model.classifier[0, own] = 1.0  # of the first place, by the skip connection
    return model


@reproduction(
    name="near-sums",
    title="With [CLS] or positions, a planted transformer comes as near as one likes to any sum; "
    "counting sequences does not rule that out",
    source="Leemann et al. 2024, Appendix C.2; the constructions are ours",
)
def near_sums(settings: Settings) -> Outcome:
    """Errors of the two constructions as the weight of tokens falls, and the paper's count."""
    generator = torch.Generator().manual_seed(settings.seed)
    weights = torch.randn(_UNITS, generator=generator, dtype=torch.float64)
    rows = random_rows(_TEXTS, _UNITS, _LONGEST, settings.seed + 1)
    table = pd.DataFrame([_errors(weights, rows, epsilon) for epsilon in _EPSILONS])
    counted = pd.DataFrame([_counted(name, *sizes) for name, sizes in _MODELS.items()])
    return Outcome(
        checks=(
            *_checks(table),
            at_least(
                "the paper's count: powers of ten by which sequences outnumber what a layer "
                "represents, fewest",
                (counted["sequences, power of ten"] - counted["bound, power of ten"]).min(),
                1000,
            ),
            at_least(
                "without either, 30 copies of the heaviest token: distance to their sum",
                _without(weights),
                1.0,
            ),
        ),
        tables={"errors": table, "count": counted},
        figures={"errors": lambda: _draw(table)},
        remarks=(
            "The largest error over 300 texts of 1 to 30 tokens. The sum's largest size there is "
            f"{float((row_counts(rows, _UNITS) @ weights).abs().max()):.3g}. The construction "
            f"with positions has two layers and two ReLUs, whatever the length and the vocabulary.",
            "The count is right and says nothing about sums: it bounds how many sequences can be "
            "given arbitrary answers. What the paper observes is about learning: transformers that "
            "could count copies do not learn to from texts of nearly one length "
            "(repeated-token-sink).",
            "d = 786 is printed for BERT's 768, and C = 1024 is GPT-2's; BERT reads 512 tokens.",
        ),
    )


def _errors(weights: Tensor, rows: list[list[int]], epsilon: float) -> dict[str, float]:
    """The largest errors of both constructions, and what the first should have."""
    truth = row_counts(rows, _UNITS) @ weights
    lengths = torch.tensor([len(row) for row in rows], dtype=torch.float64)
    fronted = [[_UNITS, *row] for row in rows]
    placed = [[_UNITS + row[0], *row[1:]] for row in rows]
    cls = answers(with_cls(weights, epsilon), fronted)[:, 0]
    positions = answers(with_positions(weights, epsilon), placed)[:, 0]
    derived = truth / (1 + lengths * epsilon)
    return {
        "ε": epsilon,
        _CLS: float((cls - truth).abs().max()),
        _POSITIONS: float((positions - truth).abs().max()),
        "[CLS], off the derived form": float((cls - derived).abs().max()),
    }


def _without(weights: Tensor) -> float:
    """How far a transformer without both is from the sum of 30 copies, if it is right for one."""
    model = planted(SlalomSurrogate(weights[None, :, None], torch.zeros(1, _UNITS).double()))
    heaviest = int(weights.abs().argmax())
    answered = answers(model, [[heaviest] * _LONGEST])[0, 0]
    return float((answered - _LONGEST * weights[heaviest]).abs())


def _counted(name: str, width: int, hidden: int, tokens: int, places: int) -> dict[str, Any]:
    """Sequences against the bound d n log(d n), both as powers of ten."""
    size = width * hidden
    return {
        "model": name,
        "d": width,
        "hidden": hidden,
        "|V|": tokens,
        "C": places,
        "sequences, power of ten": places * math.log10(tokens),
        "bound, power of ten": math.log10(size * math.log(size)),
    }


def _checks(table: pd.DataFrame) -> tuple[Check, ...]:
    checks = [
        at_most(
            "[CLS]: largest difference to sum / (1 + n ε)",
            table["[CLS], off the derived form"].max(),
            1e-8,
        )
    ]
    for name in (_CLS, _POSITIONS):
        errors = table[name].tolist()
        falls = max(after / before for before, after in itertools.pairwise(errors[1:]))
        checks += [
            at_most(
                f"{name}: error for ε = {_EPSILONS[-1]:g}, as small as wanted", errors[-1], 0.05
            ),
            at_most(f"{name}: each tenth of ε leaves this part of the error", falls, 0.2),
        ]
    return tuple(checks)


def _draw(table: pd.DataFrame) -> Figure:
    """The errors by ε."""
    figure, (axes,) = panels(1, width=4.2)
    for name, colour in ((_CLS, BLUE), (_POSITIONS, GREEN)):
        axes.loglog(table["ε"], table[name], marker="o", color=colour, label=name)
    axes.axhline(table[_CLS].max(), color=NEUTRAL, linewidth=0.5)
    axes.set(xlabel="ε, the weight of a token", ylabel="largest error to the sum")
    axes.legend(fontsize="x-small")
    return figure
