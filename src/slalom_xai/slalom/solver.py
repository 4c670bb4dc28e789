"""Many least-squares problems solved at once: the steps behind ``fit``.

Each problem is one text, or one candidate for it (another prior, another set of pairs):

    minimise  sum_r  w_r ( F(x_r) - z_r )²  +  a sum_j ( u_j - u_0 )²  +  b sum_j ( s_j - r_j )²

with outputs z and values u in units of the range, so that F = tanh(U), or F = U without bounds. The
problems are stacked along a first axis and padded to a common size; none of them knows of the
others. The steps are those of Levenberg and Marquardt. The values of one output know of those of
another only through the importances, so each step eliminates the values first, output by output.

``look_back`` says what a fit is worth without further calls: the error on each call, had it not
been used, follows from the fit in closed form.

Shapes: B problems, m perturbed texts, p elements (units, pairs, the sink last), C outputs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

_CELLS = 4_000_000  # numbers that one product of shares holds at once


@dataclass(frozen=True)
class SolverSettings:
    """Numbers that need no attention.

    Attributes:
        sink_share: the prior on the sink's importance, as a share of that on the units'.
        spread: standard deviation of importances at most, where the calls leave a doubt.
        exact_spread: the same where the formula is nearly exact.
        exact: share of the outputs' variance that it leaves there, at most.
        settled: relative gain below which a fit has ended.
        near: the same where fits are compared of which one may be exact.
        about: the same where fits are only compared.
        widest: step of an importance at most, and of a value, as a share of its spread.
        tries: damped steps that are tried before a problem has ended.
        least: share of its own prediction that a call leaves to the others at least: a few calls
            that decide alone do not decide all choices.
        scarce_least: the same where there are far fewer calls than numbers to find. All of them
            decide nearly alone then, and a larger share would make a formula look good that passes
            through all calls.
        scarce_calls: calls for each number to find, below which they are far fewer.
        scarce: share of the outputs' variance that is taken for noise where there are far fewer
            calls than numbers to find: such a formula passes through all of them and tells nothing
            of its error.
        held: importances that stay as they are have a prior so much stronger than the calls. A far
            larger one would lend its rounding to the values.
    """

    sink_share: float = 0.1
    spread: float = 0.7
    exact_spread: float = 1.0
    exact: float = 1e-2
    settled: float = 1e-9
    near: float = 1e-4
    about: float = 1e-4
    widest: float = 1.0
    tries: int = 6
    least: float = 0.05
    scarce_least: float = 1e-4
    scarce_calls: float = 0.75
    scarce: float = 0.3
    held: float = 1e3


SOLVER = SolverSettings()


@dataclass(frozen=True)
class Stack:
    """Stacked problems.

    Attributes:
        x: (B, m, p), how often each element is there.
        z: (B, m, C), outputs in units of the range.
        weights: (B, m), of the calls; 0 for padding.
        real: (B, p), 1 for elements that are not padding.
        rest: (B, p), importances that the prior prefers.
        bounded: (B,), whether the formula is.
    """

    x: Tensor
    z: Tensor
    weights: Tensor
    real: Tensor
    rest: Tensor
    bounded: Tensor

    def pick(self, index: Tensor) -> Stack:
        """Some of the problems, or some of them several times."""
        return Stack(*(part[index] for part in vars(self).values()))

    def take_calls(self, calls: Tensor) -> Stack:
        """The same problems with some of their calls, (B, k): places among the m, -1 for none."""
        each = torch.arange(len(calls), device=calls.device)[:, None]
        places = calls.clamp(min=0)
        return replace(
            self,
            x=self.x[each, places],
            z=self.z[each, places],
            weights=self.weights[each, places] * (calls >= 0),
        )

    @property
    def size(self) -> Tensor:
        """How many elements each problem has, (B,)."""
        return self.real.sum(dim=1)

    @property
    def calls(self) -> Tensor:
        """How many outputs each problem has been told, (B,)."""
        return (self.weights > 0).sum(dim=1) * self.z.shape[2]

    @property
    def scarce(self) -> Tensor:
        """Whether these are far fewer than the numbers to find, (B,)."""
        return self.calls < SOLVER.scarce_calls * (self.z.shape[2] + 1) * self.size

    def spread(self, weights: Tensor | None = None) -> Tensor:
        """The weighted sum of squared deviations of the outputs from their mean, (B,)."""
        weights = (self.weights if weights is None else weights)[..., None]
        mean = (weights * self.z).sum(1, keepdim=True) / weights.sum(1, keepdim=True)
        return (weights * (self.z - mean) ** 2).sum(dim=(1, 2)).clamp(min=1e-30)

    @property
    def value_prior(self) -> Tensor:
        """The quadratic form of the prior on values, (B, p, p): sum_j (u_j - u_0)²."""
        units = self.real[:, :-1]
        prior = torch.diag_embed(torch.ones_like(self.real))
        prior[:, :-1, -1] = -units
        prior[:, -1, :-1] = -units
        prior[:, -1, -1] = units.sum(dim=1) + 1e-2
        return prior

    @property
    def importance_prior(self) -> Tensor:
        """The diagonal of the prior on importances, (B, p)."""
        prior = torch.ones_like(self.real)
        prior[:, -1] = SOLVER.sink_share
        return prior


@dataclass(frozen=True)
class Point:
    """Where stacked problems stand.

    Attributes:
        u: (B, p, C), values.
        s: (B, p), importances.
        a: (B,), the prior on values, times the error's variance.
        b: (B,), that on importances; infinite where they stay as they are.
    """

    u: Tensor
    s: Tensor
    a: Tensor
    b: Tensor

    def pick(self, index: Tensor) -> Point:
        """Where some of the problems stand."""
        return Point(*(part[index] for part in vars(self).values()))


@dataclass(frozen=True)
class Outcome:
    """What the formula gives for all calls.

    Attributes:
        output: (B, m, C).
        slope: (B, m, C), of the bound.
        average: (B, m, C), before the bound.
        shares: (B, m, p), of the elements in the average.
    """

    output: Tensor
    slope: Tensor
    average: Tensor
    shares: Tensor


def evaluate(stack: Stack, u: Tensor, s: Tensor) -> Outcome:
    """What the formula gives for all calls with values u and importances s."""
    weights = stack.x * torch.exp(s - s.amax(dim=1, keepdim=True))[:, None]
    shares = weights / weights.sum(dim=2, keepdim=True).clamp(min=1e-300)
    average = shares @ u
    bounded = stack.bounded[:, None, None]
    tanh = torch.tanh(average)
    output = torch.where(bounded, tanh, average)
    slope = torch.where(bounded, 1 - tanh**2, torch.ones_like(tanh))
    return Outcome(output, slope, average, shares)


@dataclass(frozen=True)
class Curvature:
    """Second derivatives without the priors, in blocks, and first ones.

    Attributes:
        uu: (B, C, p, p).
        us: (B, C, p, p).
        ss: (B, p, p), added up over outputs.
        grad_u: (B, C, p).
        grad_s: (B, p).
    """

    uu: Tensor
    us: Tensor
    ss: Tensor
    grad_u: Tensor
    grad_s: Tensor


def differentiate(stack: Stack, u: Tensor, at: Outcome) -> Curvature:
    """Gauss and Newton's approximation.

    The derivative of F by u_j is slope a_j, and by s_j slope a_j (u_j - U), with the shares a.
    Three weighted products of the shares with themselves hold all of it. In double precision: in
    single, a fit makes much of how the model's batches round.
    """
    shares, mean = at.shares, at.average
    turned = shares.transpose(1, 2)
    weight = stack.weights[..., None] * at.slope**2  # (B, m, C)
    factors = torch.cat([weight, weight * mean, weight * mean**2], dim=2)  # (B, m, 3C)
    q0, q1, q2 = multiply_shares(shares, factors).chunk(3, dim=1)  # (B, C, p, p) each
    pull = stack.weights[..., None] * at.slope * (at.output - stack.z)
    e0, e1 = (turned @ torch.cat([pull, pull * mean], dim=2)).transpose(1, 2).chunk(2, dim=1)
    own = u.transpose(1, 2)  # (B, C, p)
    crossed = own[..., None] * q1
    ss = own[..., None] * q0 * own[..., None, :] - crossed - crossed.transpose(2, 3) + q2
    us = q0 * own[..., None, :] - q1
    return Curvature(q0, us, ss.sum(dim=1), e0, (own * e0 - e1).sum(dim=1))


def multiply_shares(shares: Tensor, factors: Tensor) -> Tensor:
    """The products of shares (B, m, p) with themselves, weighted by factors (B, m, K).

    Returns:
        (B, K, p, p).
    """
    batch, calls, p = shares.shape
    turned = shares.transpose(1, 2)
    at_once = max(1, _CELLS // (batch * calls * p))
    parts = []
    for some in torch.split(factors, at_once, dim=2):
        weighted = shares[:, :, None, :] * some[..., None]  # (B, m, k, p)
        product = turned @ weighted.reshape(batch, calls, -1)
        parts.append(product.reshape(batch, p, some.shape[2], p).transpose(1, 2))
    return torch.cat(parts, dim=1)


def compute_cost(stack: Stack, output: Tensor, point: Point) -> Tensor:
    """What is minimised, (B,)."""
    squares = (stack.weights[..., None] * (output - stack.z) ** 2).sum(dim=(1, 2))
    apart = (point.u[:, :-1] - point.u[:, -1:]) * stack.real[:, :-1, None]
    values = (apart**2).sum(dim=(1, 2)) + 1e-2 * (point.u[:, -1] ** 2).sum(dim=1)
    importances = (stack.importance_prior * (point.s - stack.rest) ** 2).sum(dim=1)
    free = torch.isfinite(point.b)
    return squares + point.a * values + torch.where(free, point.b, 0) * importances


def descend(
    stack: Stack,
    point: Point,
    steps: int,
    settled: float = SOLVER.settled,
    damping: Tensor | None = None,
) -> Point:
    """Levenberg and Marquardt: damped steps that lower the cost, problem by problem.

    No problem knows of the others: each is solved as it would be alone.

    Args:
        stack: the problems.
        point: where they begin.
        steps: at most.
        settled: relative gain below which a problem has ended.
        damping: (B,), to begin with.
    """
    prior_u, prior_s = stack.value_prior, stack.importance_prior
    a, b = point.a[:, None, None, None], point.b[:, None]
    at = evaluate(stack, point.u, point.s)
    cost = compute_cost(stack, at.output, point)
    if damping is None:
        damping = torch.full_like(cost, 1e-3)
    # One score has to hold the size of an effect as well: its values may be as large as p.
    reach = SOLVER.widest * torch.where(torch.isfinite(point.b), 1, stack.size)
    live = torch.ones_like(cost, dtype=torch.bool)
    for taken in range(steps):
        if int(live.sum()) < 0.7 * len(live):  # go on with those that have not settled
            left = steps - taken
            rest = descend(stack.pick(live), point.pick(live), left, settled, damping[live])
            u, s = point.u.clone(), point.s.clone()
            u[live], s[live] = rest.u, rest.s
            return replace(point, u=u, s=s)
        bent = differentiate(stack, point.u, at)
        uu = bent.uu + a * prior_u[:, None]
        pull_u = bent.grad_u + a[..., 0] * torch.einsum("bpq,bqc->bcp", prior_u, point.u)
        fixed = ~torch.isfinite(b)
        strong = torch.where(fixed, 1e12 * (1 + bent.ss.abs().amax(dim=(1, 2))[:, None]), b)
        ss = bent.ss + torch.diag_embed(strong * prior_s)
        pull_s = bent.grad_s + torch.where(fixed, 0, b) * prior_s * (point.s - stack.rest)
        waiting = live.clone()
        for _ in range(SOLVER.tries):
            step_u, step_s = solve_step(uu, bent.us, ss, pull_u, pull_s, damping, reach)
            trial = replace(point, u=point.u + step_u, s=point.s + step_s)
            there = evaluate(stack, trial.u, trial.s)
            reached = compute_cost(stack, there.output, trial)
            better = waiting & torch.isfinite(reached) & (reached < cost)
            if bool(better.any()):
                live = live & ~(better & (cost - reached < settled * cost))
                point = replace(
                    point, u=choose(better, trial.u, point.u), s=choose(better, trial.s, point.s)
                )
                cost = choose(better, reached, cost)
                at = Outcome(
                    *(
                        choose(better, *pair)
                        for pair in zip(vars(there).values(), vars(at).values(), strict=True)
                    )
                )
                damping = choose(better, (damping / 5).clamp(min=1e-9), damping)
                waiting = waiting & ~better
            if not bool(waiting.any()):
                break
            damping = choose(waiting, damping * 10, damping)
        live = live & ~waiting
        if not bool(live.any()):
            break
    return point


def solve_step(
    uu: Tensor,
    us: Tensor,
    ss: Tensor,
    pull_u: Tensor,
    pull_s: Tensor,
    damping: Tensor,
    reach: Tensor,
) -> tuple[Tensor, Tensor]:
    """One damped step: values are eliminated first, output by output (the Schur complement)."""
    factor = torch.linalg.cholesky_ex(raise_diagonal(uu, damping[:, None, None]))[0]
    solved = torch.cholesky_solve(torch.cat([us, pull_u[..., None]], dim=3), factor)
    shift = us.transpose(2, 3) @ solved
    reduced = raise_diagonal(ss, damping[:, None]) - shift[..., :-1].sum(dim=1)
    rest = pull_s - shift[..., -1].sum(dim=1)
    steady = raise_diagonal(reduced, torch.full_like(damping[:, None], 1e-12))
    factor = torch.linalg.cholesky_ex(steady)[0]
    step_s = -torch.cholesky_solve(rest[..., None], factor)[..., 0]
    step_u = -(solved[..., -1] + (solved[..., :-1] @ step_s[:, None, :, None])[..., 0])
    step_u, step_s = step_u.nan_to_num(), step_s.nan_to_num()
    most = reach[:, None, None]
    step_u = torch.minimum(torch.maximum(step_u, -most), most)
    return step_u.transpose(1, 2), step_s.clamp(-SOLVER.widest, SOLVER.widest)


def raise_diagonal(matrix: Tensor, damping: Tensor) -> Tensor:
    """A matrix with its diagonal raised by a share of itself."""
    diagonal = matrix.diagonal(dim1=-2, dim2=-1)
    least = 1e-12 * diagonal.amax(dim=-1, keepdim=True) + 1e-30
    return matrix + torch.diag_embed(damping * diagonal + least)


def choose(chosen: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """For each problem the new tensor where it was chosen (B,), else the old one."""
    return torch.where(chosen.reshape(-1, *[1] * (new.ndim - 1)), new, old)


@dataclass(frozen=True)
class Left:
    """What a fit leaves, and how much each call decided of its own prediction.

    Attributes:
        left_out: (B, m, C), errors (output less truth) had each call not been used.
        variance: (B,), of the error of a call of weight 1.
        spent_s: (B,), importances that the calls determine.
        inverse: (B, C, 2p, 2p), of the curvature of each output's values and the importances.
        slopes: (B, C, m, 2p), derivatives of the outputs by these.
    """

    left_out: Tensor
    variance: Tensor
    spent_s: Tensor
    inverse: Tensor
    slopes: Tensor

    def pick(self, index: Tensor) -> Left:
        """What the fits of some problems leave."""
        return Left(*(part[index] for part in vars(self).values()))


def look_back(stack: Stack, point: Point) -> Left:
    """Leave-one-out errors, and how many parameters were spent, in closed form.

    Output by output: what the values of one output lend to those of another through the importances
    is left aside.
    """
    p, columns = point.s.shape[1], point.u.shape[2]
    at = evaluate(stack, point.u, point.s)
    bent = differentiate(stack, point.u, at)
    prior_u = (point.a[:, None, None] * stack.value_prior)[:, None]
    strong = SOLVER.held * (1 + bent.ss.abs().amax(dim=(1, 2)))
    held_by = torch.where(torch.isfinite(point.b), point.b, strong)
    prior_s = torch.diag_embed(held_by[:, None] * stack.importance_prior)[:, None]
    ss = bent.ss[:, None].expand(-1, columns, -1, -1) + prior_s
    upper = torch.cat([bent.uu + prior_u, bent.us], dim=3)
    lower = torch.cat([bent.us.transpose(2, 3), ss], dim=3)
    whole = torch.cat([upper, lower], dim=2)
    inverse = torch.linalg.inv(raise_diagonal(whole, torch.full_like(whole[..., 0], 1e-10)))
    by_value = at.slope.transpose(1, 2)[..., None] * at.shares[:, None]  # (B, C, m, p)
    apart = point.u.transpose(1, 2)[:, :, None, :] - at.average.transpose(1, 2)[..., None]
    slopes = torch.cat([by_value, by_value * apart], dim=3)
    leverage = ((slopes @ inverse) * slopes).sum(dim=3) * stack.weights[:, None]
    left = at.output - stack.z
    calls = stack.calls
    least = torch.where(stack.scarce, SOLVER.scarce_least, SOLVER.least).to(leverage)[:, None, None]
    left_out = left / torch.maximum(1 - leverage.transpose(1, 2), least)
    real = stack.real[:, None, :, None]
    held = (inverse[:, :, :p, :p] * prior_u * real).sum(dim=(1, 2, 3))
    spent_u = (columns * stack.size - held).clamp(min=0)
    held_s = (inverse[:, :, p:, p:] * prior_s * real).sum(dim=(2, 3)).mean(dim=1)
    spent_s = (stack.size - held_s).clamp(min=0)
    squares = (stack.weights[..., None] * left**2).sum(dim=(1, 2))
    variance = squares / (calls - spent_u - spent_s).clamp(min=1)
    unknown = (1 - calls / (columns * stack.size)).clamp(min=0)
    variance = torch.maximum(variance, SOLVER.scarce * unknown * stack.spread() / calls)
    return Left(left_out, variance, spent_s, inverse, slopes)


def settle(
    stack: Stack, point: Point, strength: Tensor, rounds: int, steps: int, settled: float
) -> Point:
    """Fits with a prior on importances that follows from the fit itself (MacKay's updates).

    Args:
        stack: the problems.
        point: where they begin.
        strength: (B,), of the prior on values, as a share of the outputs' variance.
        rounds: updates of the prior on importances.
        steps: before each of them, and after the last.
        settled: relative gain below which a problem has ended.
    """
    unit = stack.spread() / stack.size
    point = replace(point, a=strength * unit)
    for _ in range(rounds):
        point = descend(stack, point, steps, settled)
        left = look_back(stack, point)
        spread = (stack.importance_prior * (point.s - stack.rest) ** 2).sum(dim=1)
        tight = left.spent_s.clamp(min=0.5) / spread.clamp(min=1e-6)
        exact = left.variance * stack.calls < SOLVER.exact * stack.spread()
        widest = torch.where(exact, SOLVER.exact_spread, SOLVER.spread)
        free = left.variance * torch.maximum(tight, widest**-2)
        free = torch.minimum(free.clamp(min=1e-6 * unit), 1e2 * unit)
        point = replace(point, b=torch.where(torch.isfinite(point.b), free, point.b))
    return descend(stack, point, steps, settled)
