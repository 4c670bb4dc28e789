"""Agreement: do explanations of one text say the same, across methods, units and seeds?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from slalom_xai.errors import InputError
from slalom_xai.explanation import Explanation
from slalom_xai.metrics.base import Measured, Number, register, unavailable
from slalom_xai.metrics.case import Array, Case
from slalom_xai.metrics.ranks import descending, spearman
from slalom_xai.text import Unit


@register
@dataclass(frozen=True)
class Agreement:
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

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise InputError(f"share is {self.share!r}: give a number above 0 and up to 1")

    def measure(self, case: Case) -> Measured:
        """Maps the scores to common units where they differ, or says why they cannot be compared."""
        if not case.others:
            return unavailable(self, "Needs another explanation of the text (others).")
        found = []
        for other in case.others:
            try:
                found.append(
                    self._compare(*aligned(case.explanation, other, case.score), case.unsigned)
                )
            except InputError as error:
                return unavailable(self, f"Cannot be compared: {error}.")
        mean = {name: float(np.mean([one[name] for one in found])) for name in self.gives}
        return Measured(
            mean,
            "All scores of an explanation are equal: there is no ranking."
            if math.isnan(mean["spearman"])
            else "",
        )

    def _compare(
        self, one: Array, other: Array, compared: float, unsigned: bool
    ) -> dict[str, float]:
        size = math.ceil(self.share * len(one))
        tops = [
            set(descending(scores if unsigned else np.abs(scores))[:size].tolist())
            for scores in (one, other)
        ]
        return {
            "spearman": spearman(one, other),
            "top_overlap": len(tops[0] & tops[1]) / size,
            "sign_agreement": float((np.sign(one) == np.sign(other)).mean()),
            "compared": compared,
        }


def aligned(
    first: Explanation, second: Explanation, score: str | None = None
) -> tuple[Array, Array, float]:
    """Scores of two explanations on common units, (k,) each, and the share of all units that have a counterpart.

    Where units differ, those of the finer explanation are added up inside the units of the coarser one they lie in; units that lie in none,
    such as punctuation that only one of them scores, are left out.

    Raises:
        InputError: the texts or targets differ, or the units overlap without lying in each other, or fewer than two are common.
    """
    if (first.text, first.text_pair) != (second.text, second.text_pair):
        raise InputError("the explanations are of different texts")
    second = _same_target(first, second)
    scores = [_scores(explanation, score) for explanation in (first, second)]
    if _spans(first) == _spans(second):
        return scores[0], scores[1], 1.0
    if "type" in (first.granularity, second.granularity):
        raise InputError('units of granularity "type" stand in several places at once')
    if score == "importance":
        raise InputError("importances cannot be added up over the units of a larger one")
    for finer, coarser, swapped in ((0, 1, False), (1, 0, True)):
        units = (first.units, second.units)
        owner = _owners(units[finer], units[coarser])
        if owner is None:
            continue
        summed = np.zeros(len(units[coarser]))
        np.add.at(summed, owner[owner >= 0], scores[finer][owner >= 0])
        common = np.unique(owner[owner >= 0])
        if len(common) < 2:
            break
        compared = (int((owner >= 0).sum()) + len(common)) / (len(first) + len(second))
        pair = (summed[common], scores[coarser][common])
        return (pair[1], pair[0], compared) if swapped else (*pair, compared)
    raise InputError(
        f"the {len(first)} and {len(second)} units overlap without one holding the other, or have fewer than two in common"
    )


def _same_target(first: Explanation, second: Explanation) -> Explanation:
    if first.target == second.target or 1 in (first.outputs.width, second.outputs.width):
        return second
    if first.target not in second.outputs.labels:
        raise InputError(
            f"one explains {first.target!r} and the other has only {', '.join(second.outputs.labels)}"
        )
    return second.for_target(first.target)


def _scores(explanation: Explanation, score: str | None) -> Array:
    return Case(explanation, score=score).scores()


def _spans(explanation: Explanation) -> list[tuple[int, int, int]]:
    return [(unit.part, unit.start, unit.end) for unit in explanation.units]


def _owners(finer: Sequence[Unit], coarser: Sequence[Unit]) -> NDArray[np.int64] | None:
    """The coarser unit that each finer one lies in, -1 for none; None where one sticks out of a unit it overlaps."""
    owner = np.full(len(finer), -1, dtype=np.int64)
    for place, unit in enumerate(finer):
        for index, larger in enumerate(coarser):
            if (
                unit.part != larger.part
                or unit.start >= larger.end
                or larger.start >= max(unit.end, unit.start + 1)
            ):
                continue
            if unit.start < larger.start or unit.end > larger.end:
                return None
            owner[place] = index
            break
    return owner


@register
class Stability:
    """Compares explanations of one text that differ in the seed alone.

    They are ``case.explanation`` and those of ``case.others`` that are by the same method.
    ``relative_sd`` is the mean over units of the standard deviation of a unit's score over seeds, over the standard deviation over units
    of the mean score: the noise against the differences that it could hide.
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

    def measure(self, case: Case) -> Measured:
        """Needs explanations with the same units."""
        repeats = [other for other in case.others if other.method == case.explanation.method]
        if not repeats:
            return unavailable(
                self, "Needs explanations by the same method with other seeds (others)."
            )
        try:
            every = [
                case.explanation,
                *(_same_target(case.explanation, other) for other in repeats),
            ]
        except InputError as error:
            return unavailable(self, f"Cannot be compared: {error}.")
        if any(
            (one.text, one.text_pair) != (every[0].text, every[0].text_pair)
            or _spans(one) != _spans(every[0])
            for one in every
        ):
            return unavailable(self, "The explanations are of different texts or units.")
        scores = np.stack([case.scores(one) for one in every])
        spread = float(scores.mean(axis=0).std())
        noise = float(scores.std(axis=0, ddof=1).mean())
        found = {
            "spearman": float(
                np.mean([spearman(one, other) for one, other in combinations(scores, 2)])
            ),
            "relative_sd": noise / spread if spread > 0 else math.nan,
        }
        return Measured(
            found,
            "All scores of an explanation are equal: there is no ranking."
            if math.isnan(found["spearman"])
            else "",
        )
