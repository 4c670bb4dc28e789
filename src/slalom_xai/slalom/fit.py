"""How values and importances follow from the model's outputs.

One weighted least-squares problem per text (``solver``), with two priors. The weights of each
output are one over the squared error that a text with so many units missing can be expected to
have: otherwise the large changes of nearly empty texts drown the small ones that readers care
about. Of a few such weights, gentle and steep, those are taken that predict the likeliest class
best. The prior on values keeps them near the sink's, inside the range; that on importances keeps
them equal.

Between "all importances equal", which is one score per unit, and two free scores there is no switch
but the strength of the second prior, and it is chosen by the marginal likelihood. Of several
strengths of the first the largest is taken that predicts about as well as the best: held-out error
alone would push values to the ends of the range, and a value would say no more than a sign.
"Predicts" means left-out calls: the error on each call, had it not been used, follows from the fit
in closed form (leave-one-out). The same measure decides whether the bound describes this model, and
whether a few words that stand close to each other are heard together (pairs).

Choices are made on a part of the calls where there are many, by a few steps from where the last
choice ended, and for many texts at once. The fit that is reported uses all calls, and arrives.

Shapes: B texts, K candidates for each, m perturbed texts, p elements (units, pairs, the sink last),
C outputs; see ``solver``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor

from slalom_xai.slalom.formula import BoundedSlalom, Formulas
from slalom_xai.slalom.settings import FIT, FitSettings
from slalom_xai.slalom.solver import (
    Left,
    Masks,
    Point,
    Stack,
    choose,
    descend,
    evaluate,
    finish,
    look_back,
    settle,
    settle_exact,
)
from slalom_xai.system.process import work_side_by_side

CPU = torch.device("cpu")
Item = TypeVar("Item")
Result = TypeVar("Result")


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
        probed: whether low and high were found by probing the model, and not on this text alone.
        most_pairs: pairs of units to add at most.
        device: where the model is. A GPU fits many texts or long ones; nothing else does.
        settings: the tuned numbers.
    """

    counts: Tensor
    outputs: Tensor
    log_occurrences: Tensor
    low: Tensor
    high: Tensor
    bounded: bool = True
    probed: bool = False
    most_pairs: int = 5
    device: torch.device = CPU
    settings: FitSettings = FIT


@dataclass(frozen=True)
class FittedForm:
    """A formula, and how sure it is.

    Attributes:
        form: the formula, its Shapley values not yet filled in.
        jackknife: for each column, G formulas on the way to what it would be without each of G
            groups of calls.
        way: (C, G), how far on the way: a share. The whole way may lead out of where a formula is
            nearly linear in its numbers.
        unknown: (C, 2, n), posterior standard deviations of values before the bound, and of
            importances: what calls cannot tell stays as uncertain as the priors leave it.
        pulled: the formula that choices were made with.
        free: the same with the prior on values that left-out calls like best.
        left_out: (m, C), the formula's prediction for each call, had it not been used.
        request: what was fitted.
        weights: (C, m), of the calls.
        groups: (m,), the group of each call.
    """

    form: BoundedSlalom
    jackknife: tuple[Formulas, ...]
    way: Tensor
    unknown: Tensor
    pulled: BoundedSlalom
    free: BoundedSlalom
    left_out: Tensor
    request: FitRequest
    weights: Tensor
    groups: Tensor


@dataclass(frozen=True)
class FirstFit:
    """A first fit to a text, from which ``complete_fits`` goes on: enough to say what is missing.

    Attributes:
        request: what was fitted.
        point: where the fit stands, of this text alone.
        bounded: whether the formula is bounded.
        scale: by what outputs are multiplied where the range is narrower.
        left_out_r2: the share of variance that is predicted of left-out calls, of the output that
            is the largest for the whole text.
        loss: their log error, few and any number of missing units alike.
    """

    request: FitRequest
    point: Point
    bounded: bool
    scale: float
    left_out_r2: float
    loss: float


@dataclass(frozen=True)
class OneScore:
    """The best formula with all importances equal, for comparison.

    Attributes:
        form: the formula.
        left_out: (m, C), its prediction for each call, had it not been used.
    """

    form: BoundedSlalom
    left_out: Tensor


def fit_forms(requests: Sequence[FitRequest]) -> list[FittedForm]:
    """Fits many texts at once."""
    return complete_fits(begin_fits(requests))


def begin_fits(requests: Sequence[FitRequest]) -> list[FirstFit]:
    """First fits of many texts at once: whether there is a bound, and how well they predict."""
    return _work_in_stacks(requests, requests, _begin_alike)


def complete_fits(begun: Sequence[FirstFit]) -> list[FittedForm]:
    """What is still to be chosen, and the fits that are reported."""
    return _work_in_stacks(begun, [one.request for one in begun], _complete_alike)


