"""Explanations with made-up numbers, of every shape a report has to show."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from slalom_xai.explanation import Explanation
from slalom_xai.outputs import Outputs
from slalom_xai.surrogates.additive import AdditiveSurrogate
from slalom_xai.surrogates.formula import SlalomSurrogate
from slalom_xai.surrogates.quality import Agreement, Fidelity
from slalom_xai.surrogates.scores import SCORES
from slalom_xai.text import Unit, words

TEXT = "A slow start, but the two leads are wonderful and I would gladly watch it again."
FIDELITY = Fidelity(
    Agreement(0.81, 0.1, 50),
    Agreement(0.93, 0.2, 100),
    Agreement(0.4, 0.5, 50),
    Agreement(0.7, 0.6, 100),
)


def made(
    text: str = TEXT,
    *,
    heads: int = 1,
    sink: bool = True,
    additive: bool = False,
    lengths: bool = False,
    nearest: bool = False,
    labels: tuple[str, ...] = ("negative", "positive"),
    kind: str = "binary",
    target: int = 1,
    occurrences: tuple[int, ...] = (),
    seed: int = 0,
    units: tuple[Unit, ...] | None = None,
    **fields: object,
) -> Explanation:
    """An explanation whose numbers come from a seed."""
    units = words(text) if units is None else units
    n, columns = len(units), 1 if kind == "binary" else len(labels)
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> torch.Tensor:
        return 2 * torch.randn(*shape, generator=generator, dtype=torch.float64)

    full = draw(columns)
    if additive:
        function: SlalomSurrogate | AdditiveSurrogate = AdditiveSurrogate(draw(n, columns), full)
    else:
        ends = (draw(heads, columns), draw(heads)) if sink else (None, None)
        function = SlalomSurrogate(draw(heads, n, columns), draw(heads, n), *ends).normalised()
    errors = {name: np.abs(draw(n).numpy()) for name in (("value",) if additive else SCORES)}
    if lengths:
        offsets = draw(n + 1, columns)
        offsets[[0, -1]] = 0
        function = replace(function, length_offsets=offsets)
    if nearest:
        function = replace(
            function,
            nearest=SlalomSurrogate(
                draw(1, n, columns), draw(1, n), draw(1, columns), draw(1)
            ).normalised(),
        )
    return Explanation(
        text=text,
        units=units,
        method=str(fields.pop("method", "linear" if additive else "slalom")),
        model=str(fields.pop("model", "made up")),
        granularity=str(fields.pop("granularity", "type" if occurrences else "word")),
        removal="delete",
        outputs=Outputs(kind, labels),
        target_index=target,
        full=tuple(full.tolist()),
        function=function,
        column_errors=(errors,) * columns,
        column_fidelity=(FIDELITY,) * columns,
        calls_fit=900,
        calls_check=100,
        occurrences=occurrences,
        **fields,
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
    "two heads with lengths and their nearest": {"heads": 2, "lengths": True, "nearest": True},
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
        "nearest": True,
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
