"""How values and importances follow from the model's outputs.

One weighted least-squares problem per text, with two priors:

    minimise  sum_r  w_r ( F(x_r) - y_r )²  +  a sum_j ( u_j - u_0 )²  +  b sum_j s_j²

in units of the range: u = (v - c) / A. The weights w are one over the squared error that a text
with so many units missing can be expected to have: otherwise the large changes of nearly empty
texts drown the small ones that readers care about. The prior on values keeps them near the
sink's, inside the range; that on importances keeps them equal. Between "all importances equal",
which is one score per unit, and two free scores there is no switch but the number b, and it is
chosen by the marginal likelihood (MacKay's updates). Of several numbers a the largest is taken that
predicts about as well as the best: held-out error alone would push values to the ends of the range,
and a value would say no more than a sign. "Predicts" means left-out calls: the error on each call,
had it not been used, follows from the fit in closed form (leave-one-out).

The same measure decides whether the bound describes this model, and whether a few neighbouring
words are heard together (pairs).

Everything is done for many problems at once, texts and their candidates alike: they are stacked
along a first axis B and padded to a common size. The steps are those of Levenberg and Marquardt.
The values of one output know of those of another only through the importances, so each step
eliminates the values first, output by output.

Shapes: B problems, m perturbed texts, p elements (units, pairs, the sink last), C outputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from slalom_xai.slalom.formula import BoundedSlalom, list_elements


@dataclass(frozen=True)
class FitSettings:
    """Numbers that need no attention.

    Attributes:
        strengths: of the prior on values, as shares of the outputs' variance, strongest first.
        first_strength: the same where fits are compared that differ in something else.
        alone: the same where a unit has one score, times the number of units.
        value_cost: share of the outputs' variance that the strongest prior on values may cost.
        relative_cost: the same as a share of what the best leaves: a formula that predicts exactly
            is not given up for one that nearly does.
        pair_gain: relative error that pairs must take away.
        pair_share: share of the outputs' variance that they must add to what is predicted.
        unbounded_gain: relative error that doing without the bound must take away.
        few: units missing; up to so many are few.
        least_few: calls with few units missing, below which they are not judged by themselves.
        sink_share: the prior on the sink's importance, as a share of that on the units'.
        margin: the range is so much wider than the outputs that were seen.
        first_power: of the number of missing units, by which the first fit weighs calls down.
        first_prior: both priors of the first fit, as a share of the outputs' variance.
        rounds: updates of the prior on importances.
        round_steps: steps between two of them.
        last_steps: steps at most of a final fit.
        settled: relative gain below which a fit has ended.
        mildness: power of the weights in a second fit, which left-out calls may prefer: steep
            weights can hide from the fit of a saturated text what matters most.
        whole_weight: weight of the whole text, as a multiple of a text with one unit missing. An
            error there is in every change.
        steepest: ratio of the largest weight to the smallest, at most.
        groups: of calls, left out in turn for standard errors.
        linear: change of a value or an importance up to which scores are nearly linear in it.
        widest: step of an importance at most, and of a value, as a share of its spread.
    """

    strengths: tuple[float, ...] = (0.1, 0.03, 0.01, 0.003, 0.0005, 1e-6)
    first_strength: float = 0.0003
    alone: tuple[float, ...] = (0.03, 0.001)
    value_cost: float = 0.015
    relative_cost: float = 0.5
    pair_gain: float = 0.03
    pair_share: float = 0.005
    unbounded_gain: float = 0.2
    few: int = 10
    least_few: int = 10
    sink_share: float = 0.1
    margin: float = 1.03
    first_power: float = 1.0
    first_prior: float = 1e-2
    rounds: int = 4
    round_steps: int = 5
    last_steps: int = 30
    settled: float = 1e-5
    mildness: float = 0.25
    whole_weight: float = 10.0
    steepest: float = 1e4
    groups: int = 20
    linear: float = 0.1
    widest: float = 1.0


FIT = FitSettings()


@dataclass(frozen=True)
class FitRequest:
    """One text to fit.

    Attributes:
        counts: (m, n), perturbed texts, the whole text first; 1 keeps a unit.
        outputs: (m, C), the model's.
        log_occurrences: (n,), the log of how often each unit stands in the text: its importance
            before anything is known of it.
        low: (C,), the lowest output that the model is known to give.
        high: (C,), the highest.
        bounded: False where the model is known to have no bounds.
        most_pairs: pairs of neighbouring units to add at most.
    """

    counts: Tensor
    outputs: Tensor
    log_occurrences: Tensor
    low: Tensor
    high: Tensor
    bounded: bool = True
    most_pairs: int = 5


@dataclass(frozen=True)
class FittedForm:
    """A formula, and how sure it is.

    Attributes:
        form: the formula, its Shapley values not yet filled in.
        jackknife: for each column, formulas of that column on the way to what it would be without
            each of G groups of calls.
        way: (C, G), how far on the way: a share. The whole way may lead out of where a formula is
            nearly linear in its numbers.
        free: the same fitted with the prior on values that left-out calls like best.
        left_out: (m, C), the formula's prediction for each call, had it not been used.
        one_score: the best formula with all importances equal, for comparison.
        one_score_left_out: (m, C), likewise.
        groups: (m,), the group of each call.
        left_out_r2: the share of the outputs' variance that is predicted of left-out calls.
        loss: their log error, few and any number of missing units alike.
    """

    form: BoundedSlalom
    jackknife: tuple[tuple[BoundedSlalom, ...], ...]
    way: Tensor
    free: BoundedSlalom
    left_out: Tensor
    one_score: BoundedSlalom
    one_score_left_out: Tensor
    groups: Tensor
    left_out_r2: float
    loss: float


@dataclass(frozen=True)
class _Stack:
    """Stacked problems.

    Attributes:
        x: (B, m, p), how often each element is there.
        z: (B, m, C), outputs in units of the range.
        weights: (B, m), of the fit; 0 for padding.
        steep: (B, m), the steep ones, where the fit may have mild ones.
        real: (B, p), 1 for elements that are not padding.
        rest: (B, p), importances that the prior prefers.
        bounded: (B,), whether the formula is.
    """

    x: Tensor
    z: Tensor
    weights: Tensor
    steep: Tensor
    real: Tensor
    rest: Tensor
    bounded: Tensor

    def pick(self, index: Tensor) -> _Stack:
        return _Stack(*(part[index] for part in vars(self).values()))

    @property
    def variance(self) -> Tensor:
        """The weighted sum of squared deviations of the outputs from their mean, (B,)."""
        return self.spread(self.weights)

    def spread(self, weights: Tensor) -> Tensor:
        """The same with any weights (B, m)."""
        weights = weights[..., None]
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
        prior[:, -1] = FIT.sink_share
        return prior


@dataclass(frozen=True)
class _Point:
    """Where stacked problems stand.

    Attributes:
        u: (B, p, C).
        s: (B, p).
        a: (B,), the prior on values, times the error's variance.
        b: (B,), that on importances.
        reach: (B,), the spread of values that is to be expected.
    """

    u: Tensor
    s: Tensor
    a: Tensor
    b: Tensor
    reach: Tensor

    def pick(self, index: Tensor) -> _Point:
        return _Point(*(part[index] for part in vars(self).values()))


def _evaluate(stack: _Stack, u: Tensor, s: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Outputs (B, m, C), their slopes, the averages and the shares of elements (B, m, p)."""
    weights = stack.x * torch.exp(s - s.amax(dim=1, keepdim=True))[:, None]
    shares = weights / weights.sum(dim=2, keepdim=True).clamp(min=1e-300)
    average = shares @ u
    bounded = stack.bounded[:, None, None]
    tanh = torch.tanh(average)
    output = torch.where(bounded, tanh, average)
    slope = torch.where(bounded, 1 - tanh**2, torch.ones_like(tanh))
    return output, slope, average, shares


