"""Many least-squares problems solved at once: the steps behind ``fit``.

Each problem is one text, or one candidate for it (another prior, another set of pairs):

    minimise  sum_r  w_r ( F(x_r) - z_r )²  +  a sum_j ( u_j - u_0 )²  +  b sum_j ( s_j - r_j )²

with outputs z and values u in units of the range, so that F = tanh(U), or F = U without bounds. The
problems are stacked along a first axis and padded to a common size; none of them knows of the
others. The steps are those of Levenberg and Marquardt, and those of Newton near the end, where the
second derivatives of F decide how soon a fit arrives. They cost nothing: they change the factors of
the same products. The values of one output know of those of another only through the importances,
so each step eliminates the values first, output by output.

``look_back`` says what a fit is worth without further calls: the error on each call, had it not
been used, follows from the fit in closed form.

Shapes: B problems, m perturbed texts, p elements (units, pairs, the sink last), C outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property

import torch
from torch import Tensor

from slalom_xai.slalom.settings import FitSettings

_CELLS = 4_000_000  # numbers that one product of shares holds at once
_BLOCK = 48  # columns of a product that are computed at once


@dataclass(frozen=True)
class Stack:
    """Stacked problems.

    Attributes:
        x: (B, m, p), how often each element is there.
        z: (B, m, C), outputs in units of the range.
        weights: (B, m, C), of the calls; 0 for padding.
        real: (B, p), 1 for elements that are not padding.
        rest: (B, p), importances that the prior prefers.
        bounded: (B,), whether the formula is.
        settings: of all of them.
    """

    x: Tensor
    z: Tensor
    weights: Tensor
    real: Tensor
    rest: Tensor
    bounded: Tensor
    settings: FitSettings

    def pick(self, index: Tensor) -> Stack:
        """Some of the problems, or some of them several times."""
        return self._change(lambda part: part[index])

    def to(self, device: torch.device) -> Stack:
        """The same problems on another device."""
        return self._change(lambda part: part.to(device))

    def _change(self, change: Callable[[Tensor], Tensor]) -> Stack:
        parts = {field.name: getattr(self, field.name) for field in fields(self)}
        settings = parts.pop("settings")
        return Stack(**{name: change(part) for name, part in parts.items()}, settings=settings)

    def take_calls(self, calls: Tensor) -> Stack:
        """The same problems with some of their calls, (B, k): places among the m, -1 for none."""
        each = torch.arange(len(calls), device=calls.device)[:, None]
        places = calls.clamp(min=0)
        return replace(
            self,
            x=self.x[each, places],
            z=self.z[each, places],
            weights=self.weights[each, places] * (calls >= 0)[..., None],
        )

    @cached_property
    def size(self) -> Tensor:
        """How many elements each problem has, (B,)."""
        return self.real.sum(dim=1)

    @property
    def calls(self) -> Tensor:
        """How many outputs each problem has been told, (B,)."""
        return (self.weights > 0).sum(dim=(1, 2))

    @property
    def scarce(self) -> Tensor:
        """Whether these are far fewer than the numbers to find, (B,)."""
        return self.calls < self.settings.scarce_calls * (self.z.shape[2] + 1) * self.size

    def spread_of_each(self, weights: Tensor) -> Tensor:
        """The weighted sum of squared deviations of each output from its mean, (B, C)."""
        mean = (weights * self.z).sum(1, keepdim=True) / weights.sum(1, keepdim=True)
        return (weights * (self.z - mean) ** 2).sum(dim=1).clamp(min=1e-30)

    def spread(self) -> Tensor:
        """The same of all outputs together, by the weights of the fit, (B,)."""
        return self.spread_of_each(self.weights).sum(dim=1)

    @cached_property
    def value_prior(self) -> Tensor:
        """The quadratic form of the prior on values, (B, p, p): sum_j (u_j - u_0)²."""
        units = self.real[:, :-1]
        prior = torch.diag_embed(torch.ones_like(self.real))
        prior[:, :-1, -1] = -units
        prior[:, -1, :-1] = -units
        prior[:, -1, -1] = units.sum(dim=1) + 1e-2
        return prior

    @cached_property
    def importance_prior(self) -> Tensor:
        """The diagonal of the prior on importances, (B, p)."""
        prior = torch.ones_like(self.real)
        prior[:, -1] = self.settings.sink_share
        return prior


@dataclass(frozen=True)
class Point:
    """Where stacked problems stand.

    Attributes:
        u: (B, p, C), values.
        s: (B, p), importances.
        a: (B,), the prior on values, times the error's variance.
        b: (B,), that on importances.
        free: False where importances stay as they are: one score per unit.
    """

    u: Tensor
    s: Tensor
    a: Tensor
    b: Tensor
    free: bool = True

    def pick(self, index: Tensor) -> Point:
        """Where some of the problems stand."""
        return Point(self.u[index], self.s[index], self.a[index], self.b[index], self.free)

    def to(self, device: torch.device) -> Point:
        """The same on another device."""
        u, s, a, b = (part.to(device) for part in (self.u, self.s, self.a, self.b))
        return Point(u, s, a, b, self.free)

    def choose(self, chosen: Tensor, other: Point) -> Point:
        """These for the problems that were chosen, (B,), and the others for the rest."""
        return Point(
            choose(chosen, self.u, other.u),
            choose(chosen, self.s, other.s),
            choose(chosen, self.a, other.a),
            choose(chosen, self.b, other.b),
            self.free,
        )


@dataclass(frozen=True)
class Outcome:
    """What the formula gives for all calls.

    Attributes:
        output: (B, m, C).
        slope: (B, m, C), of the bound.
        average: (B, m, C), before the bound.
        mass: (B, m, 1), the weights of all elements that are there.
        weights: (B, p), of the elements; the largest is 1.
    """

    output: Tensor
    slope: Tensor
    average: Tensor
    mass: Tensor
    weights: Tensor

    def pick(self, index: Tensor) -> Outcome:
        """What it gives for some of the problems."""
        return Outcome(*(part[index] for part in vars(self).values()))

    def choose(self, chosen: Tensor, other: Outcome) -> Outcome:
        """This for the problems that were chosen, (B,), and the other for the rest."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Outcome(*(choose(chosen, *pair) for pair in pairs))


