"""Tables 2 and 13a: seconds of an explanation by calls, on a DistilBERT of two layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pandas as pd

from research.base import PAPER, Outcome, Settings, at_least, at_most, judged, reproduction
from research.cells import Numbers
from research.drawing import COLOURS, panels
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
from slalom_xai.methods import Estimator
from slalom_xai.methods.gradients import IntegratedGradients

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EFF, FIDEL, LIME, SHAP, OURS = "slalom-eff", "slalom-fidel", "lime", "kernel-shap", "slalom"
STEPS = 30  # of integrated gradients, as in the paper
_MOST_ALONE = 5000  # calls of Kernel SHAP row by row; its time grows in proportion
INSIDE: dict[str, str | Estimator] = {
    "gradient": "gradient",
    "integrated-gradients": IntegratedGradients(steps=STEPS),
    "attn-lrp": "attn-lrp",
}
_SAMPLES = (1000, 2000, 5000, 10_000)
_ROWS = {  # Table 13a as printed; Table 2 is its column of 5,000
    EFF: (0.42, 0.80, 2.03, 4.13),
    FIDEL: (0.74, 1.42, 3.77, 7.95),
    LIME: (0.80, 1.58, 3.93, 8.04),
    ALONE: (2.35, 4.62, 11.56, 23.08),  # the authors' code asks one row a call
}
_PRINTED = {
    (name, calls): seconds
    for name, row in _ROWS.items()
    for calls, seconds in zip(_SAMPLES, row, strict=True)
}
_PRINTED |= {
    (name, INSIDE_CALLS): seconds for name, seconds in zip(INSIDE, (0.01, 0.02, 0.02), strict=True)
}


@dataclass(frozen=True)
class Size(TimedSize):
    """How much is computed.

    Attributes:
        calls: of an explanation, one after another.
    """

    calls: tuple[int, ...] = (500, 1000, 2000)


SMALL = Size()
FULL = Size(texts=50, words=300, calls=_SAMPLES, alone=5, width=768)


@reproduction(
    name="table-2",
    title="Of the methods that ask a model, slalom-eff is the fastest with the same calls",
    source=f"{PAPER}, Tables 2 and 13a",
    study="table-2",
    hours=50,
    data=(REVIEWS,),
)
def table_2(settings: Settings) -> Outcome:
    """Seconds of eight methods on reviews."""
    size = FULL if settings.full else SMALL
    return outcome(study(settings, size), size)


def study(settings: Settings, size: Size) -> dict[str, Numbers]:
    """Explains every review that is not finished yet under the clock.

    Returns:
        The numbers of ``Clock.seconds`` by review.
    """
    return timed_study(
        settings,
        "table-2",
        REVIEWS,
        size,
        timed(size),
        configured=partial(_distilbert, size),
        framed=True,
    )


def timed(size: Size) -> list[Timed]:
    """Every method with every number of calls."""
    methods = [Timed(name, method, INSIDE_CALLS) for name, method in INSIDE.items()]
    for calls in size.calls:
        methods += [Timed(name, name, calls) for name in (EFF, FIDEL, LIME, SHAP, OURS)]
        if calls <= _MOST_ALONE:
            methods.append(Timed(ALONE, SHAP, calls, alone=True))
    return methods


def _distilbert(size: Size, tokenizer: Any) -> Any:
    library: Any = import_module("transformers")
    return library.DistilBertConfig(
        vocab_size=max(30_522, len(tokenizer)),
        pad_token_id=tokenizer.pad_token_id,
        n_layers=2,
        dim=size.width,
        n_heads=size.width // 64,
        hidden_dim=4 * size.width,
    )


def outcome(found: Mapping[str, Numbers], size: Size) -> Outcome:
    """Means over reviews; see ``study``."""
    table = seconds_table(found, timed(size), _PRINTED)
    tokens = [numbers["tokens"] for numbers in found.values()]
    over = partial(ratios, found, size.calls)
    inside = table.loc[table["method"].isin(INSIDE), "ours"].max()
    asking = table[table["method"] == EFF]
    calls = min(max(size.calls), _MOST_ALONE)  # 5,000 is what the paper's Table 2 shows
    most = table[table["calls"] == calls].set_index("method")["ours"]
    return Outcome(
        checks=judged(
            at_most("seconds of slalom-eff over LIME's, largest", max(over(EFF, LIME)), 1.0),
            at_most("over those of slalom-fidel, largest", max(over(EFF, FIDEL)), 1.0),
            at_most("over Kernel SHAP's in batches, largest", max(over(EFF, SHAP)), 1.0),
            at_most("over Kernel SHAP's one row a call, largest", max(over(EFF, ALONE)), 1.0),
            at_least(
                "seconds of Kernel SHAP one row a call over those in batches, smallest",
                min(over(ALONE, SHAP)),
                1.0,
            ),
            at_most(
                "slowest method that looks inside over slalom-eff with the fewest calls",
                inside / asking["ours"].min(),
                1.0,
            ),
        ),
        tables={"seconds": table},
        figures={"seconds": lambda: _draw(table)},
        remarks=(
            f"Seconds of one explanation, mean over {len(found)} IMDB reviews of "
            f"{min(tokens)} to {max(tokens)} tokens, {sum(tokens) / len(tokens):.0f} on average: a "
            "word between spaces is a token. The model has DistilBERT's shape with two layers of "
            f"width {size.width} and random weights, on which speed does not depend.",
            "The paper's Kernel SHAP asks one row a call, and its printed numbers stand beside "
            "ours that does. Everything else asks in batches. Calls are all that an explanation "
            "makes, its test on rows of its own among them; methods that look inside make "
            f"{INSIDE_CALLS} for that test alone. `slalom` is not in the paper.",
            *row_by_row_remark(found),
        ),
        finding=_finding(most, calls),
    )


def _finding(seconds: pd.Series, calls: int) -> str:
    """Of one number of calls."""
    found = (
        f"With {calls} calls slalom-eff takes {seconds[EFF]:.2f} s, slalom-fidel "
        f"{seconds[FIDEL]:.2f}, LIME {seconds[LIME]:.2f} and Kernel SHAP {seconds[SHAP]:.2f} in "
        f"batches"
    )
    if ALONE in seconds:
        found += f" and {seconds[ALONE]:.2f} one row a call"
    return f"{found}; slalom takes {seconds[OURS]:.2f} s."


def _draw(table: pd.DataFrame) -> Figure:
    """Seconds by calls; crosses as printed."""
    figure, (axes,) = panels(1, width=4.6)
    names = (EFF, FIDEL, LIME, SHAP, ALONE, OURS)
    for name, colour in zip(names, COLOURS, strict=True):
        part = table[table["method"] == name]
        errors = part["s.e."].fillna(0)
        axes.errorbar(part["calls"], part["ours"], errors, marker="o", color=colour, label=name)
        axes.scatter(part["calls"], part["paper"], marker="x", color=colour)
    axes.set(xscale="log", yscale="log", xlabel="calls", ylabel="seconds (× as printed)")
    axes.legend(fontsize="xx-small")
    return figure
