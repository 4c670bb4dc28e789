"""slalom-exact, Proposition 5.2 of the paper: a SLALOM solved for, not fitted.

Without a sink, the answer to a single unit is its value. The answer to a pair (a, b) then gives
the difference of their importances,

    s_a - s_b = log((f(ab) - v_b) / (v_a - f(ab))).

With a sink, the empty text gives the sink's value, and a unit alone and twice give the rest. The
equations stand below. This is exact for a model that is a SLALOM. For others the
argument of the logarithm may be anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from slalom_xai.errors import InputError
from slalom_xai.methods.base import Estimator, Findings, register
from slalom_xai.methods.evidence import accepts_empty, ask_held_out
from slalom_xai.methods.paper.distinct_units import DistinctUnits, plain_findings
from slalom_xai.methods.paper.formula import SlalomSurrogate
from slalom_xai.methods.paper.rows import draw_report, evidence_of, pool_of_distinct, unit_counts
from slalom_xai.queries import Queries
from slalom_xai.slalom.plan import HeldOut

# Recovery with the fewest calls: Proposition 5.2, and its counterpart with a sink.
#
# What it has to do: a model that *is* a SLALOM gives its parameters away in a few answers. A
# single unit gives its value, and each unit beside a reference gives the difference of two
# importances. Nothing is fitted here: these are closed forms.
#
# Shapes: K kinds of units, C columns (explained outputs).


@dataclass(frozen=True)
class RecoverySettings:
    """Constants of the recovery.

    Attributes:
        margin: a share this close to 0 or 1 leaves its importance to rounding: single precision
            has seven digits, and the logit of such a share keeps about four of them.
        least_square: the least squared distance that is divided by.
    """

    margin: float = 1e-3
    least_square: float = 1e-30


RECOVERY = RecoverySettings()


def references(singles: Tensor) -> tuple[Tensor, int, int]:
    """For each kind the kind to pair it with, and the two extremes all references are taken from.

    Args:
        singles: (K, C), the outputs on single units: their values.

    Returns:
        (K,) the extreme further away in value, then the index of the lowest and of the highest;
        the lowest is paired with the highest.
    """
    main = singles[:, 0]
    if len(singles) > 1:
        main = singles[:, int(singles.var(dim=0).argmax())]
    low, high = int(main.argmin()), int(main.argmax())
    chosen = torch.where((main - main[low]) > (main[high] - main), low, high)
    return chosen, low, high


def recover(singles: Tensor, pairs: Tensor) -> tuple[SlalomSurrogate, list[int]]:
    """The SLALOM without a sink that gives these answers.

    With ``g = (F[t, r] - v_r) / (v_t - v_r)`` the share of unit t beside its reference r,
    ``s_t - s_r = log(g / (1 - g))``; the printed Eq. 55 has the opposite sign.

    Args:
        singles: (K, C), outputs on single units.
        pairs: (K, C), outputs on each unit with its reference; the row of the highest unit is not
            used.

    Returns:
        the surrogate, and the kinds whose importance is ill determined.
    """
    margin = RECOVERY.margin
    chosen, low, high = references(singles)
    gap, rise = singles - singles[chosen], pairs - singles[chosen]
    share = _ratio(gap, rise)
    doubtful = [k for k in _outside(share, margin, 1 - margin) if k != high]
    difference = torch.logit(share.clamp(margin, 1 - margin))
    importances = torch.zeros(len(singles), dtype=singles.dtype, device=singles.device)
    importances[low] = difference[low]  # beside the highest, whose importance is 0
    for k in range(len(singles)):
        if k not in (low, high):
            importances[k] = importances[chosen[k]] + difference[k]
    return SlalomSurrogate(singles[None], importances[None]).normalise(), doubtful


def recover_with_sink(
    empty: Tensor, singles: Tensor, doubles: Tensor
) -> tuple[SlalomSurrogate, list[int]]:
    """The SLALOM with a sink that gives these answers to nothing, each unit once, and each twice.

    With ``rho = (F2 - v_0) / (F1 - v_0)``, the weight of a unit beside the sink's is
    ``(2 - rho) / (2 (rho - 1))``.

    Args:
        empty: (C,), the output on no unit.
        singles: (K, C), outputs on each unit.
        doubles: (K, C), outputs on each unit twice.

    Returns:
        the surrogate, and the kinds whose scores are ill determined.
    """
    margin = RECOVERY.margin
    once, twice = singles - empty, doubles - empty
    ratio = _ratio(once, twice)
    doubtful = _outside(ratio, 1 + margin, 2 - margin)
    ratio = ratio.clamp(1 + margin, 2 - margin)
    weight = (2 - ratio) / (2 * (ratio - 1))
    values = empty + once * ((weight + 1) / weight)[:, None]
    sink = torch.zeros(1, dtype=singles.dtype, device=singles.device)
    surrogate = SlalomSurrogate(values[None], weight.log()[None], empty[None], sink)
    return surrogate.normalise(), doubtful


def _ratio(base: Tensor, other: Tensor) -> Tensor:
    """How often ``base`` (K, C) is contained in ``other``, by least squares over columns, (K,)."""
    squares = (base * base).sum(dim=1).clamp(min=RECOVERY.least_square)
    return (base * other).sum(dim=1) / squares


def _outside(numbers: Tensor, low: float, high: float) -> list[int]:
    """The indices of numbers (K,) that do not lie between two others; NaN does not."""
    return [k for k, number in enumerate(numbers.tolist()) if not low < number < high]


# slalom-exact, Proposition 5.2 of the paper: a SLALOM solved for, not fitted.


NAMED = 5  # doubtful units that a note names


@dataclass(frozen=True)
class Recovered:
    """A solved SLALOM.

    Attributes:
        surrogate: over distinct units.
        doubtful: which of them have importances that no SLALOM explains.
        counts: (m, n), the rows that were asked.
        outputs: (m, C), the answers.
    """

    surrogate: SlalomSurrogate
    doubtful: list[int]
    counts: Tensor
    outputs: Tensor


@register
@dataclass(frozen=True)
class SlalomExact(Estimator):
    """Proposition 5.2: as many calls as there are unknowns.

    It is exact where the model is a SLALOM, and fragile elsewhere.

    Attributes:
        sink: recover a sink as well, from the empty text and repeated units; the model must
            accept an empty text.
    """

    name: ClassVar[str] = "slalom-exact"
    summary: ClassVar[str] = (
        "the paper's recovery: 2 calls per distinct token, exact for a model that is a SLALOM and "
        "fragile for others"
    )
    additive: ClassVar[bool] = False
    combines: ClassVar[bool] = True
    removal: ClassVar[str | None] = "delete"

    sink: bool = False

    def parameters(self, units: int, distinct: int) -> int:
        """One call per unknown, and the whole text."""
        unknowns = 2 * distinct
        if self.sink:
            unknowns += 2
        return unknowns

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Asks single units and pairs and solves."""
        distinct = DistinctUnits.of(queries)
        report = self._draw_report(queries, distinct, rng)
        if self.sink:
            solved = _solve_with_sink(queries, distinct)
        else:
            solved = _solve_without_sink(queries, distinct)
        tested = ask_held_out(queries, report, "check")
        evidence = evidence_of(queries, solved.counts, solved.outputs, tested)
        notes = _notes(queries, distinct, solved.doubtful)
        return plain_findings(evidence, distinct, solved.surrogate, notes)

    def _draw_report(
        self, queries: Queries, distinct: DistinctUnits, rng: np.random.Generator
    ) -> HeldOut | None:
        """Rows to report on that are none of those that the recovery asks."""
        pool = pool_of_distinct(queries)
        singles = distinct.first[:, None]
        pairs = np.stack(np.meshgrid(distinct.first, distinct.first), axis=-1).reshape(-1, 2)
        for sequences in (singles, pairs):
            pool.claim(queries.prompt.sequences(sequences).keys)
        parameters = self.parameters(len(queries.prompt.units), queries.prompt.distinct)
        return draw_report(pool, queries, queries.budget - parameters, rng)


