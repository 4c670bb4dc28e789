"""Fitting SLALOMs, one text or several at once.

The way of a fit:

    problem      what is solved: rows, answers, penalties (``assembly`` builds its tensors)
    projection   at given importances, the best values, by one linear solution
    curvature    slope and curvature in the importances, the values following
    search       damped Gauss-Newton steps in the importances
    fit          this module: which fits are done together, and what comes out
    influence    afterwards: how sure the parameters are

Fits that are alike and of similar size are solved as one batch, each as if it were alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from slalom_xai.surrogates.assembly import make_problem
from slalom_xai.surrogates.batching import only
from slalom_xai.surrogates.count_tables import Counts, Sequences
from slalom_xai.surrogates.formula import SlalomSurrogate
from slalom_xai.surrogates.problem import PLAIN, Extras, FitRequest
from slalom_xai.surrogates.projection import project
from slalom_xai.surrogates.search import Ended, search, start_importances
from slalom_xai.surrogates.settings import FitSettings


@dataclass(frozen=True)
class BatchSettings:
    """Which fits are done together; results do not depend on it but by rounding.

    Attributes:
        together: counts at most in a batch of texts. This is what fits into a processor's cache.
        similar: texts in a batch have at least this fraction of the units of the largest, so that
            padding costs little.
    """

    together: int = 250_000
    similar: float = 0.75


BATCHES = BatchSettings()


@dataclass(frozen=True)
class Fit:
    """A fitted SLALOM.

    Attributes:
        surrogate: the fitted function, importances summing to 0 over the units.
        residuals: (m, C), prediction minus output on the fitted rows.
        iterations: steps taken.
        converged: whether the objective stopped falling before the step limit.
        row_weights: (m,), as used, summing to one.
        prior: the penalty on importances, as given.
        extras: as given.
        settings: as given.
        exact: whether the model was found to be this very function.
    """

    surrogate: SlalomSurrogate
    residuals: Tensor
    iterations: int
    converged: bool
    row_weights: Tensor
    prior: float
    extras: Extras = PLAIN
    settings: FitSettings = FitRequest.settings
    exact: bool = False


def fit_slalom(
    counts: Counts,
    outputs: Tensor,
    *,
    row_weights: Tensor | None = None,
    sink: bool = True,
    prior: float = FitRequest.prior,
    heads: int = 1,
    offsets: Tensor | None = None,
    extras: Extras = PLAIN,
    start: SlalomSurrogate | None = None,
    max_iterations: int = FitRequest.max_iterations,
    tolerance: float = FitRequest.tolerance,
    give_up_above: float | None = None,
    settings: FitSettings = FitRequest.settings,
) -> Fit:
    """Fits a SLALOM to outputs (m, C) on rows (m, n); the arguments are those of ``FitRequest``."""
    request = FitRequest(
        counts=counts,
        outputs=outputs,
        row_weights=row_weights,
        sink=sink,
        prior=prior,
        heads=heads,
        offsets=offsets,
        extras=extras,
        start=start,
        max_iterations=max_iterations,
        tolerance=tolerance,
        give_up_above=give_up_above,
        settings=settings,
    )
    return fit_many([request])[0]


def fit_many(requests: Sequence[FitRequest]) -> list[Fit]:
    """Fits SLALOMs, those that are alike and of similar size together; each as if it were alone."""
    fits: dict[int, Fit] = {}
    for batch in _batches(requests):
        of_batch = _fit_alike([requests[index] for index in batch])
        fits.update(zip(batch, of_batch, strict=True))
    return [fits[index] for index in range(len(requests))]


def fit_each(sets: Sequence[Sequence[FitRequest]]) -> list[list[Fit]]:
    """Fits SLALOMs in sets of several, such as one for each text."""
    fits = iter(fit_many([request for requests in sets for request in requests]))
    return [[next(fits) for _ in requests] for requests in sets]


def _batches(requests: Sequence[FitRequest]) -> Iterator[list[int]]:
    """Indices of requests that are fitted together: alike in kind and similar in size."""
    by_kind: dict[tuple[object, ...], list[int]] = {}
    for index, request in enumerate(requests):
        by_kind.setdefault(kind_of(request), []).append(index)
    for alike in by_kind.values():
        alike.sort(key=lambda index: requests[index].counts.shape[::-1])
        yield from _of_similar_size(requests, alike)


def kind_of(request: FitRequest) -> tuple[object, ...]:
    """What requests must have in common to be one problem."""
    extras = request.extras
    length = None
    if isinstance(request.counts, Sequences):
        length = request.counts.indices.shape[1]
    return (
        request.sink,
        request.heads,
        request.settings,
        extras.anchored,
        extras.additive,
        extras.length_penalty is None,
        extras.held is None,
        request.outputs.shape[1],
        request.outputs.device.type,
        length,
    )


def _of_similar_size(requests: Sequence[FitRequest], alike: list[int]) -> Iterator[list[int]]:
    """Cuts indices of requests, smallest first, into batches that are worth padding."""
    batch: list[int] = []
    most = 0
    for index in alike:
        counts = requests[index].counts
        work = _work(counts)
        largest = max(most, work)
        if batch:
            least = requests[batch[0]].counts.shape[1]
            unlike = least < BATCHES.similar * counts.shape[1]
            if unlike or (len(batch) + 1) * largest > BATCHES.together:
                yield batch
                batch, largest = [], work
        batch.append(index)
        most = largest
    yield batch


def _work(counts: Counts) -> int:
    """How many numbers one Gram matrix takes to compute."""
    rows, units = counts.shape
    if isinstance(counts, Sequences):
        return max(rows * counts.indices.shape[1] ** 2, units**2)
    return rows * units


def _fit_alike(requests: Sequence[FitRequest]) -> list[Fit]:
    """Fits requests that make one problem."""
    problem = make_problem(requests)
    values = problem.penalties.value_centre
    centres = problem.penalties.importance_centre
    starts = [start_importances(r, centre) for r, centre in zip(requests, centres, strict=True)]
    state = project(problem, torch.stack(starts), values)
    fits: dict[int, Fit] = {}
    for ended in search(problem, state, requests):
        fits[ended.walk.index] = _finished(ended)
    return [fits[index] for index in range(len(requests))]


def _finished(ended: Ended) -> Fit:
    """What came out of a search that has ended."""
    walk, problem = ended.walk, only(ended.index, ended.problem)
    residuals = only(ended.index, ended.state.residuals)
    rows, units = walk.request.counts.shape
    surrogate = _surrogate(ended)
    if problem.lengths is not None:
        offsets = -problem.length_part(residuals)[0, : units + 1]
        surrogate = replace(surrogate, length_offsets=offsets)
    return Fit(
        surrogate=surrogate,
        residuals=problem.beyond_length(residuals)[0, :rows],
        iterations=walk.iterations,
        converged=bool(walk.ended),
        row_weights=problem.row_weights[0, :rows],
        prior=walk.request.prior,
        extras=walk.request.extras,
        settings=walk.request.settings,
    )


def _surrogate(ended: Ended) -> SlalomSurrogate:
    """The function at the end of a search, without its length offsets."""
    request, state, index = ended.walk.request, ended.state, ended.index
    units = request.counts.shape[1]
    values, importances = state.values[index], state.importances[index]  # (K, p, C), (K, p)
    if ended.problem.anchored:
        # A constant moves freely between the values. This one passes through the whole text.
        missing = request.outputs[0] - state.head_predictions[index, 0].sum(dim=0)
        values = torch.cat([values[:1] + missing, values[1:]])
    of_units = (values[:, :units], importances[:, :units])
    if not request.sink:
        return SlalomSurrogate(*of_units).normalised()
    return SlalomSurrogate(*of_units, values[:, -1], importances[:, -1]).normalised()
