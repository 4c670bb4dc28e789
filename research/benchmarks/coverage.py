"""Do 90% intervals hold the truth in 90% of cases where the model is noisy?

    python -m research.benchmarks.coverage --games 20 --noise 0.05 --budget 4000

Each game is the formula itself, without bounds, and its scores are known. Its outputs carry
independent noise of a given share of their spread. The table says how often the true score lies
within 1.645 standard errors of the one that was found.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from slalom_xai import Explainer
from slalom_xai.slalom import BoundedSlalom
from slalom_xai.slalom.formula import score_units
from slalom_xai.slalom.shapley import compute_shapley

COVERED_SCORES = ("value", "importance", "alone", "slope", "removal", "shapley")
INTERVAL = 1.645  # standard errors on each side of a 90% interval


def draw_game(units: int, rng: np.random.Generator) -> BoundedSlalom:
    """A formula of random values and importances, without bounds and pairs."""
    values, importances = rng.normal(0, 2, (units, 1)), rng.normal(0, 0.7, units)
    game = BoundedSlalom(
        inner_values=torch.tensor(values),
        importances=torch.tensor(importances - importances.mean()),
        inner_sink=torch.tensor(rng.normal(0, 1, 1)),
        sink_importance=torch.tensor(rng.normal(-1, 0.5)),
        centre=torch.zeros(1).double(),
        curvature=torch.zeros(1).double(),
        shapley=torch.zeros(units, 1).double(),
        pairs=torch.zeros(0, 2).double(),
        pair_values=torch.zeros(0, 1).double(),
        pair_importances=torch.zeros(0).double(),
    )
    return replace(game, shapley=compute_shapley(game.split()).T)


def cover(seed: int, units: int, noise: float, budget: int) -> dict[str, float]:
    """The share of units whose true scores lie within their intervals."""
    torch.set_num_threads(1)
    rng = np.random.default_rng([seed, units])
    truth = draw_game(units, rng)
    keep = rng.random((2000, units)) < rng.random((2000, 1))
    spread = float(truth.predict(torch.tensor(keep)).std())

    def model(texts: Sequence[str]) -> NDArray[np.float64]:
        rows = np.zeros((len(texts), units))
        for row, text in zip(rows, texts, strict=True):
            np.add.at(row, [int(word[1:]) for word in text.split()], 1)
        odds = truth.predict(torch.tensor(rows))[:, 0].numpy()
        odds = odds + noise * spread * rng.normal(0, 1, len(odds))
        return np.stack([-odds / 2, odds / 2], axis=1)

    text = " ".join(f"w{index}" for index in range(units))
    found = Explainer(model, output="logits", target=1, budget=budget, random_state=seed)(text)
    inside = {"noticed": float(found.standard_errors["removal"].any())}
    for name in COVERED_SCORES:
        missed = np.abs(found.scores(name) - score_units(truth, name, 0).numpy())
        inside[name] = float((missed <= INTERVAL * found.standard_errors[name]).mean())
    return inside


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--games", type=int, default=20)
    parser.add_argument("--units", type=int, default=15)
    parser.add_argument("--noise", type=float, default=0.05, help="share of the outputs' spread")
    parser.add_argument("--budget", type=int, default=4000)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    settings = [[value] * given.games for value in (given.units, given.noise, given.budget)]
    with ProcessPoolExecutor(given.jobs) as pool:
        every = list(pool.map(cover, range(given.games), *settings))
    unnoticed = sum(found["noticed"] == 0 for found in every)
    print(
        f"in {unnoticed} of {given.games} games the noise was not noticed, and measured scores "
        "have an error of 0"
    )
    print("| score | covered by 90% intervals | standard error |\n| --- | --- | --- |")
    for name in COVERED_SCORES:
        shares = np.array([found[name] for found in every])
        print(f"| {name} | {shares.mean():.2f} | {shares.std() / len(shares) ** 0.5:.2f} |")


if __name__ == "__main__":
    main()
