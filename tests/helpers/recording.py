"""What explanations give for a few texts, written down so that changes can be seen.

``scripts/record_explanations.py`` records all of it; ``test_recorded.py`` keeps a small part.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import asdict
from importlib.resources import files
from typing import Any

import numpy as np

SEEDS = (0, 1)
# What the test keeps: models whose numbers are the same with every version of torch.
SMALL = (
    ("function", "slalom"),
    ("function", "one-score"),
    ("function", "slalom-eff"),
    ("function", "slalom-fidel"),
    ("function", "slalom-exact"),
    ("function", "linear"),
    ("embedded", "linear"),
    ("embedded", "occlusion"),
)
SMALL_CASES = (0, 2, 3)
# What a case does not say: not the defaults, so that those can change.
PINNED: dict[str, Any] = {"granularity": "token", "removal": "delete", "target": 1}
CASES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("a slow start but one wonderful warm film", {"budget": 250}),
    ("The actors are warm and funny, and the story is a mess. Nobody minds!", {"budget": 400}),
    ("good good film , good actors , dull dull end", {"budget": 300, "granularity": "type"}),
    (
        "nobody would call this good but I liked it more than I should",
        {"budget": 400, "granularity": "word"},
    ),
    (
        "Loud. Long and dull until the end, then moving. Why not? I cried.",
        {"budget": 60, "granularity": "sentence"},
    ),
    (
        "a quiet film that grows on you , though its last half hour is far too long",
        {"budget": 600, "removal": "mask"},
    ),
)


@functools.cache
def models() -> dict[str, Any]:
    """What is explained, and with which methods."""
    from fakes import Averaging
    from tiny import ASKING, BY_NAME, tiny
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    folder = files("slalom_xai.models") / "embedded"
    embedded = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    encoder, decoder = deepcopy(tiny("bert")), deepcopy(tiny("gpt2"))  # others use them as well
    # In double precision: single precision differs from run to run by more than is allowed here.
    return {
        "embedded": ((embedded.double(), AutoTokenizer.from_pretrained(folder)), BY_NAME),
        "encoder": ((encoder[0].double(), encoder[1]), BY_NAME),
        "decoder": ((decoder[0].double(), decoder[1]), BY_NAME),
        "function": ((Averaging(), None), ASKING),
    }


def told(explanation: Any) -> dict[str, Any]:
    """Everything of an explanation that a user can see."""
    names = ("value", "importance", "alone", "linearized", "slope", "removal", "shapley")
    if explanation.importances is None:
        names = ("value", "alone")
    keep = np.random.default_rng(7).random((20, len(explanation.units))) < 0.6
    keep[:, 0] = True
    fidelity = None if explanation.fidelity is None else asdict(explanation.fidelity)
    return {
        "scores": {name: explanation.scores(name).tolist() for name in names},
        "errors": {name: found.tolist() for name, found in explanation.standard_errors.items()},
        "predicted": explanation.predict(keep).tolist(),
        "fidelity": fidelity,
        "trust": explanation.trust,
        "sink": explanation.sink and list(explanation.sink),
        "range": explanation.range and list(explanation.range),
        "pairs": [[*pair.units, pair.value, pair.importance] for pair in explanation.interactions],
        "prediction": explanation.prediction,
        "base_value": explanation.base_value,
        "calls": [explanation.calls_fit, explanation.calls_check, explanation.passes],
        "notes": list(explanation.notes),
        "units": [[unit.text, unit.start, unit.end] for unit in explanation.units],
    }


def recorded(
    job: tuple[str, str],
    cases: Sequence[int] = range(len(CASES)),
    seeds: Sequence[int] = SEEDS,
) -> dict[str, Any]:
    """The cases of one model and one method, by model, method, number of the case and seed."""
    from slalom_xai import Explainer
    from slalom_xai.errors import SlalomError

    model_name, method = job
    (model, tokenizer), _ = models()[model_name]
    found: dict[str, Any] = {}
    for number in cases:
        text, options = CASES[number]
        for seed in seeds:
            key = f"{model_name} {method} {number} {seed}"
            try:
                explainer = Explainer(
                    model,
                    tokenizer,
                    method=method,
                    random_state=seed,
                    show_progress=False,
                    **(PINNED | options),
                )
                texts = [text, text.replace("film", "story").replace("end", "start")]
                found[key] = (
                    [told(one) for one in explainer(texts)] if seed else [told(explainer(text))]
                )
            except SlalomError as error:
                found[key] = [{"error": str(error)}]
    return found


def differences(before: Any, after: Any, tolerance: float, where: str = "") -> Iterator[str]:
    """Where two records differ by more than rounding; words and whole numbers may not differ.

    Args:
        before: one record.
        after: the other.
        tolerance: how far numbers may lie apart, as a part of one and their size.
        where: the way to this part of the record.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted(before.keys() | after.keys()):
            yield from differences(before.get(name), after.get(name), tolerance, f"{where} {name}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from differences(one, other, tolerance, f"{where}[{index}]")
    elif isinstance(before, float) and isinstance(after, float):
        alike = before == after or (math.isnan(before) and math.isnan(after))
        if not alike and not abs(before - after) <= tolerance * (1 + abs(before)):
            yield f"{where}: {before!r} became {after!r}"
    elif before != after:
        yield f"{where}: {before!r} became {after!r}"
