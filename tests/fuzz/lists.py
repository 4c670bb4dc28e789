"""Cases of kind ``list``: longer texts, explained together as they are alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzz.cases import Outcome
from fuzz.explaining import Question, differing
from fuzz.families import FAMILIES
from fuzz.subjects import Subject
from fuzz.texts import WORDS, pick
from slalom_xai.explainer import REMOVALS

METHODS = ("slalom", "slalom", "slalom", "linear", "slalom-fidel", "slalom-eff")


def question(seed: int) -> Question:
    """Two or three texts of many words and a function that answers each row by itself."""
    rng = np.random.default_rng([6, seed])
    texts = [
        " ".join(pick(rng, WORDS, int(rng.integers(20, 80)))) for _ in range(rng.integers(2, 4))
    ]
    family = "slalom" if rng.random() < 0.5 else str(rng.choice(list(FAMILIES)))
    play_seed = int(rng.integers(1000))
    play = FAMILIES[family](play_seed)

    def answer(rows: list[str]) -> Any:
        return [[play(row.split())] for row in rows]

    options = {
        "method": METHODS[rng.integers(len(METHODS))],
        "budget": 250 + int(rng.integers(200)),
        "removal": str(rng.choice(REMOVALS)),
    }
    about = Subject(f"{family} {play_seed}", answer, output="logits", rowwise=True)
    return Question(about, tuple(texts), None, options, twice=False)


def run(seed: int, outcome: Outcome) -> None:
    """Explains all together and each alone."""
    asked = question(seed)
    outcome.told = str(asked)
    outcome.counts["texts"] += len(asked.texts)
    together = asked.explainer()(list(asked.texts))
    outcome.counts["texts explained"] += len(together)
    for place, explanation in enumerate(together):
        outcome.problems += differing(asked, place, explanation)
