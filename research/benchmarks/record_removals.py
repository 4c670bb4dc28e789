r"""Records what a model answers to removals, so that fits can be compared without the model.

    python -m research.benchmarks.record_removals MODEL texts.jsonl OUT.npz [--texts 16] \
        [--calls 2000] [--removals hide,delete] [--orders 100]

For each text and each of the removals "hide" and "delete" the file holds masks (as bits) and
outputs: the whole text, the empty one, two independent draws of the perturbed texts that an
explanation of so many calls is fitted to, and fresh ones to test on, 1 to 10 words removed and any
number. With ``--orders`` it also holds Shapley values, sampled by as many random orders of the
words, each used in both directions. ``research.benchmarks.recorded`` reads it.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from slalom_xai import Explainer
from slalom_xai.explainer.inputs import read_for_removal
from slalom_xai.queries import Queries
from slalom_xai.slalom.design import draw_fit
from slalom_xai.slalom.rows import RowPool, even_counts
from slalom_xai.slalom.settings import CALLS

TESTS = 300  # perturbed texts of either kind


def draw_masks(pool: RowPool, calls: int, seed: int) -> list[np.ndarray]:
    """Two draws to fit, and two sets to test on: few words removed, and any number."""
    rng = np.random.default_rng(seed)
    longest = pool.units - 1
    tests = [
        pool.draw(TESTS, even_counts(1, most, rng), rng, quota=True)
        for most in (min(10, longest), longest)
    ]
    single = ~np.eye(pool.units, dtype=bool)
    draws = [draw_fit(pool, calls - len(single), calls, rng, CALLS, single=False) for _ in range(2)]
    return [single, *draws, *tests]


def sample_shapley(queries: Queries, units: int, orders: int) -> np.ndarray:
    """Shapley values of the model itself, (units, C), from orders used in both directions."""
    rng = np.random.default_rng(units)
    forwards = np.argsort([rng.permutation(units) for _ in range(orders)], axis=1)
    place = np.concatenate([forwards, units - 1 - forwards])  # of each unit in each order
    masks = place[:, None, :] < np.arange(units + 1)[:, None]  # the first so many of an order
    outputs = queries.ask(masks.reshape(-1, units)).cpu().double().numpy()
    gains = np.diff(outputs.reshape(len(place), units + 1, -1), axis=1)
    return np.asarray(np.take_along_axis(gains, place[..., None], axis=1).mean(axis=0))


def record(
    explainer: Explainer, text: str, removal: str, calls: int, orders: int
) -> dict[str, Any]:
    """Masks and outputs for one text, and sampled Shapley values where there are orders."""
    question = read_for_removal(explainer.model, text, granularity="word", removal=removal)
    queries = Queries(explainer.batches, question, budget=10**9)
    pool = RowPool(question.interchangeable, question.keys)
    n = len(question.units)
    whole = pool.take_whole()
    sets = [whole, np.zeros((1, n), dtype=bool), *draw_masks(pool, calls, seed=n)]
    masks = np.concatenate(sets)
    stored = {
        "masks": np.packbits(masks, axis=1),
        "sizes": np.array([n, *map(len, sets)]),
        "outputs": queries.ask(masks).cpu().numpy().astype(np.float32),
        "occurrences": np.asarray(question.occurrences),
        "words": np.array([unit.text for unit in question.units]),
    }
    if orders and removal == "hide":
        stored["shapley"] = sample_shapley(queries, n, orders)
    return stored


def main() -> None:
    """Records what the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--texts", type=int, default=16)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--removals", default="hide,delete", help="with commas")
    parser.add_argument("--orders", type=int, default=0, help="for sampled Shapley values")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop between two texts")
    given = parser.parse_args()
    texts = pd.read_json(given.data, lines=True)["text"].tolist()
    chosen = np.random.default_rng(0).permutation(len(texts))[: given.texts]
    explainer = Explainer(None if given.model == "bundled" else given.model, show_progress=False)
    low, high = explainer._range.find() or (None, None)
    end, count = time.monotonic() + given.seconds, 0
    stored: dict[str, Any] = {}
    if low is not None and high is not None:
        stored = {"low": low.numpy(), "high": high.numpy()}
    for number, index in enumerate(chosen):
        if time.monotonic() > end:
            break
        count += 1
        for removal in given.removals.split(","):
            found = record(explainer, texts[index], removal, given.calls, given.orders)
            stored |= {f"{number}/{removal}/{name}": part for name, part in found.items()}
    np.savez_compressed(given.out, **stored)
    print(f"{given.out}: {count} of {len(chosen)} texts")


if __name__ == "__main__":
    main()