@dataclass(frozen=True)
class _Curvature:
    """Second derivatives without the priors, in blocks, and first ones; see the module's shapes.

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


def _differentiate(
    stack: _Stack, u: Tensor, left: Tensor, slope: Tensor, average: Tensor, shares: Tensor
) -> _Curvature:
    """Gauss and Newton's approximation.

    The derivative of F by u_j is slope a_j, and by s_j slope a_j (u_j - U), with the shares a.
    Three weighted products of the shares with themselves hold all of it.
    """
    uu, us, grad_u = [], [], []
    ss = torch.zeros_like(shares[:, :1, :]).transpose(1, 2) * shares[:, :1, :]
    grad_s = torch.zeros_like(u[..., 0])
    turned = shares.transpose(1, 2)
    for column in range(u.shape[2]):
        own, mean = u[..., column], average[..., column]
        weight = stack.weights * slope[..., column] ** 2
        # In double precision: in single, a fit makes much of how the model's batches round.
        q0, q1, q2 = (
            turned @ (shares * factor[..., None])
            for factor in (weight, weight * mean, weight * mean**2)
        )
        pull = stack.weights * slope[..., column] * left[..., column]
        e0 = (turned @ pull[..., None])[..., 0]
        e1 = (turned @ (pull * mean)[..., None])[..., 0]
        uu.append(q0)
        us.append(q0 * own[:, None, :] - q1)
        grad_u.append(e0)
        crossed = own[:, :, None] * q1
        ss = ss + own[:, :, None] * q0 * own[:, None, :] - crossed - crossed.transpose(1, 2) + q2
        grad_s = grad_s + own * e0 - e1
    return _Curvature(torch.stack(uu, 1), torch.stack(us, 1), ss, torch.stack(grad_u, 1), grad_s)


def _cost(stack: _Stack, left: Tensor, point: _Point) -> Tensor:
    squares = (stack.weights[..., None] * left**2).sum(dim=(1, 2))
    values = torch.einsum("bpc,bpq,bqc->b", point.u, stack.value_prior, point.u)
    importances = (stack.importance_prior * (point.s - stack.rest) ** 2).sum(dim=1)
    return squares + point.a * values + point.b * importances


def _descend(stack: _Stack, point: _Point, steps: int, damping: Tensor | None = None) -> _Point:
    """Levenberg and Marquardt: damped steps that lower the cost, problem by problem.

    No problem knows of the others: each is solved as it would be alone.
    """
    prior_u, prior_s = stack.value_prior, stack.importance_prior
    a, b = point.a[:, None, None, None], point.b[:, None]
    output, slope, average, shares = _evaluate(stack, point.u, point.s)
    left = output - stack.z
    cost = _cost(stack, left, point)
    if damping is None:
        damping = torch.full_like(cost, 1e-3)
    live = torch.ones_like(cost, dtype=torch.bool)
    for taken in range(steps):
        if int(live.sum()) < 0.7 * len(live):  # go on with those that have not settled
            rest = _descend(stack.pick(live), point.pick(live), steps - taken, damping[live])
            u, s = point.u.clone(), point.s.clone()
            u[live], s[live] = rest.u, rest.s
            return replace(point, u=u, s=s)
        bent = _differentiate(stack, point.u, left, slope, average, shares)
        uu = bent.uu + a * prior_u[:, None]
        ss = bent.ss + torch.diag_embed(b * prior_s)
        pull_u = bent.grad_u + a[..., 0] * torch.einsum("bpq,bqc->bcp", prior_u, point.u)
        pull_s = bent.grad_s + b * prior_s * (point.s - stack.rest)
        waiting = live.clone()
        for _ in range(6):
            step_u, step_s = _solve(uu, bent.us, ss, pull_u, pull_s, damping, point.reach)
            trial = replace(point, u=point.u + step_u, s=point.s + step_s)
            tried = _evaluate(stack, trial.u, trial.s)
            missed = tried[0] - stack.z
            reached = _cost(stack, missed, trial)
            better = waiting & torch.isfinite(reached) & (reached < cost)
            if bool(better.any()):
                live = live & ~(better & (cost - reached < FIT.settled * cost))
                point = replace(
                    point, u=_where(better, trial.u, point.u), s=_where(better, trial.s, point.s)
                )
                left, cost = _where(better, missed, left), _where(better, reached, cost)
                slope, average = _where(better, tried[1], slope), _where(better, tried[2], average)
                shares = _where(better, tried[3], shares)
                damping = _where(better, (damping / 5).clamp(min=1e-9), damping)
                waiting = waiting & ~better
            if not bool(waiting.any()):
                break
            damping = _where(waiting, damping * 10, damping)
        live = live & ~waiting
        if not bool(live.any()):
            break
    return point


def _solve(
    uu: Tensor,
    us: Tensor,
    ss: Tensor,
    pull_u: Tensor,
    pull_s: Tensor,
    damping: Tensor,
    reach: Tensor,
) -> tuple[Tensor, Tensor]:
    """One damped step: values are eliminated first, output by output (the Schur complement)."""
    factor = torch.linalg.cholesky_ex(_damped(uu, damping[:, None, None]))[0]
    solved = torch.cholesky_solve(torch.cat([us, pull_u[..., None]], dim=3), factor)
    reduced = _damped(ss, damping[:, None]) - (us.transpose(2, 3) @ solved[..., :-1]).sum(dim=1)
    rest = pull_s - (us.transpose(2, 3) @ solved[..., -1:]).sum(dim=1)[..., 0]
    step_s = -torch.cholesky_solve(
        rest[..., None], torch.linalg.cholesky_ex(_damped(reduced, 1e-12 + 0 * damping[:, None]))[0]
    )[..., 0]
    step_u = -(solved[..., -1] + (solved[..., :-1] @ step_s[:, None, :, None])[..., 0])
    step_u, step_s = step_u.nan_to_num(), step_s.nan_to_num()
    most = (FIT.widest * reach.clamp(min=1))[:, None, None]
    step_u = torch.minimum(torch.maximum(step_u, -most), most)
    return step_u.transpose(1, 2), step_s.clamp(-FIT.widest, FIT.widest)


def _damped(matrix: Tensor, damping: Tensor) -> Tensor:
    """A matrix with its diagonal raised by a share of itself."""
    diagonal = matrix.diagonal(dim1=-2, dim2=-1)
    least = 1e-12 * diagonal.amax(dim=-1, keepdim=True) + 1e-30
    return matrix + torch.diag_embed(damping * diagonal + least)


def _where(chosen: Tensor, new: Tensor, old: Tensor) -> Tensor:
    return torch.where(chosen.reshape(-1, *[1] * (new.ndim - 1)), new, old)


@dataclass(frozen=True)
class _Left:
    """What a fit leaves, and how much each call decided of its own prediction.

    Attributes:
        output: (B, m, C).
        left_out: (B, m, C), errors (output less truth) had each call not been used.
        variance: (B,), of the error of a call of weight 1.
        spent: (B,), parameters that the calls determine, values; then importances.
        spent_s: (B,).
        inverse: (B, C, 2p, 2p), of the curvature of each output's values and the importances.
        slopes: (B, C, m, 2p), derivatives of the outputs by these.
    """

    output: Tensor
    left_out: Tensor
    variance: Tensor
    spent: Tensor
    spent_s: Tensor
    inverse: Tensor
    slopes: Tensor

    def pick(self, index: Tensor) -> _Left:
        return _Left(*(part[index] for part in vars(self).values()))


def _look_back(stack: _Stack, point: _Point) -> _Left:
    """Leave-one-out errors, and how many parameters were spent, in closed form.

    Output by output: what the values of one output lend to those of another through the importances
    is left aside.
    """
    p = point.s.shape[1]
    output, slope, average, shares = _evaluate(stack, point.u, point.s)
    left = output - stack.z
    bent = _differentiate(stack, point.u, left, slope, average, shares)
    prior_u = (point.a[:, None, None] * stack.value_prior)[:, None]
    prior_s = torch.diag_embed(point.b[:, None] * stack.importance_prior)[:, None]
    columns = point.u.shape[2]
    ss = bent.ss[:, None].expand(-1, columns, -1, -1) + prior_s
    upper = torch.cat([bent.uu + prior_u, bent.us], dim=3)
    lower = torch.cat([bent.us.transpose(2, 3), ss], dim=3)
    whole = torch.cat([upper, lower], dim=2)
    inverse = torch.linalg.inv(_damped(whole, torch.full_like(whole[..., 0], 1e-10)))
    by_value = slope.permute(0, 2, 1)[..., None] * shares[:, None]  # (B, C, m, p)
    apart = point.u.permute(0, 2, 1)[:, :, None, :] - average.permute(0, 2, 1)[..., None]
    slopes = torch.cat([by_value, by_value * apart], dim=3)
    leverage = ((slopes @ inverse) * slopes).sum(dim=3) * stack.weights[:, None]
    left_out = left / (1 - leverage.permute(0, 2, 1)).clamp(min=0.05)
    real, size = stack.real[:, None, :, None], stack.real.sum(dim=1)
    held = (inverse[:, :, :p, :p] * prior_u * real).sum(dim=(1, 2, 3))
    spent_u = (columns * size - held).clamp(min=0)
    held_s = (inverse[:, :, p:, p:] * prior_s * real).sum(dim=(2, 3)).mean(dim=1)
    spent_s = (size - held_s).clamp(min=0)
    rows = (stack.weights > 0).sum(dim=1) * columns
    squares = (stack.weights[..., None] * left**2).sum(dim=(1, 2))
    variance = squares / (rows - spent_u - spent_s).clamp(min=1)
    return _Left(output, left_out, variance, spent_u + spent_s, spent_s, inverse, slopes)


def _judge(stack: _Stack, left: _Left) -> Tensor:
    """What choices between fits minimise, (B,): the log errors of left-out calls.

    It is the mean of two, where few units are missing and where any number is. Logarithms keep the
    larger of the two from drowning the other.
    """
    squares = (left.left_out**2).sum(dim=2)
    errors = [(squares * part).sum(dim=1) / part.sum(dim=1).clamp(min=1) for part in _parts(stack)]
    return torch.stack(errors).clamp(min=1e-14).log().mean(dim=0)


def _parts(stack: _Stack) -> tuple[Tensor, Tensor]:
    """Which calls lack few units, and which lack any number, (B, m) each."""
    missing = stack.x[..., -1]
    real = (stack.weights > 0) & (missing > 0)
    few = real & (missing <= FIT.few)
    return torch.where(few.sum(dim=1, keepdim=True) < FIT.least_few, real, few), real


def _predicted_shares(stack: _Stack, left: _Left) -> Tensor:
    """The share of the outputs' variance that is predicted of left-out calls, (2, B).

    First where few units are missing, then where any number is.
    """
    shares = []
    for part in _parts(stack):
        weights = part.to(stack.weights)
        squares = (weights[..., None] * left.left_out**2).sum(dim=(1, 2))
        shares.append(1 - squares / stack.spread(weights))
    return torch.stack(shares)


def _settle(stack: _Stack, point: _Point, strength: Tensor, equal: Tensor) -> tuple[_Point, _Left]:
    """Fits with a prior on importances that follows from the fit itself.

    Args:
        stack: the problems.
        point: where they begin.
        strength: (B,), of the prior on values, as a share of the outputs' variance.
        equal: (B,), where importances stay equal.
    """
    unit = stack.variance / stack.real.sum(dim=1)
    # A score alone has to hold the size of an effect as well, which is an n-th of its value.
    reach = torch.where(equal, stack.real.sum(dim=1), torch.ones_like(unit))
    point = replace(point, a=strength * unit, reach=reach)
    for _ in range(FIT.rounds):
        point = _descend(stack, point, FIT.round_steps)
        left = _look_back(stack, point)
        spread = (stack.importance_prior * (point.s - stack.rest) ** 2).sum(dim=1)
        free = left.variance * left.spent_s.clamp(min=0.5) / spread.clamp(min=1e-6)
        b = torch.where(equal, 1e9 * unit, torch.minimum(free.clamp(min=1e-6 * unit), 1e2 * unit))
        point = replace(point, b=b)
    point = _descend(stack, point, FIT.last_steps)
    return point, _look_back(stack, point)


def _weigh(missing: Tensor, squares: Tensor, real: Tensor) -> Tensor:
    """Weights (B, m): one over the squared error expected of a text with so many units missing.

    The expectation is a power of that number, fitted on a log scale to errors ``squares`` (B, m),
    and drawn towards the number itself where there are few calls.
    """
    size = torch.log(missing.clamp(min=1))
    log_error = torch.log(squares + 1e-12 * squares.amax(dim=1, keepdim=True) + 1e-300)
    count = real.sum(dim=1, keepdim=True)
    mean_size = (real * size).sum(1, keepdim=True) / count
    mean_error = (real * log_error).sum(1, keepdim=True) / count
    centred = real * (size - mean_size)
    slack = 10.0  # as many calls speak for errors that grow with the number itself
    power = ((centred * log_error).sum(1, keepdim=True) + slack) / (
        (centred * size).sum(1, keepdim=True) + slack
    )
    exponent = -(power * (size - mean_size) + 0 * mean_error)
    exponent = exponent.masked_fill(real == 0, -math.inf)
    exponent = exponent - exponent.amax(dim=1, keepdim=True)
    weights = torch.exp(exponent).clamp(min=1 / FIT.steepest) * real
    weights = torch.where(missing == 0, weights * FIT.whole_weight, weights)
    return weights / weights.sum(dim=1, keepdim=True) * count


def fit_forms(requests: Sequence[FitRequest]) -> list[FittedForm]:
    """Fits many texts at once: those with as many outputs in one stack."""
    fitted: dict[int, FittedForm] = {}
    kinds: dict[tuple[int, int], list[int]] = {}
    for number, request in enumerate(requests):
        size = 1 << (request.counts.numel() - 1).bit_length()
        kinds.setdefault((request.outputs.shape[1], size), []).append(number)
    for numbers in kinds.values():
        found = _fit_alike([requests[number] for number in numbers])
        fitted.update(zip(numbers, found, strict=True))
    return [fitted[number] for number in range(len(requests))]


def _fit_alike(requests: Sequence[FitRequest]) -> list[FittedForm]:
    scales = [_find_scale(request) for request in requests]
    stack = _stack(requests, scales, [torch.zeros(0, 2) for _ in requests])
    point = _descend(stack, _start(stack), FIT.round_steps * 3)
    squares = ((_evaluate(stack, point.u, point.s)[0] - stack.z) ** 2).sum(dim=2)
    steep = _weigh(stack.x[..., -1], squares, (stack.weights > 0).to(stack.weights))
    stack = replace(stack, weights=steep, steep=steep)
    # Four fits of each text: with the bound and without, with steep weights and with mild ones.
    four = torch.arange(len(requests)).repeat_interleave(4)
    kind = torch.arange(len(four)) % 4
    trial = replace(stack.pick(four), bounded=kind < 2)
    trial = replace(trial, weights=_where(kind % 2 == 0, trial.weights, _mild(trial.weights)))
    begun = _start(trial)
    begun = replace(begun, u=_where(kind < 2, point.u[four], begun.u), s=point.s[four])
    strength = torch.full_like(kind, FIT.first_strength, dtype=steep.dtype)
    point, left = _settle(trial, begun, strength, kind < 0)
    losses = _judge(trial, left).reshape(-1, 4)
    allowed = torch.tensor([request.bounded for request in requests])
    with_bound, mild = losses[:, :2].min(dim=1)
    without, mild_without = losses[:, 2:].min(dim=1)
    bounded = allowed & (with_bound <= without + FIT.unbounded_gain)
    mild = torch.where(bounded, mild, mild_without)
    chosen = 4 * torch.arange(len(requests)) + 2 * (~bounded).long() + mild
    stack, point, left = trial.pick(chosen), point.pick(chosen), left.pick(chosen)
    pairs = _add_pairs(requests, scales, stack, point, left)
    return _finish(requests, scales, stack, point, pairs)


def _mild(weights: Tensor) -> Tensor:
    """Weights (B, m) that differ less."""
    real = weights > 0
    mild = torch.where(real, weights.clamp(min=1e-300) ** FIT.mildness, torch.zeros_like(weights))
    return mild / mild.sum(dim=1, keepdim=True) * real.sum(dim=1, keepdim=True)


def _find_scale(request: FitRequest) -> tuple[Tensor, Tensor]:
    """The middle and half of the width of the range, (C,) each, which all outputs lie within."""
    low = torch.minimum(request.low.to(request.outputs), request.outputs.amin(dim=0))
    high = torch.maximum(request.high.to(request.outputs), request.outputs.amax(dim=0))
    half = FIT.margin * (high - low) / 2
    return (low + high) / 2, half.clamp(min=1e-6 * (1 + high.abs() + low.abs()))


def _stack(
    requests: Sequence[FitRequest], scales: Sequence[tuple[Tensor, Tensor]], pairs: Sequence[Tensor]
) -> _Stack:
    """Problems one above the other, filled up with zeros; elements end with the sink."""
    elements = [list_elements(one.counts, two) for one, two in zip(requests, pairs, strict=True)]
    rows = max(len(one) for one in elements)
    width = max(one.shape[1] for one in elements)
    first, columns = requests[0].outputs, requests[0].outputs.shape[1]
    x = first.new_zeros(len(requests), rows, width)
    z = first.new_zeros(len(requests), rows, columns)
    weights, real = first.new_zeros(len(requests), rows), first.new_zeros(len(requests), width)
    rest = first.new_zeros(len(requests), width)
    for number, (request, own, (centre, half)) in enumerate(
        zip(requests, elements, scales, strict=True)
    ):
        m, p = own.shape
        x[number, :m, : p - 1] = own[:, :-1]
        x[number, :m, -1] = own[:, -1]
        x[number, m:, -1] = 1  # padding is a text of which everything is missing, with weight 0
        z[number, :m] = (request.outputs - centre) / half
        weights[number, :m] = own[:, -1].clamp(min=1) ** -FIT.first_power
        real[number, : p - 1], real[number, -1] = 1, 1
        n = request.counts.shape[1]
        rest[number, :n] = request.log_occurrences - request.log_occurrences.mean()
    bounded = torch.ones(len(requests), dtype=torch.bool, device=first.device)
    return _Stack(x, z, weights, weights, real, rest, bounded)


def _start(stack: _Stack) -> _Point:
    """An additive fit: with equal importances, averages are linear in the values."""
    inner = torch.where(
        stack.bounded[:, None, None], torch.atanh(stack.z.clamp(-0.98, 0.98)), stack.z
    )
    shares = stack.x / stack.x.sum(dim=2, keepdim=True).clamp(min=1e-300)
    weighted = shares.transpose(1, 2) * stack.weights[:, None]
    gram = weighted @ shares
    size = (gram.diagonal(dim1=1, dim2=2).sum(dim=1) / stack.real.sum(dim=1))[:, None, None]
    u = torch.linalg.solve(gram + 1e-2 * size * stack.value_prior, weighted @ inner)
    prior = FIT.first_prior * stack.variance / stack.real.sum(dim=1)
    return _Point(u.clamp(-1.5, 1.5), stack.rest.clone(), prior, prior, torch.ones_like(prior))


def _add_pairs(
    requests: Sequence[FitRequest],
    scales: Sequence[tuple[Tensor, Tensor]],
    stack: _Stack,
    point: _Point,
    left: _Left,
) -> list[Tensor]:
    """The neighbouring units that are heard together, (P, 2) for each text; often none.

    Candidates are ranked by how much of the remaining error a pair would take, to first order. The
    best few are fitted, and kept where left-out calls say so.
    """
    ranked = [
        _rank_pairs(
            request,
            stack.pick(torch.tensor([b])),
            point.pick(torch.tensor([b])),
            left.pick(torch.tensor([b])),
        )
        for b, request in enumerate(requests)
    ]
    none = [pairs[:0] for pairs in ranked]
    if not any(len(pairs) for pairs in ranked):
        return none
    more = _stack(requests, scales, ranked)
    more = replace(more, weights=stack.weights, steep=stack.steep, bounded=stack.bounded)
    begun = _widen(point, stack, more, requests)
    strength = torch.full_like(more.weights[:, 0], FIT.first_strength)
    equal = torch.zeros(len(requests), dtype=torch.bool)
    _, found = _settle(more, begun, strength, equal)
    gain = _judge(stack, left) - _judge(more, found)
    before, after = (
        _predicted_shares(one, two).clamp(min=0).mean(dim=0)
        for one, two in ((stack, left), (more, found))
    )
    worth = ((gain > FIT.pair_gain) & (after - before > FIT.pair_share)).tolist()
    return [pairs if kept else pairs[:0] for pairs, kept in zip(ranked, worth, strict=True)]


def _rank_pairs(request: FitRequest, stack: _Stack, point: _Point, left: _Left) -> Tensor:
    n = request.counts.shape[1]
    wanted = min(request.most_pairs, n - 1, len(request.counts) // (3 * n))
    pairs = torch.stack([torch.arange(n - 1), torch.arange(1, n)], dim=1).to(torch.float64)
    if wanted < 1 or n < 3:
        return pairs[:0]
    rows = len(request.counts)
    weights = stack.weights[0, :rows, None]
    together = request.counts[:, :-1] * request.counts[:, 1:]
    raw = stack.x * torch.exp(point.s - point.s.amax(dim=1, keepdim=True))[:, None]
    mass = raw.sum(dim=2)[0, :rows, None]
    gained = torch.zeros(n - 1, dtype=weights.dtype, device=weights.device)
    p = point.s.shape[1]
    for column in range(point.u.shape[2]):
        slopes = left.slopes[0, column, :rows]
        slope = slopes[:, :p].sum(dim=1, keepdim=True)  # shares add up to one
        new = together * slope / mass
        known = slopes @ (left.inverse[0, column] @ (slopes.T @ (weights * new)))
        own = new - known
        error = (stack.z - left.output)[0, :rows, column, None]
        gained += (weights * own * error).sum(dim=0) ** 2 / (weights * own**2).sum(dim=0).clamp(
            min=1e-12 * float((weights * new**2).sum(dim=0).max()) + 1e-300
        )
    best = torch.argsort(gained, descending=True)[:wanted]
    return pairs[torch.sort(best.cpu())[0]]


def _widen(point: _Point, old: _Stack, new: _Stack, requests: Sequence[FitRequest]) -> _Point:
    """Where problems with pairs begin: pairs have the sink's value and hardly any importance."""
    u = point.u[:, -1:].repeat(1, new.x.shape[2], 1)
    s = torch.zeros(len(requests), new.x.shape[2], dtype=point.s.dtype, device=point.s.device)
    for number, request in enumerate(requests):
        n = request.counts.shape[1]
        u[number, :n], s[number, :n] = point.u[number, :n], point.s[number, :n]
        s[number, n:-1] = -1.0
    s[:, -1] = point.s[:, -1]
    return replace(point, u=u * new.real[..., None], s=s * new.real)


