"""Cases of kind ``trust``: models that are no SLALOM; what is claimed is tested on fresh rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzz.cases import Outcome
from fuzz.families import HARD, Game
from fuzz.promises import broken
from fuzz.texts import WORDS
from fuzz.words import claimed
from slalom_xai import Explainer
from slalom_xai.explanation import Explanation

ROWS = 500
CLAIM = 0.9  # a claim that has to hold ...
HOLDS = 0.3  # ... at least this far
RATE = 0.01  # claims that may fail: held-out rows are a sample
FEW = 3  # and as many fail by chance in a short run


def run(seed: int, outcome: Outcome) -> None:
    """Explains a hard function and asks it about fresh deletions."""
    rng = np.random.default_rng([5, seed])
    family = str(rng.choice(list(HARD)))
    play = HARD[family](int(rng.integers(10_000)))
    words = rng.choice(sorted(set(WORDS)), int(rng.integers(4, 23)), replace=False).tolist()
    budget = None if rng.random() < 0.7 else int(rng.integers(8 * len(words), 40 * len(words)) + 60)

    def answer(texts: list[str]) -> Any:
        return [[play(text.split())] for text in texts]

    explainer = Explainer(answer, output="logits", budget=budget, show_progress=False)
    explanation = explainer(" ".join(words))
    share, fresh = claimed(explanation), fresh_r2(explanation, words, play, rng)
    outcome.told = f"{family}, budget {budget}, {words}\n  {explanation.trust}\n"
    outcome.told += f"  {explanation.fidelity}"
    outcome.counts["claims tested"] += 1
    outcome.problems += broken(explanation)
    if share is None or share < CLAIM:
        return
    outcome.counts["claims of 90%"] += 1
    if fresh < HOLDS:
        outcome.counts["claims that fail"] += 1
        outcome.told += f"\n  R2 on {ROWS} fresh rows {fresh:.3g}: a claim that fails"


def fresh_r2(found: Explanation, words: list[str], play: Game, rng: np.random.Generator) -> float:
    """The share of what deletions do that is predicted; NaN where they do nothing."""
    units = len(words)
    rows = np.zeros((ROWS, units), dtype=bool)
    for row in rows:
        row[rng.choice(units, int(rng.integers(1, units)), replace=False)] = True
    kept = [[words[place] for place in np.flatnonzero(row)] for row in rows]
    changes = np.array([play(left) for left in kept]) - play(words)
    predicted = found.predict(rows) - found.predict(np.ones((1, units)))
    if not changes.var():
        return float("nan")
    return float(1 - ((predicted - changes) ** 2).mean() / changes.var())


def too_many(claims: int, failing: int) -> bool:
    """Whether more claims fail than chance explains."""
    return failing > max(FEW, RATE * claims)
