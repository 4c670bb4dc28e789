"""Plausibility: do the scores agree with people, and with a model that people can read?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from slalom_xai.errors import InputError
from slalom_xai.metrics.base import Measured, Metric, Number, register
from slalom_xai.metrics.case import Array, Asker, Case
from slalom_xai.metrics.needs import Need
from slalom_xai.metrics.ranks import auroc, average_precision, descending
from slalom_xai.text import Unit

Marks = NDArray[np.bool_]
Span = tuple[int, int]  # the index of the first unit, and that behind the last
IOU = 0.5  # what two spans must share of their union to match, as in ERASER


@register
class Human(Metric):
    """How well the size of the scores singles out the units that people marked.

    Marks have no sign, so scores are taken without theirs (as in the paper, App. E); importances
    are taken as they are. As many units are chosen as are marked, ties in reading order;
    precision, recall and F1 of single units are then equal. Spans are runs of chosen units and of
    marked ones. A chosen span matches where it shares at least half of its union with some marked
    span. Precision is the share of chosen spans that match, and recall is the number of matches
    over that of marked spans.
    """

    name: ClassVar[str] = "human"
    summary: ClassVar[str] = "gives high scores to the units that people marked"
    reference: ClassVar[str] = "DeYoung et al. (2020), ERASER; Sen et al. (2020), Yelp-HAT"
    gives: ClassVar[Mapping[str, Number]] = {
        "auroc": Number("higher", 0, 1, "chance that a marked unit outscores another"),
        "auprc": Number("higher", 0, 1, "average precision"),
        "token_f1": Number("higher", 0, 1, "overlap of the top units with the marked ones"),
        "iou_f1": Number(
            "higher", 0, 1, "F1 of spans; two match if they share half of their union"
        ),
        "iou_precision": Number("higher", 0, 1, "share of chosen spans that match"),
        "iou_recall": Number(
            "higher", 0, 1, "number of matching spans divided by that of the marked ones"
        ),
    }
    needs: ClassVar[frozenset[Need]] = frozenset({Need.RATIONALE})

    def measure(self, case: Case) -> Measured:
        """Compares with ``case.rationale``."""
        if case.rationale is None:
            return self.lacks(Need.RATIONALE)
        marked = _marked(case)
        if marked.all():
            return self.unavailable("Every unit is marked: there is nothing to tell apart.")
        if not marked.any():
            return self.unavailable("No unit is marked: there is nothing to tell apart.")
        return self._compared(case, _sizes(case), marked)

    def _compared(self, case: Case, scores: Array, marked: Marks) -> Measured:
        """Compares the sizes of scores (n,) with marks (n,)."""
        chosen = np.zeros(len(marked), dtype=bool)
        chosen[descending(scores)[: int(marked.sum())]] = True
        values = {
            "auroc": auroc(scores, marked),
            "auprc": average_precision(scores, marked),
            "token_f1": float((chosen & marked).sum() / marked.sum()),
        }
        if case.explanation.granularity == "type":
            spans = self.unavailable(
                'Units of granularity "type" stand in several places: they have no spans.'
            )
            return Measured({**spans.values, **values}, spans.reason)
        units = case.explanation.units
        precision, recall, f1 = span_match(runs(chosen, units), runs(marked, units))
        return Measured({**values, "iou_f1": f1, "iou_precision": precision, "iou_recall": recall})


@register
class HumanDistinct(Metric):
    """AU-ROC as the paper's authors compute it: over distinct tokens, without punctuation.

    A unit that reads like an earlier one is left out, with its mark, and so is a unit without a
    letter or digit. Scores are taken as in ``human``.
    """

    name: ClassVar[str] = "human-distinct"
    summary: ClassVar[str] = "gives high scores to the distinct words that people marked"
    reference: ClassVar[str] = "Sen et al. (2020), Yelp-HAT, as in Leemann et al. (2024), Table 1b"
    gives: ClassVar[Mapping[str, Number]] = {
        "auroc": Number("higher", 0, 1, "chance that a marked unit outscores another")
    }
    needs: ClassVar[frozenset[Need]] = frozenset({Need.RATIONALE})

    def measure(self, case: Case) -> Measured:
        """Compares with ``case.rationale``."""
        if case.rationale is None:
            return self.lacks(Need.RATIONALE)
        kept = _distinct_words(case)
        marked = _marked(case)[kept]
        if marked.all():  # or nothing is kept
            return self.unavailable(
                "Every distinct unit is marked: there is nothing to tell apart."
            )
        if not marked.any():
            return self.unavailable("No distinct unit is marked: there is nothing to tell apart.")
        return Measured({"auroc": auroc(_sizes(case)[kept], marked)})


def _marked(case: Case) -> Marks:
    """The rationale of a case, (n,), checked."""
    assert case.rationale is not None
    given = case.per_unit(case.rationale, "rationale")
    if not np.isin(given, (0, 1)).all():
        raise InputError(
            "the rationale has entries other than 0 and 1: "
            "say what counts as marked, as in to_units(..., at_least=2).marks"
        )
    return np.asarray(given == 1)


def _sizes(case: Case) -> Array:
    """Scores without their sign, (n,); importances have none and stay as they are."""
    if case.unsigned:
        return case.scores()
    return np.abs(case.scores())


def _distinct_words(case: Case) -> Marks:
    """Which units are the first that read as they do, and have a letter or digit, (n,)."""
    codes = [unit.text for unit in case.explanation.units]
    if isinstance(case.ask, Asker):
        codes = case.ask.codes.tolist()  # knows which units the model cannot tell apart
    kept = np.zeros(len(codes), dtype=bool)
    kept[np.unique(codes, return_index=True)[1]] = True
    for index, unit in enumerate(case.explanation.units):
        kept[index] &= any(character.isalnum() for character in unit.text)
    return kept


def runs(marked: Marks, units: Sequence[Unit] = ()) -> list[Span]:
    """Runs of neighbouring marked units.

    Args:
        marked: (n,).
        units: where they are of a pair of texts, a run ends with its text.
    """
    breaks = set()
    for index, (one, other) in enumerate(pairwise(units), start=1):
        if one.part != other.part:
            breaks.add(index)
    spans: list[Span] = []
    for index in np.flatnonzero(marked).tolist():
        if spans and spans[-1][1] == index and index not in breaks:
            spans[-1] = (spans[-1][0], index + 1)
        else:
            spans.append((index, index + 1))
    return spans


def span_match(
    chosen: Sequence[Span], marked: Sequence[Span], threshold: float = IOU
) -> tuple[float, float, float]:
    """Precision, recall and F1 of spans that match some marked span (ERASER).

    Two spans match where their intersection is at least ``threshold`` of their union.
    """
    matches = 0
    for one in chosen:
        best = max((_iou(one, other) for other in marked), default=0.0)
        matches += best >= threshold
    if not matches:
        return 0.0, 0.0, 0.0
    precision, recall = matches / len(chosen), matches / len(marked)
    return precision, recall, 2 * precision * recall / (precision + recall)


def _iou(one: Span, other: Span) -> float:
    shared = max(0, min(one[1], other[1]) - max(one[0], other[0]))
    return shared / (one[1] - one[0] + other[1] - other[0] - shared)


@register
class NaiveBayesRank(Metric):
    """Rank correlation with the weights of a Naive Bayes bag of words.

    A word's weight is ``log p(word | label) - log p(word | others)``. The weights argue for the
    explained label, as the scores do. Importances have no sign; they are compared with the size of
    the weights (the paper's Table 1a and App. E).
    """

    name: ClassVar[str] = "naive-bayes"
    summary: ClassVar[str] = "ranks units as a Naive Bayes bag of words does"
    reference: ClassVar[str] = "Leemann et al. (2024), Table 1a and Eq. 82"
    gives: ClassVar[Mapping[str, Number]] = {
        "spearman": Number("higher", -1, 1, "rank correlation with Naive Bayes weights")
    }
    needs: ClassVar[frozenset[Need]] = frozenset({Need.NAIVE_BAYES})

    def measure(self, case: Case) -> Measured:
        """Compares with ``case.naive_bayes``."""
        if case.naive_bayes is None:
            return self.lacks(Need.NAIVE_BAYES)
        weights = case.per_unit(case.naive_bayes, "array of Naive Bayes weights")
        if case.unsigned:
            weights = np.abs(weights)
        return self.rank_correlation(case.scores(), weights, "weights")
