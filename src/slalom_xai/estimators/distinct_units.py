"""The distinct units of a text, and SLALOMs fitted to them: what the paper's estimators share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slalom_xai.estimators.base import Findings
from slalom_xai.estimators.evidence import Evidence, linear_fit, measure
from slalom_xai.queries import Queries
from slalom_xai.surrogates.count_tables import Counts, table_of
from slalom_xai.surrogates.fit import Fit
from slalom_xai.surrogates.formula import SlalomSurrogate
from slalom_xai.surrogates.influence import Covariance, covariance
from slalom_xai.surrogates.problem import FitRequest
from slalom_xai.surrogates.scores import slalom_standard_errors

PRIOR = 1e-6  # next to nothing: what an exact SLALOM needs
EFF_PRIORS = (1e-2, PRIOR)
VANISHING_PRIORS = (1e-9, 1e-12, 1e-15)
CLOSE_ENOUGH = 1e-4  # a step that lowers the objective by less than this part ends a fit: held-out errors no longer tell
TRIED = 12  # steps after which weaker priors must have shown that they help
NEARLY, EXACT = (
    1e-4,
    1e-8,
)  # parts of the variance left: where a SLALOM is suspected, and where it is proven
# What slalom-fidel chooses from: the whole text's weight as a part of all other rows', and the prior.
# Scores are read as changes against the whole text, which as one row of many is fitted badly.
WITHOUT_SINK = ((0.1, 1e-3), (0.1, PRIOR))
WITH_SINK = ((0.1, 1e-2), (0.1, 1e-3), (1.0, 1e-2), (1.0, 1e-3))


@dataclass(frozen=True)
class DistinctUnits:
    """The distinct units of a text.

    Attributes:
        place: (K,), a unit of each kind.
        of_unit: (n,), the kind of each unit.
        shift: (n,), what a kind's importance gains where a unit stands for several occurrences.
    """

    place: NDArray[np.int64]
    of_unit: NDArray[np.int64]
    shift: NDArray[np.float64]

    @classmethod
    def of(cls, queries: Queries) -> DistinctUnits:
        """The distinct of the text that is asked about."""
        _, place, of_unit = np.unique(queries.prompt.codes, return_index=True, return_inverse=True)
        return cls(place, of_unit, np.log(queries.prompt.occurrences))

    def counts(
        self, masks: NDArray[np.bool_], occurrences: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Masks over units (m, n) to counts over distinct (m, K)."""
        onto = np.zeros((len(self.of_unit), len(self.place)))
        onto[np.arange(len(self.of_unit)), self.of_unit] = occurrences
        return np.asarray(masks @ onto)

    def spread(self, surrogate: SlalomSurrogate) -> SlalomSurrogate:
        """The same function over units."""
        units = torch.as_tensor(self.of_unit, device=surrogate.values.device)
        importances = surrogate.importances[:, units] + torch.as_tensor(
            self.shift, device=surrogate.values.device
        )
        return SlalomSurrogate(
            surrogate.values[:, units],
            importances,
            surrogate.sink_values,
            surrogate.sink_importances,
        ).normalised()

    def spread_covariance(self, covariance: Covariance, sink: bool) -> Covariance:
        """The covariance of the copied scores."""
        places = np.concatenate([self.of_unit, [len(self.place)]]) if sink else self.of_unit
        return covariance.spread(torch.as_tensor(places, device=covariance.joint.device))


def with_best_prior(evidence: Evidence, counts: Counts) -> Fit:
    """Fits on nine rows of ten, without a sink, decide by the tenth how strong the prior is."""
    outputs = evidence.fit.outputs
    if len(counts) < 30:
        return evidence.solved(FitRequest(counts, outputs, sink=False, prior=PRIOR))
    test = torch.arange(len(counts), device=outputs.device) % 10 == 9
    rows, answers = counts[~test], outputs[~test]
    fits = evidence.all_solved(
        [
            FitRequest(rows, answers, sink=False, prior=prior, tolerance=CLOSE_ENOUGH)
            for prior in EFF_PRIORS
        ]
    )
    left_out, true = table_of(counts[test]), outputs[test]
    best = min(fits, key=lambda fit: float(((fit.surrogate.predict(left_out) - true) ** 2).mean()))
    return evidence.solved(
        FitRequest(
            counts, outputs, sink=False, prior=best.prior, start=best.surrogate, tolerance=1e-5
        )
    )


