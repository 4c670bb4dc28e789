"""Explanations for tests: around a given function, with made-up numbers, or with known scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch

from slalom_xai.explanation import Array, Explanation
from slalom_xai.methods.additive import AdditiveSurrogate, PairsSurrogate
from slalom_xai.methods.gaussian_process import Changes, condition
from slalom_xai.methods.paper.formula import SlalomSurrogate
from slalom_xai.methods.process import Kernel, Noise, Process
from slalom_xai.methods.scores import SCORES, OneScore
from slalom_xai.models.outputs import Outputs
from slalom_xai.models.text import Unit, words
from slalom_xai.slalom import BoundedSlalom
from slalom_xai.slalom.shapley import compute_shapley
from slalom_xai.slalom.trust import Agreement, FewAndAny, Fidelity

TEXT = "A slow start, but the two leads are wonderful and I would gladly watch it again."
FIDELITY = Fidelity(
    Agreement(0.81, 0.1, 50),
    Agreement(0.93, 0.2, 100),
    FewAndAny(Agreement(0.4, 0.5, 50), Agreement(0.7, 0.6, 100)),
    FewAndAny(Agreement(0.55, 0.3, 50), Agreement(0.75, 0.4, 100)),
    90,
    100,
)
ADDITIVE_FIDELITY = Fidelity(Agreement(0.4, 0.5, 50), Agreement(0.7, 0.6, 100))
MEASURED = ("removal", "filled")


def explanation_with(
    function: BoundedSlalom | SlalomSurrogate | OneScore,
    text: str = TEXT,
    units: Sequence[Unit] | None = None,
    *,
    kind: str = "binary",
    labels: tuple[str, ...] = ("no", "yes"),
    target: int = 1,
    full: tuple[float, ...] | None = None,
    errors: Mapping[str, Array] | None = None,
    fidelity: Fidelity | None = None,
    **fields: object,
) -> Explanation:
    """An explanation that holds a function; every other maker of explanations ends here.

    Args:
        function: predicts all columns.
        text: the explained text.
        units: by default the words of the text.
        kind: of outputs.
        labels: their names.
        target: the explained one.
        full: the model's outputs, one per column; by default 0.5 each.
        errors: standard errors by score, the same for every column.
        fidelity: the same for every column.
        **fields: any others of an explanation.
    """
    columns = 1 if kind == "binary" else len(labels)
    rest = {"method": "known", "model": "known", "granularity": "token", "removal": "delete"}
    rest |= {"calls_fit": 9, "calls_check": 0} | fields
    return Explanation(
        text=text,
        units=tuple(words(text) if units is None else units),
        outputs=Outputs(kind, labels),
        target_index=target,
        full=(0.5,) * columns if full is None else full,
        function=function,
        column_errors=(errors or {},) * columns,
        column_fidelity=None if fidelity is None else (fidelity,) * columns,
        **rest,
    )


def make_form(
    values: torch.Tensor,
    importances: torch.Tensor,
    sink: tuple[torch.Tensor, float] | None = None,
    *,
    centre: float = 0.0,
    half_width: float | None = None,
    pairs: Sequence[tuple[int, int]] = (),
    pair_values: torch.Tensor | None = None,
    pair_importances: torch.Tensor | None = None,
) -> BoundedSlalom:
    """The main method's formula with known numbers and its own Shapley values.

    Args:
        values: (n, C), before the bound.
        importances: (n,); they are shifted to sum to 0, and all others with them.
        sink: value (C,), before the bound, and importance; by default 0 and 0.
        centre: of the range.
        half_width: of the range; None for an unbounded formula.
        pairs: units that are heard together.
        pair_values: (P, C).
        pair_importances: (P,).
    """
    values, importances = values.double(), importances.double()
    columns, shift = values.shape[1], importances.mean()
    inner_sink, sink_importance = (torch.zeros(columns), 0.0) if sink is None else sink
    count = len(pairs)
    form = BoundedSlalom(
        values,
        importances - shift,
        inner_sink.double(),
        torch.tensor(float(sink_importance)).double() - shift,
        torch.full((columns,), centre).double(),
        torch.full((columns,), 0.0 if half_width is None else 1 / half_width).double(),
        torch.zeros_like(values),
        torch.tensor(pairs).double().reshape(count, 2),
        torch.zeros(0, columns).double() if pair_values is None else pair_values.double(),
        torch.zeros(0).double() if pair_importances is None else pair_importances.double() - shift,
    )
    return replace(form, shapley=compute_shapley(form.split(), 200).T)


def drawn_process(draw: Callable[..., torch.Tensor], n: int, full: torch.Tensor) -> Process:
    """A process of twelve rows."""
    numbers = [draw(n).abs() / n, draw(n).abs(), *draw(3).abs()]
    rows = (draw(12, n) > 0).double()
    noise = Noise(full.new_tensor(0.1), full.new_tensor(0.5))
    changes = draw(12, len(full))
    seen = Changes(rows, changes, torch.ones_like(full))
    return condition(Kernel(*numbers), noise, seen, full)


def made(
    text: str = TEXT,
    *,
    unbounded: bool = False,
    together: bool = False,
    measured: bool = False,
    heads: int = 0,
    sink: bool = True,
    additive: bool = False,
    pairs: bool = False,
    process: bool = False,
    labels: tuple[str, ...] = ("negative", "positive"),
    kind: str = "binary",
    target: int = 1,
    occurrences: tuple[int, ...] = (),
    seed: int = 0,
    units: tuple[Unit, ...] | None = None,
    **fields: object,
) -> Explanation:
    """An explanation whose numbers come from a seed.

    By default it holds the main method's formula: bounded, or ``unbounded``; with ``together``,
    some neighbouring units are heard together; with ``measured``, the scores that can be the
    model's own outputs are. With ``heads`` or without a ``sink`` it holds the paper's
    formula. ``additive``, ``pairs`` and ``process`` are functions of methods with one score.
    """
    units = words(text) if units is None else units
    n, columns = len(units), 1 if kind == "binary" else len(labels)
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> torch.Tensor:
        return 2 * torch.randn(*shape, generator=generator, dtype=torch.float64)

    full = draw(columns)
    one_score = additive or pairs or process
    of_paper = heads > 0 or not sink
    function: BoundedSlalom | SlalomSurrogate | OneScore
    if pairs:
        both = torch.combinations(torch.arange(float(n), dtype=torch.float64))[:: n - 1]
        function = PairsSurrogate(draw(n, columns), both, draw(len(both), columns), full)
    elif process:
        function = drawn_process(draw, n, full)
    elif additive:
        function = AdditiveSurrogate(draw(n, columns), full)
    elif of_paper:
        count = max(heads, 1)
        ends = (draw(count, columns), draw(count)) if sink else (None, None)
        function = SlalomSurrogate(draw(count, n, columns), draw(count, n), *ends).normalise()
    else:
        some = [(first, first + 1) for first in range(0, n - 1, 4)] if together else []
        function = make_form(
            draw(n, columns),
            draw(n),
            (draw(columns), float(draw(1))),
            centre=0.5,
            half_width=None if unbounded else 4.0,
            pairs=some,
            pair_values=draw(len(some), columns),
            pair_importances=draw(len(some)),
        )
    names = ("value",) if one_score else [name for name in SCORES if name != "filled"]
    errors = {name: np.abs(draw(n).numpy()) / 10 for name in names}
    by_column: tuple[dict[str, Array], ...] = ()
    if measured:
        outputs = {name: draw(n, columns).numpy() for name in MEASURED}
        by_column = tuple(
            {name: outputs[name][:, column] for name in MEASURED} for column in range(columns)
        )
        errors |= dict.fromkeys(MEASURED, np.zeros(n))  # the model is steady
    defaults = {
        "column_measured": by_column,
        "method": "linear" if one_score else "slalom-eff" if of_paper else "slalom",
        "model": "made up",
        "granularity": "type" if occurrences else "word",
        "calls_fit": 900,
        "calls_check": 100,
        "occurrences": occurrences,
    }
    return explanation_with(
        function,
        text,
        units,
        kind=kind,
        labels=labels,
        target=target,
        full=tuple(full.tolist()),
        errors=errors,
        fidelity=ADDITIVE_FIDELITY if one_score else FIDELITY,
        **(defaults | fields),
    )


def explained(
    text: str = "good bad film",
    values: Sequence[float] | None = None,
    importances: Sequence[float] | None = None,
    *,
    units: Sequence[tuple[int, int]] | None = None,
    sink: bool = True,
    errors: float = 0.1,
    method: str = "slalom",
    classes: int = 1,
) -> Explanation:
    """A formula with known scores over the words of a text, or over the units given as spans.

    It has no bound, so that values are what they were given as. Without a ``sink`` it is the
    paper's; with ``method`` "linear" it has one score per unit.
    """
    if units is None:
        found = words(text)
    else:
        found = tuple(Unit(text[start:end], start, end) for start, end in units)
    count = len(found)
    rng = np.random.default_rng(count)
    if values is None:
        values = rng.normal(size=count)
    if importances is None:
        importances = rng.normal(size=count)
    columns = torch.tensor(np.array(values, dtype=float)).reshape(count, 1)
    if classes > 1:
        columns = columns * torch.linspace(1, -1, classes)
    weights = torch.tensor(np.array(importances, dtype=float))
    weights = weights - weights.mean()
    function: BoundedSlalom | SlalomSurrogate | OneScore
    if method == "slalom":
        names = ("value", "importance", "removal", "shapley")
        function = make_form(columns, weights, (torch.full((classes,), 0.25), 0.0))
        if not sink:
            function = SlalomSurrogate(columns[None].double(), weights[None])
    else:
        names = ("value", "removal", "shapley")
        function = AdditiveSurrogate(columns.double(), torch.zeros(classes).double())
    outputs = {"kind": "binary", "labels": ("no", "yes")}
    if classes > 1:
        numbered = tuple(f"class {index}" for index in range(classes))
        outputs = {"kind": "multiclass", "labels": numbered}
    growing = errors * (1.0 + np.arange(count))
    return explanation_with(
        function,
        text,
        found,
        **outputs,
        errors=dict.fromkeys(names, growing),
        method=method,
        model="planted",
        calls_fit=10,
    )


FOUR = {"kind": "multiclass", "labels": ("a", "b", "c", "d")}
REPEATED = {"text": "so good so very very good so it is", "occurrences": (3, 2, 2, 1, 1)}
SHAPES = {
    "bounded": {},
    "unbounded": {"unbounded": True},
    "the first of two classes": {"target": 0},
    "pairs that are heard together": {"together": True, "target": 0},
    "four classes": {**FOUR, "target": 2},
    "four classes with pairs that are heard together": {**FOUR, "target": 1, "together": True},
    "several labels": {"kind": "multilabel", "labels": ("toxic", "funny"), "target": 1},
    "a regression": {"kind": "regression", "labels": ("stars",), "target": 0, "unbounded": True},
    "units that stand several times": REPEATED,
    "measured scores": {"measured": True},
    "measured scores of the first of two classes": {"measured": True, "target": 0},
    "measured scores of four classes": {**FOUR, "target": 2, "measured": True, "together": True},
    "one head with a sink": {"heads": 1},
    "one head without a sink": {"sink": False},
    "three heads with a sink": {"heads": 3},
    "two heads without a sink": {"heads": 2, "sink": False},
    "two heads for four classes": {**FOUR, "target": 2, "heads": 2},
    "an additive method": {"additive": True},
    "an additive method for four classes": {**FOUR, "target": 0, "additive": True},
    "pairs of units": {"pairs": True},
    "pairs of units for four classes": {**FOUR, "target": 0, "pairs": True},
    "a process": {"process": True},
    "a process for four classes": {**FOUR, "target": 3, "process": True},
    "a process of more than 48 units": {"text": "more words " * 30, "process": True, "target": 0},
}


def shaped(name: str) -> Explanation:
    """One of ``SHAPES``; units that stand several times are the text's distinct words."""
    options = dict(SHAPES[name])
    if "occurrences" in options:
        first: dict[str, Unit] = {}
        for unit in words(str(options["text"])):
            first.setdefault(unit.text, unit)
        options["units"] = tuple(first.values())
    return made(**options)