def evaluate(stack: Stack, u: Tensor, s: Tensor) -> Outcome:
    """What the formula gives for all calls with values u and importances s."""
    weights = torch.exp(s - s.amax(dim=1, keepdim=True))
    sums = stack.x @ (weights[..., None] * torch.cat([torch.ones_like(u[..., :1]), u], dim=2))
    mass = sums[..., :1].clamp(min=1e-300)
    average = sums[..., 1:] / mass
    bounded = stack.bounded[:, None, None]
    tanh = torch.tanh(average)
    output = torch.where(bounded, tanh, average)
    slope = torch.where(bounded, 1 - tanh**2, torch.ones_like(tanh))
    return Outcome(output, slope, average, mass, weights)


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


def differentiate_by_values(stack: Stack, at: Outcome) -> tuple[Tensor, Tensor]:
    """Second derivatives by values alone, (B, C, p, p), and first ones, (B, C, p)."""
    heard = at.weights[:, None]
    weight = stack.weights * (at.slope / at.mass) ** 2
    uu = (heard * heard.transpose(1, 2))[:, None] * weigh_products(stack.x, weight)
    pull = stack.weights * at.slope / at.mass * (at.output - stack.z)
    return uu, heard * (pull.transpose(1, 2) @ stack.x)


def differentiate(stack: Stack, u: Tensor, at: Outcome) -> Curvature:
    """Gauss and Newton's approximation.

    The derivative of F by u_j is slope a_j, and by s_j slope a_j (u_j - U), with the elements'
    shares a in the average: x_j times their weight over the mass. Three weighted products of x with
    itself hold all of it. In double precision: in single, products round differently in a list, and
    choices between fits make much of it.
    """
    weight = stack.weights * (at.slope / at.mass) ** 2  # (B, m, C)
    factors = torch.cat([weight, weight * at.average, weight * at.average**2], dim=2)
    return _put_together(stack, u, at, weigh_products(stack.x, factors))


