"""The distinct units of a text, and how what was fitted to them becomes scores of all units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from slalom_xai.estimators.base import Findings
from slalom_xai.estimators.evidence import Evidence
from slalom_xai.estimators.held_out import linear_fit, measure
from slalom_xai.queries import Queries
from slalom_xai.surrogates.errors import Moves, moves_of, standard_errors
from slalom_xai.surrogates.fit import Fit
from slalom_xai.surrogates.formula import SlalomSurrogate


@dataclass(frozen=True)
class DistinctUnits:
    """The K distinct units of a text of n units.

    Attributes:
        first: (K,), the index of the first unit that reads like each of them.
        of_unit: (n,), which of them each unit is.
        shift: (n,), what its importance gains where a unit stands for several occurrences.
    """

    first: NDArray[np.int64]
    of_unit: NDArray[np.int64]
    shift: NDArray[np.float64]

    @classmethod
    def of(cls, queries: Queries) -> DistinctUnits:
        """Those of the text that is asked about."""
        _, first, of_unit = np.unique(queries.prompt.codes, return_index=True, return_inverse=True)
        return cls(first, of_unit, np.log(queries.prompt.occurrences))

    def __len__(self) -> int:
        """K."""
        return len(self.first)

    @property
    def units(self) -> int:
        """All units of the text, n."""
        return len(self.of_unit)

    def counts(
        self, masks: NDArray[np.bool_], occurrences: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Masks over units (m, n) to counts over distinct units (m, K)."""
        onto = np.zeros((self.units, len(self)))
        onto[np.arange(self.units), self.of_unit] = occurrences
        return np.asarray(masks @ onto)

    def spread(self, surrogate: SlalomSurrogate) -> SlalomSurrogate:
        """The same function over units."""
        device = surrogate.values.device
        units = torch.as_tensor(self.of_unit, device=device)
        shift = torch.as_tensor(self.shift, device=device)
        return SlalomSurrogate(
            surrogate.values[:, units],
            surrogate.importances[:, units] + shift,
            surrogate.sink_values,
            surrogate.sink_importances,
        ).normalised()

    def spread_moves(self, moves: Moves, sink: bool) -> Moves:
        """How far the copied scores move; a sink comes after all units."""
        copied = self.of_unit
        if sink:
            copied = np.concatenate([copied, [len(self)]])
        return moves.spread(torch.as_tensor(copied, device=moves.values.device))


def fitted_findings(evidence: Evidence, distinct: DistinctUnits, fit: Fit) -> Findings:
    """A fit over distinct units as what a method found out about units, with standard errors.

    Args:
        evidence: rows over units.
        distinct: the distinct units.
        fit: to the same rows over distinct units.
    """
    surrogate = distinct.spread(fit.surrogate)
    moves = distinct.spread_moves(moves_of(fit), fit.surrogate.has_sink)
    columns = range(len(evidence.full))
    errors = [standard_errors(surrogate, moves, column) for column in columns]
    fidelity = measure(evidence, surrogate, linear_fit(evidence).surrogate)
    return Findings(surrogate, tuple(errors), fidelity)


def plain_findings(
    evidence: Evidence,
    distinct: DistinctUnits,
    surrogate: SlalomSurrogate,
    notes: tuple[str, ...] = (),
) -> Findings:
    """The same for solvers that say nothing about their errors."""
    spread = distinct.spread(surrogate)
    fidelity = measure(evidence, spread, linear_fit(evidence).surrogate)
    return Findings(spread, ({},) * len(evidence.full), fidelity, notes)