def _finish(
    requests: Sequence[FitRequest],
    scales: Sequence[tuple[Tensor, Tensor]],
    stack: _Stack,
    point: _Point,
    pairs: Sequence[Tensor],
) -> list[FittedForm]:
    """The fit with each spread of values, the best of them, and one score per unit beside it.

    One score has no pairs, and its weights are steep or equal, as left-out calls prefer.
    """
    last = _stack(requests, scales, pairs)
    last = replace(last, weights=stack.weights, steep=stack.steep, bounded=stack.bounded)
    begun = _widen(point, stack, last, requests)
    units = torch.zeros_like(last.real)
    for number, request in enumerate(requests):
        units[number, : request.counts.shape[1]], units[number, -1] = 1, 1
    # The fits of each text: two scores, then one score with steep and with equal weights.
    kinds = [0] * len(FIT.strengths) + [1] * len(FIT.alone) + [2] * len(FIT.alone)
    each = len(kinds)
    index = torch.arange(len(requests)).repeat_interleave(each)
    kind = torch.tensor(kinds).repeat(len(requests))
    equal = kind > 0
    flat = (last.steep > 0).to(last.steep)
    whole = last.pick(index)
    whole = replace(
        whole,
        x=_where(equal, whole.x * units[index][:, None], whole.x),
        weights=torch.stack([last.weights, last.steep, flat], dim=1)[index, kind],
    )
    strength = torch.tensor([*FIT.strengths, *FIT.alone, *FIT.alone]).to(flat).repeat(len(requests))
    strength = torch.where(equal, strength / whole.real.sum(dim=1), strength)
    start, additive = begun.pick(index), _start(whole)
    start = replace(
        start, u=_where(equal, additive.u, start.u), s=_where(equal, whole.rest, start.s)
    )
    settled, left = _settle(whole, start, strength, equal)
    few, every = _predicted_shares(whole, left)
    balance = ((few.clamp(min=0) + every) / 2).reshape(-1, each)
    losses, every = _judge(whole, left).reshape(-1, each), every.reshape(-1, each)
    fitted = []
    for number, request in enumerate(requests):
        own = balance[number, : len(FIT.strengths)]
        # The first that is good enough has the strongest prior.
        cost = ((1 - own.max()) * FIT.relative_cost).clamp(min=1e-12, max=FIT.value_cost)
        best = int((own >= own.max() - cost).to(torch.int64).argmax())
        other = len(own) + int(balance[number, len(own) :].argmax())
        free = each * number + int(own.argmax())
        two, one = (
            _Fitted(request, scales[number], used, whole.pick(at), settled.pick(at), left.pick(at))
            for used, at in (
                (pairs[number], torch.tensor([each * number + best])),
                (pairs[number][:0], torch.tensor([each * number + other])),
            )
        )
        groups = _group(len(request.counts))
        fitted.append(
            FittedForm(
                two.form(two.point.u[0], two.point.s[0]),
                *two.jackknife(groups),
                two.form(settled.u[free], settled.s[free]),
                two.left_out(),
                one.form(one.point.u[0], one.point.s[0]),
                one.left_out(),
                groups,
                float(every[number, best]),
                float(losses[number, best]),
            )
        )
    return fitted


