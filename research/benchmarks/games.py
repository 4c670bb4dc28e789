"""Explanations of games: texts for which the model's output to every subset of words is known.

    python -m research.benchmarks.games games.npz --games 100 --calls 32,64,128 \
        --methods slalom,linear,one-score,lime,kernel-shap
    python -m research.benchmarks.games --shapley 200

A file holds ``meta``, a JSON list with ``key``, ``n`` and perhaps ``upper`` and ``lower`` of each
game, and for each key the log odds of the 2^n subsets (bit j of the index: word j is kept; words
that are not kept are masked). Games of six words or more are drawn by ``--seed``.

Printed are means over games: R² over all subsets of what the explanation predicts, R² of its
Shapley values against the exact ones, and the normalised AOPC of its order (1: the best order, 0:
the worst; probability of the predicted class, averaged over removing the first 1 to n words).

The second makes formulas of so many words and prints how long their Shapley values take on one
core, and how far the largest error is from those of 50 times as many orders.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from slalom_xai import Explainer
from slalom_xai.errors import BudgetError, InputError
from slalom_xai.methods.slalom import SLALOM
from slalom_xai.models import Reading, Row
from slalom_xai.models.outputs import Outputs
from slalom_xai.models.text import equal_codes, words
from slalom_xai.slalom.formula import Formulas
from slalom_xai.slalom.shapley import compute_shapley

Array = NDArray[np.float64]


class Game:
    """A model that knows the outputs to all subsets of one text's words.

    Args:
        outputs: (2^n,), log odds.
    """

    name = "game"
    outputs = Outputs("binary", ("negative", "positive"))
    device = torch.device("cpu")
    probe_calls = 0

    def __init__(self, outputs: Array) -> None:
        self.log_odds = outputs
        self.n = int(math.log2(len(outputs)))

    @property
    def text(self) -> str:
        """As many words as the game has players, all different."""
        return " ".join(f"w{number}" for number in range(self.n))

    def read(
        self,
        text: str,
        text_pair: str | None = None,
        *,
        truncation: bool = False,
        removal: str = "delete",
    ) -> Reading:
        """The words of the game's text; a row says which of them are kept."""
        pieces = words(text)

        def shorten(keep: NDArray[np.bool_]) -> Row:
            return "".join("01"[int(one)] for one in keep)

        def compose(indices: NDArray[np.int64]) -> Row:
            raise InputError("a game knows subsets of its words, in their order")

        codes = equal_codes([piece.text for piece in pieces])
        return Reading(text, pieces, codes, "", compose, shorten, in_place=True)

    def size(self, row: Row) -> int:
        """As long as the text: words are masked."""
        return self.n

    def show(self, row: Row) -> str:
        """A row as it is."""
        return str(row)

    def answer(self, rows: Sequence[Row]) -> torch.Tensor:
        """Logits, (rows, 2)."""
        numbers = [int(str(row)[::-1], 2) for row in rows]
        odds = torch.as_tensor(self.log_odds[numbers], dtype=torch.float64)
        return torch.stack([torch.zeros_like(odds), odds], dim=1)


def list_subsets(n: int) -> NDArray[np.bool_]:
    """All masks, (2^n, n), in the order of their numbers."""
    return ((np.arange(2**n)[:, None] >> np.arange(n)) & 1).astype(bool)


def compute_exact_shapley(outputs: Array) -> Array:
    """Shapley values (n,) by their definition."""
    n = int(math.log2(len(outputs)))
    inside = list_subsets(n)
    sizes, numbers = inside.sum(axis=1), np.arange(2**n)
    values = np.zeros(n)
    for unit in range(n):
        without = numbers[~inside[:, unit]]
        weights = 1 / (n * np.array([math.comb(n - 1, size) for size in sizes[without]]))
        values[unit] = weights @ (outputs[without + (1 << unit)] - outputs[without])
    return values