def fit_one_scores(fitted: Sequence[FittedForm]) -> list[OneScore]:
    """Fits formulas with equal importances to the same calls."""
    return _work_in_stacks(fitted, [one.request for one in fitted], _fit_one_scores)


def _work_in_stacks(
    items: Sequence[Item],
    requests: Sequence[FitRequest],
    work: Callable[[Sequence[Item], torch.device], list[Result]],
) -> list[Result]:
    """Works on texts of about one size and with as many outputs in one stack.

    Stacks are so small that they stay in a processor's cache, and several are worked on at once.
    """
    if not items:
        return []
    settings = requests[0].settings
    cells = sum(request.counts.numel() for request in requests)
    device = next((one.device for one in requests if one.device.type == "cuda"), CPU)
    if cells < settings.cells_on_gpu[0]:
        device = CPU  # sooner done than the steps are handed to a GPU
    stacks = _plan_stacks(requests, device)
    stacked = [[items[number] for number in numbers] for numbers in stacks]

    def alone(some: Sequence[Item]) -> list[Result]:
        return work(some, device)

    results = work_side_by_side(alone, stacked) if device == CPU else map(alone, stacked)
    found: dict[int, Result] = {}
    for numbers, some in zip(stacks, results, strict=True):
        found.update(zip(numbers, some, strict=True))
    return [found[number] for number in range(len(items))]


def _plan_stacks(requests: Sequence[FitRequest], device: torch.device) -> list[list[int]]:
    """Which texts are worked on together, by their numbers; the largest ones first."""
    shapes = [tuple(request.counts.shape) for request in requests]
    stacks: list[list[int]] = []
    last: dict[tuple[int, FitSettings], tuple[list[int], int, int]] = {}
    for number in sorted(range(len(requests)), key=lambda number: -math.prod(shapes[number])):
        request, (calls, units) = requests[number], shapes[number]
        settings, kind = request.settings, (request.outputs.shape[1], request.settings)
        most, waste = settings.cells, settings.waste
        if device != CPU:
            most, waste = settings.cells_on_gpu[1], settings.waste_on_gpu
        stack, most_calls, most_units = last.get(kind, ([], calls, units))
        filled = max(calls, most_calls) * max(units, most_units)
        if not stack or (len(stack) + 1) * filled > most or filled > waste * calls * units:
            stack, most_calls, most_units = [], calls, units
            stacks.append(stack)
        stack.append(number)
        last[kind] = stack, max(calls, most_calls), max(units, most_units)
    return stacks


@dataclass(frozen=True)
class _Texts:
    """What is known of stacked texts before anything is fitted.

    Attributes:
        requests: one for each.
        centre: (B, C), the middle of the range of the outputs that were seen.
        half: (B, C), half of its width.
        predicted: (B,), the output that is the largest for the whole text.
        units: (B,), how many each has.
        wanted_pairs: (B,), how many pairs each may have.
        bounded: (B,), whether a formula may be.
        probed: (B,), whether the range was found by probing the model.
        chosen: (B, k), the calls that choices are made on, -1 for none.
        masks: the perturbed texts of these calls.
    """

    requests: Sequence[FitRequest]
    centre: Tensor
    half: Tensor
    predicted: Tensor
    units: Tensor
    wanted_pairs: Tensor
    bounded: Tensor
    probed: Tensor
    chosen: Tensor
    masks: Masks

    def __len__(self) -> int:
        return len(self.requests)

    def take_some(self, stack: Stack) -> Stack:
        """The problems with the calls that choices are made on."""
        return stack.take_calls(self.chosen, self.masks)


def _begin_alike(requests: Sequence[FitRequest], device: torch.device) -> list[FirstFit]:
    """First fits of texts of about one size, on some of their calls."""
    texts, stack = _stack(requests, device)
    some = texts.take_some(stack)
    first = descend(some, _start(some), some.settings.first_steps)
    stack = replace(stack, weights=_weigh(stack, first, (1.0,)))
    bound, point, losses, shares = _choose_bound(texts, texts.take_some(stack), first)
    bounded, scale = (part[:, 0].tolist() for part in (bound.bounded, bound.scale))
    point = point.to(CPU)
    each = [
        _narrow(point.pick(torch.tensor([number])), request.counts.shape[1])
        for number, request in enumerate(requests)
    ]
    parts = zip(requests, each, bounded, scale, shares.tolist(), losses.tolist(), strict=True)
    return [FirstFit(*part) for part in parts]


def _narrow(point: Point, units: int) -> Point:
    """The same without the elements that fill up: those of the last units, before the sink."""
    u, s = (torch.cat([part[..., :units], part[..., -1:]], dim=-1) for part in (point.u, point.s))
    return replace(point, u=u, s=s)