def differentiate_for_step(stack: Stack, u: Tensor, at: Outcome, newton: Tensor) -> Curvature:
    """The same for a step: with the second derivatives of F where the step is Newton's, (B,).

    By two values F has the second derivative t a_j a_k, with the slope's own derivative t, by u_j
    and s_k slope a_j (1{j=k} - a_k) more, and by s_j and s_k slope times

        1{j=k} a_j (u_j - U) - a_j a_k (u_j + u_k - 2 U)

    more. Each of them is weighted by its call's error.
    """
    mean = at.average
    gauss = stack.weights * (at.slope / at.mass) ** 2  # (B, m, C)
    error = newton[:, None, None] * stack.weights * (at.output - stack.z) / at.mass**2 * at.slope
    bend = torch.where(stack.bounded[:, None, None], -2 * at.output, 0.0)  # t over the slope
    weight = torch.maximum(
        gauss + error * bend, 0.1 * gauss
    )  # positive, so that values can be eliminated
    factors = [weight, weight * mean + error, weight * mean**2 + 2 * error * mean]
    found = _put_together(stack, u, at, weigh_products(stack.x, torch.cat(factors, dim=2)))
    us = found.us + torch.diag_embed(newton[:, None, None] * found.grad_u)
    ss = found.ss + torch.diag_embed(newton[:, None] * found.grad_s)
    return replace(found, us=us, ss=ss)


def _put_together(stack: Stack, u: Tensor, at: Outcome, products: Tensor) -> Curvature:
    """Derivatives from products (B, 3C, p, p): weighted, also by the average, and by its square."""
    heard = at.weights[:, None]  # (B, 1, p)
    both = (heard * heard.transpose(1, 2))[:, None]
    q0, q1, q2 = (both * products).chunk(3, dim=1)  # (B, C, p, p) each
    pull = stack.weights * at.slope / at.mass * (at.output - stack.z)
    pulls = torch.cat([pull, pull * at.average], dim=2).transpose(1, 2)
    e0, e1 = (heard * (pulls @ stack.x)).chunk(2, dim=1)
    own = u.transpose(1, 2)  # (B, C, p)
    crossed = own[..., None] * q1
    ss = own[..., None] * q0 * own[..., None, :] - crossed - crossed.transpose(2, 3) + q2
    us = q0 * own[..., None, :] - q1
    return Curvature(q0, us, ss.sum(dim=1), e0, (own * e0 - e1).sum(dim=1))


