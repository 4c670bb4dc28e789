"""SLALOMs fitted to counts over distinct units: what slalom-eff and slalom-fidel choose from.

The paper fits by stochastic gradients or alternating steps and with no prior. Here the fits are
Gauss-Newton's, which are exact and fast, with priors that rows decide about: without any, the
scores of a model that is no SLALOM run wild.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import torch
from torch import Tensor

from slalom_xai.methods.counts import TINY, Counts, table_of
from slalom_xai.methods.evidence import Evidence
from slalom_xai.methods.paper.fit import Fit, FitRequest
from slalom_xai.methods.paper.formula import SlalomSurrogate, weights
from slalom_xai.methods.paper.rows import PAPER, Candidate


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
    fits = _fit_vanishing_priors(evidence, counts, fit)
    if fits and _share_left(fits[-1]) < PAPER.exact:
        return fits
    return []


def _fit_vanishing_priors(evidence: Evidence, counts: Tensor, fit: Fit) -> list[Fit]:
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


# The paper's own solvers, kept for comparison: gradient steps and alternating least squares.
#
# The package itself fits by variable projection (``fit``), which needs tens of steps where these
# need thousands. They are here so that the paper's methods can be run as they were published.
#
# Shapes: m rows, n units, C columns (explained outputs). There is one head and no sink.


@dataclass(frozen=True)
class PublishedSettings:
    """Constants of the published solvers. More steps and rounds cost time and change little.

    Attributes:
        steps: of gradients.
        batch: rows a gradient step.
        rate: of the first gradient step, in values and importances.
        last_rate: of the last step, as a fraction of the first.
        rounds: of alternating least squares, at most.
        ridge: on the values, as a fraction of the mean diagonal: units that no row tells apart.
        least_gain: a round that lowers the error by less than this fraction brought nothing.
        patience: the rounds end after so many in a row that brought nothing; so do changes of many
            weights at once.
        scale_ridge: on the weights, as a fraction of the mean diagonal: units that no row tells
            apart get equal weights.
        slack: a slope above minus this counts as zero, where the mean diagonal is 1.
        changes: of the set of weights at the floor, at most, for each unit; a few are enough.
        floor: the least weight, where their mean is 1. Without a floor, noise drives weights to
            zero and importances to minus infinity.
    """

    steps: int = 5000
    batch: int = 64
    rate: float = 0.05
    last_rate: float = 1e-3
    rounds: int = 50
    ridge: float = 1e-8
    least_gain: float = 1e-4
    patience: int = 3
    scale_ridge: float = 1e-10
    slack: float = 1e-12
    changes: int = 20
    floor: float = 1e-4


PUBLISHED_SOLVERS = PublishedSettings()


def fit_by_sgd(
    counts: Tensor,
    outputs: Tensor,
    seed: int,
    steps: int = PUBLISHED_SOLVERS.steps,
    batch: int = PUBLISHED_SOLVERS.batch,
    rate: float = PUBLISHED_SOLVERS.rate,
) -> SlalomSurrogate:
    """Algorithm 1: minibatch gradient steps on values and importances, at a decaying rate.

    Both start from zero. Adam scales the steps: with plain gradients one rate cannot suit rare and
    frequent units alike.

    Args:
        counts: (m, n).
        outputs: (m, C).
        seed: decides the minibatches.
        steps: how many.
        batch: rows a step.
        rate: of the first step; it falls linearly to almost zero.
    """
    generator = torch.Generator().manual_seed(seed)
    units, columns = counts.shape[1], outputs.shape[1]
    values = outputs.new_zeros(1, units, columns).requires_grad_()
    importances = outputs.new_zeros(1, units).requires_grad_()
    optimizer = torch.optim.Adam([values, importances], lr=rate)
    schedule = torch.optim.lr_scheduler.LinearLR(
        optimizer, 1.0, PUBLISHED_SOLVERS.last_rate, total_iters=steps
    )
    for _ in range(steps):
        rows = torch.randint(len(counts), (batch,), generator=generator).to(counts.device)
        shares = weights(counts[rows], importances)[:, 0]
        loss = ((shares @ values[0] - outputs[rows]) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
    return SlalomSurrogate(values.detach(), importances.detach()).normalise()


def fit_alternating(
    counts: Tensor, outputs: Tensor, rounds: int = PUBLISHED_SOLVERS.rounds
) -> SlalomSurrogate:
    """Algorithm 2: values by least squares given importances, then importances by Eq. 77.

    Eq. 77 weights each residual by its row's total weight, so it is not the objective of the
    least squares beside it, and a round may raise the error. The best round is kept, and the
    rounds end when three in a row bring nothing.

    Args:
        counts: (m, n).
        outputs: (m, 1); the second step is written for one output.
        rounds: at most.
    """
    scale = outputs.new_ones(counts.shape[1])  # (n,), the weights
    best, best_error, barren = None, float("inf"), 0
    for _ in range(rounds):
        raw = counts * scale
        shares = raw / raw.sum(dim=1, keepdim=True)  # (m, n)
        values = _least_squares(shares, outputs)
        error = float(((shares @ values - outputs) ** 2).mean())
        barren += 1
        if error < best_error * (1 - PUBLISHED_SOLVERS.least_gain):
            barren = 0
        if error < best_error:
            best, best_error = (values, scale.log()), error
        if barren == PUBLISHED_SOLVERS.patience:
            break
        scale = nonnegative_scale(counts * (values[:, 0] - outputs))
    assert best is not None
    return SlalomSurrogate(best[0][None], best[1][None]).normalise()


def _least_squares(shares: Tensor, outputs: Tensor) -> Tensor:
    """Values (n, C) that predict outputs (m, C) best from shares (m, n)."""
    gram = shares.T @ shares
    gram.diagonal().add_(PUBLISHED_SOLVERS.ridge * gram.diagonal().mean())
    values: Tensor = torch.linalg.solve(gram, shares.T @ outputs)
    return values


def nonnegative_scale(residuals: Tensor, floor: float = PUBLISHED_SOLVERS.floor) -> Tensor:
    """The weights s >= floor with mean 1 that minimise |E s|^2 (Eqs. 77 to 79).

    With s = floor + t, t >= 0 and T the sum of t, E s is A t for a matrix A. Least squares over
    u >= 0 with one more row of ones, |A u|^2 + (sum of u - 1)^2, finds t up to a factor: for
    u = c p with the sum of p equal to 1, the least over c is |A p|^2 / (1 + |A p|^2), which grows
    with |A p|^2. Then t = T u / (sum of u).

    Args:
        residuals: E, (m, n).
        floor: the least weight, below 1.
    """
    units = residuals.shape[1]
    total = units * (1 - floor)
    raised = residuals + floor / total * residuals.sum(dim=1, keepdim=True)  # A, (m, n)
    gram = raised.T @ raised
    gram = gram / gram.diagonal().mean().clamp(min=torch.finfo(gram.dtype).tiny)
    gram.diagonal().add_(PUBLISHED_SOLVERS.scale_ridge)
    shares = _nonnegative_least_squares(gram + 1, gram.new_ones(units))
    return floor + total * shares / shares.sum()


def _nonnegative_least_squares(gram: Tensor, target: Tensor) -> Tensor:
    """Minimises u' G u / 2 - b' u over u >= 0 by block principal pivoting.

    A set of unknowns is free, the others are zero. Free unknowns that come out negative and zeros
    that would rather grow change sides, all at once. If that does not bring their number down,
    only the last of them does (Murty's rule), which would always end but for rounding.

    Args:
        gram: G, (n, n), positive definite.
        target: b, (n,).
    """
    free = torch.ones_like(target, dtype=torch.bool)
    fewest, tries = len(target) + 1, PUBLISHED_SOLVERS.patience
    solution = torch.zeros_like(target)
    for _ in range(PUBLISHED_SOLVERS.changes * len(target)):
        solution = torch.zeros_like(target)
        solution[free] = torch.linalg.solve(gram[free][:, free], target[free])
        slope = gram @ solution - target
        wrong = torch.where(free, solution < 0, slope < -PUBLISHED_SOLVERS.slack)
        number = int(wrong.sum())
        if number == 0:
            break
        if number < fewest:
            fewest, tries = number, PUBLISHED_SOLVERS.patience
        elif tries > 0:
            tries -= 1
        else:
            last = torch.nonzero(wrong)[-1]
            wrong = torch.zeros_like(wrong)
            wrong[last] = True
        free = free ^ wrong
    return solution.clamp(min=0)
