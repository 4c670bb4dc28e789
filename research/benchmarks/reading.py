"""Do printed scores stay, and do they mean what they say?

    python -m research.benchmarks.reading texts.jsonl [--model FOLDER] [--texts 20] [--calls 1000]

Each text is explained with two seeds, which send other perturbed texts to the model. Printed are
means over texts:

    correlation  of values and of importances between the seeds, over the quarter of the words
                 with the largest measured removal
    ends         share of the words with an effect whose value is within a tenth of an end of the
                 range
    printed      R² between what the formula gives with numbers rounded to two digits, as they are
                 printed, and ``predict``, over random removals
    sign         share of the words whose removal exceeds a tenth of the largest, for which value
                 less prediction has its sign

and how many explanations warn, with the lowest R² of the others on the calls that test the second
explanation. ``research/benchmarks/seeds.py`` has the spread of more seeds over the stated errors.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from slalom_xai import Explainer, Explanation


def correlate(first: Explanation, second: Explanation, score: str) -> float:
    """The correlation of a score over the quarter of units with the largest removal."""
    removal = np.abs(first.scores("removal"))
    largest = np.argsort(-removal)[: max(3, len(removal) // 4)]
    return float(np.corrcoef(first.scores(score)[largest], second.scores(score)[largest])[0, 1])


def find_ends(one: Explanation) -> float:
    """The share of units with an effect whose value is near an end of the range."""
    if one.range is None or not one.has_effect.any():
        return float("nan")
    low, high = one.range
    margin = 0.1 * (high - low)
    values = one.values[one.has_effect]
    return float(((values < low + margin) | (values > high - margin)).mean())


def agree_in_sign(one: Explanation) -> float:
    """How often value less prediction has the sign of what is lost without the unit."""
    removal = one.scores("removal")
    large = np.abs(removal) > 0.1 * np.abs(removal).max()
    return float((np.sign(one.values - one.prediction) == np.sign(removal))[large].mean())


def repredict(one: Explanation, digits: int = 2) -> float:
    """How far the formula with rounded numbers gives what ``predict`` gives, as an R²."""
    if one.range is None or one.sink is None or one.importances is None:
        return float("nan")
    rng, n = np.random.default_rng(0), len(one.units)
    keep = (rng.random((400, n)) < rng.random((400, 1))).astype(float)
    pairs = one.interactions
    together = [keep[:, pair.units[0]] * keep[:, pair.units[1]] for pair in pairs]
    present = np.column_stack([keep, *together, n - keep.sum(axis=1)])
    values = np.array([*one.values, *(pair.value for pair in pairs), one.sink[0]])
    importances = np.array([*one.importances, *(pair.importance for pair in pairs), one.sink[1]])
    low, high = one.range
    centre, half = (low + high) / 2, (high - low) / 2
    inside = ((values.round(digits) - centre) / half).clip(-1 + 1e-6, 1 - 1e-6)
    weights = present * np.exp(importances.round(digits))
    average = weights @ np.arctanh(inside) / weights.sum(axis=1)
    again, true = centre + half * np.tanh(average), one.predict(keep)
    return 1 - float(((again - true) ** 2).mean() / true.var())


def main() -> None:
    """Explains and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--model", default=None)
    parser.add_argument("--texts", type=int, default=20)
    parser.add_argument("--calls", type=int, default=1000)
    given = parser.parse_args()
    texts = pd.read_json(given.data, lines=True)["text"].tolist()
    chosen = np.random.default_rng(0).permutation(len(texts))[: given.texts]
    rows, trusted, warned = [], [], 0
    for index in chosen:
        found = []
        for seed in (0, 1):
            explainer = Explainer(
                given.model, budget=given.calls, random_state=seed, show_progress=False
            )
            found.append(explainer(texts[index]))
        first, second = found
        row = {"ends": find_ends(first), "sign": agree_in_sign(first), "printed": repredict(first)}
        for name in ("value", "importance"):
            row[f"{name} correlation"] = correlate(first, second, name)
        rows.append(row)
        if first.trust.startswith("Do not trust"):
            warned += 1
        elif second.fidelity is not None:
            trusted.append(second.fidelity.any.r2)
    print(pd.DataFrame(rows).mean().round(2).to_string())
    print(f"warned {warned} of {len(chosen)}; lowest R² of the others {min(trusted):.2f}")


if __name__ == "__main__":
    main()
