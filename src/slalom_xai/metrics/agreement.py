"""Agreement: do explanations of one text say the same, across methods, units and seeds?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar, TypeGuard

import numpy as np
from numpy.typing import NDArray

from slalom_xai.errors import InputError
from slalom_xai.explanation import Explanation
from slalom_xai.metrics.base import Case, Measured, Metric, Need, Number, ranking_scores, register
from slalom_xai.metrics.model_answers import Array
from slalom_xai.metrics.statistics import rank_descending, spearman
from slalom_xai.models.text import Unit

# Brings two explanations of one text to common units, so that their scores can be compared.
#
# One method may score tokens and another words. Where each unit of the finer explanation lies
# inside a unit of the coarser one, the finer scores are added up: a word's score is the sum of
# its tokens'.


_NO_OWNER = -1


def align(
    first: Explanation, second: Explanation, score: str | None = None
) -> tuple[Array, Array, float]:
    """Scores of two explanations on common units.

    Where units differ, those of the finer explanation are added up inside the units of the coarser
    one that they lie in. Units that lie in none, such as punctuation that only one of them scores,
    are left out.

    Args:
        first: an explanation.
        second: another one of the same text.
        score: the score that ranks; None: each explanation's own.

    Returns:
        The scores of both, (k,) each, and the share of all units that have a counterpart.

    Raises:
        InputError: the texts or targets differ, or the units overlap without lying in each other,
            or fewer than two are common.
    """
    if text_of(first) != text_of(second):
        raise InputError("the explanations are of different texts")
    second = with_same_target(first, second)
    scores, other_scores = ranking_scores(first, score), ranking_scores(second, score)
    if spans_of(first) == spans_of(second):
        return scores, other_scores, 1.0
    if "type" in (first.granularity, second.granularity):
        raise InputError('units of granularity "type" stand in several places at once')
    if score == "importance":
        raise InputError("importances cannot be added up over the units of a larger one")
    every = len(first) + len(second)
    owner = owners(first.units, second.units)
    if _owns_enough(owner):
        common = _add_up(scores, owner, other_scores)
        return common.finer, common.coarser, common.units / every
    other_owner = owners(second.units, first.units)
    if owner is None and _owns_enough(other_owner):
        common = _add_up(other_scores, other_owner, scores)
        return common.coarser, common.finer, common.units / every
    raise InputError(
        f"the {len(first)} and {len(second)} units overlap without one holding the other, "
        "or have fewer than two in common"
    )


def text_of(explanation: Explanation) -> tuple[str, str | None]:
    """The text, or the pair of texts, that is explained."""
    return explanation.text, explanation.text_pair


def spans_of(explanation: Explanation) -> list[tuple[int, int, int]]:
    """Where each unit stands: its text, its first character, and the one behind its last."""
    return [(unit.part, unit.start, unit.end) for unit in explanation.units]


def with_same_target(first: Explanation, second: Explanation) -> Explanation:
    """The second explanation, of the label that the first explains.

    Raises:
        InputError: it does not have that label.
    """
    if first.target == second.target or 1 in (first.outputs.width, second.outputs.width):
        return second
    if first.target not in second.outputs.labels:
        raise InputError(
            f"one explains {first.target!r} "
            f"and the other has only {', '.join(second.outputs.labels)}"
        )
    return second.for_target(first.target)


def owners(finer: Sequence[Unit], coarser: Sequence[Unit]) -> NDArray[np.int64] | None:
    """The coarser unit that each finer one lies in.

    Returns:
        (finer units,), -1 for none; None where a unit sticks out of one that it overlaps.
    """
    owner = np.full(len(finer), _NO_OWNER, dtype=np.int64)
    for index, unit in enumerate(finer):
        for larger_index, larger in enumerate(coarser):
            if not _overlap(unit, larger):
                continue
            if unit.start < larger.start or unit.end > larger.end:
                return None
            owner[index] = larger_index
            break
    return owner


def _overlap(unit: Unit, larger: Unit) -> bool:
    """Whether two units share a character; an empty unit counts as the one behind it."""
    if unit.part != larger.part:
        return False
    return unit.start < larger.end and larger.start < max(unit.end, unit.start + 1)


def _owns_enough(owner: NDArray[np.int64] | None) -> TypeGuard[NDArray[np.int64]]:
    """Whether at least two coarser units hold finer ones; one number cannot be ranked."""
    if owner is None:
        return False
    return len(np.unique(owner[owner != _NO_OWNER])) >= 2


@dataclass(frozen=True)
class _Common:
    """Scores on the coarser units that both explanations have.

    Attributes:
        finer: (k,), the finer scores added up.
        coarser: (k,), the coarser scores.
        units: how many units of both explanations took part.
    """

    finer: Array
    coarser: Array
    units: int


def _add_up(finer: Array, owner: NDArray[np.int64], coarser: Array) -> _Common:
    """Adds finer scores up over the coarser units they lie in."""
    owned = owner != _NO_OWNER
    summed = np.zeros(len(coarser))
    np.add.at(summed, owner[owned], finer[owned])
    common = np.unique(owner[owned])
    return _Common(summed[common], coarser[common], int(owned.sum()) + len(common))


# Agreement: do explanations of one text say the same, across methods, units and seeds?


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
                comparisons.append(self._compare(case, other))
            except InputError as error:
                return self.unavailable(f"Cannot be compared: {error}.")
        means = {}
        for name in self.gives:
            means[name] = float(np.mean([comparison[name] for comparison in comparisons]))
        return _with_reason(means)

    def _compare(self, case: Case, other: Explanation) -> dict[str, float]:
        """The numbers of one comparison.

        Raises:
            InputError: the two cannot be compared.
        """
        scores, other_scores, compared = align(case.explanation, other, case.score)
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
    return set(rank_descending(scores)[:size].tolist())


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
