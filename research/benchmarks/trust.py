"""Can the trust sentence be trusted? Hard games of words, explained and then tested.

    python -m research.benchmarks.trust --seeds 20

Each family below is a model that no SLALOM follows closely, or only by accident. Every game is
explained with the default method; the explanation counts as trusted where its sentence does not
warn. Its R2 is then measured on 2,000 fresh deletions of every size. A trusted explanation whose
fresh R2 is below 0.3 is a broken promise.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from slalom_xai import Explainer

BROKEN = 0.3  # fresh R2 below which a trusted explanation breaks its promise
FRESH_ROWS = 2_000  # deletions that test an explanation
GAME_SIZES = (6, 9, 12, 16, 20, 30, 45)  # words of a game
BUDGETS = (None, None, 300, 1000)  # None: by the size of the game, as most users have it

Play = Callable[[NDArray[np.int64]], float]  # places of the words that are left, in their order
Family = Callable[[int, np.random.Generator], Play]


def last_word(size: int, rng: np.random.Generator) -> Play:
    """The last word that is left decides."""
    answers = rng.normal(0, 3, size)
    return lambda left: answers[left[-1]]


def exclusive_or(size: int, rng: np.random.Generator) -> Play:
    """One of two words, but not both; the others add a little."""
    one, other = rng.choice(size, 2, replace=False)
    small = rng.normal(0, 0.1, size)
    return lambda left: 4.0 * ((one in left) != (other in left)) - 2 + small[left].sum()


def largest(size: int, rng: np.random.Generator) -> Play:
    """The strongest word speaks for all."""
    answers = rng.normal(0, 3, size)
    return lambda left: answers[left].max()


def product(size: int, rng: np.random.Generator) -> Play:
    """The sums of two sets of words are multiplied."""
    half = rng.permutation(size) < size // 2
    weights = rng.normal(0, 1, size)
    return lambda left: weights[left][half[left]].sum() * weights[left][~half[left]].sum()


def threshold(size: int, rng: np.random.Generator) -> Play:
    """Two answers, by the sign of a sum."""
    weights = rng.normal(0, 1, size)

    def play(left: NDArray[np.int64]) -> float:
        if weights[left].sum() > 0:
            return 3.0
        return -3.0

    return play


def negation(size: int, rng: np.random.Generator) -> Play:
    """Some words turn the meaning of the next one around."""
    turns = rng.random(size) < 0.25
    weights = rng.normal(0, 2, size)

    def play(left: NDArray[np.int64]) -> float:
        turned = np.concatenate([[False], turns[left[:-1]]])
        said = weights[left] * ~turns[left]
        return float(np.where(turned, -said, said).sum())

    return play


def length(size: int, rng: np.random.Generator) -> Play:
    """How many words are left matters more than which."""
    by_length = rng.normal(0, 3, size + 1)
    weights = rng.normal(0, 0.3, size)
    return lambda left: by_length[len(left)] + weights[left].sum()


def neighbours(size: int, rng: np.random.Generator) -> Play:
    """Pairs of words that stand side by side."""
    table = rng.normal(0, 1, (size, size))
    return lambda left: float(table[left[:-1], left[1:]].sum())


FAMILIES: dict[str, Family] = {
    "last word": last_word,
    "exclusive or": exclusive_or,
    "largest": largest,
    "product": product,
    "threshold": threshold,
    "negation": negation,
    "length": length,
    "neighbours": neighbours,
}


@dataclass(frozen=True)
class Verdict:
    """One explanation and what became of it."""

    family: str
    seed: int
    size: int
    budget: int | None
    trusted: bool
    stated: float
    low: float
    fresh: float
    sentence: str

    @property
    def broken(self) -> bool:
        """Whether it was trusted wrongly."""
        return self.trusted and not self.fresh >= BROKEN


def fresh_rows(size: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Deletions of every size, all numbers equally likely."""
    left = rng.integers(1, size, (FRESH_ROWS, 1))
    return rng.random((FRESH_ROWS, size)).argsort(axis=1) < left


def judge(family: str, seed: int) -> Verdict:
    """Explains one game and tests the explanation."""
    torch.set_num_threads(1)
    rng = np.random.default_rng([list(FAMILIES).index(family), seed])
    size, budget = int(rng.choice(GAME_SIZES)), BUDGETS[int(rng.integers(len(BUDGETS)))]
    play = FAMILIES[family](size, rng)
    words = [f"w{index}" for index in range(size)]

    def model(texts: Sequence[str]) -> NDArray[np.float64]:
        odds = np.array(
            [play(np.array([int(word[1:]) for word in text.split()])) for text in texts]
        )
        return np.stack([-odds / 2, odds / 2], axis=1)

    explainer = Explainer(model, output="logits", target=1, budget=budget, random_state=seed)
    found = explainer(" ".join(words))
    rows = fresh_rows(size, rng)
    true = np.array([play(np.flatnonzero(row)) for row in rows])
    fresh = _r2(found.predict(rows), true)
    fidelity = found.fidelity
    stated = low = float("nan")
    if fidelity:
        stated, low = fidelity.any.r2, fidelity.any.r2_low
    return Verdict(
        family,
        seed,
        size,
        budget,
        not found.trust.startswith(("Do not trust", "There is nothing")),
        stated,
        low,
        fresh,
        found.trust,
    )


def _r2(predicted: NDArray[np.float64], true: NDArray[np.float64]) -> float:
    """The share of the variance that is predicted."""
    return 1 - float(((predicted - true) ** 2).mean() / max(true.var(), 1e-300))


def judge_all(seeds: range, families: Sequence[str], jobs: int) -> list[Verdict]:
    """Every family with every seed."""
    cases = [(family, seed) for seed in seeds for family in families]
    with ProcessPoolExecutor(jobs) as pool:
        return list(pool.map(judge, *zip(*cases, strict=True)))


def table(verdicts: Sequence[Verdict]) -> str:
    """A line for each family."""
    lines = [
        "| family | explained | trusted | trusted, fresh R2 below 0.3 |",
        "| --- | --- | --- | --- |",
    ]
    for family in dict.fromkeys(verdict.family for verdict in verdicts):
        own = [verdict for verdict in verdicts if verdict.family == family]
        lines.append(
            f"| {family} | {len(own)} | {sum(v.trusted for v in own)} | "
            f"{sum(v.broken for v in own)} |"
        )
    trusted, broken = sum(v.trusted for v in verdicts), sum(v.broken for v in verdicts)
    lines.append(f"| all | {len(verdicts)} | {trusted} | {broken} |")
    return "\n".join(lines)


def main() -> None:
    """Prints the table and every broken promise.

    Exits with 1 where more than one trusted explanation in a hundred is broken.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=20, help="games of each family")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--families", default=",".join(FAMILIES), help="separated by commas")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    given = parser.parse_args()
    verdicts = judge_all(
        range(given.first, given.first + given.seeds), given.families.split(","), given.jobs
    )
    print(table(verdicts))
    for verdict in verdicts:
        if verdict.broken:
            print(verdict)
    if sum(v.broken for v in verdicts) > 0.01 * max(1, sum(v.trusted for v in verdicts)):
        sys.exit(1)


if __name__ == "__main__":
    main()
