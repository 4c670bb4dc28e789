"""Brings two explanations of one text to common units, so that their scores can be compared.

One method may score tokens and another words. Where each unit of the finer explanation lies inside
a unit of the coarser one, the finer scores are added up: a word's score is the sum of its tokens'.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

import numpy as np
from numpy.typing import NDArray

from slalom_xai.errors import InputError
from slalom_xai.explanation import Explanation
from slalom_xai.metrics.case import Array, ranking_scores
from slalom_xai.text import Unit

_NO_OWNER = -1


def aligned(
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
        common = _added_up(scores, owner, other_scores)
        return common.finer, common.coarser, common.units / every
    other_owner = owners(second.units, first.units)
    if owner is None and _owns_enough(other_owner):
        common = _added_up(other_scores, other_owner, scores)
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


def _added_up(finer: Array, owner: NDArray[np.int64], coarser: Array) -> _Common:
    """Adds finer scores up over the coarser units they lie in."""
    owned = owner != _NO_OWNER
    summed = np.zeros(len(coarser))
    np.add.at(summed, owner[owned], finer[owned])
    common = np.unique(owner[owned])
    return _Common(summed[common], coarser[common], int(owned.sum()) + len(common))
