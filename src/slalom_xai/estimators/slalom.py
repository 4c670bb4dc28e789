"""The main method: one SLALOM for small and large deletions at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from slalom_xai.errors import InputError
from slalom_xai.estimators.base import Evidence, Findings, gather, held_out_loss, linear_fit, measure, register
from slalom_xai.queries import Queries
from slalom_xai.surrogates.fit import Fit, fit_slalom, influence, inverse_variance
from slalom_xai.surrogates.scores import slalom_standard_errors

PRIOR_FREE = 1e-12
STEADY = 1e-2  # the weakest prior that is trusted where no rows are left to choose by
INDIFFERENCE = 0.1  # a stronger prior is kept where it costs less than this in log error: its values stay readable


@register
@dataclass(frozen=True)
class Slalom:
    """Fits SLALOMs with a sink under several priors, and one without sink or prior; held-out error chooses.

    Attributes:
        priors: penalties on the importances to try with a sink, in units of the output's variance.
        sink: False leaves only the paper's SLALOM, without a sink and almost without a prior.
    """

    name: ClassVar[str] = "slalom"
    summary: ClassVar[str] = "a value and an importance per token: a softmax-weighted average fitted to few and many deletions at once"

    additive: ClassVar[bool] = False

    priors: Sequence[float] = (1e-1, 1e-2, 1e-3, 1e-4, 1e-6)
    sink: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.priors, Sequence) or not self.priors or not all(0 < prior < math.inf for prior in self.priors):
            raise InputError(f"priors is {self.priors!r}: give at least one positive number, such as (0.01,)")

    def parameters(self, units: int, kinds: int) -> int:
        """A value and an importance per unit and for the sink, less one for the common shift."""
        return 2 * units + 1

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Asks the model, fits the candidates and keeps the best."""
        evidence = gather(queries, self.parameters(len(queries.prompt.units), queries.prompt.kinds), rng)
        linear = linear_fit(evidence).surrogate
        fit = self._best(evidence)
        moved = influence(evidence.fit.counts, evidence.fit.outputs, fit)
        errors = tuple(slalom_standard_errors(fit.surrogate, moved, column) for column in range(len(evidence.full)))
        return Findings(fit.surrogate, errors, measure(evidence, fit.surrogate, linear))

    def _best(self, evidence: Evidence) -> Fit:
        counts, outputs = evidence.fit.counts, evidence.fit.outputs
        steps = _steps(counts.shape[1])
        held = fit_slalom(counts, outputs, sink=False, prior=min(self.priors), offsets=evidence.offsets, max_iterations=steps)
        free = fit_slalom(
            counts, outputs, sink=False, prior=PRIOR_FREE, offsets=evidence.offsets, start=held.surrogate, max_iterations=2 * steps
        )
        if evidence.choose is None and not _exact(free, evidence):
            # Importances without a prior run off where a few rows cannot be met exactly.
            equal = _with_weight_on_the_whole_text(torch.ones_like(outputs[:, 0]))
            free = fit_slalom(counts, outputs, row_weights=equal, sink=False, prior=max(self.priors), offsets=evidence.offsets)
        if not self.sink or (evidence.choose is None and _exact(free, evidence)):
            return free
        candidates = [*self._with_sink(evidence), free]
        if evidence.choose is None:
            return min((fit for fit in candidates if fit.prior >= min(STEADY, max(self.priors))), key=_penalised_error)
        losses = [held_out_loss(evidence, fit.surrogate) for fit in candidates]
        return next(fit for fit, loss in zip(candidates, losses, strict=True) if loss <= min(losses) + INDIFFERENCE)

    def _with_sink(self, evidence: Evidence) -> list[Fit]:
        """One fit per prior, strongest first; a first one shows how errors grow with deletions."""
        counts, outputs = evidence.fit.counts, evidence.fit.outputs
        steps = _steps(counts.shape[1])
        equal = _with_weight_on_the_whole_text(torch.ones_like(outputs[:, 0]))
        first = fit_slalom(counts, outputs, row_weights=equal, prior=max(self.priors), offsets=evidence.offsets, max_iterations=steps)
        weights = _with_weight_on_the_whole_text(inverse_variance(first.residuals, evidence.fit.deleted))
        fits, start = [], first.surrogate
        for prior in sorted(self.priors, reverse=True):
            fits.append(
                fit_slalom(counts, outputs, row_weights=weights, prior=prior, offsets=evidence.offsets, start=start, max_iterations=steps)
            )
            start = fits[-1].surrogate
        return fits


def _steps(units: int) -> int:
    """Gauss-Newton steps a fit may take: fewer where each is dear, since later fits start from earlier ones."""
    return max(8, min(60, 20_000 // units))


def _with_weight_on_the_whole_text(weights: Tensor) -> Tensor:
    """As much weight on the first row as on all others: every prediction is judged as a change from it."""
    return torch.cat([weights[1:].sum()[None], weights[1:]])


def _exact(fit: Fit, evidence: Evidence) -> bool:
    outputs = evidence.fit.outputs
    return float((fit.residuals**2).mean()) <= 1e-8 * float(((outputs - outputs.mean(dim=0)) ** 2).mean())


def _penalised_error(fit: Fit) -> float:
    """Where no rows are left to choose by: the error on the fitted rows, over the square of the share of rows not spent."""
    rows, surrogate = len(fit.residuals), fit.surrogate
    spent = 2 * (surrogate.units + surrogate.has_sink) - 1
    if rows <= spent:
        return math.inf if surrogate.has_sink else 0.0
    return float((fit.residuals**2).mean()) / (1 - spent / rows) ** 2
