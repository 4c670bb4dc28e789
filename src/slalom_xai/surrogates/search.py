"""The search for importances: damped Gauss-Newton steps, for several texts at once.

What it has to do: starting somewhere, lower the objective of ``projection`` until it stops falling.

Each step solves, with slope g and curvature H of ``curvature`` and its diagonal d,

    (H + damping * diag(d)) step = g

and replaces s by s - step, at most ``largest_step`` in each importance. A step that lowers the
objective is taken. The more of the promised fall it kept, the less the next one is damped. A step
that does not is dropped, and the damping grows (Levenberg and Marquardt).

Why several texts at once: one small text leaves a processor idle. Texts are independent, each has
its own damping, and a text that has ended leaves the batch.

Shapes: B texts, K heads, p slots, n_s importances that are fitted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from slalom_xai.surrogates.batching import merged, taken
from slalom_xai.surrogates.curvature import Curvature, curvature_of
from slalom_xai.surrogates.near_zero import TINY
from slalom_xai.surrogates.problem import FitRequest, Problem
from slalom_xai.surrogates.projection import State, project


@dataclass
class Walk:
    """Where the search of one text stands.

    Attributes:
        index: of its request.
        request: what is fitted.
        damping: of the next step.
        iterations: steps that were taken, and the one under way.
        ended: None while it goes on; then whether it converged.
    """

    index: int
    request: FitRequest
    damping: float
    iterations: int = 1
    ended: bool | None = None

    def judge(self, before: float, after: float, promised: float, share_left: float) -> bool:
        """Decides about a step, and about the next.

        Args:
            before: the objective before the step.
            after: the objective after it; NaN where it could not be computed.
            promised: the fall that the quadratic picture promised.
            share_left: the part of the outputs' variance that the step leaves.

        Returns:
            whether the step is taken.
        """
        fall = before - after
        if not fall > 0:  # NaN, too
            self._failed(before, promised)
            return False
        self._relax(fall, promised)
        if fall < self._tolerance(share_left) * before:
            self.ended = True
        elif self.iterations >= self.request.max_iterations:
            self.ended = False
        else:
            self.iterations += 1
        return True

    def _failed(self, before: float, promised: float) -> None:
        """Damps more; ends where nothing is promised or no damping helps."""
        settings = self.request.settings
        self.damping *= settings.increase
        nothing_left = 0 <= promised < self.request.tolerance * before
        if self.damping > settings.heaviest_damping or nothing_left:
            self.ended = True

    def _relax(self, fall: float, promised: float) -> None:
        """Damps less, the more of its promise a step kept."""
        settings, kept = self.request.settings, 0.0
        if promised > 0:
            kept = fall / promised
        divisor = 1.0
        if kept > settings.well:
            divisor = settings.decrease
        elif kept > settings.fairly:
            divisor = settings.slow_decrease
        self.damping = max(self.damping / divisor, settings.least_damping)

    def _tolerance(self, share_left: float) -> float:
        """The fall, as a fraction of the objective, below which the search ends."""
        limit = self.request.give_up_above
        if limit is not None and share_left > limit:
            return self.request.settings.give_up_fall
        return self.request.tolerance


@dataclass(frozen=True)
class Ended:
    """The end of one text's search.

    Attributes:
        walk: how it went.
        index: of the text in ``problem`` and ``state``.
        problem: of the texts that were still under way.
        state: where they stand.
    """

    walk: Walk
    index: int
    problem: Problem
    state: State


def start_importances(request: FitRequest, centre: Tensor) -> Tensor:
    """Importances (K, p) to begin with, at or near what they shrink to (K, p)."""
    importances, free = centre.clone(), request.heads
    if free > 1:
        _tilt_apart(importances[:free], request)
    if request.start is not None:
        given, sink = request.start.importances, request.start.sink_importances
        importances[: len(given), : given.shape[1]] = given
        if sink is not None:
            importances[: len(given), -1] = sink
    return importances


def _tilt_apart(importances: Tensor, request: FitRequest) -> None:
    """Adds fixed, small and different waves to the importances (K, p) of heads, in place."""
    units = request.counts.shape[1]
    dtype, device = importances.dtype, importances.device
    position = torch.linspace(-1, 1, units + request.sink, dtype=dtype, device=device)
    head = torch.arange(len(importances), device=device)[:, None]
    tilted = request.settings.tilt * torch.cos(head * (position + 2.0))
    importances[:, :units] += tilted[:, :units]
    if request.sink:
        importances[:, -1] += tilted[:, -1]


def search(problem: Problem, state: State, requests: Sequence[FitRequest]) -> Iterator[Ended]:
    """Steps for all texts at once; each text is given out when its search ends."""
    settings = requests[0].settings
    walks = [Walk(index, request, settings.first_damping) for index, request in enumerate(requests)]
    curvature = curvature_of(problem, state)
    while walks:
        damping, largest = _dampings(walks, state), settings.largest_step
        new, promised = step_from(problem, state, curvature, damping, largest)
        better = _judged(walks, problem, state, new, promised)
        if all(better):
            state = new
        elif any(better):
            state = merged(torch.tensor(better, device=state.loss.device), new, state)
        going = [index for index, walk in enumerate(walks) if walk.ended is None]
        for index, walk in enumerate(walks):
            if walk.ended is not None:
                yield Ended(walk, index, problem, state)
        if 0 < len(going) < len(walks):
            texts = torch.tensor(going, device=state.loss.device)
            problem, state = taken(texts, problem), taken(texts, state)
            curvature = taken(texts, curvature)
        walks = [walks[index] for index in going]
        if any(better[index] for index in going):
            curvature = curvature_of(problem, state)


def _dampings(walks: Sequence[Walk], state: State) -> Tensor:
    """The damping of each text's next step, (B,)."""
    dampings = torch.tensor([walk.damping for walk in walks], dtype=state.loss.dtype)
    return dampings.to(state.loss.device)


def _judged(
    walks: Sequence[Walk], problem: Problem, state: State, new: State, promised: Tensor
) -> list[bool]:
    """Whether each text takes its step to the new state."""
    share_left = new.loss / problem.targets.variance.clamp(min=TINY)
    numbers = torch.stack([state.objective, new.objective, promised, share_left], dim=1)
    of_walks = numbers.tolist()  # the one wait for a device
    return [walk.judge(*of_walk) for walk, of_walk in zip(walks, of_walks, strict=True)]


def step_from(
    problem: Problem, state: State, curvature: Curvature, damping: Tensor, largest: float
) -> tuple[State, Tensor]:
    """One step from a state.

    Args:
        problem: what is fitted.
        state: where the step starts.
        curvature: there.
        damping: (B,).
        largest: change of an importance.

    Returns:
        the state after the step, and the fall of the objective that was promised, (B,).
    """
    damped = curvature.schur.clone()
    damped.diagonal(dim1=1, dim2=2).add_(damping[:, None] * curvature.diagonal)
    factor, failed = torch.linalg.cholesky_ex(damped)
    solution = torch.cholesky_solve(curvature.slope[..., None], factor)[..., 0]
    step = solution.clamp(-largest, largest)
    step = torch.where((failed == 0)[:, None], step, torch.nan)
    bent = (curvature.schur @ step[..., None])[..., 0]
    promised = 2 * (curvature.slope * step).sum(dim=1) - (step * bent).sum(dim=1)
    importances = state.importances.clone()
    importances[:, : problem.free_heads] -= step.reshape(len(step), problem.free_heads, -1)
    return project(problem, importances, state.values), promised
