"""Cases of kind ``file``: result files after damage."""

from __future__ import annotations

import functools
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from made import SHAPES, shaped
from tiny import tiny

from fuzz.cases import Outcome
from fuzz.families import FAMILIES
from fuzz.mutations import damaged
from fuzz.promises import unusable
from fuzz.words import unclear
from slalom_xai import Explainer
from slalom_xai.errors import InputError
from slalom_xai.explanation import Explanation
from slalom_xai.models.text import GRANULARITIES

TEXT = "A slow start, but one wonderful film. I liked the warm, long end!"
FEW_CALLS: dict[str, Any] = {"budget": 120, "show_progress": False}
METHODS = ("slalom", "linear", "slalom-eff", "occlusion", "anchors", "random")


@functools.cache
def sound() -> tuple[str, ...]:
    """Files as they should be: of several methods and classes, a pair, and made-up ones."""
    made = [shaped(name) for name in SHAPES]
    made += [_of_function("slalom", classes) for classes in (1, 2, 4)]
    made += [_of_function(method, 2) for method in METHODS]
    model, tokenizer = tiny("bert")
    for granularity in GRANULARITIES:
        made.append(Explainer(model, tokenizer, granularity=granularity, **FEW_CALLS)(TEXT))
    made.append(Explainer(model, tokenizer, **FEW_CALLS)("a slow film", "a warm end"))
    made.append(Explainer(model, tokenizer, show_progress=False)("film"))
    return tuple(json.dumps(explanation.to_dict()) for explanation in made)


def _of_function(method: str, classes: int) -> Explanation:
    games = [FAMILIES["slalom"](seed) for seed in range(classes)]

    def answer(texts: list[str]) -> Any:
        return [[game(text.split()) for game in games] for text in texts]

    return Explainer(answer, output="logits", method=method, budget=100, show_progress=False)(TEXT)


def content(seed: int) -> bytes:
    """A damaged file."""
    rng = np.random.default_rng([2, seed])
    files = sound()
    return damaged(rng, json.loads(files[int(rng.integers(len(files)))]))


def run(seed: int, outcome: Outcome) -> None:
    """Loads a damaged file: a clear error, or an explanation that works."""
    given = content(seed)
    outcome.told = f"{len(given)} bytes: {given[:600]!a}"
    outcome.counts["files"] += 1
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "result.json"
        path.write_bytes(given)
        try:
            loaded = Explanation.load(path)
        except InputError as error:
            outcome.told += f"\n  {type(error).__name__}: {error}"
            outcome.counts["files refused"] += 1
            problem = unclear(error)
            outcome.problems += [f"file, {problem}: {str(error)[:250]!r}"] if problem else []
            return
    outcome.counts["files loaded"] += 1
    outcome.problems += [f"file, {problem}" for problem in unusable(loaded)]
