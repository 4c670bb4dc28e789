"""Rows that were asked about prompts, with the log probabilities of their answers, in one file.

The file is what ``numpy.savez_compressed`` writes. Of prompt number i it holds

    i/masks    (rows, ceil(units / 8)) bytes: ``numpy.packbits`` of which sources a row keeps
    i/tokens   (rows, tokens) float32: the log probability of each token of the answer
    i/logits   (rows,) float64: the logit of the probability of the whole answer
    i/kinds    (rows,): the kind of row, an index into KINDS
    about      one JSON text: for each prompt its sources, question and answer

``Rows.load`` reads it. Rows of one kind stand in the order in which they were drawn, so that a
budget of b calls takes the first ones.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from research.benchmarks.answers_prompts import Prompt

# whole: everything; empty: nothing; half: each source kept with probability 1/2; size: any number
# of sources, all numbers equally likely; shap: numbers by Kernel SHAP's weights, each row followed
# by its complement; without: all but one; alone: one. held-half and held-size are like half and
# size, and no method is fitted to them.
KINDS = ("whole", "empty", "half", "size", "shap", "without", "alone", "held-half", "held-size")
MOST_CALLS = 128
HELD_OUT = 64
Masks = NDArray[np.bool_]
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Rows:
    """The rows of one prompt.

    Attributes:
        prompt: what was asked.
        answer: the model's own.
        masks: (rows, units).
        kinds: (rows,).
        tokens: (rows, tokens of the answer), log probabilities.
        logits: (rows,), of the whole answer.
    """

    prompt: Prompt
    answer: str
    masks: Masks
    kinds: NDArray[np.int64]
    tokens: NDArray[np.float32]
    logits: Array

    def of(self, kind: str, most: int | None = None) -> tuple[Masks, Array]:
        """The first rows of a kind, and their logits."""
        there = np.flatnonzero(self.kinds == KINDS.index(kind))[:most]
        return self.masks[there], self.logits[there]

    @property
    def whole(self) -> float:
        """The logit with all sources."""
        return float(self.of("whole")[1][0])

    @property
    def empty(self) -> float:
        """The logit without any source."""
        return float(self.of("empty")[1][0])


def draw_rows(units: int, rng: Generator) -> tuple[Masks, NDArray[np.int64]]:
    """Masks (rows, units) of every kind, and their kinds; none is held out and fitted as well."""
    held = {
        "held-half": _half(units, HELD_OUT, rng),
        "held-size": _sizes(units, HELD_OUT, rng),
    }
    seen = {row.tobytes() for rows in held.values() for row in rows}
    drawn = {
        "whole": np.ones((1, units), dtype=bool),
        "empty": np.zeros((1, units), dtype=bool),
        "half": _half(units, 2 * MOST_CALLS, rng),
        "size": _sizes(units, 2 * MOST_CALLS, rng),
        "shap": _shap(units, MOST_CALLS, rng),
        "without": ~np.eye(units, dtype=bool),
        "alone": np.eye(units, dtype=bool),
    }
    for name in ("half", "size"):
        kept = [row for row in drawn[name] if row.tobytes() not in seen]
        drawn[name] = np.array(kept[:MOST_CALLS])
    drawn |= held
    kinds = [np.full(len(drawn[name]), index) for index, name in enumerate(KINDS)]
    return np.concatenate([drawn[name] for name in KINDS]), np.concatenate(kinds)


def _half(units: int, count: int, rng: Generator) -> Masks:
    return rng.random((count, units)) < 0.5


def _sizes(units: int, count: int, rng: Generator) -> Masks:
    sizes = rng.integers(1, units, count)
    return np.array([_of_size(units, int(size), rng) for size in sizes])


def _shap(units: int, count: int, rng: Generator) -> Masks:
    numbers = np.arange(1, units)
    weights = 1 / (numbers * (units - numbers))
    sizes = rng.choice(numbers, count // 2, p=weights / weights.sum())
    rows = np.array([_of_size(units, int(size), rng) for size in sizes])
    return np.stack([rows, ~rows], axis=1).reshape(-1, units)


def _of_size(units: int, size: int, rng: Generator) -> Masks:
    row = np.zeros(units, dtype=bool)
    row[rng.choice(units, size, replace=False)] = True
    return row


def save_rows(path: Path, every: list[Rows]) -> None:
    """Writes the rows of all prompts, in the place of what is there."""
    arrays: dict[str, Any] = {}
    about = []
    for number, rows in enumerate(every):
        arrays[f"{number}/masks"] = np.packbits(rows.masks, axis=1)
        arrays[f"{number}/tokens"] = rows.tokens
        arrays[f"{number}/logits"] = rows.logits
        arrays[f"{number}/kinds"] = rows.kinds.astype(np.uint8)
        about.append({**asdict(rows.prompt), "answer": rows.answer})
    arrays["about"] = np.array(json.dumps(about))
    part = path.with_suffix(".part.npz")
    np.savez_compressed(part, **arrays)
    part.replace(path)


def load_rows(path: Path) -> list[Rows]:
    """Reads what ``save_rows`` wrote."""
    every = []
    with np.load(path) as stored:
        for number, about in enumerate(json.loads(str(stored["about"]))):
            answer = about.pop("answer")
            prompt = Prompt(about["kind"], tuple(about["sources"]), about["question"])
            packed = stored[f"{number}/masks"]
            masks = np.unpackbits(packed, axis=1, count=len(prompt.sources)).astype(bool)
            kinds = stored[f"{number}/kinds"].astype(np.int64)
            tokens, logits = stored[f"{number}/tokens"], stored[f"{number}/logits"]
            every.append(Rows(prompt, answer, masks, kinds, tokens, logits))
    return every