def _group(rows: int) -> Tensor:
    """The group of each call, (m,), at random but always the same."""
    generator = torch.Generator().manual_seed(rows)
    groups = min(FIT.groups, rows)
    return torch.randperm(rows, generator=generator) % groups


@dataclass(frozen=True)
class _Fitted:
    """One problem of a stack, on the way to a formula."""

    request: FitRequest
    scale: tuple[Tensor, Tensor]
    pairs: Tensor
    stack: _Stack
    point: _Point
    left: _Left

    def form(self, u: Tensor, s: Tensor, column: int | None = None) -> BoundedSlalom:
        """The formula of parameters u (p, C) and s (p,), of all columns or of one."""
        n, count = self.request.counts.shape[1], len(self.pairs)
        centre, half = self.scale
        if column is not None:
            centre, half = centre[column : column + 1], half[column : column + 1]
        curvature = 1 / half if bool(self.stack.bounded[0]) else torch.zeros_like(half)
        inner = centre + half * u
        shift = s[:n].mean()
        return BoundedSlalom(
            inner[:n],
            s[:n] - shift,
            inner[-1],
            s[-1] - shift,
            centre,
            curvature,
            torch.zeros_like(inner[:n]),
            self.pairs.to(inner),
            inner[n : n + count],
            s[n : n + count] - shift,
        )

    def left_out(self) -> Tensor:
        """Predictions for each call, had it not been used, (m, C)."""
        rows = len(self.request.counts)
        centre, half = self.scale
        return centre + half * (self.stack.z[0, :rows] + self.left.left_out[0, :rows])

    def jackknife(self, groups: Tensor) -> tuple[tuple[tuple[BoundedSlalom, ...], ...], Tensor]:
        """Formulas on the way to those without one group of calls, and how far: per column."""
        rows, p = len(groups), self.point.s.shape[1]
        columns, ways = [], []
        for column in range(self.point.u.shape[2]):
            slopes = self.left.slopes[0, column, :rows]
            pull = self.stack.weights[0, :rows] * self.left.left_out[0, :rows, column]
            count = int(groups.max()) + 1
            each = torch.zeros(count, rows, dtype=pull.dtype, device=pull.device)
            each[groups, torch.arange(rows)] = pull
            steps = (each @ slopes) @ self.left.inverse[0, column]  # (G, 2p)
            way = (FIT.linear / steps.abs().amax(dim=1).clamp(min=1e-300)).clamp(max=1)
            forms = []
            for step in steps * way[:, None]:
                u = self.point.u[0, :, column] + step[:p]
                forms.append(self.form(u[:, None], self.point.s[0] + step[p:], column))
            columns.append(tuple(forms))
            ways.append(way)
        return tuple(columns), torch.stack(ways)
