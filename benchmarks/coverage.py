"""Do 90% intervals hold the truth in 90% of cases where the model is noisy?

    python benchmarks/coverage.py --games 20 --noise 0.05 --budget 4000

Each game is a SLALOM with a sink whose scores are known. Its answers carry independent noise of a
given share of their spread. The table says how often the true score lies within 1.645 standard
errors of the one that was found.

A value is the answer to the text filled with a unit, a slope what one more copy adds. With noise,
nobody can tell that a game is a SLALOM exactly. Importances are then those that decide between two
units that fill a text, with the part of the sink that comes with each of them.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import torch
from numpy.typing import NDArray

from slalom_xai import Explainer
from slalom_xai.estimators import Slalom
from slalom_xai.surrogates.formula import SlalomSurrogate
from slalom_xai.surrogates.scores import slalom_score

COVERED_SCORES = ("value", "importance", "alone", "slope", "removal", "shapley")
INTERVAL = 1.645  # standard errors on each side of a 90% interval


def true_score(truth: SlalomSurrogate, name: str) -> NDArray[np.float64]:
    """What a score of every unit is, (n,)."""
    units = truth.units
    everything, each = torch.ones(1, units).double(), torch.eye(units).double()
    if name == "value":
        return np.asarray(truth.predict(units * each)[:, 0])
    if name == "slope":
        return np.asarray((truth.predict(everything + each) - truth.predict(everything))[:, 0])
    if name == "importance":
        sink = torch.exp(truth.slot_importances()[0, -1]) / units
        logs = torch.log(torch.exp(truth.importances[0]) + sink)
        return np.asarray(logs - logs.mean())
    return np.asarray(slalom_score(truth, name, 0))


def cover(seed: int, units: int, noise: float, budget: int, heads: int | None) -> dict[str, float]:
    """The share of units whose true scores lie within their intervals."""
    torch.set_num_threads(1)
    rng = np.random.default_rng([seed, units])
    truth = SlalomSurrogate(
        torch.tensor(rng.normal(0, 2, (1, units, 1))),
        torch.tensor(rng.normal(0, 0.7, (1, units))),
        torch.tensor(rng.normal(0, 1, (1, 1))),
        torch.tensor([np.log(units) / 2]),
    ).normalised()
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
    found = Explainer(
        model, output="logits", method=Slalom(heads=heads), budget=budget, random_state=seed
    )(text)
    if found.importances is None:
        return {}
    inside = {"noticed": float(found.standard_errors["value"].any())}
    for name in COVERED_SCORES:
        missed = np.abs(found.scores(name) - true_score(truth, name))
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
    parser.add_argument("--heads", type=int, default=None, help="1: without an additive head")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    settings = [
        [value] * given.games for value in (given.units, given.noise, given.budget, given.heads)
    ]
    with ProcessPoolExecutor(given.jobs) as pool:
        every = [found for found in pool.map(cover, range(given.games), *settings) if found]
    print(f"{len(every)} of {given.games} games got importances")
    unnoticed = sum(found["noticed"] == 0 for found in every)
    print(
        f"in {unnoticed} of them the noise was not noticed, and measured scores have an error of 0"
    )
    print("| score | covered by 90% intervals | standard error |\n| --- | --- | --- |")
    for name in COVERED_SCORES:
        shares = np.array([found[name] for found in every])
        print(f"| {name} | {shares.mean():.2f} | {shares.std() / len(shares) ** 0.5:.2f} |")


if __name__ == "__main__":
    main()
