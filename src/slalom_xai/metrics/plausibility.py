"""Plausibility: do the scores agree with people, and with a model that people can read?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from slalom_xai.errors import InputError
from slalom_xai.metrics.base import Measured, Number, rank_correlation, register, unavailable
from slalom_xai.metrics.case import Case
from slalom_xai.metrics.ranks import auroc, average_precision, descending
from slalom_xai.text import Unit

Span = tuple[int, int]
IOU = 0.5  # what two spans must share of their union to match, as in ERASER


@register
class Human:
    """How well the size of the scores singles out the units that people marked.

    Marks have no sign, so scores are taken without theirs (as in the paper, App. E); importances are taken as they are. The hard
    scores choose as many units as are marked, ties in reading order; precision, recall and F1 of single units are then equal.
    Spans are runs of chosen units and of marked ones; a chosen span matches where it shares at least half of its
    union with some marked span, precision is the share of chosen spans that match, and recall that number over the marked spans.
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

    def measure(self, case: Case) -> Measured:
        """Compares with ``case.rationale``."""
        if case.rationale is None:
            return unavailable(self, "Needs a rationale.")
        given = case.per_unit(case.rationale, "rationale")
        if not np.isin(given, (0, 1)).all():
            raise InputError(
                "the rationale has entries other than 0 and 1: say what counts as marked, as in to_units(..., at_least=2).marks"
            )
        marked = given == 1
        if marked.all() or not marked.any():
            return unavailable(
                self,
                f"{'Every' if marked.any() else 'No'} unit is marked: there is nothing to tell apart.",
            )
        scores = case.scores() if case.unsigned else np.abs(case.scores())
        chosen = np.zeros(len(marked), dtype=bool)
        chosen[descending(scores)[: int(marked.sum())]] = True
        found = {
            "auroc": auroc(scores, marked),
            "auprc": average_precision(scores, marked),
            "token_f1": float((chosen & marked).sum() / marked.sum()),
        }
        if case.explanation.granularity == "type":
            spans = unavailable(
                self, 'Units of granularity "type" stand in several places: they have no spans.'
            )
            return Measured({**spans.values, **found}, spans.reason)
        units = case.explanation.units
        precision, recall, f1 = span_match(runs(chosen, units), runs(marked, units))
        return Measured({**found, "iou_f1": f1, "iou_precision": precision, "iou_recall": recall})


def runs(marked: NDArray[np.bool_], units: Sequence[Unit] = ()) -> list[Span]:
    """Runs of neighbouring marked units, as (first, behind the last); a run ends with its text where ``units`` are of a pair."""
    breaks = {
        place + 1 for place, (one, other) in enumerate(pairwise(units)) if one.part != other.part
    }
    found: list[Span] = []
    for place in np.flatnonzero(marked).tolist():
        if found and found[-1][1] == place and place not in breaks:
            found[-1] = (found[-1][0], place + 1)
        else:
            found.append((place, place + 1))
    return found


def span_match(
    chosen: Sequence[Span], marked: Sequence[Span], threshold: float = IOU
) -> tuple[float, float, float]:
    """Precision, recall and F1 of spans that match some marked span by intersection over union (ERASER)."""
    matches = sum(
        max((_iou(one, other) for other in marked), default=0.0) >= threshold for one in chosen
    )
    precision = matches / len(chosen) if chosen else 0.0
    recall = matches / len(marked) if marked else 0.0
    return precision, recall, 2 * precision * recall / (precision + recall) if matches else 0.0


def _iou(one: Span, other: Span) -> float:
    shared = max(0, min(one[1], other[1]) - max(one[0], other[0]))
    return shared / (one[1] - one[0] + other[1] - other[0] - shared)


@register
class NaiveBayes:
    """Rank correlation with the weights of a Naive Bayes bag of words, ``log p(word | label) - log p(word | others)``.

    The weights argue for the explained label, as the scores do; importances, which have no sign, are compared with
    the size of the weights (the paper's Table 1a and App. E).
    """

    name: ClassVar[str] = "naive-bayes"
    summary: ClassVar[str] = "ranks units as a Naive Bayes bag of words does"
    reference: ClassVar[str] = "Leemann et al. (2024), Table 1a and Eq. 82"
    gives: ClassVar[Mapping[str, Number]] = {
        "spearman": Number("higher", -1, 1, "rank correlation with Naive Bayes weights")
    }

    def measure(self, case: Case) -> Measured:
        """Compares with ``case.extras["naive_bayes"]``."""
        if "naive_bayes" not in case.extras:
            return unavailable(self, "Needs Naive Bayes weights per unit (extras['naive_bayes']).")
        weights = case.per_unit(case.extras["naive_bayes"], "array of Naive Bayes weights")
        return rank_correlation(
            self, case.scores(), np.abs(weights) if case.unsigned else weights, "weights"
        )
