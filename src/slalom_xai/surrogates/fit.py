"""Fitting SLALOMs: damped steps of variable projection, one text or several at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from slalom_xai.surrogates.count_tables import Counts, Sequences
from slalom_xai.surrogates.formula import SlalomSurrogate
from slalom_xai.surrogates.problem import PLAIN, Extras, FitRequest, Problem, make_problem
from slalom_xai.surrogates.projection import State, curvature_of, merged, project, step_from, taken

FIRST_DAMPING = 1e-2
LEAST_DAMPING = 1e-9
HOPELESS = (
    0.1  # a step that lowers the objective by less ends a fit that leaves too much to be of use
)
HEAVIEST_DAMPING = 100.0  # where this does not help, none does
TOGETHER = 250_000  # counts at most in a batch of texts: what fits into a processor's cache


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
        exact: whether the model was found to be this very function.
    """

    surrogate: SlalomSurrogate
    residuals: Tensor
    iterations: int
    converged: bool
    row_weights: Tensor
    prior: float
    extras: Extras = PLAIN
    exact: bool = False


def fit_slalom(
    counts: Counts,
    outputs: Tensor,
    *,
    row_weights: Tensor | None = None,
    sink: bool = True,
    prior: float = 1e-3,
    heads: int = 1,
    offsets: Tensor | None = None,
    extras: Extras = PLAIN,
    start: SlalomSurrogate | None = None,
    max_iterations: int = 60,
    tolerance: float = 1e-7,
    hopeless: float | None = None,
) -> Fit:
    """Fits a SLALOM to outputs (m, C) on rows (m, n); the arguments are those of ``FitRequest``."""
    request = FitRequest(
        counts,
        outputs,
        row_weights,
        sink,
        prior,
        heads,
        offsets,
        extras,
        start,
        max_iterations,
        tolerance,
        hopeless,
    )
    return fit_many([request])[0]


def fit_many(requests: Sequence[FitRequest]) -> list[Fit]:
    """Fits SLALOMs, those that are alike and of similar size together; each as if it were alone."""
    fits: dict[int, Fit] = {}
    for places in _batches(requests):
        fits.update(zip(places, _fit_alike([requests[place] for place in places]), strict=True))
    return [fits[place] for place in range(len(requests))]


def fit_each(sets: Sequence[Sequence[FitRequest]]) -> list[list[Fit]]:
    """Fits SLALOMs in sets of several, such as one for each text."""
    fits = iter(fit_many([request for requests in sets for request in requests]))
    return [[next(fits) for _ in requests] for requests in sets]


def _batches(requests: Sequence[FitRequest]) -> Iterator[list[int]]:
    """Places of requests that are fitted together: alike in kind, similar in size, and not too many."""

    def kind(r: FitRequest) -> tuple[object, ...]:
        return (
            r.sink,
            r.heads,
            r.extras.anchored,
            r.extras.additive,
            r.extras.length_penalty is None,
            r.outputs.shape[1],
            r.outputs.device.type,
            r.counts.places.shape[1] if isinstance(r.counts, Sequences) else None,
        )

    by_kind: dict[tuple[object, ...], list[int]] = {}
    for place, r in enumerate(requests):
        by_kind.setdefault(kind(r), []).append(place)
    for places in by_kind.values():
        places.sort(key=lambda place: requests[place].counts.shape[::-1])
        batch: list[int] = []
        most = 0
        for place in places:
            counts = requests[place].counts
            largest = max(most, _numbers(counts))
            narrow = bool(batch) and requests[batch[0]].counts.shape[1] < 0.75 * counts.shape[1]
            if batch and (narrow or (len(batch) + 1) * largest > TOGETHER):
                yield batch
                batch, largest = [], _numbers(counts)
            batch.append(place)
            most = largest
        yield batch


def _numbers(counts: Counts) -> int:
    """How many numbers one Gram matrix takes to compute."""
    rows, units = counts.shape
    return (
        max(rows * counts.places.shape[1] ** 2, units**2)
        if isinstance(counts, Sequences)
        else rows * units
    )


def _fit_alike(requests: Sequence[FitRequest]) -> list[Fit]:
    problem = make_problem(requests)
    values = problem.value_centre.expand(-1, -1, problem.rows.shape[2], -1)
    found: dict[int, Fit] = {}
    importances = torch.stack(
        [_start(r, centre) for r, centre in zip(requests, problem.importance_centre, strict=True)]
    )
    for i, walk, last, state in _search(problem, project(problem, importances, values), requests):
        found[walk.place] = _finished(i, walk, last, state)
    return [found[place] for place in range(len(requests))]


