"""Plausibility: do the scores agree with people, and with a model that people can read?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slalom_xai.errors import InputError
from slalom_xai.explanation import Explanation
from slalom_xai.explanation.exchange.spans import place_units
from slalom_xai.metrics.base import Case, Measured, Metric, Need, Number, register
from slalom_xai.metrics.model_answers import Array, Asker
from slalom_xai.metrics.statistics import auroc, average_precision, rank_descending
from slalom_xai.models.text import Unit

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
        marked = _check_marks(case)
        if marked.all():
            return self.unavailable("Every unit is marked: there is nothing to tell apart.")
        if not marked.any():
            return self.unavailable("No unit is marked: there is nothing to tell apart.")
        return self._compare(case, _sizes(case), marked)

    def _compare(self, case: Case, scores: Array, marked: Marks) -> Measured:
        """Compares the sizes of scores (n,) with marks (n,)."""
        chosen = np.zeros(len(marked), dtype=bool)
        chosen[rank_descending(scores)[: int(marked.sum())]] = True
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
        marked = _check_marks(case)[kept]
        if marked.all():  # or nothing is kept
            return self.unavailable(
                "Every distinct unit is marked: there is nothing to tell apart."
            )
        if not marked.any():
            return self.unavailable("No distinct unit is marked: there is nothing to tell apart.")
        return Measured({"auroc": auroc(_sizes(case)[kept], marked)})


def _check_marks(case: Case) -> Marks:
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


# Rationales of people, marked on words, brought to the units of an explanation.
#
# Words and units need not begin and end together, so a unit counts as marked where it shares a
# character with a marked word.


AtLeast = float | Literal["all"]  # how many annotators make a word marked


@dataclass(frozen=True, eq=False)
class Rationale:
    """What people marked, per unit of an explanation.

    Attributes:
        marks: (n,), whether a unit overlaps a marked word; this is what ``Case.rationale`` takes.
        counts: (n,), the most that a word it overlaps was given; 0 where it overlaps none.
        words: how many words the rationale has.
        cut: words behind the end of what the model read; they have no unit and are not scored.
        unread: other words without a unit, such as characters the tokenizer drops, and empty ones.
    """

    marks: NDArray[np.bool_]
    counts: NDArray[np.float64]
    words: int
    cut: int
    unread: int


def to_units(
    explanation: Explanation,
    marks: ArrayLike,
    words: Sequence[str] | None = None,
    *,
    at_least: AtLeast | None = None,
) -> Rationale:
    """Maps marks on words to units: a unit is marked when it shares a character with a marked word.

    Args:
        explanation: of the text the rationale is about.
        marks: one per word: zeros and ones, or how many annotators marked it. Or a list of zeros
            and ones from each annotator, (annotators, words).
        words: the words in reading order, as they stand in the text; None: the text split at white
            space.
        at_least: what counts as marked, such as 2 for two annotators, or "all" for the words that
            every annotator marked; needed where ``marks`` holds more than zeros and ones.

    Raises:
        InputError: there are not as many marks as words, a mark is not a count, annotators marked
            different words, words are not in the text, or units stand in several places of it.
    """
    if explanation.text_pair is not None:
        raise InputError(
            "a rationale is for one text, but the explanation is of a pair: "
            "explain the text that was marked"
        )
    if explanation.granularity == "type":
        raise InputError(
            'units of granularity "type" stand in several places at once: '
            'explain with granularity="token" or "word"'
        )
    spans = _word_spans(explanation.text, words)
    split_by = "words"
    if words is None:
        split_by = "white space"
    by_annotator = _by_annotator(marks)
    if by_annotator is not None:
        marks = by_annotator.sum(axis=0)
        if at_least == "all":
            at_least = len(by_annotator)
    counts = _counts(marks, len(spans), split_by)
    threshold = _threshold(counts, at_least)
    shared = _shared(explanation.units, spans)  # (n, words)
    per_unit = np.where(shared, counts[None, :], 0.0).max(axis=1)
    without_unit = ~shared.any(axis=0)
    end_of_text = len(explanation.text) - len(explanation.left_out)
    behind_end = np.array([start >= end_of_text for start, _ in spans])
    cut = int((without_unit & behind_end).sum())
    unread = int(without_unit.sum()) - cut
    return Rationale(per_unit >= threshold, per_unit, len(spans), cut, unread)


def _shared(units: Sequence[Unit], words: Sequence[tuple[int, int]]) -> NDArray[np.bool_]:
    """Whether each unit shares a character with each word, (n, words)."""
    # An empty unit lies where it stands.
    unit_spans = [(unit.start, max(unit.end, unit.start + 1)) for unit in units]
    starts, ends = np.array(unit_spans).T  # (n,) each
    word_starts, word_ends = np.array(words).T  # (words,) each
    begins_before = starts[:, None] < word_ends[None, :]
    ends_behind = word_starts[None, :] < ends[:, None]
    return np.asarray(begins_before & ends_behind)


def _by_annotator(marks: Any) -> NDArray[np.float64] | None:
    """The marks of each annotator, (annotators, words); None where there is one list for all."""
    if not _is_list(marks) or not len(marks) or not all(_is_list(one) for one in marks):
        return None
    lengths = sorted({len(one) for one in marks})
    if len(lengths) > 1:
        given = " and ".join(str(length) for length in lengths)
        raise InputError(
            f"the annotators' marks are for {given} words: "
            "give the marks of all annotators on the same words"
        )
    numbers = _numbers(marks)
    if not np.isin(numbers, (0, 1)).all():
        raise InputError(
            f"an annotator's marks go up to {numbers.max():g}: "
            "give 0 or 1 for each word, or one list with the numbers of annotators"
        )
    return numbers


def _is_list(given: Any) -> bool:
    if isinstance(given, np.ndarray):
        return given.ndim > 0
    return isinstance(given, (list, tuple))


def _threshold(counts: NDArray[np.float64], at_least: AtLeast | None) -> float:
    """What counts as marked."""
    if at_least == "all":
        raise InputError(
            "at_least is 'all', but the marks do not say how many annotators there were: "
            "give a list of marks from each annotator, or a number"
        )
    if at_least is None:
        if not np.isin(counts, (0, 1)).all():
            raise InputError(
                f"the marks go up to {counts.max():g}: "
                "say what counts as marked, such as at_least=2"
            )
        return 1
    if at_least <= 0:
        raise InputError(
            f"at_least is {at_least:g}: give a number above 0, because 0 marks every unit"
        )
    return at_least


def _word_spans(text: str, words: Sequence[str] | None) -> list[tuple[int, int]]:
    """Where each word stands; an empty one stands nowhere, at (0, 0)."""
    spans = [match.span() for match in re.finditer(r"\S+", text)]
    if words is None:
        return spans
    if isinstance(words, str):
        raise InputError(
            "words is one string: "
            "give a list of words, or leave words out to split the text at white space"
        )
    written = [word for word in words if word]
    if written != [text[start:end] for start, end in spans]:
        spans = [(unit.start, unit.end) for unit in place_units(text, written)]
    places = iter(spans)
    return [next(places) if word else (0, 0) for word in words]


def _counts(marks: ArrayLike, words: int, split_by: str) -> NDArray[np.float64]:
    """The marks as numbers, (words,), checked."""
    counts = _numbers(marks)
    if counts.shape != (words,):
        given = f"marks of shape {counts.shape}"
        if counts.ndim == 1:
            given = f"{len(counts)} marks"
        raise InputError(
            f"the rationale has {given}, but the text has {words} words by {split_by}: "
            "give one mark for each word, or pass the words that were marked"
        )
    if not words:
        raise InputError("the rationale has no words: give one mark for each word of the text")
    return counts


def _numbers(marks: ArrayLike) -> NDArray[np.float64]:
    """Marks as numbers that may be counts."""
    try:
        numbers = np.asarray(marks, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the rationale has marks that are not numbers ({error}): "
            "give 0 or 1, or a count, for each word"
        ) from error
    if not np.isfinite(numbers).all() or (numbers < 0).any():
        raise InputError(
            "the rationale has marks that are negative or not finite: "
            "give 0 or 1, or a count, for each word"
        )
    return numbers
