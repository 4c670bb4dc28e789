"""What other ways of looking for a shortcut say of the words of the lists.

The z-statistic of word and class needs the data alone. Mean |SHAP| and mean |LIME| explain some
texts, with as many calls as the audit made, and average over the places where a word stands.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy.stats import false_discovery_control as false_discovery

from slalom_xai.data.audit.data import WordCounts
from slalom_xai.data.audit.words import own_lists
from slalom_xai.explanation import Explanation
from slalom_xai.options import ExplainOptions

METHODS = {"SHAP": "kernel-shap", "LIME": "lime"}


def listed_words() -> set[str]:
    """The words of all lists that come along."""
    return set().union(*own_lists().values())


def z_scores(counts: WordCounts) -> dict[str, float]:
    """For each word of the lists that the data hold, the greatest z over the classes."""
    held = listed_words() & counts.holding.keys()
    return {word: max(counts.z(word, label) for label in counts.texts) for word in held}


def z_findings(counts: WordCounts, rate: float = 0.05) -> list[str]:
    """Words of the lists that go with a class, at a false discovery rate."""
    held = sorted(listed_words() & counts.holding.keys())
    tests = [(word, counts.z(word, label)) for word in held for label in counts.texts]
    tails = np.array([0.5 * math.erfc(z / math.sqrt(2)) for _, z in tests])
    found = zip(tests, false_discovery(tails), strict=True)
    return sorted({word for (word, _), q in found if q <= rate})


def mean_scores(
    method: str, model: str, texts: Sequence[str], budget: int, seed: int
) -> tuple[dict[str, float], int]:
    """The mean size of each listed word's scores, and the calls that it took."""
    explainer = ExplainOptions(
        model=model, method=METHODS[method], budget=budget, granularity="word", seed=seed
    ).load_for_table()
    sizes: dict[str, list[float]] = {}
    calls, listed = 0, listed_words()
    for _, result in explainer.each(texts):
        if not isinstance(result, Explanation):
            raise result
        calls += result.calls
        for text, score in result.as_list():
            if text.lower() in listed:
                sizes.setdefault(text.lower(), []).append(abs(score))
    return {word: float(np.mean(found)) for word, found in sizes.items()}, calls


def rank(word: str, scores: Mapping[str, float]) -> int | None:
    """The place of a word when the greatest score is 1; None for a word without a score."""
    if word not in scores:
        return None
    return 1 + sum(score > scores[word] for score in scores.values())
