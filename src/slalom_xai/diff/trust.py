"""How far the explanations that a diff compares can be trusted: what their fidelity says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from slalom_xai.slalom.trust import TRUST


@dataclass(frozen=True)
class Trust:
    """The fidelity of one model's explanations, for any number of deletions.

    Attributes:
        checked: texts whose explanation has a fidelity.
        median: of R² over these; None without any.
        poor: how many of them predict less than half of what deletions do.
        below_zero: how many predict less than nothing.
    """

    checked: int
    median: float | None
    poor: int
    below_zero: int


def trust_in(records: Iterable[Mapping[str, Any]]) -> Trust:
    """What the rows of a corpus say of their explanations."""
    found = [
        float(one["fidelity"]["any_r2"])
        for one in records
        if one["fidelity"] is not None and one["fidelity"]["any_r2"] is not None
    ]
    return Trust(
        checked=len(found),
        median=median(found) if found else None,
        poor=sum(r2 < TRUST.doubtful for r2 in found),
        below_zero=sum(r2 < 0 for r2 in found),
    )
