"""Explanations for tests: around a given surrogate, with made-up numbers, or with known scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from slalom_xai.surrogates.correction import Correction
from slalom_xai.surrogates.interactions import Interactions

from slalom_xai.explanation import Array, Explanation
from slalom_xai.outputs import Outputs
from slalom_xai.slalom.trust import Agreement, FewAndMany, Fidelity
from slalom_xai.surrogates.additive import AdditiveSurrogate
from slalom_xai.surrogates.conditioning import Changes, conditioned
from slalom_xai.surrogates.formula import SlalomSurrogate, TwoScores
from slalom_xai.surrogates.pairs import PairsSurrogate
from slalom_xai.surrogates.process import Kernel, Noise, Process
from slalom_xai.surrogates.scores import SCORES, OneScore
from slalom_xai.text import Unit, words

TEXT = "A slow start, but the two leads are wonderful and I would gladly watch it again."
FIDELITY = Fidelity(
    Agreement(0.81, 0.1, 50),
    Agreement(0.93, 0.2, 100),
    Agreement(0.4, 0.5, 50),
    Agreement(0.7, 0.6, 100),
    FewAndMany(Agreement(0.55, 0.3, 50), Agreement(0.75, 0.4, 100)),
)
ADDITIVE_FIDELITY = Fidelity(Agreement(0.4, 0.5, 50), Agreement(0.7, 0.6, 100))
MEASURED = ("value", "removal", "alone", "slope")


def explanation_with(
    function: SlalomSurrogate | OneScore,
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
    """An explanation that holds a surrogate; every other maker of explanations ends here.

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


def drawn_process(draw: Callable[..., torch.Tensor], n: int, full: torch.Tensor) -> Process:
    """A process of twelve rows."""
    numbers = [draw(n).abs() / n, draw(n).abs(), *draw(5).abs()]
    rows = (draw(12, n) > 0).double()
    noise = Noise(full.new_tensor(0.1), full.new_tensor(0.5))
    changes = draw(12, len(full))
    seen = Changes(rows, changes, torch.ones_like(full))
    return conditioned(Kernel(*numbers), noise, seen, full).process


