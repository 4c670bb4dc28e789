"""How values and importances follow from the model's outputs.

One weighted least-squares problem per text, with two priors:

    minimise  sum_r  w_r ( F(x_r) - y_r )²  +  a sum_j ( u_j - u_0 )²  +  b sum_j s_j²

in units of the range: u = (v - c) / A. The weights w are one over the squared error that a text
with so many units missing can be expected to have: otherwise the large changes of nearly empty
texts drown the small ones that readers care about. The prior on values keeps them near the
sink's, inside the range; that on importances keeps them equal. Between "all importances equal",
which is one score per unit, and two free scores there is no switch but the number b, and it is
chosen by the marginal likelihood (MacKay's updates). The number a is the error's variance over
tau²; of several tau the smallest, that is the strongest prior, is taken that predicts about as
well as the best. "Predicts" means left-out calls: the error on each call, had it not been used,
follows from the fit in closed form (leave-one-out).

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
        taus: spreads of values around the sink's, as shares of half of the range, strongest prior
            first.
        value_cost: share of the outputs' variance that the strongest prior on values may cost.
        pair_gain: share of the variance that pairs must gain.
        unbounded_gain: share that doing without the bound must gain.
        sink_share: the prior on the sink's importance, as a share of that on the units'.
        margin: the range is so much wider than the outputs that were seen.
        first_prior: both priors of the first fit, as a share of the outputs' variance.
        rounds: updates of the prior on importances.
        round_steps: steps between two of them.
        last_steps: steps at most of a final fit.
        settled: relative gain below which a fit has ended.
        whole_weight: weight of the whole text, as a multiple of a text with one unit missing. An
            error there is in every change.
        steepest: ratio of the largest weight to the smallest, at most.
        groups: of calls, left out in turn for standard errors.
        widest: steps of a parameter at most.
    """

    taus: tuple[float, ...] = (0.5, 1.5, 4.0)
    value_cost: float = 0.01
    pair_gain: float = 0.003
    unbounded_gain: float = 0.02
    sink_share: float = 0.1
    margin: float = 1.03
    first_prior: float = 1e-2
    rounds: int = 4
    round_steps: int = 5
    last_steps: int = 30
    settled: float = 1e-5
    whole_weight: float = 10.0
    steepest: float = 1e4
    groups: int = 20
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
        jackknife: formulas (C, G) as lists, each fitted without one group of calls: those of a
            column have one column.
        left_out: (m, C), the formula's prediction for each call, had it not been used.
        one_score: the best formula with all importances equal, for comparison.
        one_score_left_out: (m, C), likewise.
        groups: (m,), the group of each call.
        left_out_r2: the share of the weighted variance that is predicted of left-out calls.
    """

    form: BoundedSlalom
    jackknife: tuple[tuple[BoundedSlalom, ...], ...]
    left_out: Tensor
    one_score: BoundedSlalom
    one_score_left_out: Tensor
    groups: Tensor
    left_out_r2: float


@dataclass(frozen=True)
class _Stack:
    """Stacked problems.

    Attributes:
        x: (B, m, p), how often each element is there.
        z: (B, m, C), outputs in units of the range.
        weights: (B, m), 0 for padding.
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

    def pick(self, index: Tensor) -> _Stack:
        return _Stack(*(part[index] for part in vars(self).values()))

    @property
    def variance(self) -> Tensor:
        """The weighted sum of squared deviations of the outputs from their mean, (B,)."""
        weights = self.weights[..., None]
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
    """

    u: Tensor
    s: Tensor
    a: Tensor
    b: Tensor

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
    single = shares  # second derivatives only direct the steps: seven digits are enough
    turned_single = single.transpose(1, 2)
    for column in range(u.shape[2]):
        own, mean = u[..., column], average[..., column]
        weight = stack.weights * slope[..., column] ** 2
        q0, q1, q2 = (
            (turned_single @ (single * factor[..., None])).to(shares.dtype)
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


def _descend(
    stack: _Stack, point: _Point, steps: int, damping: Tensor | None = None
) -> _Point:
    """Levenberg and Marquardt: damped steps that lower the cost, problem by problem."""
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
            step_u, step_s = _solve(uu, bent.us, ss, pull_u, pull_s, damping)
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
    uu: Tensor, us: Tensor, ss: Tensor, pull_u: Tensor, pull_s: Tensor, damping: Tensor
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
    widest = FIT.widest
    return step_u.transpose(1, 2).clamp(-widest, widest), step_s.clamp(-widest, widest)


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
    held = (inverse[:, :, :p, :p] * prior_u).sum(dim=(1, 2, 3))
    spent_u = (columns * p - held).clamp(min=0)
    held_s = (inverse[:, :, p:, p:] * prior_s).sum(dim=(2, 3)).mean(dim=1)
    spent_s = (p - held_s).clamp(min=0)
    rows = (stack.weights > 0).sum(dim=1) * columns
    squares = (stack.weights[..., None] * left**2).sum(dim=(1, 2))
    variance = squares / (rows - spent_u - spent_s).clamp(min=1)
    return _Left(output, left_out, variance, spent_u + spent_s, spent_s, inverse, slopes)


def _predicted_share(stack: _Stack, left: _Left) -> Tensor:
    """The share of the outputs' variance that is predicted of left-out calls, (B,).

    It is the mean of two: with the weights of the fit, where few units are missing counts most, and
    with equal ones, where many are.
    """
    shares = []
    for weights in (stack.weights, (stack.weights > 0).to(stack.weights)):
        weighed = replace(stack, weights=weights)
        squares = (weights[..., None] * left.left_out**2).sum(dim=(1, 2))
        shares.append(1 - squares / weighed.variance)
    return torch.stack(shares).mean(dim=0)


def _settle(stack: _Stack, point: _Point, taus: Tensor, equal: Tensor) -> tuple[_Point, _Left]:
    """Fits with priors that follow from the fit itself.

    Args:
        stack: the problems.
        point: where they begin.
        taus: (B,), the spread of values.
        equal: (B,), where importances stay equal.
    """
    unit = stack.variance / stack.real.sum(dim=1)
    for _ in range(FIT.rounds):
        point = _descend(stack, point, FIT.round_steps)
        left = _look_back(stack, point)
        a = (left.variance / taus**2).clamp(min=1e-9 * unit)
        spread = (stack.importance_prior * (point.s - stack.rest) ** 2).sum(dim=1)
        free = left.variance * left.spent_s.clamp(min=0.5) / spread.clamp(min=1e-6)
        b = torch.where(equal, 1e9 * unit, torch.minimum(free.clamp(min=1e-6 * unit), 1e2 * unit))
        point = replace(point, a=a, b=b)
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
    none = [torch.zeros(0, 2) for _ in requests]
    stack = _stack(requests, scales, none)
    both = torch.arange(len(requests)).repeat_interleave(2)  # with a bound, and without
    doubled = stack.pick(both)
    doubled = replace(doubled, bounded=torch.arange(len(both)) % 2 == 0)
    point = _start(doubled)
    point = _descend(doubled, point, FIT.round_steps * 3)
    output = _evaluate(doubled, point.u, point.s)[0]
    squares = ((output - doubled.z) ** 2).sum(dim=2)[::2]
    weights = _weigh(stack.x[..., -1], squares, (stack.weights > 0).to(stack.weights))
    stack = replace(stack, weights=weights)
    doubled = replace(doubled, weights=weights[both])
    equal = torch.zeros(len(both), dtype=torch.bool)
    point, left = _settle(doubled, point, torch.full((len(both),), 2.0), equal)
    shares = _predicted_share(doubled, left).reshape(-1, 2)
    allowed = torch.tensor([request.bounded for request in requests])
    bounded = allowed & (shares[:, 0] >= shares[:, 1] - FIT.unbounded_gain)
    chosen = 2 * torch.arange(len(requests)) + (~bounded).long()
    stack = replace(stack, bounded=bounded)
    point, left = point.pick(chosen), left.pick(chosen)
    pairs = _add_pairs(requests, scales, stack, point, left)
    return _finish(requests, scales, stack, point, pairs)


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
        weights[number, :m] = 1 / own[:, -1].clamp(min=1)
        real[number, : p - 1], real[number, -1] = 1, 1
        n = request.counts.shape[1]
        rest[number, :n] = request.log_occurrences - request.log_occurrences.mean()
    weights = weights / weights.sum(dim=1, keepdim=True) * (weights > 0).sum(dim=1, keepdim=True)
    bounded = torch.ones(len(requests), dtype=torch.bool, device=first.device)
    return _Stack(x, z, weights, real, rest, bounded)


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
    return _Point(u.clamp(-1.5, 1.5), stack.rest.clone(), prior, prior)


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
    more = replace(more, weights=stack.weights, bounded=stack.bounded)
    begun = _widen(point, stack, more, requests)
    taus = torch.full((len(requests),), 2.0)
    equal = torch.zeros(len(requests), dtype=torch.bool)
    _, found = _settle(more, begun, taus, equal)
    gain = _predicted_share(more, found) - _predicted_share(stack, left)
    worth = (gain > FIT.pair_gain).tolist()
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
    """The fit with each spread of values, the best of them, and one score per unit beside it."""
    texts, spreads = len(requests), len(FIT.taus)
    last = _stack(requests, scales, pairs)
    last = replace(last, weights=stack.weights, bounded=stack.bounded)
    begun = _widen(point, stack, last, requests)
    alone = last
    if any(len(one) for one in pairs):  # one score per unit has no pairs: they are never there
        x = last.x.clone()
        for number, request in enumerate(requests):
            x[number, :, request.counts.shape[1] : -1] = 0
        alone = replace(last, x=x)
    index = torch.arange(texts).repeat_interleave(2 * spreads)
    equal = torch.arange(len(index)) % (2 * spreads) >= spreads
    whole = last.pick(index)
    whole = replace(whole, x=torch.where(equal[:, None, None], alone.x[index], whole.x))
    taus = torch.tensor(FIT.taus, dtype=whole.x.dtype).repeat(2 * texts)
    # A score alone has to hold the size of an effect as well, which is an n-th of its value.
    units = whole.real.sum(dim=1)
    taus = torch.where(equal, taus * units.sqrt(), taus)
    start = begun.pick(index)
    start = replace(start, s=_where(equal, whole.rest, start.s))
    settled, left = _settle(whole, start, taus, equal)
    shares = _predicted_share(whole, left).reshape(texts, 2, spreads)
    good = shares >= shares.amax(dim=2, keepdim=True) - FIT.value_cost
    best = good.to(torch.int64).argmax(dim=2)  # the first that is good enough: the strongest prior
    fitted = []
    for number, request in enumerate(requests):
        own, other = (
            2 * spreads * number + spreads * kind + int(best[number, kind]) for kind in (0, 1)
        )
        two, one = (
            _Fitted(
                request,
                scales[number],
                pairs[number] if kind == 0 else pairs[number][:0],
                whole.pick(torch.tensor([at])),
                settled.pick(torch.tensor([at])),
                left.pick(torch.tensor([at])),
            )
            for kind, at in ((0, own), (1, other))
        )
        groups = _group(len(request.counts))
        fitted.append(
            FittedForm(
                two.form(two.point.u[0], two.point.s[0]),
                two.jackknife(groups),
                two.left_out(),
                one.form(one.point.u[0], one.point.s[0]),
                one.left_out(),
                groups,
                float(shares[number, 0, best[number, 0]]),
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

    def jackknife(self, groups: Tensor) -> tuple[tuple[BoundedSlalom, ...], ...]:
        """Formulas fitted without one group of calls each, to first order: per column."""
        rows, p = len(groups), self.point.s.shape[1]
        columns = []
        for column in range(self.point.u.shape[2]):
            slopes = self.left.slopes[0, column, :rows]
            pull = self.stack.weights[0, :rows] * self.left.left_out[0, :rows, column]
            count = int(groups.max()) + 1
            each = torch.zeros(count, rows, dtype=pull.dtype, device=pull.device)
            each[groups, torch.arange(rows)] = pull
            steps = (each @ slopes) @ self.left.inverse[0, column]  # (G, 2p)
            forms = []
            for step in steps:
                u = self.point.u[0, :, column] + step[:p].clamp(-1, 1)
                s = self.point.s[0] + step[p:].clamp(-1, 1)
                forms.append(self.form(u[:, None], s, column))
            columns.append(tuple(forms))
        return tuple(columns)