def _start(request: FitRequest, centre: Tensor) -> Tensor:
    """Importances (K, p) to begin with."""
    importances, free = centre.clone(), request.heads
    if free > 1:  # equal heads would stay equal: a fixed, small tilt parts them
        units = request.counts.shape[1]
        tilt = torch.linspace(-1, 1, units + request.sink, dtype=centre.dtype, device=centre.device)
        tilted = 0.5 * torch.cos(torch.arange(free, device=centre.device)[:, None] * (tilt + 2.0))
        importances[:free, :units] += tilted[:, :units]
        if request.sink:
            importances[:free, -1] += tilted[:, -1]
    if request.start is not None:
        given, sink = request.start.importances, request.start.sink_importances
        importances[: len(given), : given.shape[1]] = given
        if sink is not None:
            importances[: len(given), -1] = sink
    return importances


@dataclass
class _Walk:
    """Where one text's search stands.

    Attributes:
        place: of its request.
        request: what is fitted.
        damping: of the next step.
        iterations: steps that did, and the one under way.
        ended: None while it goes on; then whether it converged.
    """

    place: int
    request: FitRequest
    damping: float = FIRST_DAMPING
    iterations: int = 1
    ended: bool | None = None

    def judge(self, before: float, after: float, promised: float, left: float) -> bool:
        """Whether a step is taken, from the objective before and after it, the promised fall, and the part of the variance left."""
        request, fall = self.request, before - after
        if not fall > 0:  # or NaN
            self.damping *= 5.0
            if self.damping > HEAVIEST_DAMPING or 0 <= promised < request.tolerance * before:
                self.ended = True
            return False
        kept = fall / promised if promised > 0 else 0.0
        self.damping = max(
            self.damping / (5.0 if kept > 0.75 else 1.5 if kept > 0.4 else 1.0), LEAST_DAMPING
        )
        hopeless = request.hopeless is not None and left > request.hopeless
        if fall < (HOPELESS if hopeless else request.tolerance) * before:
            self.ended = True
        elif self.iterations >= request.max_iterations:
            self.ended = False
        else:
            self.iterations += 1
        return True


def _search(
    problem: Problem, state: State, requests: Sequence[FitRequest]
) -> Iterator[tuple[int, _Walk, Problem, State]]:
    """Damped steps for all texts at once; each is given out, with its place in the problem and state, when it ends."""
    walks = [_Walk(place, request) for place, request in enumerate(requests)]
    curvature = curvature_of(problem, state)
    while walks:
        device = state.loss.device
        new, promised = step_from(
            problem,
            state,
            curvature,
            torch.tensor([walk.damping for walk in walks], dtype=state.loss.dtype).to(device),
        )
        left = new.loss / problem.variance.clamp(min=1e-300)
        numbers = torch.stack(
            [state.objective, new.objective, promised, left], dim=1
        ).tolist()  # the one wait for a device
        better = [walk.judge(*of_walk) for walk, of_walk in zip(walks, numbers, strict=True)]
        if all(better):
            state = new
        elif any(better):
            state = merged(torch.tensor(better, device=device), new, state)
        going = [i for i, walk in enumerate(walks) if walk.ended is None]
        if len(going) < len(walks):
            for i, walk in enumerate(walks):
                if walk.ended is not None:
                    yield i, walk, problem, state
            walks = [walks[i] for i in going]
            if walks:
                index = torch.tensor(going, device=device)
                problem, state, curvature = (
                    problem.take(index),
                    taken(index, state),
                    taken(index, curvature),
                )
        if any(better[i] for i in going):
            curvature = curvature_of(problem, state)


def _finished(i: int, walk: _Walk, problem: Problem, state: State) -> Fit:
    request = walk.request
    rows, units = request.counts.shape
    values, importances = state.values[i], state.importances[i]
    if (
        problem.anchored
    ):  # a constant moves between the values freely; this one passes through the whole text
        missing = request.outputs[0] - state.heads[i, 0].sum(dim=0)
        values = torch.cat([values[:1] + missing, values[1:]])
    if request.sink:
        surrogate = SlalomSurrogate(
            values[:, :units], importances[:, :units], values[:, -1], importances[:, -1]
        ).normalised()
    else:
        surrogate = SlalomSurrogate(values[:, :units], importances[:, :units]).normalised()
    residuals = problem.beyond_length(state.residuals)[i, :rows]
    if problem.lengths is not None:
        surrogate = replace(
            surrogate, length_offsets=-problem.offsets(state.residuals)[i, : units + 1]
        )
    weights = problem.row_weights[i, :rows]
    return Fit(
        surrogate,
        residuals,
        walk.iterations,
        bool(walk.ended),
        weights,
        request.prior,
        request.extras,
    )