def _solve_without_sink(queries: Queries, distinct: DistinctUnits) -> Recovered:
    """Asks every distinct unit alone and in a pair with a reference."""
    first = distinct.first
    singles = queries.ask_sequences(first[:, None])
    chosen, _, high = references(singles)
    partners = first[chosen.cpu().numpy()]
    pairs = np.delete(np.stack([first, partners], axis=1), high, axis=0)
    answers = queries.ask_sequences(pairs)
    with_high = torch.cat([answers[:high], singles[high : high + 1], answers[high:]])
    surrogate, doubtful = recover(singles, with_high)
    counts = unit_counts([first[:, None], pairs], distinct.units, singles)
    return Recovered(surrogate, doubtful, counts, torch.cat([singles, answers]))


def _solve_with_sink(queries: Queries, distinct: DistinctUnits) -> Recovered:
    """Asks the empty text, and every distinct unit alone and twice."""
    if not accepts_empty(queries):
        raise InputError(
            "slalom-exact with a sink asks the empty text, which this model does not accept: "
            "use sink=False"
        )
    empty = queries.ask(~queries.prompt.whole, "fit")[0]
    once = distinct.first[:, None]
    twice = np.tile(once, 2)
    singles, doubles = queries.ask_sequences(once), queries.ask_sequences(twice)
    surrogate, doubtful = recover_with_sink(empty, singles, doubles)
    counts = unit_counts([once, twice], distinct.units, singles)
    return Recovered(surrogate, doubtful, counts, torch.cat([singles, doubles]))


def _notes(queries: Queries, distinct: DistinctUnits, doubtful: list[int]) -> tuple[str, ...]:
    """Which units have importances that no SLALOM explains."""
    if not doubtful:
        return ()
    units = queries.prompt.units
    names = ", ".join(repr(units[distinct.first[index]].text) for index in doubtful[:NAMED])
    if len(doubtful) > NAMED:
        names += ", …"
    return (
        f"{len(doubtful)} of {len(distinct)} distinct units have ill-determined importances "
        f"({names}): the model is not an exact SLALOM here; use method 'slalom'",
    )
