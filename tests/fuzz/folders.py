"""Cases of kind ``folder``: model folders after damage."""

from __future__ import annotations

import functools
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import transformers
from tiny import tiny

from fuzz.cases import Outcome
from fuzz.mutations import damaged_bytes, mutated
from fuzz.promises import broken
from fuzz.words import unclear
from slalom_xai import Explainer
from slalom_xai.errors import SlalomError

MODELS = ("bert", "distilbert", "gpt2", "roberta")
TEXT = "a quiet film that grows on you"
MOST, LARGEST = 2000, 300  # numbers above the one become the other: no machine has the memory


@functools.cache
def sound(name: str) -> dict[str, bytes]:
    """The files of a model folder as they should be."""
    model, tokenizer = tiny(name)
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.is_file()}


def files(seed: int) -> tuple[str, dict[str, bytes]]:
    """A folder with one damaged file, and what was done to it."""
    rng = np.random.default_rng([3, seed])
    found = dict(sound(str(rng.choice(MODELS))))
    name = str(rng.choice(sorted(found)))
    way = str(rng.choice(["remove", "empty", "bytes", "tokenizer", "json", "json"]))
    if way == "tokenizer":
        for tokenizer_file in [other for other in found if "token" in other or "vocab" in other]:
            del found[tokenizer_file]
    elif way == "remove":
        del found[name]
    elif way == "json" and name.endswith(".json"):
        found[name] = json.dumps(_small(mutated(rng, json.loads(found[name])))).encode()
    else:
        found[name] = b"" if way == "empty" else damaged_bytes(rng, found[name])
    return f"{way} {name}", found


def _small(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _small(entry) for key, entry in node.items()}
    if isinstance(node, list):
        return [_small(entry) for entry in node]
    return LARGEST if isinstance(node, int) and node > MOST else node


def run(seed: int, outcome: Outcome) -> None:
    """Loads a damaged folder: a clear error, or a model that is explained."""
    told, found = files(seed)
    outcome.told = told
    outcome.counts["folders"] += 1
    with tempfile.TemporaryDirectory() as folder:
        for name, content in found.items():
            (Path(folder) / name).write_bytes(content)
        try:
            explanation = Explainer(folder, budget=80, show_progress=False)(TEXT)
        except SlalomError as error:
            outcome.told += f"\n  {type(error).__name__}: {error}"
            outcome.counts["folders refused"] += 1
            problem = unclear(error)
            outcome.problems += [f"folder, {problem}: {str(error)[:250]!r}"] if problem else []
            return
    outcome.counts["folders explained"] += 1
    outcome.problems += [f"folder, {problem}" for problem in broken(explanation)]
    if told.startswith("tokenizer"):
        outcome.problems.append("folder, a model without tokenizer files is explained")
