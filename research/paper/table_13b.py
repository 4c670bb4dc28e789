"""Table 13b: seconds of an explanation on a decoder of BLOOM-7B's shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pandas as pd
import torch

from research.base import PAPER, Outcome, Settings, at_least, at_most, judged, reproduction
from research.cells import Numbers
from research.drawing import BLUE, NEUTRAL, panels
from research.paper.table_2 import EFF, INSIDE, LIME, OURS, SHAP
from research.paper.table_12 import REVIEWS
from research.paper.timing import (
    ALONE,
    INSIDE_CALLS,
    Timed,
    TimedSize,
    ratios,
    row_by_row_remark,
    seconds_table,
    timed_study,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GRADIENT, INTEGRATED = "gradient", "integrated-gradients"
_PRINTED = {
    (GRADIENT, INSIDE_CALLS): 0.06,
    (INTEGRATED, INSIDE_CALLS): 0.29,
    (EFF, 1000): 0.62,
    (LIME, 1000): 15.73,
    (ALONE, 1000): 25.04,  # the authors' code asks one row a call
}


@dataclass(frozen=True)
class Size(TimedSize):
    """How much is computed.

    Attributes:
        calls: of an explanation.
        layers: of the model.
        heads: of each layer.
        half: whether its weights are in bfloat16, as on the paper's GPU.
    """

    words: int = 100
    width: int = 128
    calls: int = 500
    layers: int = 4
    heads: int = 4
    half: bool = False


SMALL = Size()
FULL = Size(
    texts=10, words=200, calls=1000, alone=2, width=4096, layers=30, heads=32, half=True
)  # BLOOM-7B1's shape


@reproduction(
    name="table-13b",
    title="On a decoder of seven billion parameters, slalom-eff is the fastest of those that ask",
    source=f"{PAPER}, Table 13b",
    study="table-13b",
    hours=200,
    data=(REVIEWS,),
)
def table_13b(settings: Settings) -> Outcome:
    """Seconds of six methods on reviews."""
    size = FULL if settings.full else SMALL
    return outcome(study(settings, size), size)


def study(settings: Settings, size: Size) -> dict[str, Numbers]:
    """Explains every review that is not finished yet under the clock.

    Returns:
        The numbers of ``Clock.seconds`` by review.
    """
    return timed_study(
        settings,
        "table-13b",
        REVIEWS,
        size,
        timed(size),
        configured=partial(_bloom, size),
        framed=False,
        dtype=torch.bfloat16 if size.half else torch.float32,
    )


def timed(size: Size) -> list[Timed]:
    """Every method; Kernel SHAP in batches and with one row a call."""
    return [
        *(Timed(name, INSIDE[name], INSIDE_CALLS) for name in (GRADIENT, INTEGRATED)),
        *(Timed(name, name, size.calls) for name in (EFF, LIME, SHAP, OURS)),
        Timed(ALONE, SHAP, size.calls, alone=True),
    ]


def _bloom(size: Size, tokenizer: Any) -> Any:
    library: Any = import_module("transformers")
    return library.BloomConfig(
        vocab_size=250_880 if size.half else len(tokenizer),
        pad_token_id=tokenizer.pad_token_id,
        hidden_size=size.width,
        n_layer=size.layers,
        n_head=size.heads,
    )


def outcome(found: Mapping[str, Numbers], size: Size) -> Outcome:
    """Means over reviews; see ``study``."""
    table = seconds_table(found, timed(size), _PRINTED)
    tokens = [numbers["tokens"] for numbers in found.values()]
    over = partial(ratios, found, [size.calls])
    seconds = table.set_index("method")["ours"]
    precision = "bfloat16" if size.half else "float32"
    return Outcome(
        checks=judged(
            at_most("seconds of slalom-eff over LIME's", max(over(EFF, LIME)), 1.0),
            at_most("over Kernel SHAP's in batches", max(over(EFF, SHAP)), 1.0),
            at_most("over Kernel SHAP's one row a call", max(over(EFF, ALONE)), 1.0),
            at_least(
                "seconds of Kernel SHAP one row a call over those in batches",
                min(over(ALONE, SHAP)),
                1.0,
            ),
            at_most("seconds of the gradient over slalom-eff's", *_part(seconds, GRADIENT)),
            at_most("those of integrated gradients over them", *_part(seconds, INTEGRATED)),
        ),
        tables={"seconds": table},
        figures={"seconds": lambda: _draw(table)},
        remarks=(
            f"Seconds of one explanation, mean over {len(found)} IMDB reviews of "
            f"{min(tokens)} to {max(tokens)} tokens, {sum(tokens) / len(tokens):.0f} on average: a "
            f"word between spaces is a token. The model is a BLOOM of {size.layers} layers of "
            f"width {size.width} with random weights in {precision}. The paper does not say how "
            "long its texts are.",
            "The paper's Kernel SHAP asks one row a call, and its printed numbers stand beside "
            "ours that does. Everything else asks in batches, and rows that begin alike share "
            f"what was computed for their beginning. Methods that look inside make {INSIDE_CALLS} "
            "calls for their test alone. `slalom` is not in the paper.",
            *row_by_row_remark(found),
        ),
        finding=_finding(seconds, size.calls),
    )


def _part(seconds: pd.Series, method: str) -> tuple[float, float]:
    """A check's number and bound: what a method takes over what slalom-eff does."""
    return seconds[method] / seconds[EFF], 1.0


def _finding(seconds: pd.Series, calls: int) -> str:
    found = (
        f"With {calls} calls slalom-eff takes {seconds[EFF]:.2f} s, LIME {seconds[LIME]:.2f} and "
        f"Kernel SHAP {seconds[SHAP]:.2f} in batches"
    )
    if ALONE in seconds:
        found += f" and {seconds[ALONE]:.2f} one row a call"
    return (
        f"{found}; the gradient takes {seconds[GRADIENT]:.2f} s and slalom {seconds[OURS]:.2f} s."
    )


def _draw(table: pd.DataFrame) -> Figure:
    """Ours as bars, the paper's as crosses."""
    figure, (axes,) = panels(1, width=5.0)
    errors = table["s.e."].fillna(0)
    axes.barh(table["method"], table["ours"], xerr=errors, color=BLUE, label="ours")
    axes.scatter(table["paper"], table["method"], color=NEUTRAL, marker="x", label="paper")
    axes.set(xscale="log", xlabel="seconds")
    axes.legend(fontsize="x-small")
    return figure
