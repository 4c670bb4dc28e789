"""Many least-squares problems solved at once: the steps behind ``fit``.

Each problem is one candidate for the formula of one text (another prior, another bound):

    minimise  sum_r  w_r ( F(x_r) - z_r )²  +  a sum_j ( u_j - u_0 )²  +  b sum_j ( s_j - r_j )²

with outputs z and values u in units of the range, so that F = tanh(U), or F = U without bounds.
Problems are stacked: texts along a first axis, padded to a common size, and the candidates for a
text along a second one. None of them knows of the others, but the candidates for one text share its
perturbed texts, so that each step reads these once for all of them.

The steps are those of Levenberg and Marquardt, and those of Newton near the end, where the second
derivatives of F decide how soon a fit arrives. They cost nothing: they change the factors of the
same products. The values of one output know of those of another only through the importances, so
each step eliminates the values first, output by output. Choices between fits take a fixed number of
steps, so that nothing waits for a device to say how far it is.

``look_back`` says what a fit is worth without further calls: the error on each call, had it not
been used, follows from the fit in closed form.

Shapes: B texts, K candidates for each, m perturbed texts (calls), p elements (units, pairs, the
sink last), C outputs. The calls are the last axis of whatever has one number for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, TypeVar

import torch
from torch import Tensor

from slalom_xai.slalom.settings import FitSettings
from slalom_xai.system.process import work_side_by_side

_CELLS = 4_000_000  # numbers that one product holds at once
_BLOCK = 32  # columns of a product that are computed at once
_LARGE = 50_000_000  # products of two elements, from which on several threads add them up
_FEW = 32  # elements, up to which the products of all of them with each other are kept

Some = TypeVar("Some", bound="Parts")


class Parts:
    """Tensors with the texts along the first axis, and the candidates along the second one."""

    def change(self: Some, change: Callable[[Tensor], Tensor]) -> Some:
        """The same with each tensor changed."""
        parts: dict[str, Any] = {
            field.name: getattr(self, field.name)
            for field in fields(self)  # type: ignore[arg-type]
        }
        changed = {name: change(one) for name, one in parts.items() if isinstance(one, Tensor)}
        return replace(self, **changed)  # type: ignore[type-var]

    def pick(self: Some, texts: Tensor) -> Some:
        """Those of some texts."""
        return self.change(lambda part: part[texts])

    def pick_candidates(self: Some, chosen: Tensor) -> Some:
        """Those of one candidate for each text, (B,)."""
        each = torch.arange(len(chosen), device=chosen.device)
        return self.change(lambda part: part[each, chosen][:, None])

    def repeat(self: Some, candidates: int) -> Some:
        """The only candidate so many times."""
        return self.change(lambda part: part.expand(-1, candidates, *part.shape[2:]))

    def choose(self: Some, chosen: Tensor, other: Some) -> Some:
        """These for the problems that were chosen, (B, K), and the others for the rest."""
        others = _list_tensors(other)
        return self.change(lambda part: choose(chosen, part, next(others)))

    def put(self: Some, texts: Tensor, other: Some) -> Some:
        """These, but the others for some texts."""
        others = _list_tensors(other)
        return self.change(lambda part: part.index_copy(0, texts, next(others)))

    def to(self: Some, device: torch.device) -> Some:
        """The same on another device."""
        return self.change(lambda part: part.to(device))


def _list_tensors(parts: Parts) -> Iterator[Tensor]:
    return (part for part in vars(parts).values() if isinstance(part, Tensor))


def choose(chosen: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """For each problem the new tensor where it was chosen (B, K), else the old one."""
    return torch.where(chosen.reshape(*chosen.shape, *[1] * (new.ndim - chosen.ndim)), new, old)


@dataclass(frozen=True)
class Masks:
    """The perturbed texts, which all candidates share.

    Attributes:
        x: (B, m, p), how often each element is there.
    """

    x: Tensor

    @cached_property
    def products(self) -> Tensor | None:
        """Each element times each other one, (B, m, p (p + 1) / 2), where they are few."""
        p = self.x.shape[2]
        if p > _FEW:
            return None
        found = self.x.new_empty(*self.x.shape[:2], p * (p + 1) // 2)
        start = 0
        for element in range(p):
            here = found[:, :, start : start + p - element]
            torch.mul(self.x[:, :, element:], self.x[:, :, element, None], out=here)
            start += p - element
        return found

    @cached_property
    def places(self) -> Tensor:
        """Where the product of two elements stands among ``products``, (p, p)."""
        p = self.x.shape[2]
        first, second = torch.triu_indices(p, p, device=self.x.device)
        places = torch.empty(p, p, dtype=torch.long, device=self.x.device)
        places[first, second] = places[second, first] = torch.arange(len(first)).to(first.device)
        return places

    @cached_property
    def turned(self) -> Tensor:
        """(B, p, m), how often each element is there."""
        return self.x.transpose(1, 2).contiguous()

    def pick(self, texts: Tensor) -> Masks:
        """Those of some texts."""
        picked = Masks(self.x[texts])
        if "products" in vars(self) and self.products is not None:
            vars(picked)["products"] = self.products[texts]  # sooner copied than computed
        return picked

    def sum_products(self, factors: Tensor) -> Tensor:
        """Sums over the calls of each product of two elements, times factors (B, F, m).

        Returns:
            (B, F, p, p).
        """
        if self.products is not None:
            return (factors @ self.products)[..., self.places]
        (batch, calls, p), kinds = self.x.shape, factors.shape[1]
        sums = self.x.new_empty(batch, kinds, p, p)

        def fill(start: int) -> None:
            block, stop = self.turned[:, None, start : start + _BLOCK], min(p, start + _BLOCK)
            at_once = max(1, _CELLS // (batch * calls * block.shape[2]))
            for begin in range(0, kinds, at_once):
                here = sums[:, begin : begin + at_once]
                weighted = factors[:, begin : begin + at_once, None] * block  # (B, k, block, m)
                some = weighted.flatten(1, 2) @ self.x[:, :, start:]
                some = some.reshape(batch, -1, stop - start, p - start)
                here[:, :, start:stop, start:] = some
                here[:, :, stop:, start:stop] = some[..., stop - start :].transpose(2, 3)

        starts = range(0, p, _BLOCK)  # what is left of a block is what its mirror image holds
        large = self.x.device.type == "cpu" and batch * calls * kinds * p * p > _LARGE
        if large:
            work_side_by_side(fill, starts)
        else:
            for start in starts:
                fill(start)
        return sums


@dataclass(frozen=True)
class Stack(Parts):
    """Stacked problems.

    Attributes:
        masks: the perturbed texts.
        outputs: (B, 1, C, m), in units of the widest range.
        weights: (B, K, C, m), of the calls; 0 for padding.
        real: (B, 1, p), 1 for elements that are not padding.
        rest: (B, 1, p), importances that the prior prefers.
        scale: (B, K), by what outputs are multiplied where the range is narrower.
        bounded: (B, K), whether the formula is.
        settings: of all of them.
    """

    masks: Masks
    outputs: Tensor
    weights: Tensor
    real: Tensor
    rest: Tensor
    scale: Tensor
    bounded: Tensor
    settings: FitSettings

    @property
    def x(self) -> Tensor:
        """(B, m, p), how often each element is there."""
        return self.masks.x

    @cached_property
    def z(self) -> Tensor:
        """(B, K, C, m), the outputs in units of each candidate's range."""
        return self.outputs * self.scale[..., None, None]

    def pick(self, texts: Tensor) -> Stack:
        """The problems of some texts."""
        return replace(super().pick(texts), masks=self.masks.pick(texts))

    def pick_candidates(self, chosen: Tensor) -> Stack:
        """One candidate for each text, (B,)."""
        each = torch.arange(len(chosen), device=chosen.device)
        parts = {
            name: getattr(self, name)[each, chosen][:, None]
            for name in ("weights", "scale", "bounded")
        }
        return replace(self, **parts)

    def repeat(self, candidates: int) -> Stack:
        """The only candidate so many times."""
        return replace(
            self,
            weights=self.weights.expand(-1, candidates, -1, -1),
            scale=self.scale.expand(-1, candidates),
            bounded=self.bounded.expand(-1, candidates),
        )

    def to(self, device: torch.device) -> Stack:
        """The same problems on another device."""
        return replace(super().to(device), masks=Masks(self.x.to(device)))

    def take_calls(self, calls: Tensor, masks: Masks | None = None) -> Stack:
        """The same problems with some of their calls.

        Args:
            calls: (B, k), places among the m, -1 for none.
            masks: the perturbed texts of these calls, where they are known.
        """
        places = calls.clamp(min=0)
        each = torch.arange(len(calls), device=calls.device)[:, None]

        def take(part: Tensor) -> Tensor:
            return part.gather(3, places[:, None, None].expand(-1, *part.shape[1:3], -1))

        return replace(
            self,
            masks=masks or Masks(self.x[each, places]),
            outputs=take(self.outputs),
            weights=take(self.weights) * (calls >= 0)[:, None, None],
        )

    def take_first(self, calls: int | None) -> Stack:
        """The same problems with the first so many of their calls; None: with all."""
        if calls is None or calls >= self.x.shape[1]:
            return self
        outputs, weights = self.outputs[..., :calls], self.weights[..., :calls]
        return replace(self, masks=Masks(self.x[:, :calls]), outputs=outputs, weights=weights)

    @cached_property
    def size(self) -> Tensor:
        """How many elements each text has, (B, 1)."""
        return self.real.sum(dim=2)

    @cached_property
    def calls(self) -> Tensor:
        """How many outputs each problem has been told, (B, K)."""
        return (self.weights > 0).sum(dim=(2, 3))

    @property
    def scarce(self) -> Tensor:
        """Whether these are far fewer than the numbers to find, (B, K)."""
        return self.calls < self.settings.scarce_calls * (self.z.shape[2] + 1) * self.size

    def spread_of_each(self, weights: Tensor) -> Tensor:
        """The weighted sum of squared deviations of each output from its mean, (B, K, C)."""
        mean = (weights * self.z).sum(3, keepdim=True) / weights.sum(3, keepdim=True)
        return (weights * (self.z - mean) ** 2).sum(dim=3).clamp(min=1e-30)

    @cached_property
    def spread(self) -> Tensor:
        """The same of all outputs together, by the weights of the fit, (B, K)."""
        return self.spread_of_each(self.weights).sum(dim=2)

    @cached_property
    def value_prior(self) -> Tensor:
        """The quadratic form of the prior on values, (B, 1, p, p): sum_j (u_j - u_0)²."""
        units = self.real[..., :-1]
        prior = torch.diag_embed(torch.ones_like(self.real))
        prior[..., :-1, -1] = -units
        prior[..., -1, :-1] = -units
        prior[..., -1, -1] = units.sum(dim=2) + 1e-2
        return prior

    @cached_property
    def importance_prior(self) -> Tensor:
        """The diagonal of the prior on importances, (B, 1, p)."""
        prior = torch.ones_like(self.real)
        prior[..., -1] = self.settings.sink_share
        return prior


