"""Agreement: do explanations of one text say the same, across methods, units and seeds?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

import numpy as np

from slalom_xai.errors import InputError
from slalom_xai.explanation import Explanation
from slalom_xai.metrics.alignment import aligned, spans_of, text_of, with_same_target
from slalom_xai.metrics.base import Measured, Metric, Number, register
from slalom_xai.metrics.case import Array, Case
from slalom_xai.metrics.needs import Need
from slalom_xai.metrics.ranks import descending, spearman

_NO_RANKING = "All scores of an explanation are equal: there is no ranking."


@register
@dataclass(frozen=True)
class AgreementWithOthers(Metric):
    """Compares the explanation with each of ``case.others``, and averages.

    Args:
        share: the top units are this share of those compared, rounded up, by the size of the score.
    """

    share: float = 0.2

    name: ClassVar[str] = "agreement"
    summary: ClassVar[str] = "says the same as another explanation of the text"
    reference: ClassVar[str] = "Krishna et al. (2024), the disagreement problem"
    gives: ClassVar[Mapping[str, Number]] = {
        "spearman": Number("higher", -1, 1, "rank correlation of the scores"),
        "top_overlap": Number(
            "higher",
            0,
            1,
            "share of the top fifth of units, by size of score, that both have in common",
        ),
        "sign_agreement": Number("higher", 0, 1, "share of units with the same sign in both"),
        "compared": Number(None, 0, 1, "share of the units in both that have a counterpart"),
    }
    needs: ClassVar[frozenset[Need]] = frozenset({Need.OTHER_METHODS})

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise InputError(f"share is {self.share!r}: give a number above 0 and up to 1")

    def measure(self, case: Case) -> Measured:
        """Maps the scores to common units where they differ, or says why that is not possible."""
        if not case.others:
            return self.lacks(Need.OTHER_METHODS)
        comparisons = []
        for other in case.others:
            try:
                comparisons.append(self._compared(case, other))
            except InputError as error:
                return self.unavailable(f"Cannot be compared: {error}.")
        means = {}
        for name in self.gives:
            means[name] = float(np.mean([comparison[name] for comparison in comparisons]))
        return _with_reason(means)

    def _compared(self, case: Case, other: Explanation) -> dict[str, float]:
        """The numbers of one comparison.

        Raises:
            InputError: the two cannot be compared.
        """
        scores, other_scores, compared = aligned(case.explanation, other, case.score)
        size = math.ceil(self.share * len(scores))
        top = _top(scores, size, case.unsigned)
        other_top = _top(other_scores, size, case.unsigned)
        same_sign = np.sign(scores) == np.sign(other_scores)
        return {
            "spearman": spearman(scores, other_scores),
            "top_overlap": len(top & other_top) / size,
            "sign_agreement": float(same_sign.mean()),
            "compared": compared,
        }


def _top(scores: Array, size: int, unsigned: bool) -> set[int]:
    """The indices of the largest scores (n,), by their size."""
    if not unsigned:
        scores = np.abs(scores)
    return set(descending(scores)[:size].tolist())


@register
class Stability(Metric):
    """Compares explanations of one text that differ in the seed alone.

    They are ``case.explanation`` and those of ``case.others`` that are by the same method.
    ``relative_sd`` is the mean over units of the standard deviation of a unit's score over seeds,
    divided by the standard deviation over units of the mean score: the noise against the
    differences that it could hide.
    """

    name: ClassVar[str] = "stability"
    summary: ClassVar[str] = "another seed gives the same scores"
    reference: ClassVar[str] = "Visani et al. (2022), stability indices for LIME"
    gives: ClassVar[Mapping[str, Number]] = {
        "spearman": Number("higher", -1, 1, "mean rank correlation over pairs of seeds"),
        "relative_sd": Number(
            "lower", 0, math.inf, "standard deviation over seeds, divided by the spread over units"
        ),
    }
    needs: ClassVar[frozenset[Need]] = frozenset({Need.OTHER_SEEDS})

    def measure(self, case: Case) -> Measured:
        """Needs explanations with the same units."""
        first = case.explanation
        repeats = [other for other in case.others if other.method == first.method]
        if not repeats:
            return self.lacks(Need.OTHER_SEEDS)
        try:
            every = [first, *(with_same_target(first, other) for other in repeats)]
        except InputError as error:
            return self.unavailable(f"Cannot be compared: {error}.")
        for other in every:
            if text_of(other) != text_of(first) or spans_of(other) != spans_of(first):
                return self.unavailable("The explanations are of different texts or units.")
        scores = np.stack([case.scores(one) for one in every])  # (seeds, n)
        spread = float(scores.mean(axis=0).std())
        noise = float(scores.std(axis=0, ddof=1).mean())
        relative = math.nan
        if spread > 0:
            relative = noise / spread
        correlations = [spearman(one, other) for one, other in combinations(scores, 2)]
        return _with_reason({"spearman": float(np.mean(correlations)), "relative_sd": relative})


def _with_reason(values: dict[str, float]) -> Measured:
    """Numbers with the reason why there is no correlation, where there is none."""
    if math.isnan(values["spearman"]):
        return Measured(values, _NO_RANKING)
    return Measured(values)