def weigh_products(x: Tensor, factors: Tensor) -> Tensor:
    """The products of x (B, m, p) with itself, calls weighted by factors (B, m, K).

    Returns:
        (B, K, p, p).
    """
    (batch, calls, p), kinds = x.shape, factors.shape[2]
    turned = x.transpose(1, 2)
    products = x.new_empty(batch, kinds, p, p)
    for start in range(0, p, _BLOCK):  # what is left of a block is what its mirror image holds
        block = x[:, :, None, start : start + _BLOCK]
        at_once = max(1, _CELLS // (batch * calls * block.shape[3]))
        for first in range(0, kinds, at_once):
            weighted = block * factors[..., first : first + at_once, None]  # (B, m, k, block)
            some = turned[:, start:] @ weighted.reshape(batch, calls, -1)
            some = some.reshape(batch, p - start, *weighted.shape[2:]).transpose(1, 2)
            here = products[:, first : first + at_once]
            stop = start + block.shape[3]
            here[:, :, start:, start:stop] = some
            here[:, :, start:stop, stop:] = some[:, :, block.shape[3] :].transpose(2, 3)
    return products


def compute_cost(stack: Stack, output: Tensor, point: Point) -> Tensor:
    """What is minimised, (B,)."""
    squares = (stack.weights * (output - stack.z) ** 2).sum(dim=(1, 2))
    apart = (point.u[:, :-1] - point.u[:, -1:]) * stack.real[:, :-1, None]
    values = (apart**2).sum(dim=(1, 2)) + 1e-2 * (point.u[:, -1] ** 2).sum(dim=1)
    importances = (stack.importance_prior * (point.s - stack.rest) ** 2).sum(dim=1)
    return squares + point.a * values + point.b * importances


def descend(stack: Stack, point: Point, steps: int, settled: float) -> Point:
    """Damped steps that lower the cost, problem by problem.

    No problem knows of the others: each is solved as it would be alone. In each turn, all of them
    try a step. Where it lowers the cost, the curvature is found anew, and the next step is damped
    less if this one was the first try; elsewhere the next try is damped more. Those that have ended
    are left out as soon as they are many.

    Args:
        stack: the problems.
        point: where they begin.
        steps: at most.
        settled: relative gain below which a problem has ended.
    """
    settings = stack.settings
    bend, move = (_bend_both, _move_both) if point.free else (_bend_values, _move_values)
    begun, ends_u, ends_s = point, point.u.clone(), point.s.clone()
    numbers = torch.arange(len(ends_u), device=ends_u.device)
    at = evaluate(stack, point.u, point.s)
    cost = compute_cost(stack, at.output, point)
    damping, newton = torch.full_like(cost, settings.damping[0]), torch.zeros_like(cost)
    bent = bend(stack, point, at, newton)
    taken, tries = torch.ones_like(numbers), torch.zeros_like(numbers)
    live = torch.ones_like(cost, dtype=torch.bool)
    while True:
        trial = move(stack, point, bent, damping)
        there = evaluate(stack, trial.u, trial.s)
        reached = compute_cost(stack, there.output, trial)
        better = live & torch.isfinite(reached) & (reached < cost)
        newton[better & (cost - reached < settings.curved * cost)] = 1
        eased = torch.where(tries == 0, (damping / 5).clamp(min=settings.damping[1]), damping)
        damping = torch.where(better, eased, damping * 10)
        tries = torch.where(better, 0, tries + 1)
        ended = (better & (cost - reached < settled * cost)) | (tries == settings.tries)
        ended |= better & (taken == steps)
        point, at = trial.choose(better, point), there.choose(better, at)
        cost = torch.where(better, reached, cost)
        live = live & ~ended
        going_on = int(live.sum())
        if going_on < settings.most * len(live):
            ends_u[numbers], ends_s[numbers] = point.u, point.s
            if not going_on:
                return replace(begun, u=ends_u, s=ends_s)
            stack, point, at = stack.pick(live), point.pick(live), at.pick(live)
            bent = tuple(part[live] for part in bent)
            numbers, cost, damping, newton = (
                part[live] for part in (numbers, cost, damping, newton)
            )
            taken, tries, better = taken[live], tries[live], better[live]
            live = live[live]
        moved = (better & live).nonzero()[:, 0]
        taken[moved] += 1
        if len(moved) > settings.most * len(live):
            bent = bend(stack, point, at, newton)
        elif len(moved):
            news = bend(stack.pick(moved), point.pick(moved), at.pick(moved), newton[moved])
            for old, new in zip(bent, news, strict=True):
                old[moved] = new


Bent = tuple[Tensor, ...]  # what a damped step follows from


def _bend_values(stack: Stack, point: Point, at: Outcome, _newton: Tensor) -> Bent:
    """Second derivatives by values alone, and first ones."""
    return _add_value_prior(stack, point, *differentiate_by_values(stack, at))


def _move_values(stack: Stack, point: Point, bent: Bent, damping: Tensor) -> Point:
    """A damped step of values alone.

    One score has to hold the size of an effect as well: its values may be as large as p.
    """
    uu, pull = bent
    factor = torch.linalg.cholesky_ex(raise_diagonal(uu, damping[:, None, None]))[0]
    step_u = -torch.cholesky_solve(pull[..., None], factor)[..., 0]
    most = (stack.settings.widest * stack.size)[:, None, None]
    step_u = torch.minimum(torch.maximum(step_u.nan_to_num(), -most), most)
    return replace(point, u=point.u + step_u.transpose(1, 2))


def _bend_both(stack: Stack, point: Point, at: Outcome, newton: Tensor) -> Bent:
    """Second derivatives by values, by both and by importances, and first ones.

    A value that is as far as it may go, and would go farther, is held: the others move as if it
    were given.
    """
    bent = differentiate_for_step(stack, point.u, at, newton)
    b, prior_s = point.b[:, None], stack.importance_prior
    uu, pull_u = _add_value_prior(stack, point, bent.uu, bent.grad_u)
    ss = bent.ss + torch.diag_embed(b * prior_s)
    pull_s = bent.grad_s + b * prior_s * (point.s - stack.rest)
    u = point.u.transpose(1, 2)
    held = stack.bounded[:, None, None] & (u.abs() >= stack.settings.farthest) & (u * pull_u < 0)
    alone = torch.diag_embed(uu.diagonal(dim1=2, dim2=3))
    uu = torch.where(held[..., None] | held[..., None, :], alone, uu)
    right = torch.cat([bent.us, pull_u[..., None]], dim=3)
    return uu, right.masked_fill(held[..., None], 0), ss, pull_s


def _move_both(stack: Stack, point: Point, bent: Bent, damping: Tensor) -> Point:
    """A damped step of values and importances, shortened where one of them would move too far.

    Values are eliminated first, output by output (the Schur complement).
    """
    settings = stack.settings
    uu, right, ss, pull_s = bent
    factor = torch.linalg.cholesky_ex(raise_diagonal(uu, damping[:, None, None]))[0]
    solved = torch.cholesky_solve(right, factor)
    shift = right[..., :-1].transpose(2, 3) @ solved
    reduced = raise_diagonal(ss, damping[:, None]) - shift[..., :-1].sum(dim=1)
    rest = pull_s - shift[..., -1].sum(dim=1)
    steady = raise_diagonal(reduced, torch.full_like(damping[:, None], 1e-12))
    factor = torch.linalg.cholesky_ex(steady)[0]
    step_s = -torch.cholesky_solve(rest[..., None], factor)[..., 0]
    step_u = -(solved[..., -1] + (solved[..., :-1] @ step_s[:, None, :, None])[..., 0])
    step_u, step_s = step_u.transpose(1, 2).nan_to_num(), step_s.nan_to_num()
    far = (step_u.abs() / (1 + point.u.abs())).amax(dim=(1, 2))
    longest = torch.maximum(far, step_s.abs().amax(dim=1))
    share = (settings.widest / longest).clamp(max=1)
    u = point.u + share[:, None, None] * step_u
    near = u.clamp(-settings.farthest, settings.farthest)
    return replace(point, u=choose(stack.bounded, near, u), s=point.s + share[:, None] * step_s)


def _add_value_prior(
    stack: Stack, point: Point, uu: Tensor, grad_u: Tensor
) -> tuple[Tensor, Tensor]:
    """Second derivatives by values, (B, C, p, p), and first ones, (B, C, p), with the prior's."""
    prior = point.a[:, None, None] * stack.value_prior
    return uu + prior[:, None], grad_u + (prior @ point.u).transpose(1, 2)


def raise_diagonal(matrix: Tensor, damping: Tensor) -> Tensor:
    """A matrix with its diagonal raised by a share of itself."""
    raised = matrix.clone()
    diagonal = raised.diagonal(dim1=-2, dim2=-1)
    size = diagonal.abs()
    diagonal += damping * size + (1e-12 * size.amax(dim=-1, keepdim=True) + 1e-30)
    return raised


def choose(chosen: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """For each problem the new tensor where it was chosen (B,), else the old one."""
    return torch.where(chosen.reshape(-1, *[1] * (new.ndim - 1)), new, old)


@dataclass(frozen=True)
class Posterior:
    """How well the calls determine the numbers of a fit.

    Attributes:
        inverse: (B, C, k, k), of the curvature of each output's values, and of the importances
            where these are free: k is p or 2p.
        variance: (B,), of the error of a call of weight 1.
        spent_s: (B,), importances that the calls determine.
    """

    inverse: Tensor
    variance: Tensor
    spent_s: Tensor


def find_posterior(stack: Stack, point: Point, at: Outcome) -> Posterior:
    """What the calls determine, output by output.

    What the values of one output lend to those of another through the importances is left aside.
    """
    p, columns = point.s.shape[1], point.u.shape[2]
    prior_u = (point.a[:, None, None] * stack.value_prior)[:, None]
    if point.free:
        bent = differentiate(stack, point.u, at)
        prior_s = torch.diag_embed(point.b[:, None] * stack.importance_prior)[:, None]
        ss = bent.ss[:, None].expand(-1, columns, -1, -1) + prior_s
        upper = torch.cat([bent.uu + prior_u, bent.us], dim=3)
        lower = torch.cat([bent.us.transpose(2, 3), ss], dim=3)
        whole = torch.cat([upper, lower], dim=2)
    else:
        whole = differentiate_by_values(stack, at)[0] + prior_u
    steady = raise_diagonal(whole, torch.full_like(whole[..., 0], 1e-10))
    inverse = torch.cholesky_inverse(torch.linalg.cholesky_ex(steady)[0])
    real = stack.real[:, None, :, None]
    held = (inverse[:, :, :p, :p] * prior_u * real).sum(dim=(1, 2, 3))
    spent_u = (columns * stack.size - held).clamp(min=0)
    spent_s = torch.zeros_like(spent_u)
    if point.free:
        held_s = (inverse[:, :, p:, p:] * prior_s * real).sum(dim=(2, 3)).mean(dim=1)
        spent_s = (stack.size - held_s).clamp(min=0)
    calls = stack.calls
    squares = (stack.weights * (at.output - stack.z) ** 2).sum(dim=(1, 2))
    variance = squares / (calls - spent_u - spent_s).clamp(min=1)
    unknown = (1 - calls / (columns * stack.size)).clamp(min=0)
    variance = torch.maximum(variance, stack.settings.scarce * unknown * stack.spread() / calls)
    return Posterior(inverse, variance, spent_s)


@dataclass(frozen=True)
class Left:
    """What a fit leaves, and how much each call decided of its own prediction.

    Attributes:
        left_out: (B, m, C), errors (output less truth) had each call not been used.
        whole: (B, C), the error on the first call, the whole text, as fitted.
        variance: (B,), of the error of a call of weight 1.
        inverse: (B, C, k, k), see ``Posterior``.
        slopes: (B, C, m, k), derivatives of the outputs by the same numbers.
    """

    left_out: Tensor
    whole: Tensor
    variance: Tensor
    inverse: Tensor
    slopes: Tensor

    def pick(self, index: Tensor) -> Left:
        """What the fits of some problems leave."""
        return Left(*(part[index] for part in vars(self).values()))

    def to(self, device: torch.device) -> Left:
        """The same on another device."""
        return Left(*(part.to(device) for part in vars(self).values()))


def look_back(stack: Stack, point: Point) -> Left:
    """Leave-one-out errors in closed form."""
    settings = stack.settings
    at = evaluate(stack, point.u, point.s)
    found = find_posterior(stack, point, at)
    shares = stack.x * at.weights[:, None] / at.mass
    slopes = at.slope.transpose(1, 2)[..., None] * shares[:, None]  # (B, C, m, p)
    if point.free:
        apart = point.u.transpose(1, 2)[:, :, None, :] - at.average.transpose(1, 2)[..., None]
        slopes = torch.cat([slopes, slopes * apart], dim=3)
    leverage = (slopes @ found.inverse).mul_(slopes).sum(dim=3) * stack.weights.transpose(1, 2)
    least = torch.where(stack.scarce, settings.scarce_least, settings.least).to(leverage)[
        :, None, None
    ]
    errors = at.output - stack.z
    left_out = errors / torch.maximum(1 - leverage.transpose(1, 2), least)
    return Left(left_out, errors[:, 0], found.variance, found.inverse, slopes)


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
    settings = stack.settings
    unit = stack.spread() / stack.size
    point = replace(point, a=strength * unit)
    for _ in range(rounds):
        point = descend(stack, point, steps, settled)
        found = find_posterior(stack, point, evaluate(stack, point.u, point.s))
        spread = (stack.importance_prior * (point.s - stack.rest) ** 2).sum(dim=1)
        tight = found.spent_s.clamp(min=0.5) / spread.clamp(min=1e-6)
        exact = found.variance * stack.calls < settings.exact * stack.spread()
        widest = torch.where(exact, settings.exact_spread, settings.spread)
        free = found.variance * torch.maximum(tight, widest**-2)
        point = replace(point, b=torch.minimum(free.clamp(min=1e-6 * unit), 1e2 * unit))
    return descend(stack, point, steps, settled)