def _widen(points: Sequence[Point], size: int, device: torch.device) -> Point:
    """Texts' points one above the other, filled up to so many elements."""

    def fill(part: Tensor) -> Tensor:
        gap = part.new_zeros(*part.shape[:-1], size - part.shape[-1])
        return torch.cat([part[..., :-1], gap, part[..., -1:]], dim=-1)

    u, s = (torch.cat([fill(getattr(one, name)) for one in points]) for name in ("u", "s"))
    a, b = (torch.cat([getattr(one, name) for one in points]) for name in ("a", "b"))
    return Point(u, s, a, b).to(device)


def _complete_alike(begun: Sequence[FirstFit], device: torch.device) -> list[FittedForm]:
    """What else describes texts of about one size, on some of their calls; then fits to all."""
    texts, stack = _stack([one.request for one in begun], device)
    bounded, scale = (
        torch.tensor([[getattr(one, name)] for one in begun], device=device)
        for name in ("bounded", "scale")
    )
    stack = replace(stack, bounded=bounded, scale=scale.to(stack.outputs))
    point = _widen([one.point for one in begun], stack.x.shape[2], device)
    weights, point = _choose_weights(texts, stack, point)
    stack = replace(stack, weights=weights)
    pairs, point = _choose_pairs(texts, texts.take_some(stack), point)
    some = _with_pairs(texts.take_some(stack), pairs)
    strength, pulled, free = _choose_strength(some, point)
    stack = _with_pairs(stack, pairs)
    final = finish(stack, pulled, strength)
    left = look_back(stack, final)
    forms = [_Fitted.of(texts, stack, one, pairs) for one in (final, pulled, free)]
    return _read_off(texts, forms, stack, left)