def made(
    text: str = TEXT,
    *,
    heads: int = 1,
    sink: bool = True,
    additive: bool = False,
    pairs: bool = False,
    process: bool = False,
    lengths: bool = False,
    corrected: bool = False,
    interactions: bool = False,
    two_scores: bool = False,
    labels: tuple[str, ...] = ("negative", "positive"),
    kind: str = "binary",
    target: int = 1,
    occurrences: tuple[int, ...] = (),
    seed: int = 0,
    units: tuple[Unit, ...] | None = None,
    **fields: object,
) -> Explanation:
    """An explanation whose numbers come from a seed.

    With ``two_scores``, its values are measured, and so are the other scores that can be. Where
    units stand several times, nobody asked for one more copy of one. ``pairs`` and ``process`` are
    functions of other methods with one score. With ``corrected``, a process predicts beside a share
    of the heads. With ``interactions``, some pairs of units act together.
    """
    units = words(text) if units is None else units
    n, columns = len(units), 1 if kind == "binary" else len(labels)
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> torch.Tensor:
        return 2 * torch.randn(*shape, generator=generator, dtype=torch.float64)

    full = draw(columns)
    one_score = additive or pairs or process
    function: SlalomSurrogate | OneScore = AdditiveSurrogate(draw(n, columns), full)
    if pairs:
        both = torch.combinations(torch.arange(float(n), dtype=torch.float64))[:: n - 1]
        function = PairsSurrogate(draw(n, columns), both, draw(len(both), columns), full)
    if process:
        function = drawn_process(draw, n, full)
    if not one_score:
        ends = (draw(heads, columns), draw(heads)) if sink else (None, None)
        function = SlalomSurrogate(draw(heads, n, columns), draw(heads, n), *ends).normalised()
    names = ("value",) if one_score else SCORES
    errors = {name: np.abs(draw(n).numpy()) for name in names}
    if lengths:
        offsets = draw(n + 1, columns)
        offsets[[0, -1]] = 0
        function = replace(function, length_offsets=offsets)
    if interactions:
        some = torch.combinations(torch.arange(float(n), dtype=torch.float64))[:: n - 1]
        strengths, off = draw(len(some), columns), draw(len(some), columns).abs()
        found = Interactions(some, strengths, off, full.new_full((columns,), 0.3))
        function = replace(function, interactions=found)
    if corrected:
        process = drawn_process(draw, n, full)
        correction = Correction(full.new_tensor(0.5), process, draw(n, columns))
        function = replace(function, correction=correction)
        gained = full - function.empty() - correction.shapley.sum(dim=0)
        correction = replace(correction, shapley=correction.shapley + gained / n)
        function = replace(function, correction=correction)
    measured: tuple[dict[str, Array], ...] = ()
    if two_scores:
        importances = draw(n)
        two = TwoScores(
            draw(n, columns), importances - importances.mean(), draw(columns), draw(1)[0]
        )
        repeats = None if occurrences else draw(n, columns)
        function = replace(function, two_scores=two, repeats=repeats)
        asked = [name for name in MEASURED if name != "slope" or not occurrences]
        answers = {name: draw(n, columns).numpy() for name in asked} | {"value": two.values.numpy()}
        measured = tuple(
            {name: answers[name][:, column] for name in asked} for column in range(columns)
        )
        errors |= dict.fromkeys(asked, np.zeros(n))  # the model is steady
    defaults = {
        "column_measured": measured,
        "method": "linear" if one_score else "slalom",
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
    """A SLALOM with known scores over the words of a text, or over the units given as spans."""
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
    columns = torch.tensor(np.array(values, dtype=float)).reshape(1, count, 1)
    if classes > 1:
        columns = columns * torch.linspace(1, -1, classes)
    weights = torch.tensor(np.array(importances, dtype=float)).reshape(1, count)
    if method == "slalom":
        names = ("value", "importance", "removal", "shapley")
        ends = (torch.full((1, classes), 0.25).double(), torch.zeros(1).double())
        if not sink:
            ends = (None, None)
        function = SlalomSurrogate(columns.double(), weights - weights.mean(), *ends)
    else:
        names = ("value", "removal", "shapley")
        function = AdditiveSurrogate(columns[0].double(), torch.zeros(classes).double())
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


SHAPES = {
    "one head with a sink": {},
    "one head without a sink": {"sink": False},
    "the first of two classes": {"target": 0},
    "three heads with a sink": {"heads": 3},
    "two heads without a sink": {"heads": 2, "sink": False},
    "an additive method": {"additive": True},
    "four classes": {"kind": "multiclass", "labels": ("a", "b", "c", "d"), "target": 2, "heads": 2},
    "several labels": {"kind": "multilabel", "labels": ("toxic", "funny"), "target": 1},
    "an additive method for four classes": {
        "kind": "multiclass",
        "labels": ("a", "b", "c", "d"),
        "target": 0,
        "additive": True,
    },
    "pairs of units": {"pairs": True},
    "pairs of units for four classes": {
        "kind": "multiclass",
        "labels": ("a", "b", "c", "d"),
        "target": 0,
        "pairs": True,
    },
    "a process": {"process": True},
    "a process for four classes": {
        "kind": "multiclass",
        "labels": ("a", "b", "c", "d"),
        "target": 3,
        "process": True,
    },
    "a process of more than 48 units": {"text": "more words " * 30, "process": True, "target": 0},
    "heads with a process": {"corrected": True},
    "pairs that act together": {"interactions": True, "two_scores": True, "target": 0},
    "pairs that act together beside a process": {"interactions": True, "corrected": True},
    "heads and two scores with a process, for four classes": {
        "kind": "multiclass",
        "labels": ("a", "b", "c", "d"),
        "target": 1,
        "heads": 2,
        "two_scores": True,
        "corrected": True,
    },
    "a regression": {"kind": "regression", "labels": ("stars",), "target": 0},
    "units that stand several times": {
        "text": "so good so very very good so it is",
        "occurrences": (3, 2, 2, 1, 1),
    },
    "one head with lengths": {"lengths": True},
    "lengths without a sink, the first of two classes": {
        "lengths": True,
        "sink": False,
        "target": 0,
    },
    "measured values": {"two_scores": True},
    "measured values of the first of two classes": {"two_scores": True, "target": 0},
    "measured values and heads without a sink": {"two_scores": True, "sink": False},
    "measured values of four classes": {
        "kind": "multiclass",
        "labels": ("a", "b", "c", "d"),
        "target": 2,
        "two_scores": True,
        "heads": 2,
    },
    "measured values and lengths of two heads": {"heads": 2, "lengths": True, "two_scores": True},
    "four classes with lengths": {
        "kind": "multiclass",
        "labels": ("a", "b", "c", "d"),
        "target": 2,
        "lengths": True,
    },
    "lengths of units that stand several times": {
        "text": "so good so very very good so it is",
        "occurrences": (3, 2, 2, 1, 1),
        "lengths": True,
        "heads": 2,
        "two_scores": True,
    },
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
