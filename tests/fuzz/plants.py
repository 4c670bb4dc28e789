"""Cases of kind ``plant``: a model that is the formula, with and without a sink, and no noise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fuzz.cases import Outcome
from fuzz.promises import broken
from fuzz.texts import WORDS
from fuzz.words import claimed
from slalom_xai import Explainer
from slalom_xai.explanation import Explanation

CLOSE = 1e-2  # of the scores' spread: found
SURE = 0.995  # a claim from which on a reader takes the scores as they are
ERRORS = 4.0  # standard errors that a score may be off
HINTS = ("not determined", "only the product", "close to linear", "not exact", "cannot tell")


@dataclass(frozen=True)
class Plant:
    """The words of a text, their scores, and those of the sink, which stands for missing words."""

    words: list[str]
    values: np.ndarray
    importances: np.ndarray
    sink: tuple[float, float] | None
    budget: int | None

    def answer(self, texts: list[str]) -> Any:
        """One logit per text."""
        places = {word: place for place, word in enumerate(self.words)}
        return [[self._average([places[word] for word in text.split()])] for text in texts]

    def _average(self, kept: list[int]) -> float:
        weights, values = np.exp(self.importances[kept]), self.values[kept]
        if self.sink is not None:
            missing = len(self.words) - len(kept)
            weights = np.append(weights, missing * np.exp(self.sink[1]))
            values = np.append(values, self.sink[0])
        return float(np.average(values, weights=weights))


def plant(seed: int) -> Plant:
    """Draws one."""
    rng = np.random.default_rng([4, seed])
    units = int(rng.integers(3, 17))
    words = [str(word) for word in rng.choice(sorted(set(WORDS)), units, replace=False)]
    values, importances = (
        rng.normal(0, 3, units),
        rng.normal(0, float(rng.choice([0.3, 0.8, 1.2])), units),
    )
    sink = (float(rng.normal()), float(rng.normal(0, 0.7))) if rng.random() < 0.6 else None
    budget = None if rng.random() < 0.7 else int(rng.integers(10 * units + 40, 60 * units + 60))
    return Plant(words, values, importances - importances.mean(), sink, budget)


def run(seed: int, outcome: Outcome) -> None:
    """Explains a planted SLALOM by the default method."""
    planted = plant(seed)
    outcome.counts["plants"] += 1
    options: dict[str, Any] = {"output": "logits", "budget": planted.budget, "show_progress": False}
    explanation = Explainer(planted.answer, **options)(" ".join(planted.words))
    missed = list(_missed(planted, explanation))
    outcome.told = f"{planted}\n  {explanation.trust}\n  {explanation.to_frame()}\n  {missed}"
    outcome.counts["plants found"] += not missed
    if missed and not _says_so(explanation):
        sink = "with a sink" if planted.sink else "without a sink"
        off = "; ".join(missed)
        outcome.problems.append(f"a SLALOM {sink} is not found: {off}, {explanation.trust[:20]!r}")
    outcome.problems += broken(explanation)


def _missed(planted: Plant, explanation: Explanation) -> Iterator[str]:
    """Scores that are off by more than a hundredth of the spread and by more than their errors."""
    if explanation.importances is None:
        yield "no importances"
        return
    planted_scores = {"value": planted.values, "importance": planted.importances}
    for name, true in planted_scores.items():
        found, errors = explanation.scores(name), explanation.standard_errors.get(name)
        bars = np.zeros_like(true) if errors is None else np.nan_to_num(errors, nan=np.inf)
        off = np.abs(found - true)
        worst = int(np.argmax(off - ERRORS * bars))
        if off[worst] > CLOSE * float(np.ptp(true)) + ERRORS * bars[worst]:
            yield f"{name} {found[worst]:.3g} ± {bars[worst]:.2g} for {true[worst]:.3g}"


def _says_so(explanation: Explanation) -> bool:
    share = claimed(explanation)
    told = " ".join([explanation.trust, *explanation.notes]).lower()
    return share is None or share < SURE or any(hint in told for hint in HINTS)
