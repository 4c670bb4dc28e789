"""SLALOMs fitted to counts over distinct units: what slalom-eff and slalom-fidel choose from.

The paper fits by stochastic gradients or alternating steps and with no prior. Here the fits are
Gauss-Newton's, which are exact and fast, with priors that rows decide about: without any, the
scores of a model that is no SLALOM run wild.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

import torch
from torch import Tensor

from slalom_xai.estimators.evidence import Evidence
from slalom_xai.estimators.paper.settings import PAPER, Candidate
from slalom_xai.surrogates.count_tables import Counts, table_of
from slalom_xai.surrogates.fit import Fit, FitRequest
from slalom_xai.surrogates.near_zero import TINY


def fit_without_choice(evidence: Evidence, counts: Counts) -> Fit:
    """A SLALOM without a sink and almost without a prior, to counts (m, K)."""
    outputs = evidence.fit.outputs
    return evidence.fit_slalom(FitRequest(counts, outputs, sink=False, prior=PAPER.weak_prior))


def fit_with_best_prior(evidence: Evidence, counts: Counts) -> Fit:
    """A SLALOM without a sink; fits on nine rows of ten decide by the tenth about its prior.

    Args:
        evidence: with the answers (m, C).
        counts: (m, K).
    """
    outputs = evidence.fit.outputs
    if len(counts) < PAPER.eff_least_rows:
        return fit_without_choice(evidence, counts)
    part = PAPER.eff_test_part
    test = torch.arange(len(counts), device=outputs.device) % part == part - 1
    request = FitRequest(counts[~test], outputs[~test], sink=False, tolerance=PAPER.tolerance)
    fits = evidence.fit_slaloms([replace(request, prior=prior) for prior in PAPER.eff_priors])
    left_out, true = table_of(counts[test]), outputs[test]

    def error(fit: Fit) -> float:
        return float(((fit.surrogate.predict(left_out) - true) ** 2).mean())

    best = min(fits, key=error)
    return evidence.fit_slalom(
        FitRequest(
            counts,
            outputs,
            sink=False,
            prior=best.request.prior,
            start=best.surrogate,
            tolerance=PAPER.final_tolerance,
        )
    )


def best_candidate(evidence: Evidence, counts: Tensor, choose: Tensor, answers: Tensor) -> Fit:
    """The candidate whose changes against the whole text are nearest on the rows to choose.

    Deletions alone hold the scores of an exact SLALOM so loosely that any prior moves them.
    Where there seems to be one, the prior vanishes in steps, each starting from the last. If
    that leaves nothing, it is one, and a sink is not tried. If it leaves something, scores
    without a prior have run wild, and are dropped.

    Args:
        evidence: with the answers to the rows to fit.
        counts: (m, K), rows to fit; the first is the whole text.
        choose: (k, K), rows to choose by.
        answers: (k, C), of the model to these.
    """
    outputs = evidence.fit.outputs
    fits = _candidates(evidence, counts, False, PAPER.without_sink)
    exact = _exact_fits(evidence, counts, fits[-1])
    fits += exact or _candidates(evidence, counts, True, PAPER.with_sink)

    def error(fit: Fit) -> float:
        predicted = fit.surrogate.predict(choose) - fit.surrogate.predict(counts[:1])
        return float(((predicted - (answers - outputs[0])) ** 2).mean())

    return min(fits, key=error)


def _candidates(
    evidence: Evidence, counts: Tensor, sink: bool, candidates: Sequence[Candidate]
) -> list[Fit]:
    """One fit for each candidate; those of one prior start from those of the prior before."""
    outputs = evidence.fit.outputs
    fits: list[Fit] = []
    for prior, alike in groupby(candidates, lambda candidate: candidate.prior):
        requests = []
        for candidate in alike:
            weights = torch.ones_like(outputs[:, 0])
            weights[0] += candidate.whole_weight * len(weights)
            start = fits[-1].surrogate if fits else None
            request = FitRequest(counts, outputs, weights, sink, prior, start)
            requests.append(replace(request, tolerance=PAPER.tolerance))
        fits += evidence.fit_slaloms(requests)
    return fits


def _exact_fits(evidence: Evidence, counts: Tensor, fit: Fit) -> list[Fit]:
    """Fits whose prior vanishes, where they end with nothing left; none elsewhere."""
    outputs = evidence.fit.outputs
    if bool((outputs == outputs[0]).all()):
        return []  # a constant, of which no fit leaves anything
    if _share_left(fit) >= PAPER.suspected:
        return []
    fits = _vanishing(evidence, counts, fit)
    if fits and _share_left(fits[-1]) < PAPER.exact:
        return fits
    return []


def _vanishing(evidence: Evidence, counts: Tensor, fit: Fit) -> list[Fit]:
    """Fits with ever weaker priors.

    There are none where the first steps with a weaker one do not leave far less, as they do of
    an exact SLALOM.
    """
    request = FitRequest(
        counts,
        evidence.fit.outputs,
        fit.request.row_weights,
        sink=False,
        prior=PAPER.vanishing_priors[0],
        start=fit.surrogate,
        max_iterations=PAPER.trial_steps,
        tolerance=PAPER.vanishing_tolerance,
    )
    latest = evidence.fit_slalom(request)
    enough = PAPER.halved * _share_left(fit)
    if _share_left(latest) > max(PAPER.exact, enough):
        return []
    fits: list[Fit] = []
    request = replace(request, max_iterations=PAPER.vanishing_steps)
    for prior in PAPER.vanishing_priors:
        latest = evidence.fit_slalom(replace(request, prior=prior, start=latest.surrogate))
        fits.append(latest)
    return fits


def _share_left(fit: Fit) -> float:
    """The share of the outputs' variance that a fit leaves of its own rows."""
    outputs = fit.request.outputs
    variance = float(((outputs - outputs.mean(dim=0)) ** 2).mean())
    return float((fit.residuals**2).mean()) / (variance + TINY)