def measure_order(outputs: Array, scores: Array) -> float:
    """The AOPC of removing words by their scores, the largest first."""
    n, whole = len(scores), len(outputs) - 1
    sign = 1 if outputs[whole] >= 0 else -1
    shares = 1 / (1 + np.exp(-sign * outputs))
    left, total = whole, 0.0
    for unit in np.argsort(-sign * scores):
        left ^= 1 << int(unit)
        total += shares[whole] - shares[left]
    return total / n


def measure(game: dict[str, Any], outputs: Array, method: str, calls: int) -> list[float]:
    """R² over subsets, R² of Shapley values, and normalised AOPC where its ends are known."""
    model = Game(outputs)
    explainer = Explainer(
        model, method=method, budget=calls, target=1, granularity="word", show_progress=False
    )
    explanation = explainer(model.text)
    predicted = explanation.predict(list_subsets(model.n))
    exact, scores = compute_exact_shapley(outputs), explanation.scores("shapley")
    aopc = math.nan
    if game.get("upper") is not None and game["upper"] > game["lower"]:
        spread = game["upper"] - game["lower"]
        aopc = (measure_order(outputs, scores) - game["lower"]) / spread
    return [_r2(predicted, outputs), _r2(scores, exact), aopc]


def _r2(predicted: Array, true: Array) -> float:
    return 1 - float(((predicted - true) ** 2).sum() / ((true - true.mean()) ** 2).sum())


def measure_shapley(words: int, formulas: int = 5) -> None:
    """Prints the time of a formula's Shapley values and their largest error, for several formulas.

    The first formula's time includes the drawing of orders, which later texts of as many words use
    again. Values and importances are drawn from a normal distribution of spread 1. The output has
    no bound, or one at half of the largest value.
    """
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    print("| words | bound | ms | largest error / largest score |")
    print("| --- | --- | --- | --- |")
    for number in range(formulas):
        inner, importances = torch.randn(2, 1, words + 1, generator=generator, dtype=torch.float64)
        curvature = (number % 2) * 2 / inner.abs().max()[None]  # 0: no bound
        none = torch.zeros(len(inner), 0, 2)
        form = Formulas(inner, importances, torch.zeros_like(curvature), curvature, none, words)
        start = time.process_time()
        found = compute_shapley(form, SLALOM.orders)
        seconds = time.process_time() - start
        true = compute_shapley(form, 50 * SLALOM.orders)
        error = float((found - true).abs().max() / true.abs().max())
        bound = "yes" if number % 2 else "no"
        print(f"| {words} | {bound} | {1000 * seconds:.0f} | {error:.4f} |", flush=True)


def main() -> None:
    """Runs what the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--shapley", type=int, metavar="WORDS")
    parser.add_argument("--games", type=int, default=100)
    parser.add_argument("--calls", default="32,64,128")
    parser.add_argument("--methods", default="slalom,linear,one-score")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.shapley:
        measure_shapley(given.shapley)
        return
    if given.file is None:
        parser.error("give a file of games, or --shapley")
    stored = np.load(given.file)
    games = [game for game in json.loads(str(stored["meta"])) if game["n"] >= 6]
    drawn = np.random.default_rng(given.seed).permutation(len(games))[: given.games]
    print("| calls | method | games | subsets | Shapley values | normalised AOPC |")
    print("| --- | --- | --- | --- | --- | --- |")
    for calls in map(int, given.calls.split(",")):
        for method in given.methods.split(","):
            found = []
            for index in drawn:
                outputs = stored[games[index]["key"]].astype(float)
                try:
                    found.append(measure(games[index], outputs, method, calls))
                except BudgetError:
                    continue  # the column of games says how many are left
            if not found:
                continue
            means = " | ".join(f"{mean:.2f}" for mean in np.nanmean(found, axis=0))
            print(f"| {calls} | `{method}` | {len(found)} | {means} |", flush=True)


if __name__ == "__main__":
    main()