def best_candidate(evidence: Evidence, counts: Tensor, choose: Tensor, answers: Tensor) -> Fit:
    """The candidate whose changes against the whole text, the first row of ``counts``, are nearest on the rows to choose.

    Deletions alone hold the scores of an exact SLALOM so loosely that any prior moves them. Where there seems to be one, the
    prior vanishes in steps, each starting from the last. If that leaves nothing, it is one, and a sink is not tried; if it
    leaves something, scores without a prior have run wild, and are dropped.
    """
    outputs = evidence.fit.outputs
    fits = _candidates(evidence, counts, False, WITHOUT_SINK)
    free = _vanishing(evidence, counts, fits[-1]) if _left(fits[-1], outputs) < NEARLY else []
    fits += (
        free
        if free and _left(free[-1], outputs) < EXACT
        else _candidates(evidence, counts, True, WITH_SINK)
    )

    def error(fit: Fit) -> float:
        predicted = fit.surrogate.predict(choose) - fit.surrogate.predict(counts[:1])
        return float(((predicted - (answers - outputs[0])) ** 2).mean())

    return min(fits, key=error)


def _candidates(
    evidence: Evidence, counts: Tensor, sink: bool, settings: Sequence[tuple[float, float]]
) -> list[Fit]:
    """One fit for each setting, starting from the last one of the same prior, or else from the one before."""
    fits: list[Fit] = []
    outputs = evidence.fit.outputs
    for whole, prior in settings:
        weights = torch.ones_like(outputs[:, 0])
        weights[0] += whole * len(weights)
        start = next((fit for fit in fits if fit.prior == prior), fits[-1] if fits else None)
        given = None if start is None else start.surrogate
        fits.append(
            evidence.solved(
                FitRequest(
                    counts, outputs, weights, sink, prior, start=given, tolerance=CLOSE_ENOUGH
                )
            )
        )
    return fits


def _left(fit: Fit, outputs: Tensor) -> float:
    """The part of the variance that a fit leaves."""
    return float((fit.residuals**2).mean() / outputs.var(dim=0, correction=0).mean())


def _vanishing(evidence: Evidence, counts: Tensor, fit: Fit) -> list[Fit]:
    """Fits with ever weaker priors; none where the first steps with a weaker one do not leave far less, as they do of an exact SLALOM."""
    outputs = evidence.fit.outputs
    request = FitRequest(
        counts,
        outputs,
        fit.row_weights,
        False,
        VANISHING_PRIORS[0],
        start=fit.surrogate,
        tolerance=1e-12,
    )
    tried = evidence.solved(replace(request, max_iterations=TRIED))
    if _left(tried, outputs) > max(EXACT, 0.5 * _left(fit, outputs)):
        return []
    fits = [tried]
    for prior in VANISHING_PRIORS:
        fits.append(
            evidence.solved(
                replace(request, prior=prior, start=fits[-1].surrogate, max_iterations=300)
            )
        )
    return fits[1:]


def fitted_findings(
    evidence: Evidence, distinct: DistinctUnits, by_kind: Counts, fit: Fit
) -> Findings:
    """A fit to distinct (m, K) as what a method found out about units, with standard errors."""
    surrogate = distinct.spread(fit.surrogate)
    spread = distinct.spread_covariance(
        covariance(by_kind, evidence.fit.outputs, fit), fit.surrogate.has_sink
    )
    errors = tuple(
        slalom_standard_errors(surrogate, spread, column) for column in range(len(evidence.full))
    )
    return Findings(surrogate, errors, measure(evidence, surrogate, linear_fit(evidence).surrogate))


def plain_findings(
    evidence: Evidence,
    distinct: DistinctUnits,
    surrogate: SlalomSurrogate,
    notes: tuple[str, ...] = (),
) -> Findings:
    """For solvers that say nothing about their errors."""
    spread = distinct.spread(surrogate)
    return Findings(
        spread,
        ({},) * len(evidence.full),
        measure(evidence, spread, linear_fit(evidence).surrogate),
        notes,
    )