def _stack(requests: Sequence[FitRequest], device: torch.device) -> tuple[_Texts, Stack]:
    """Problems one above the other, filled up with zeros; elements end with the sink."""
    settings, batch = requests[0].settings, len(requests)
    calls = max(len(one.counts) for one in requests)
    units = max(one.counts.shape[1] for one in requests)
    columns = requests[0].outputs.shape[1]
    counts = torch.zeros(batch, calls, units, dtype=torch.float64)
    outputs = torch.zeros(batch, columns, calls, dtype=torch.float64)
    real = torch.zeros(batch, 1, units + 1, dtype=torch.float64)
    rest, told = torch.zeros_like(real), torch.zeros(batch, 1, 1, calls, dtype=torch.float64)
    for number, request in enumerate(requests):
        m, n = request.counts.shape
        counts[number, :m, :n] = request.counts
        outputs[number, :, :m] = request.outputs.T
        outputs[number, :, m:] = request.outputs[0][:, None]
        real[number, 0, :n], real[number, 0, -1] = 1, 1
        rest[number, 0, :n] = request.log_occurrences - request.log_occurrences.mean()
        told[number, ..., :m] = 1
    low = torch.stack([one.low.to(outputs) for one in requests]).minimum(outputs.amin(dim=2))
    high = torch.stack([one.high.to(outputs) for one in requests]).maximum(outputs.amax(dim=2))
    least = 1e-6 * (1 + high.abs() + low.abs()) / settings.margin
    centre, half = (low + high) / 2, torch.maximum((high - low) / 2, least)
    missing = ((1 - counts).clamp(min=0) * real[..., :-1]).sum(dim=2, keepdim=True)
    weights = (missing.clamp(min=1) ** -settings.first_power).transpose(1, 2)[:, None] * told
    m, n = torch.tensor([one.counts.shape for one in requests]).T
    most_pairs = torch.tensor([one.most_pairs for one in requests])
    chosen = _draw_calls(requests)
    x = torch.cat([counts, missing], dim=2).to(device)
    texts = _Texts(
        requests,
        centre.to(device),
        half.to(device),
        outputs[..., 0].argmax(dim=1).to(device),
        n.to(device),
        torch.minimum(most_pairs, torch.minimum(n - 1, m // (3 * n))).to(device),
        torch.tensor([one.bounded for one in requests], device=device),
        torch.tensor([one.probed for one in requests], device=device),
        chosen.to(device),
        Masks(x[torch.arange(batch)[:, None], chosen.clamp(min=0)]),
    )
    stack = Stack(
        Masks(x),
        ((outputs - centre[..., None]) / (settings.margin * half)[..., None])[:, None].to(device),
        weights.expand(-1, -1, columns, -1).to(device),
        real.to(device),
        rest.to(device),
        torch.ones(batch, 1, dtype=torch.float64, device=device),
        torch.ones(batch, 1, dtype=torch.bool, device=device),
        settings,
    )
    return texts, stack


def _start(stack: Stack, s: Tensor | None = None) -> Point:
    """Additive fits: with given importances, (B, K, p), averages are linear in the values.

    Args:
        stack: the problems.
        s: the importances; None: those that the prior prefers.
    """
    s = stack.rest.expand(-1, stack.z.shape[1], -1) if s is None else s
    inner = choose(stack.bounded, torch.atanh(stack.z.clamp(-0.98, 0.98)), stack.z)
    heard = stack.x[:, None] * torch.exp(s - s.amax(dim=2, keepdim=True))[:, :, None]
    shares = heard / heard.sum(dim=3, keepdim=True).clamp(min=1e-300)  # (B, K, m, p)
    weighted = shares.transpose(2, 3) * stack.weights.mean(dim=2)[:, :, None]
    gram = weighted @ shares
    size = (gram.diagonal(dim1=2, dim2=3).sum(dim=2) / stack.size)[..., None, None]
    factor = torch.linalg.cholesky(gram + 1e-2 * size * stack.value_prior)
    u = torch.cholesky_solve(weighted @ inner.transpose(2, 3), factor).transpose(2, 3)
    prior = stack.settings.first_prior * stack.spread / stack.size
    return Point(u.clamp(-1.5, 1.5), s, prior, prior)


def _weigh(stack: Stack, point: Point, steepness: Sequence[float]) -> Tensor:
    """Weights (B, K, C, m): one over the squared error expected where so many units are missing.

    The expectation is a power of that number, fitted on a log scale to the errors of a first fit,
    output by output, and drawn towards the number itself where there are few calls. A class that is
    predicted for sure moves less than the others when a few units go, and its errors are smaller.

    Args:
        stack: the problems.
        point: their first fits, one for each text.
        steepness: K factors of that power.
    """
    settings = stack.settings
    left = evaluate(stack, point.u, point.s).output - stack.z
    missing, real = stack.x[:, None, None, :, -1], (stack.weights > 0).to(left)
    squares = real * left**2
    size = torch.log(missing.clamp(min=1))
    log_error = torch.log(squares + 1e-5 * squares.amax(dim=3, keepdim=True) + 1e-300)
    count = real.sum(dim=3, keepdim=True)
    centre = (real * size).sum(3, keepdim=True) / count
    centred = real * (size - centre)
    power = ((centred * log_error).sum(3, keepdim=True) + settings.slack) / (
        (centred * size).sum(3, keepdim=True) + settings.slack
    )
    level = (real * log_error).sum(3, keepdim=True) / count - power * centre
    steep = left.new_tensor(steepness)[:, None, None]
    exponent = (-steep * power * size).masked_fill(real == 0, -torch.inf)
    weights = torch.exp(exponent - exponent.amax(dim=3, keepdim=True))
    weights = weights.clamp(min=1 / settings.steepest) * real
    weights = torch.where(missing == 0, weights * settings.whole_weight, weights)
    share = torch.exp(level.amin(dim=2, keepdim=True) - level)
    weights = weights * share.clamp(min=1 / settings.steepest)  # beside a constant output, say
    total = (weights > 0).sum(dim=(2, 3), keepdim=True)
    return weights / weights.sum(dim=(2, 3), keepdim=True) * total  # one on average


def _draw_calls(requests: Sequence[FitRequest]) -> Tensor:
    """The calls that choices are made on, (B, k): the whole text, and others at random.

    They depend on the text alone, not on those that are fitted with it. -1 stands for no call.
    """
    settings = requests[0].settings
    drawn = []
    for request in requests:
        calls, units = request.counts.shape
        most = max(settings.calls_to_choose, settings.calls_per_element * (units + 1))
        most = min(most, settings.most_to_choose)
        drawn.append(_draw_order(calls)[:most])
    return torch.nn.utils.rnn.pad_sequence(drawn, batch_first=True, padding_value=-1)


@functools.lru_cache(maxsize=64)
def _draw_order(calls: int) -> Tensor:
    """Numbers from 0 on in a random order that is always the same; 0 is the first."""
    generator = torch.Generator().manual_seed(calls)
    return torch.cat([torch.zeros(1).long(), 1 + torch.randperm(calls - 1, generator=generator)])


def _choose_bound(texts: _Texts, stack: Stack, point: Point) -> tuple[Stack, Point, Tensor, Tensor]:
    """Problems with or without a bound, and with a wide or a tight range; and their fits.

    A wide range is easier to read and is kept unless another one, or none, predicts far better.

    Returns:
        The problems, their fits, the log errors of left-out calls, (B,), and the share of variance
        that is predicted of these, (B,).
    """
    settings = stack.settings
    narrow = settings.margin / settings.tight
    trial = stack.repeat(3)
    trial = replace(
        trial,
        scale=trial.scale * stack.z.new_tensor([1.0, narrow, 1.0]),
        bounded=trial.bounded & (torch.arange(3, device=stack.z.device) < 2),
    )
    same = torch.arange(3, device=stack.z.device).expand(len(texts), -1) == 0
    begun = point.repeat(3)
    begun = replace(begun, u=choose(same, begun.u, _start(trial, begun.s).u))
    strength = _compare_at(trial)
    settled = settle(trial, begun, strength, settings.bound_steps, settings.rounds)
    settled = settle_exact(trial, settled, strength)
    left = look_back(trial, settled, settings.judged)
    judged = _judge(trial, left)
    losses = judged.clone()
    losses[:, :2].masked_fill_(~texts.bounded[:, None], torch.inf)
    saturated = (stack.z[:, 0, :, 0] * settings.margin).abs().amax(dim=1) > settings.saturated
    losses[:, 1] += torch.where(saturated, settings.saturated_gain, settings.tight_gain)
    losses[:, 2] += torch.where(texts.probed, settings.unbounded_probed, settings.unbounded_gain)
    chosen = losses.argmin(dim=1)
    shares = _of_predicted(_predicted_shares(trial, left)[1], texts)
    judged, shares = (part.gather(1, chosen[:, None])[:, 0] for part in (judged, shares))
    return trial.pick_candidates(chosen), settled.pick_candidates(chosen), judged, shares


def _choose_weights(texts: _Texts, stack: Stack, point: Point) -> tuple[Tensor, Point]:
    """The weights of all calls that predict best, (B, 1, C, m), and the fit with them.

    Where a prediction is saturated, a few units change next to nothing and most of them change
    much: gentle weights fit one of the two and steep weights the other. The predicted class counts.
    Without bounds all classes share their weights, so that their values sum to zero.
    """
    settings = stack.settings
    kinds = len(settings.steepness)
    weights = _weigh(stack, point, settings.steepness)
    shared = weights.mean(dim=2, keepdim=True).expand_as(weights)
    stack = replace(stack.repeat(kinds), weights=choose(stack.bounded, weights, shared))
    trial = texts.take_some(stack)
    settled = settle(trial, point.repeat(kinds), _compare_at(trial), settings.steps)
    balance = _balance(trial, look_back(trial, settled, settings.judged))
    chosen = _of_predicted(balance, texts).argmax(dim=1)
    return stack.pick_candidates(chosen).weights, settled.pick_candidates(chosen)


def _compare_at(stack: Stack) -> Tensor:
    """The strength of the prior on values, (B, K), where fits differ in something else."""
    settings = stack.settings
    strengths = torch.where(stack.scarce, settings.scarce_strength, settings.first_strength)
    return strengths.to(stack.z)


def _choose_pairs(texts: _Texts, stack: Stack, point: Point) -> tuple[Tensor, Point]:
    """The units that are heard together, (B, P, 2), -1 for none; and the fit with them.

    Candidates are ranked by how much of the remaining error a pair would take, to first order. The
    best few are fitted, and kept where left-out calls say so.
    """
    settings = stack.settings
    left = look_back(stack, point, settings.judged)
    pairs = _rank_pairs(texts, stack, point, left)
    if not pairs.shape[1]:
        return pairs, point
    more = _with_pairs(stack, pairs)
    plain = _add_elements(point, pairs)
    settled = settle(more, plain, _compare_at(more), settings.steps)
    found = look_back(more, settled, settings.judged)
    gain = _judge(stack, left) - _judge(more, found)
    before, after = (
        _predicted_shares(*both).clamp(min=0).mean(dim=(0, 3))
        for both in ((stack, left), (more, found))
    )
    worth = (gain > settings.pair_gain) & (after - before > settings.pair_share)
    kept = torch.where(worth[..., None], pairs, -1)
    if not bool(worth.any()):
        return kept[:, :0], point
    return kept, settled.choose(worth, plain)


def _rank_pairs(texts: _Texts, stack: Stack, point: Point, left: Left) -> Tensor:
    """The most promising pairs of each text, (B, P, 2), in the order of their places."""
    stack = stack.take_first(left.left_out.shape[3])
    width = stack.x.shape[2] - 1
    first, second = torch.triu_indices(width, width, 1, device=stack.x.device)
    near = second - first <= stack.settings.pair_reach
    first, second = first[near], second[near]
    most = min(int(texts.wanted_pairs.max()), len(first))
    if most < 1 or width < 3:
        return torch.zeros(len(texts), 0, 2, dtype=torch.long, device=stack.x.device)
    together = stack.x[:, :, first] * stack.x[:, :, second]  # (B, m, pairs)
    raw = torch.exp(point.s - point.s.amax(dim=2, keepdim=True))[:, 0]
    mass = stack.x @ raw[..., None]
    p = point.s.shape[2]
    gained = together.new_zeros(len(together), len(first))
    for column in range(point.u.shape[2]):
        weights = stack.weights[:, 0, column, :, None]
        slopes, inverse = left.slopes[:, 0, column], left.inverse[:, 0, column]
        slope = slopes[..., :p].sum(dim=2, keepdim=True)  # shares add up to one
        new = together * (slope / mass)
        known = slopes @ (inverse @ (slopes.transpose(1, 2) @ (weights * new)))
        own = new - known
        error = left.left_out[:, 0, column, :, None]
        least = 1e-12 * (weights * new**2).sum(dim=1).amax(dim=1, keepdim=True) + 1e-300
        gained = gained + (weights * own * error).sum(dim=1) ** 2 / torch.maximum(
            (weights * own**2).sum(dim=1), least
        )
    gained = gained.masked_fill(second >= texts.units[:, None], -1)
    places: Tensor = gained.argsort(dim=1, descending=True)[:, :most]
    spare = torch.arange(most, device=places.device) >= texts.wanted_pairs[:, None]
    spare |= texts.units[:, None] < 3
    places = places.masked_fill(spare, len(first)).sort(dim=1)[0]
    none = first.new_full((1,), -1)
    sides = [torch.cat([one, none])[places] for one in (first, second)]
    return torch.stack(sides, dim=2)


def _with_pairs(stack: Stack, pairs: Tensor) -> Stack:
    """The same problems with the elements of these pairs, which stand before the sink."""
    if not pairs.shape[1]:
        return stack
    x, there = stack.x, (pairs[..., 0] >= 0).to(stack.x)  # (B, P)
    first, second = (
        x.gather(2, pairs[:, None, :, side].clamp(min=0).expand(-1, x.shape[1], -1))
        for side in range(2)
    )
    together = first * second * there[:, None]
    return replace(
        stack,
        masks=Masks(torch.cat([x[..., :-1], together, x[..., -1:]], dim=2)),
        real=torch.cat([stack.real[..., :-1], there[:, None], stack.real[..., -1:]], dim=2),
        rest=torch.cat([stack.rest[..., :-1], 0 * there[:, None], stack.rest[..., -1:]], dim=2),
    )


def _add_elements(point: Point, pairs: Tensor) -> Point:
    """Where problems with pairs begin: pairs have the sink's value and hardly any importance."""
    there = (pairs[..., 0] >= 0).to(point.u)[:, None]
    values = point.u[..., -1:] * there[:, :, None]
    u = torch.cat([point.u[..., :-1], values, point.u[..., -1:]], dim=3)
    s = torch.cat([point.s[..., :-1], -there, point.s[..., -1:]], dim=2)
    return replace(point, u=u, s=s)


def _choose_strength(stack: Stack, point: Point) -> tuple[Tensor, Point, Point]:
    """The strength of the prior on values, (B, 1), the fit with it, and that without regard to it.

    The strongest is taken that predicts about as well as the best.
    """
    settings = stack.settings
    strengths = stack.z.new_tensor(settings.strengths)
    weakest = torch.where(stack.scarce, settings.scarce_weakest, 0.0).to(strengths)
    strengths = torch.maximum(strengths, weakest)  # (B, K)
    trial = stack.repeat(len(settings.strengths))
    begun = point.repeat(len(settings.strengths))
    settled = settle(trial, begun, strengths, settings.steps)
    settled = settle_exact(trial, settled, strengths)
    balance = _balance(trial, look_back(trial, settled, settings.judged)).mean(dim=2)
    best = balance.amax(dim=1, keepdim=True)
    cost = ((1 - best) * settings.relative_cost).clamp(min=1e-12, max=settings.value_cost)
    enough = (balance >= best - cost).to(torch.int64)
    chosen, freest = enough.argmax(dim=1), balance.argmax(dim=1)  # the first is the strongest
    return (
        strengths.gather(1, chosen[:, None]),
        settled.pick_candidates(chosen),
        settled.pick_candidates(freest),
    )


def _fit_one_scores(fitted: Sequence[FittedForm], device: torch.device) -> list[OneScore]:
    """The best formula with equal importances for each text.

    It may have the range of the two scores or a tight one, and steep or equal weights, as left-out
    calls prefer; then a weaker or stronger prior, likewise.
    """
    texts, stack = _stack([one.request for one in fitted], device)
    weights = torch.zeros(len(fitted), *stack.weights.shape[2:], dtype=torch.float64)
    for number, one in enumerate(fitted):
        weights[number, :, : one.weights.shape[1]] = one.weights
    bounded = torch.tensor([bool(one.form.curvature[0]) for one in fitted], device=device)
    stack = replace(stack, weights=weights.to(device)[:, None], bounded=bounded[:, None])
    settings = stack.settings
    narrow = settings.margin / settings.tight
    even = (stack.weights > 0).to(stack.weights)
    ways = replace(
        stack.repeat(4),
        weights=torch.cat([stack.weights, stack.weights, even, even], dim=1),
        scale=stack.z.new_tensor([narrow, 1.0, narrow, 1.0]).expand(len(texts), -1),
    )
    trial = texts.take_some(ways)
    begun = replace(_start(trial), free=False)
    middle = settings.alone[len(settings.alone) // 2] / trial.size.expand(-1, 4)
    settled = settle(trial, begun, middle, settings.steps)
    shares = _of_predicted(_balance(trial, look_back(trial, settled, settings.judged)), texts)
    way = shares.argmax(dim=1)
    strengths = stack.z.new_tensor(settings.alone)
    trial = trial.pick_candidates(way).repeat(len(strengths))
    begun = settled.pick_candidates(way).repeat(len(strengths))
    settled = settle(trial, begun, strengths / trial.size, settings.steps)
    shares = _of_predicted(_balance(trial, look_back(trial, settled, settings.judged)), texts)
    chosen = shares.argmax(dim=1)
    whole = ways.pick_candidates(way)
    strength = strengths[chosen][:, None] / whole.size
    final = finish(whole, settled.pick_candidates(chosen), strength)
    no_pairs = texts.units.new_zeros(len(texts), 0, 2)
    errors = look_back(whole, final).left_out[:, 0].to(CPU)
    forms = _Fitted.of(texts, whole, final, no_pairs)
    predicted = (forms.half[..., None] * errors).transpose(1, 2)
    return [
        OneScore(
            forms.form(number, one.counts.shape[1]),
            one.outputs + predicted[number, : len(one.counts)],
        )
        for number, one in enumerate(texts.requests)
    ]


def _judge(stack: Stack, left: Left) -> Tensor:
    """What choices between fits minimise, (B, K): the log errors of left-out calls.

    It is the mean of two, where few units are missing and where any number is. Logarithms keep the
    larger of the two from drowning the other.
    """
    squares = ((left.left_out - left.whole[..., None]) / stack.scale[..., None, None]) ** 2
    errors = [
        (squares * part).sum(dim=3) / part.sum(dim=3).clamp(min=1e-300)
        for part in _parts(stack.take_first(squares.shape[3]))
    ]
    return torch.stack(errors).clamp(min=1e-14).log().mean(dim=(0, 3))


def _parts(stack: Stack) -> tuple[Tensor, Tensor]:
    """How much calls count where few units are missing, and where any number is, (B, K, 1, m) each.

    About half of the calls lack a number that is drawn on a log scale. Readers are told how well
    the formula predicts if all numbers are equally likely, so calls with many missing units count
    for more.
    """
    settings = stack.settings
    missing, units = stack.x[:, None, None, :, -1], stack.size[..., None, None] - 1
    real = (stack.weights[:, :, :1] > 0) & (missing > 0)
    few = real & (missing <= settings.few)
    few = torch.where(few.sum(dim=3, keepdim=True) < settings.least_few, real, few)
    logs = missing.clamp(min=1) * torch.log1p(units)
    rare = logs / (logs + units)
    return few * rare, real * rare


def _predicted_shares(stack: Stack, left: Left) -> Tensor:
    """The share of the outputs' variance that is predicted of left-out calls, (2, B, K, C).

    First where few units are missing, then where any number is.
    """
    stack = stack.take_first(left.left_out.shape[3])
    shares = []
    for part in _parts(stack):
        squares = (part * (left.left_out - left.whole[..., None]) ** 2).sum(dim=3)
        shares.append(1 - squares / stack.spread_of_each(part))
    return torch.stack(shares)


def _balance(stack: Stack, left: Left) -> Tensor:
    """What choices maximise, (B, K, C): the share of variance predicted of left-out calls."""
    few, every = _predicted_shares(stack, left)
    return torch.lerp(few.clamp(min=0), every.clamp(min=-1), stack.settings.any_counts)


def _of_predicted(columns: Tensor, texts: _Texts) -> Tensor:
    """Of (B, K, C) those of the predicted output, (B, K)."""
    each = torch.arange(len(texts), device=columns.device)
    of_predicted: Tensor = columns[each, :, texts.predicted]
    return of_predicted


def _group(calls: int, groups: int) -> Tensor:
    """The group of each call, (m,), at random but always the same."""
    generator = torch.Generator().manual_seed(calls)
    groups = min(groups, calls)
    return torch.randperm(calls, generator=generator) % groups


@dataclass(frozen=True)
class _Fitted:
    """Fitted formulas of stacked texts, one for each.

    Attributes:
        inner: (B, C, p), values before the bound.
        importances: (B, p), those of units with a mean of zero.
        centre: (B, C).
        half: (B, C), half of the range's width.
        curvature: (B, C), of the bound.
        pairs: (B, P, 2), -1 for none.
    """

    inner: Tensor
    importances: Tensor
    centre: Tensor
    half: Tensor
    curvature: Tensor
    pairs: Tensor

    @classmethod
    def of(cls, texts: _Texts, stack: Stack, point: Point, pairs: Tensor) -> _Fitted:
        """What one candidate for each text stands for."""
        half = stack.settings.margin / stack.scale * texts.half
        unit = torch.arange(stack.x.shape[2], device=half.device) < texts.units[:, None]
        s = point.s[:, 0]
        shift = torch.where(unit, s, 0.0).sum(dim=1, keepdim=True) / texts.units[:, None]
        return cls(
            (texts.centre[..., None] + half[..., None] * point.u[:, 0]).to(CPU),
            (s - shift).to(CPU),
            texts.centre.to(CPU),
            half.to(CPU),
            torch.where(stack.bounded, 1 / half, 0.0).to(CPU),
            pairs.to(CPU),
        )

    def form(self, number: int, n: int) -> BoundedSlalom:
        """The formula of one text of n units."""
        inner, s = self.inner[number].T, self.importances[number]
        there = self.pair_places(number)
        pairs = self.pairs[number, : len(there)]
        return BoundedSlalom(
            inner[:n],
            s[:n],
            inner[-1],
            s[-1],
            self.centre[number],
            self.curvature[number],
            torch.zeros_like(inner[:n]),
            pairs.to(inner),
            inner[there],
            s[there],
        )

    def pair_places(self, number: int) -> list[int]:
        """The places of one text's pairs among the elements: they come first among its pairs."""
        start = self.inner.shape[2] - 1 - self.pairs.shape[1]
        return list(range(start, start + int((self.pairs[number, :, 0] >= 0).sum())))


def _read_off(
    texts: _Texts,
    forms: Sequence[_Fitted],
    stack: Stack,
    left: Left,
) -> list[FittedForm]:
    """What each text's fit says, and what it would say without one group of calls.

    Args:
        texts: that were fitted.
        forms: the fits, those that choices were made with, and those with the freest prior.
        stack: the problems.
        left: what the fits leave.
    """
    settings, width = stack.settings, stack.x.shape[2]
    fitted, pulled, free = forms
    errors = (fitted.half[..., None] * left.left_out[:, 0].to(CPU)).transpose(1, 2)
    weights = stack.weights[:, 0].to(CPU)
    groups = torch.nn.utils.rnn.pad_sequence(
        [_group(len(one.counts), settings.groups) for one in texts.requests],
        batch_first=True,
        padding_value=-1,
    )
    count = int(groups.max()) + 1
    member = (groups[:, None] == torch.arange(count)[:, None]).to(left.slopes)  # (B, G, m)
    pull = stack.weights * left.left_out  # (B, 1, C, m)
    steps = (member[:, None] * pull[:, 0, :, None]) @ left.slopes[:, 0] @ left.inverse[:, 0]
    way = (settings.linear / steps.abs().amax(dim=3).clamp(min=1e-300)).clamp(max=1)  # (B, C, G)
    steps = (steps * way[..., None]).to(CPU)
    spread = (left.variance[..., None, None] * left.inverse.diagonal(dim1=3, dim2=4)).clamp(min=0)
    way = way.to(CPU)
    unknown = spread.sqrt()[:, 0].to(CPU)
    unknown = torch.stack([fitted.half[..., None] * unknown[..., :width], unknown[..., width:]], 2)
    found = []
    for number, request in enumerate(texts.requests):
        m, n = request.counts.shape
        form = fitted.form(number, n)
        real = torch.tensor([*range(n), *fitted.pair_places(number), width - 1])
        those = slice(min(count, m))
        inner = (
            fitted.inner[number, :, None]
            + fitted.half[number, :, None, None] * (steps[number, :, those, :width])
        )
        s = fitted.importances[number] + steps[number, :, those, width:]
        s = s - s[..., :n].mean(dim=2, keepdim=True)
        jackknife = tuple(
            Formulas(
                one,
                other,
                centre.expand(len(one)),
                curvature.expand(len(one)),
                form.pairs.expand(len(one), -1, -1),
                n,
            )
            for one, other, centre, curvature in zip(
                inner[..., real], s[..., real], form.centre, form.curvature, strict=True
            )
        )
        found.append(
            FittedForm(
                form,
                jackknife,
                way[number, :, those],
                unknown[number, :, :, :n],
                pulled.form(number, n),
                free.form(number, n),
                request.outputs + errors[number, :m],
                request,
                weights[number, :, :m],
                groups[number, :m],
            )
        )
    return found