@dataclass(frozen=True)
class Point(Parts):
    """Where stacked problems stand.

    Attributes:
        u: (B, K, C, p), values.
        s: (B, K, p), importances.
        a: (B, K), the prior on values, times the error's variance.
        b: (B, K), that on importances.
        free: False where importances stay as they are: one score per unit.
    """

    u: Tensor
    s: Tensor
    a: Tensor
    b: Tensor
    free: bool = True


@dataclass(frozen=True)
class Outcome(Parts):
    """What the formula gives for all calls.

    Attributes:
        output: (B, K, C, m).
        slope: (B, K, C, m), of the bound.
        average: (B, K, C, m), before the bound.
        mass: (B, K, 1, m), the weights of all elements that are there.
        weights: (B, K, p), of the elements; the largest is 1.
    """

    output: Tensor
    slope: Tensor
    average: Tensor
    mass: Tensor
    weights: Tensor


def evaluate(stack: Stack, u: Tensor, s: Tensor) -> Outcome:
    """What the formula gives for all calls with values u and importances s."""
    weights = torch.exp(s - s.amax(dim=-1, keepdim=True))
    average, mass = _average(stack, u, weights)
    return _bound(stack, average, mass, weights)


def _average(stack: Stack, u: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Averages before the bound (..., C, m) and masses (..., 1, m), see ``Outcome``.

    Args:
        stack: the problems.
        u: (B, K, ..., C, p), values.
        weights: (B, K, ..., p), of the elements.
    """
    heard = torch.cat([torch.ones_like(u[..., :1, :]), u], dim=-2) * weights[..., None, :]
    sums = heard.flatten(1, -2) @ stack.x.transpose(1, 2)
    sums = sums.reshape(*heard.shape[:-1], -1)
    mass = sums[..., :1, :].clamp(min=1e-300)
    return sums[..., 1:, :] / mass, mass


def _bound(stack: Stack, average: Tensor, mass: Tensor, weights: Tensor) -> Outcome:
    """The outputs that follow from averages."""
    bounded = stack.bounded[..., None, None]
    tanh = torch.tanh(average)
    output = torch.where(bounded, tanh, average)
    slope = torch.where(bounded, 1 - tanh * tanh, 1.0)
    return Outcome(output, slope, average, mass, weights)


@dataclass(frozen=True)
class Gradient:
    """First derivatives without the priors.

    Attributes:
        u: (B, K, C, p).
        s: (B, K, C, p), what each output contributes.
    """

    u: Tensor
    s: Tensor


@dataclass(frozen=True)
class Curvature:
    """Second derivatives without the priors, in blocks.

    Attributes:
        uu: (B, K, C, p, p).
        us: (B, K, C, p, p).
        ss: (B, K, p, p), added up over outputs.
    """

    uu: Tensor
    us: Tensor
    ss: Tensor


def compute_gradient(stack: Stack, u: Tensor, at: Outcome) -> Gradient:
    """First derivatives: by u_j slope a_j, and by s_j slope a_j (u_j - U), times the errors.

    The share a_j of an element in the average is x_j times its weight over the mass.
    """
    error = stack.weights * at.slope / at.mass * (at.output - stack.z)
    pulls = _sum_over_calls(stack, at, torch.cat([error, error * at.average], dim=2))
    by_u, back = torch.split(pulls, u.shape[2], dim=2)
    return Gradient(by_u, u * by_u - back)


def _sum_products(stack: Stack, at: Outcome, factors: Tensor) -> Tensor:
    """Sums over calls of products of elements' weights, times factors (B, K, F, m)."""
    batch, kinds, count, calls = factors.shape
    sums = stack.masks.sum_products(factors.reshape(batch, kinds * count, calls))
    both = at.weights[..., None] * at.weights[..., None, :]
    return both[:, :, None] * sums.reshape(batch, kinds, count, *sums.shape[2:])


def _sum_over_calls(stack: Stack, at: Outcome, factors: Tensor) -> Tensor:
    """Sums over calls of elements' weights, times factors (B, K, F, m): (B, K, F, p)."""
    batch, kinds, count, calls = factors.shape
    sums = factors.reshape(batch, kinds * count, calls) @ stack.x
    return at.weights[:, :, None] * sums.reshape(batch, kinds, count, -1)


def differentiate_by_values(stack: Stack, at: Outcome) -> Tensor:
    """Second derivatives by values alone, (B, K, C, p, p)."""
    steep = at.slope / at.mass
    return _sum_products(stack, at, stack.weights * steep * steep)


def differentiate(
    stack: Stack, u: Tensor, at: Outcome, newton: Tensor | None = None, pull: Gradient | None = None
) -> Curvature:
    """Second derivatives: Gauss and Newton's, or those of F as well where a flag (B, K) is 1.

    Three weighted products of x with itself hold all of it (see ``compute_gradient`` for the first
    derivatives).

    By two values F has the second derivative t a_j a_k, with the slope's own derivative t, by u_j
    and s_k slope a_j (1{j=k} - a_k) more, and by s_j and s_k slope times

        1{j=k} a_j (u_j - U) - a_j a_k (u_j + u_k - 2 U)

    more. Each of them is weighted by its call's error.

    Args:
        stack: the problems.
        u: their values.
        at: what the formula gives there.
        newton: the flag; None: nowhere.
        pull: the first derivatives, which those of F need.
    """
    mean, columns = at.average, u.shape[2]
    share = stack.weights * at.slope / at.mass
    weight = share * at.slope / at.mass  # (B, K, C, m)
    crossed = weight * mean
    squared = crossed * mean
    if newton is not None:
        bent = newton[..., None, None] * share * (at.output - stack.z) / at.mass
        bend = torch.where(stack.bounded[..., None, None], -2 * at.output, 0.0)  # t over the slope
        # Positive, so that values can be eliminated.
        weight = torch.maximum(weight + bent * bend, 0.1 * weight)
        crossed = weight * mean + bent
        squared = (crossed + bent) * mean
    products = _sum_products(stack, at, torch.cat([weight, crossed, squared], dim=2))
    q0, q1, q2 = torch.split(products, columns, dim=2)
    across = u[..., None] * q1
    ss = (u[..., None] * q0 * u[..., None, :] - across - across.transpose(3, 4) + q2).sum(dim=2)
    us = q0 * u[..., None, :] - q1
    if newton is not None and pull is not None:
        us = us + torch.diag_embed(newton[..., None, None] * pull.u)
        ss = ss + torch.diag_embed(newton[..., None] * pull.s.sum(dim=2))
    return Curvature(q0, us, ss)


def compute_cost(stack: Stack, output: Tensor, point: Point) -> Tensor:
    """What is minimised, (B, K)."""
    trial = (part[:, :, None] for part in (output, point.u, point.s))
    return _compute_costs(stack, point, *trial)[:, :, 0]


def _compute_costs(stack: Stack, point: Point, output: Tensor, u: Tensor, s: Tensor) -> Tensor:
    """The same for T trials of each problem, (B, K, T).

    Args:
        stack: the problems.
        point: their priors.
        output: (B, K, T, C, m).
        u: (B, K, T, C, p).
        s: (B, K, T, p).
    """
    errors = output - stack.z[:, :, None]
    squares = (stack.weights[:, :, None] * errors * errors).sum(dim=(3, 4))
    apart = (u[..., :-1] - u[..., -1:]) * stack.real[:, :, None, None, :-1]
    values = (apart * apart).sum(dim=(3, 4)) + 1e-2 * (u[..., -1] ** 2).sum(dim=3)
    moved = s - stack.rest[:, :, None]
    importances = (stack.importance_prior[:, :, None] * moved * moved).sum(dim=3)
    return squares + point.a[..., None] * values + point.b[..., None] * importances


@dataclass(frozen=True)
class _State(Parts):
    """How far descents are, (B, K) each.

    Attributes:
        cost: where they stand.
        damping: of the next step.
        newton: 1 where the next step knows the second derivatives of F.
        tries: steps in a row that gained nothing.
        ended: whether more steps would gain nothing.
    """

    cost: Tensor
    damping: Tensor
    newton: Tensor
    tries: Tensor
    ended: Tensor


@dataclass(frozen=True)
class _Factors(Parts):
    """Cholesky's factors of the damped second derivatives.

    Attributes:
        values: (B, K, C, p, p), by values.
        lifted: (B, K, C, p, p), what values lend to importances; empty where these are not free.
        rest: (B, K, p, p), by importances once the values are eliminated; likewise.
        held: (B, K, C, p), values that stay where they are.
    """

    values: Tensor
    lifted: Tensor
    rest: Tensor
    held: Tensor


def descend(stack: Stack, point: Point, steps: int, settled: float | None = None) -> Point:
    """Damped steps that lower the cost, problem by problem.

    No problem knows of the others: each is solved as it would be alone. In each turn, all of them
    try a step, and a shorter and a longer one in the same direction, which costs little beside the
    derivatives. Where none of them lowers the cost, the next step is damped more, and where the
    shorter one was not the best, less.

    Args:
        stack: the problems.
        point: where they begin.
        steps: at most.
        settled: relative gain below which a problem has ended; texts that have are left out from
            time to time. None: all steps are taken, and nothing waits to see how far they are.
    """
    settings = stack.settings
    at = evaluate(stack, point.u, point.s)
    cost = compute_cost(stack, at.output, point)
    none = torch.zeros_like(cost)
    state = _State(cost, torch.full_like(cost, settings.damping[0]), none, none, none > 0)
    if settled is None:
        for _ in range(steps):
            point, at, state = _step(stack, point, at, state, 0.0)
        return point
    begun, ends_u, ends_s = point, point.u.clone(), point.s.clone()
    texts = torch.arange(len(cost), device=cost.device)
    for taken in range(1, steps + 1):
        point, at, state = _step(stack, point, at, state, settled)
        if taken % settings.checked and taken < steps:
            continue
        ends_u[texts], ends_s[texts] = point.u, point.s
        going_on = (~state.ended).any(dim=1).nonzero()[:, 0]
        if not len(going_on):
            break
        if len(going_on) < settings.most * len(texts):
            stack, point = stack.pick(going_on), point.pick(going_on)
            at, state, texts = at.pick(going_on), state.pick(going_on), texts[going_on]
    return replace(begun, u=ends_u, s=ends_s)


def _step(
    stack: Stack, point: Point, at: Outcome, state: _State, settled: float
) -> tuple[Point, Outcome, _State]:
    """One try of all problems: the best of some points on the way of a step, and beyond it."""
    pull = compute_gradient(stack, point.u, at)
    far = _move(stack, point, _factorise(stack, point, at, state, pull), pull)
    settings = stack.settings
    shares = point.u.new_tensor((1.0, *settings.shares))
    u = torch.lerp(point.u[:, :, None], far.u[:, :, None], shares[:, None, None])
    s = torch.lerp(point.s[:, :, None], far.s[:, :, None], shares[:, None])
    bounded = stack.bounded[..., None, None, None]
    if point.free:
        u = torch.where(bounded, u.clamp(-settings.farthest, settings.farthest), u)
    weights = torch.exp(s - s.amax(dim=3, keepdim=True))
    average, mass = _average(stack, u, weights)
    output = torch.where(bounded, torch.tanh(average), average)
    costs = _compute_costs(stack, point, output, u, s).nan_to_num(nan=torch.inf)
    least, best = costs.min(dim=2)
    gain = state.cost - least
    better = (gain > 0) & ~state.ended
    tried = (u, s, average, mass, weights)
    old = (point.u, point.s, at.average, at.mass, at.weights)
    u, s, average, mass, weights = (
        choose(better, torch.take_along_dim(new, _place(best, new), 2)[:, :, 0], before)
        for new, before in zip(tried, old, strict=True)
    )
    damping = (state.damping / 5).clamp(min=settings.damping[1])
    damping = torch.where(shares[best] < 1, state.damping, damping)
    tries = torch.where(better, 0.0, state.tries + 1)
    state = _State(
        torch.where(better, least, state.cost),
        torch.where(better, damping, state.damping * 10),
        torch.where(better & (gain < settings.curved * state.cost), 1.0, state.newton),
        tries,
        state.ended | (better & (gain < settled * state.cost)) | (tries >= settings.tries),
    )
    return replace(point, u=u, s=s), _bound(stack, average, mass, weights), state


def _place(best: Tensor, trials: Tensor) -> Tensor:
    """The numbers of trials, (B, K), in the shape that picks them."""
    return best.reshape(*best.shape, *[1] * (trials.ndim - 2))


def _factorise(stack: Stack, point: Point, at: Outcome, state: _State, pull: Gradient) -> _Factors:
    """Damped second derivatives with the priors', ready to be solved.

    Values are eliminated first, output by output (the Schur complement). A value that is as far as
    it may go, and would go farther, is held: the others move as if it were given.
    """
    settings, u = stack.settings, point.u
    damping = state.damping[..., None, None]
    prior = (point.a[..., None, None] * stack.value_prior)[:, :, None]
    if not point.free:
        uu = raise_diagonal(differentiate_by_values(stack, at) + prior, damping)
        none = uu[..., :0]
        return _Factors(torch.linalg.cholesky_ex(uu)[0], none, none[:, :, 0], u > torch.inf)
    bent = differentiate(stack, u, at, state.newton, pull)
    uu = bent.uu + prior
    outwards = u * (pull.u + _pull_of_value_prior(stack, point)) < 0
    held = stack.bounded[..., None, None] & (u.abs() >= settings.farthest) & outwards
    alone = torch.diag_embed(uu.diagonal(dim1=3, dim2=4))
    uu = torch.where(held[..., None] | held[..., None, :], alone, uu)
    values = torch.linalg.cholesky_ex(raise_diagonal(uu, damping))[0]
    across = bent.us.masked_fill(held[..., None], 0)
    lifted = torch.linalg.solve_triangular(values, across, upper=False)
    ss = bent.ss + torch.diag_embed(point.b[..., None] * stack.importance_prior)
    reduced = raise_diagonal(ss, state.damping[..., None])
    reduced = reduced - (lifted.transpose(3, 4) @ lifted).sum(dim=2)
    steady = raise_diagonal(reduced, torch.full_like(state.damping, 1e-12)[..., None])
    return _Factors(values, lifted, torch.linalg.cholesky_ex(steady)[0], held)


def _pull_of_value_prior(stack: Stack, point: Point) -> Tensor:
    """First derivatives of the prior on values, (B, K, C, p)."""
    return point.u @ (point.a[..., None, None] * stack.value_prior)


def _move(stack: Stack, point: Point, factors: _Factors, pull: Gradient) -> Point:
    """A damped step of values and importances, shortened where one of them would move too far.

    Where importances are given, one score has to hold the size of an effect as well: its values may
    be as large as p.
    """
    settings, u = stack.settings, point.u
    pull_u = (pull.u + _pull_of_value_prior(stack, point))[..., None]
    if not point.free:
        step = -torch.cholesky_solve(pull_u, factors.values)[..., 0]
        most = (settings.widest * stack.size)[..., None, None]
        step = torch.minimum(torch.maximum(step.nan_to_num(), -most), most)
        return replace(point, u=u + step)
    pull_u = pull_u.masked_fill(factors.held[..., None], 0)
    alone = torch.linalg.solve_triangular(factors.values, pull_u, upper=False)
    prior = point.b[..., None] * stack.importance_prior * (point.s - stack.rest)
    rest = (pull.s - (factors.lifted.transpose(3, 4) @ alone)[..., 0]).sum(dim=2) + prior
    step_s = -torch.cholesky_solve(rest[..., None], factors.rest)
    back = alone + factors.lifted @ step_s[:, :, None]
    step_u = -torch.linalg.solve_triangular(factors.values.transpose(3, 4), back, upper=True)
    step_u, step_s = step_u[..., 0].nan_to_num(), step_s[..., 0].nan_to_num()
    far = (step_u.abs() / (1 + u.abs())).amax(dim=(2, 3))
    longest = torch.maximum(far, step_s.abs().amax(dim=2))
    share = (settings.widest / longest).clamp(max=1)
    moved = u + share[..., None, None] * step_u
    near = moved.clamp(-settings.farthest, settings.farthest)
    return replace(
        point, u=choose(stack.bounded, near, moved), s=point.s + share[..., None] * step_s
    )


def raise_diagonal(matrix: Tensor, damping: Tensor) -> Tensor:
    """A matrix with its diagonal raised by a share of itself."""
    raised = matrix.clone()
    diagonal = raised.diagonal(dim1=-2, dim2=-1)
    size = diagonal.abs()
    diagonal += damping * size + (1e-12 * size.amax(dim=-1, keepdim=True) + 1e-30)
    return raised


@dataclass(frozen=True)
class Posterior:
    """How well the calls determine the numbers of a fit.

    Attributes:
        inverse: (B, K, C, k, k), of the curvature of each output's values, and of the importances
            where these are free: k is p or 2p.
        variance: (B, K), of the error of a call of weight 1.
        spent_s: (B, K), importances that the calls determine.
    """

    inverse: Tensor
    variance: Tensor
    spent_s: Tensor


def find_posterior(stack: Stack, point: Point, at: Outcome) -> Posterior:
    """What the calls determine, output by output.

    What the values of one output lend to those of another through the importances is left aside.
    """
    columns, p = point.u.shape[2:]
    prior_u = (point.a[..., None, None] * stack.value_prior)[:, :, None]
    if point.free:
        bent = differentiate(stack, point.u, at)
        prior_s = torch.diag_embed(point.b[..., None] * stack.importance_prior)[:, :, None]
        ss = bent.ss[:, :, None].expand(-1, -1, columns, -1, -1) + prior_s
        upper = torch.cat([bent.uu + prior_u, bent.us], dim=4)
        lower = torch.cat([bent.us.transpose(3, 4), ss], dim=4)
        whole = torch.cat([upper, lower], dim=3)
    else:
        whole = differentiate_by_values(stack, at) + prior_u
    steady = raise_diagonal(whole, torch.full_like(whole[..., 0], 1e-10))
    inverse = torch.cholesky_inverse(torch.linalg.cholesky_ex(steady)[0])
    real = stack.real[:, :, None, :, None]
    held = (inverse[..., :p, :p] * prior_u * real).sum(dim=(2, 3, 4))
    spent_u = (columns * stack.size - held).clamp(min=0)
    spent_s = torch.zeros_like(spent_u)
    if point.free:
        held_s = (inverse[..., p:, p:] * prior_s * real).sum(dim=(3, 4)).mean(dim=2)
        spent_s = (stack.size - held_s).clamp(min=0)
    calls = stack.calls
    squares = (stack.weights * (at.output - stack.z) ** 2).sum(dim=(2, 3))
    variance = squares / (calls - spent_u - spent_s).clamp(min=1)
    unknown = (1 - calls / (columns * stack.size)).clamp(min=0)
    variance = torch.maximum(variance, stack.settings.scarce * unknown * stack.spread / calls)
    return Posterior(inverse, variance, spent_s)


@dataclass(frozen=True)
class Left(Parts):
    """What a fit leaves, and how much each call decided of its own prediction.

    Attributes:
        left_out: (B, K, C, m), errors (output less truth) had each call not been used.
        whole: (B, K, C), the error on the first call, the whole text, as fitted.
        variance: (B, K), of the error of a call of weight 1.
        inverse: (B, K, C, k, k), see ``Posterior``.
        slopes: (B, K, C, m, k), derivatives of the outputs by the same numbers.
    """

    left_out: Tensor
    whole: Tensor
    variance: Tensor
    inverse: Tensor
    slopes: Tensor


def look_back(stack: Stack, point: Point, most: int | None = None) -> Left:
    """Leave-one-out errors in closed form.

    Args:
        stack: the problems.
        point: their fits.
        most: errors of so many calls are enough, the first ones; None: of all.
    """
    settings, scarce = stack.settings, stack.scarce
    at = evaluate(stack, point.u, point.s)
    found = find_posterior(stack, point, at)
    stack = stack.take_first(most)
    output, slope, average, mass = (
        one[..., :most] for one in (at.output, at.slope, at.average, at.mass)
    )
    at = Outcome(output, slope, average, mass, at.weights)
    shares = stack.x[:, None, None] * at.weights[:, :, None, None]
    slopes = (at.slope / at.mass)[..., None] * shares  # (B, K, C, m, p)
    if point.free:
        apart = point.u[..., None, :] - at.average[..., None]
        slopes = torch.cat([slopes, slopes * apart], dim=4)
    leverage = (slopes @ found.inverse).mul_(slopes).sum(dim=4) * stack.weights
    least = torch.where(scarce, settings.scarce_least, settings.least).to(leverage)
    errors = at.output - stack.z
    left_out = errors / torch.maximum(1 - leverage, least[..., None, None])
    return Left(left_out, errors[..., 0], found.variance, found.inverse, slopes)


def settle(stack: Stack, point: Point, strength: Tensor, steps: int, rounds: int = 1) -> Point:
    """Fits with a prior on importances that follows from the fit itself.

    Args:
        stack: the problems.
        point: where they begin.
        strength: (B, K), of the prior on values, as a share of the outputs' variance.
        steps: before the prior on importances is found, and after it.
        rounds: how often it is found.
    """
    point = replace(point, a=strength * stack.spread / stack.size)
    for _ in range(rounds if point.free else 0):
        point = find_prior(stack, descend(stack, point, steps))
    return descend(stack, point, steps)


def find_prior(stack: Stack, point: Point) -> Point:
    """The same point with the prior on importances that makes it likeliest (MacKay's update)."""
    settings, unit = stack.settings, stack.spread / stack.size
    found = find_posterior(stack, point, evaluate(stack, point.u, point.s))
    spread = (stack.importance_prior * (point.s - stack.rest) ** 2).sum(dim=2)
    tight = found.spent_s.clamp(min=0.5) / spread.clamp(min=1e-6)
    exact = found.variance * stack.calls < settings.exact * stack.spread
    widest = torch.where(exact, settings.exact_spread, settings.spread)
    free = found.variance * torch.maximum(tight, widest**-2)
    return replace(point, b=torch.minimum(free.clamp(min=1e-6 * unit), 1e2 * unit))


def settle_exact(stack: Stack, point: Point, strength: Tensor) -> Point:
    """Goes on with formulas that are nearly exact, because how exact they are shows late."""
    settings = stack.settings
    left = evaluate(stack, point.u, point.s).output - stack.z
    squares = (stack.weights * left**2).sum(dim=(2, 3))
    texts = (squares < settings.nearly_exact * stack.spread).any(dim=1).nonzero()[:, 0]
    if len(texts):
        some = (stack.pick(texts), point.pick(texts), strength[texts])
        point = point.put(texts, settle(*some, *settings.exact_steps))
    return point


def finish(stack: Stack, point: Point, strength: Tensor) -> Point:
    """The fits that are reported: as ``settle``, but until nothing is gained any more.

    So the prior on importances does not depend on the way to where it is found.
    """
    settings = stack.settings
    point = replace(point, a=strength * stack.spread / stack.size)
    if point.free:
        point = settle_exact(stack, point, strength)
        point = find_prior(stack, descend(stack, point, settings.last_steps, settings.settled))
    return descend(stack, point, settings.last_steps, settings.settled)
