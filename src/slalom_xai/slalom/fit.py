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

Choices are made on a part of the calls where there are many. The fit that is reported uses all.

Shapes: B problems, m perturbed texts, p elements (units, pairs, the sink last), C outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from slalom_xai.slalom.formula import BoundedSlalom, Formulas, list_elements
from slalom_xai.slalom.settings import FIT, FitSettings
from slalom_xai.slalom.solver import (
    Left,
    Point,
    Stack,
    choose,
    descend,
    evaluate,
    look_back,
    settle,
)
from slalom_xai.system.process import work_side_by_side

CPU = torch.device("cpu")
Scale = tuple[Tensor, Tensor]  # the middle of the range and half of its width, (C,) each


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
        one_score: the best formula with all importances equal, for comparison.
        one_score_left_out: (m, C), likewise.
        groups: (m,), the group of each call.
        left_out_r2: the share of variance that is predicted of left-out calls, of the output that
            is the largest for the whole text.
        loss: their log error, few and any number of missing units alike.
    """

    form: BoundedSlalom
    jackknife: tuple[Formulas, ...]
    way: Tensor
    unknown: Tensor
    pulled: BoundedSlalom
    free: BoundedSlalom
    left_out: Tensor
    one_score: BoundedSlalom
    one_score_left_out: Tensor
    groups: Tensor
    left_out_r2: float
    loss: float


def fit_forms(requests: Sequence[FitRequest]) -> list[FittedForm]:
    """Fits many texts at once: those of about one size and with as many outputs in one stack.

    Stacks are so small that they stay in a processor's cache, and several are worked on at once.
    """
    if not requests:
        return []
    settings = requests[0].settings
    cells = sum(request.counts.numel() for request in requests)
    device = next((one.device for one in requests if one.device.type == "cuda"), CPU)
    if cells < settings.cells_on_gpu[0]:
        device = CPU  # sooner done than the steps are handed to a GPU
    at_once = settings.cells if device == CPU else settings.cells_on_gpu[1]
    kinds: dict[tuple[int, int, FitSettings], list[int]] = {}
    for number, request in enumerate(requests):
        size = 1 << (request.counts.numel() - 1).bit_length()
        kinds.setdefault((request.outputs.shape[1], size, request.settings), []).append(number)
    stacks: list[list[int]] = []
    for (_, size, _), numbers in kinds.items():
        most = max(1, at_once // size)
        stacks += [numbers[start : start + most] for start in range(0, len(numbers), most)]
    stacked = [[requests[number] for number in numbers] for numbers in stacks]
    fit = partial(_fit_alike, device=device)
    results = work_side_by_side(fit, stacked) if device == CPU else map(fit, stacked)
    fitted: dict[int, FittedForm] = {}
    for numbers, found in zip(stacks, results, strict=True):
        fitted.update(zip(numbers, found, strict=True))
    return [fitted[number] for number in range(len(requests))]


def _fit_alike(requests: Sequence[FitRequest], device: torch.device) -> list[FittedForm]:
    settings = requests[0].settings
    stack = _stack(requests).to(device)
    point = descend(stack, _start(stack), settings.first_steps, settings.settled)
    first = point
    calls = _draw_calls(requests).to(device)
    predicted = torch.tensor([int(one.outputs[0].argmax()) for one in requests], device=device)
    some = replace(stack, weights=_weigh(stack, first)).take_calls(calls)
    bounded, margin, point = _choose_bound(requests, some, first)
    stack, some, point = _choose_weights(stack, first, calls, predicted, bounded, margin, point)
    others = _fit_one_score(requests, replace(stack, bounded=bounded), calls, predicted)
    stack, some = (_widen(replace(part, bounded=bounded), margin) for part in (stack, some))
    pairs, point = _choose_pairs(requests, some, point)
    some = _with_pairs(some, requests, pairs)
    chosen, pulled, free = _choose_strength(some, point)
    whole = _with_pairs(stack, requests, pairs)
    final = settle(
        whole,
        pulled,
        chosen,
        settings.last_rounds,
        settings.last_steps,
        settings.settled,
    )
    left = look_back(whole, final)
    losses = _judge(whole, left)
    every = _of_predicted(_predicted_shares(whole, left)[1], predicted)[0]
    whole, left = whole.to(CPU), left.to(CPU)
    final, pulled, free = final.to(CPU), pulled.to(CPU), free.to(CPU)
    margin, bounded, losses, every = (one.to(CPU) for one in (margin, bounded, losses, every))
    fitted = []
    for number, request in enumerate(requests):
        here = torch.tensor([number])
        scale = _find_scale(request, float(margin[number]))
        two = _Fitted(request, scale, pairs[number], bool(bounded[number]))
        groups = _group(len(request.counts), request.settings.groups)
        fitted.append(
            FittedForm(
                two.form(final.u[number], final.s[number]),
                *two.jackknife(whole.pick(here), final.pick(here), left.pick(here), groups),
                two.measure_unknown(left.pick(here)),
                two.form(pulled.u[number], pulled.s[number]),
                two.form(free.u[number], free.s[number]),
                two.add_error(left.left_out[number]),
                *others[number],
                groups,
                float(every[number]),
                float(losses[number]),
            )
        )
    return fitted


def _find_scale(request: FitRequest, margin: float) -> Scale:
    """The middle and half of the width of the range, (C,) each, which all outputs lie within."""
    low = torch.minimum(request.low.to(request.outputs), request.outputs.amin(dim=0))
    high = torch.maximum(request.high.to(request.outputs), request.outputs.amax(dim=0))
    half = margin * (high - low) / 2
    return (low + high) / 2, half.clamp(min=1e-6 * (1 + high.abs() + low.abs()))


def _stack(requests: Sequence[FitRequest]) -> Stack:
    """Problems one above the other, filled up with zeros; elements end with the sink."""
    settings, no_pairs = requests[0].settings, torch.zeros(0, 2)
    elements = [list_elements(request.counts, no_pairs) for request in requests]
    calls = max(len(one) for one in elements)
    width = max(one.shape[1] for one in elements)
    first, columns = requests[0].outputs, requests[0].outputs.shape[1]
    x = first.new_zeros(len(requests), calls, width)
    z = first.new_zeros(len(requests), calls, columns)
    weights = torch.zeros_like(z)
    real, rest = (first.new_zeros(len(requests), width) for _ in range(2))
    for number, (request, own) in enumerate(zip(requests, elements, strict=True)):
        centre, half = _find_scale(request, settings.margin)
        m, p = own.shape
        x[number, :m, : p - 1] = own[:, :-1]
        x[number, :m, -1] = own[:, -1]
        x[number, m:, -1] = 1  # padding is a text of which everything is missing, with weight 0
        z[number, :m] = (request.outputs - centre) / half
        weights[number, :m] = own[:, -1:].clamp(min=1) ** -settings.first_power
        real[number, : p - 1], real[number, -1] = 1, 1
        n = request.counts.shape[1]
        rest[number, :n] = request.log_occurrences - request.log_occurrences.mean()
    bounded = torch.ones(len(requests), dtype=torch.bool, device=first.device)
    return Stack(x, z, weights, real, rest, bounded, settings)


def _start(stack: Stack) -> Point:
    """An additive fit: with equal importances, averages are linear in the values."""
    inner = choose(stack.bounded, torch.atanh(stack.z.clamp(-0.98, 0.98)), stack.z)
    shares = stack.x / stack.x.sum(dim=2, keepdim=True).clamp(min=1e-300)
    weighted = shares.transpose(1, 2) * stack.weights.mean(dim=2)[:, None]
    gram = weighted @ shares
    size = (gram.diagonal(dim1=1, dim2=2).sum(dim=1) / stack.size)[:, None, None]
    factor = torch.linalg.cholesky(gram + 1e-2 * size * stack.value_prior)
    u = torch.cholesky_solve(weighted @ inner, factor)
    prior = stack.settings.first_prior * stack.spread() / stack.size
    return Point(u.clamp(-1.5, 1.5), stack.rest.clone(), prior, prior)


def _weigh(stack: Stack, point: Point, steepness: float = 1.0) -> Tensor:
    """Weights (B, m, C): one over the squared error expected where so many units are missing.

    The expectation is a power of that number, fitted on a log scale to the errors of a first fit,
    output by output, and drawn towards the number itself where there are few calls. A class that is
    predicted for sure moves less than the others when a few units go, and its errors are smaller.

    Args:
        stack: the problems.
        point: their first fits.
        steepness: a factor of that power.
    """
    settings = stack.settings
    left = evaluate(stack, point.u, point.s).output - stack.z
    missing, real = stack.x[..., -1:], (stack.weights > 0).to(left)
    squares = real * left**2
    size = torch.log(missing.clamp(min=1))
    log_error = torch.log(squares + 1e-12 * squares.amax(dim=1, keepdim=True) + 1e-300)
    count = real.sum(dim=1, keepdim=True)
    centre = (real * size).sum(1, keepdim=True) / count
    centred = real * (size - centre)
    power = ((centred * log_error).sum(1, keepdim=True) + settings.slack) / (
        (centred * size).sum(1, keepdim=True) + settings.slack
    )
    level = (real * log_error).sum(1, keepdim=True) / count - power * centre
    exponent = (-steepness * power * size).masked_fill(real == 0, -torch.inf)
    weights = torch.exp(exponent - exponent.amax(dim=1, keepdim=True))
    weights = weights.clamp(min=1 / settings.steepest) * real
    weights = torch.where(missing == 0, weights * settings.whole_weight, weights)
    share = torch.exp(level.amin(dim=2, keepdim=True) - level)
    weights = weights * share.clamp(min=1 / settings.steepest)  # beside a constant output, say
    return _rescale(weights)


def _rescale(weights: Tensor) -> Tensor:
    """Weights (B, m, C) whose mean is one over all calls that are not padding."""
    count = (weights > 0).sum(dim=(1, 2), keepdim=True)
    return weights / weights.sum(dim=(1, 2), keepdim=True) * count


def _draw_calls(requests: Sequence[FitRequest]) -> Tensor:
    """The calls that choices are made on, (B, k): the whole text, and others at random.

    They depend on the text alone, not on those that are fitted with it. -1 stands for no call.
    """
    settings = requests[0].settings
    drawn = []
    for request in requests:
        calls, units = request.counts.shape
        most = min(
            calls,
            max(settings.calls_to_choose, settings.calls_per_element * (units + 1)),
        )
        chosen = torch.arange(most)
        if most < calls:
            generator = torch.Generator().manual_seed(calls)
            chosen[1:] = 1 + torch.randperm(calls - 1, generator=generator)[: most - 1]
        drawn.append(chosen)
    return torch.nn.utils.rnn.pad_sequence(drawn, batch_first=True, padding_value=-1)


def _choose_bound(
    requests: Sequence[FitRequest], stack: Stack, point: Point
) -> tuple[Tensor, Tensor, Point]:
    """Whether a bound describes each text, (B,), how wide its range is, (B,), and the fit.

    A wide range is easier to read and is kept unless another one, or none, predicts far better.
    """
    settings = stack.settings
    count, margins = (
        len(requests),
        (settings.margin, settings.tight, settings.margin),
    )
    every = torch.arange(count).repeat(3)
    kind = torch.arange(3).repeat_interleave(count).to(stack.x.device)
    margin = stack.x.new_tensor(margins)[kind]
    trial = _widen(replace(stack.pick(every), bounded=kind < 2), margin)
    begun = point.pick(every)
    begun = replace(begun, u=choose(kind == 0, begun.u, _start(trial).u))
    strength = _compare_at(trial)
    settled = settle(
        trial,
        begun,
        strength,
        settings.rounds,
        settings.bound_steps,
        settings.near,
    )
    losses = _judge(trial, look_back(trial, settled), margin).reshape(3, count)
    for number, request in enumerate(requests):
        if not request.bounded:
            losses[:2, number] = torch.inf
    saturated = (stack.z[:, 0] * settings.margin).abs().amax(dim=1) > settings.saturated
    losses[1] += torch.where(saturated, settings.saturated_gain, settings.tight_gain)
    probed = torch.tensor([request.probed for request in requests], device=losses.device)
    losses[2] += torch.where(probed, settings.unbounded_probed, settings.unbounded_gain)
    chosen = losses.argmin(dim=0) * count + torch.arange(count, device=losses.device)
    return trial.bounded[chosen], margin[chosen], settled.pick(chosen)


def _choose_weights(
    stack: Stack,
    first: Point,
    calls: Tensor,
    predicted: Tensor,
    bounded: Tensor,
    margin: Tensor,
    point: Point,
) -> tuple[Stack, Stack, Point]:
    """Problems with the weights that predict best, all calls and some of them; and the fit.

    Where a prediction is saturated, a few units change next to nothing and most of them change
    much: gentle weights fit one of the two and steep weights the other. The predicted class counts.
    Without bounds all classes share their weights, so that their values sum to zero.
    """
    settings = stack.settings
    count, kinds = len(stack.x), len(settings.steepness)
    each = torch.arange(count, device=stack.x.device).repeat(kinds)
    weights = torch.cat([_weigh(stack, first, power) for power in settings.steepness])
    shared = weights.mean(dim=2, keepdim=True).expand_as(weights)
    weights = choose(bounded[each], weights, shared)
    trial = replace(stack.pick(each), weights=weights, bounded=bounded[each])
    some = _widen(trial.take_calls(calls[each]), margin[each])
    begun = point.pick(each)
    settled = settle(
        some,
        begun,
        _compare_at(some),
        settings.rounds,
        settings.bound_steps,
        settings.near,
    )
    balance = _of_predicted(_balance(some, look_back(some, settled)), predicted)
    chosen = balance.argmax(dim=0) * count + torch.arange(count, device=balance.device)
    stack = replace(stack, weights=weights[chosen])
    return stack, stack.take_calls(calls), settled.pick(chosen)


def _compare_at(stack: Stack) -> Tensor:
    """The strength of the prior on values, (B,), where fits differ in something else."""
    settings = stack.settings
    strengths = torch.where(stack.scarce, settings.scarce_strength, settings.first_strength)
    return strengths.to(stack.x)


def _balance(stack: Stack, left: Left) -> Tensor:
    """What choices maximise, (B, C): the share of variance that is predicted of left-out calls."""
    few, every = _predicted_shares(stack, left)
    return torch.lerp(few.clamp(min=0), every.clamp(min=-1), stack.settings.any_counts)


def _widen(stack: Stack, margin: Tensor) -> Stack:
    """Problems whose range is so many times as wide as the outputs seen, (B,)."""
    return replace(stack, z=stack.z * (stack.settings.margin / margin)[:, None, None])


def _choose_pairs(
    requests: Sequence[FitRequest], stack: Stack, point: Point
) -> tuple[list[Tensor], Point]:
    """The units that are heard together, (P, 2) for each text, often none; and the fit with them.

    Candidates are ranked by how much of the remaining error a pair would take, to first order. The
    best few are fitted, and kept where left-out calls say so.
    """
    settings = stack.settings
    left = look_back(stack, point)
    ranked = [
        _rank_pairs(request, stack.pick(b), point.pick(b), left.pick(b))
        for b, request in zip(torch.split(torch.arange(len(requests)), 1), requests, strict=True)
    ]
    if not any(len(pairs) for pairs in ranked):
        return ranked, point
    more = _with_pairs(stack, requests, ranked)
    begun = _add_elements(point, requests, ranked, more)
    strength = _compare_at(more)
    settled = settle(more, begun, strength, 1, settings.steps, settings.about)
    found = look_back(more, settled)
    gain = _judge(stack, left) - _judge(more, found)
    before, after = (
        _predicted_shares(one, two).clamp(min=0).mean(dim=(0, 2))
        for one, two in ((stack, left), (more, found))
    )
    worth = (gain > settings.pair_gain) & (after - before > settings.pair_share)
    kept = [pairs if one else pairs[:0] for pairs, one in zip(ranked, worth.tolist(), strict=True)]
    last = _with_pairs(stack, requests, kept)
    plain = _add_elements(point, requests, kept, last)
    width = last.x.shape[2] - 1
    u, s = (torch.cat([part[:, :width], part[:, -1:]], dim=1) for part in (settled.u, settled.s))
    return kept, replace(settled, u=u, s=s).choose(worth, plain)


def _rank_pairs(request: FitRequest, stack: Stack, point: Point, left: Left) -> Tensor:
    n = request.counts.shape[1]
    wanted = min(request.most_pairs, n - 1, len(request.counts) // (3 * n))
    first, second = torch.triu_indices(n, n, 1)
    near = second - first <= stack.settings.pair_reach
    pairs = torch.stack([first[near], second[near]], dim=1).to(torch.float64)
    if wanted < 1 or n < 3:
        return pairs[:0]
    units = stack.x[0, :, :n]
    together = units[:, first[near]] * units[:, second[near]]
    raw = stack.x * torch.exp(point.s - point.s.amax(dim=1, keepdim=True))[:, None]
    mass = raw.sum(dim=2)[0, :, None]
    gained = torch.zeros(len(pairs), dtype=stack.x.dtype, device=stack.x.device)
    p = point.s.shape[1]
    for column in range(point.u.shape[2]):
        weights, slopes = stack.weights[0, :, column, None], left.slopes[0, column]
        slope = slopes[:, :p].sum(dim=1, keepdim=True)  # shares add up to one
        new = together * slope / mass
        known = slopes @ (left.inverse[0, column] @ (slopes.T @ (weights * new)))
        own = new - known
        error = left.left_out[0, :, column, None]
        gained += (weights * own * error).sum(dim=0) ** 2 / (weights * own**2).sum(dim=0).clamp(
            min=1e-12 * float((weights * new**2).sum(dim=0).max()) + 1e-300
        )
    best = torch.argsort(gained, descending=True)[:wanted]
    return pairs[torch.sort(best.cpu())[0]]


def _with_pairs(stack: Stack, requests: Sequence[FitRequest], pairs: Sequence[Tensor]) -> Stack:
    """The same problems with the elements of these pairs, which stand before the sink."""
    most = max(len(own) for own in pairs)
    if not most:
        return stack
    batch, calls, width = stack.x.shape
    x = stack.x.new_zeros(batch, calls, width + most)
    real, rest = (stack.real.new_zeros(batch, width + most) for _ in range(2))
    for part, old in ((real, stack.real), (rest, stack.rest)):
        part[:, : width - 1], part[:, -1] = old[:, :-1], old[:, -1]
    x[..., : width - 1], x[..., -1] = stack.x[..., :-1], stack.x[..., -1]
    for number, (request, own) in enumerate(zip(requests, pairs, strict=True)):
        n, count = request.counts.shape[1], len(own)
        first, second = own.long().T
        x[number, :, n : n + count] = stack.x[number][:, first] * stack.x[number][:, second]
        real[number, n : n + count] = 1
    return replace(stack, x=x, real=real, rest=rest)


def _add_elements(
    point: Point, requests: Sequence[FitRequest], pairs: Sequence[Tensor], stack: Stack
) -> Point:
    """Where problems with pairs begin: pairs have the sink's value and hardly any importance."""
    u = point.u[:, -1:].repeat(1, stack.x.shape[2], 1)
    s = point.s.new_zeros(len(requests), stack.x.shape[2])
    for number, (request, own) in enumerate(zip(requests, pairs, strict=True)):
        n = request.counts.shape[1]
        u[number, :n], s[number, :n] = point.u[number, :n], point.s[number, :n]
        s[number, n : n + len(own)] = -1.0
    s[:, -1] = point.s[:, -1]
    return replace(point, u=u * stack.real[..., None], s=s * stack.real)


def _choose_strength(stack: Stack, point: Point) -> tuple[Tensor, Point, Point]:
    """The strength of the prior on values, (B,), the fit with it, and that without regard to it.

    The strongest is taken that predicts about as well as the best.
    """
    settings = stack.settings
    points: list[Point] = []
    shares: list[Tensor] = []
    for strength in reversed(settings.strengths):
        even = torch.full_like(point.a, strength)
        point = settle(stack, point, even, 1, settings.steps, settings.about)
        points.insert(0, point)
        shares.insert(0, _balance(stack, look_back(stack, point)).mean(dim=1))
    balance = torch.stack(shares, dim=1)  # (B, strengths)
    best = balance.amax(dim=1, keepdim=True)
    cost = ((1 - best) * settings.relative_cost).clamp(min=1e-12, max=settings.value_cost)
    enough = (balance >= best - cost).to(torch.int64)
    chosen = enough.argmax(dim=1)  # the first of them has the strongest prior
    strengths = torch.tensor(settings.strengths).to(balance)
    return strengths[chosen], _gather(points, chosen), _gather(points, balance.argmax(dim=1))


def _gather(points: Sequence[Point], chosen: Tensor) -> Point:
    """For each problem the point (B,) that was chosen for it."""
    found = points[0]
    for number, point in enumerate(points[1:], start=1):
        found = point.choose(chosen == number, found)
    return found


def _fit_one_score(
    requests: Sequence[FitRequest], stack: Stack, calls: Tensor, predicted: Tensor
) -> list[tuple[BoundedSlalom, Tensor]]:
    """The best formula with equal importances for each text, and its left-out predictions, (m, C).

    It may have the range of the two scores or a tight one, and steep or equal weights, as left-out
    calls prefer.
    """
    settings = stack.settings
    count, strengths = len(requests), len(settings.alone)
    ways = [
        (margin, flat) for margin in (settings.tight, settings.margin) for flat in (False, True)
    ]
    text = torch.arange(count).repeat(len(ways))
    way = torch.arange(len(ways)).repeat_interleave(count)
    margin, flat = (torch.tensor(part).to(stack.x)[way] for part in zip(*ways, strict=True))
    trial = _widen(stack.pick(text), margin)
    even = (trial.weights > 0).to(trial.weights)
    trial = replace(trial, weights=choose(flat > 0, even, trial.weights))
    begun = replace(_start(trial), s=trial.rest, free=False)
    # Each way with each strength: the number of the way's problem, text by text.
    every = torch.arange(len(text)).reshape(-1, 1, count).repeat(1, strengths, 1).flatten()
    strength = torch.tensor(settings.alone).repeat_interleave(count).repeat(len(ways)).to(trial.x)
    some = trial.take_calls(calls[text]).pick(every)
    strength = strength / some.size
    settled = settle(some, begun.pick(every), strength, 0, settings.steps, settings.about)
    shares = [  # one way after the other: all at once would take much memory for a long text
        _balance(some.pick(part), look_back(some.pick(part), settled.pick(part)))
        for part in torch.split(torch.arange(len(every)), count * strengths)
    ]
    best = _of_predicted(torch.cat(shares), predicted).argmax(dim=0).to(CPU)
    chosen = best * count + torch.arange(count)
    trial, settled, strength = trial.pick(every[chosen]), settled.pick(chosen), strength[chosen]
    settled = settle(trial, settled, strength, 0, settings.last_steps, settings.settled)
    left_out = look_back(trial, settled).left_out.to(CPU)
    settled, bounded = settled.to(CPU), trial.bounded.to(CPU)
    found = []
    for number, request in enumerate(requests):
        scale = _find_scale(request, ways[int(best[number]) // strengths][0])
        one = _Fitted(request, scale, torch.zeros(0, 2), bool(bounded[number]))
        form = one.form(settled.u[number], settled.s[number])
        found.append((form, one.add_error(left_out[number])))
    return found


def _judge(stack: Stack, left: Left, margin: Tensor | float = 1.0) -> Tensor:
    """What choices between fits minimise, (B,): the log errors of left-out calls.

    It is the mean of two, where few units are missing and where any number is. Logarithms keep the
    larger of the two from drowning the other.

    Args:
        stack: the problems.
        left: what their fits leave.
        margin: (B,), widths of the ranges whose units the errors are in, where they differ.
    """
    squares = (left.left_out - left.whole[:, None]) ** 2 * torch.as_tensor(margin).reshape(
        -1, 1, 1
    ).to(stack.x) ** 2
    errors = [
        (squares * part).sum(dim=1) / part.sum(dim=1).clamp(min=1e-300) for part in _parts(stack)
    ]
    return torch.stack(errors).clamp(min=1e-14).log().mean(dim=(0, 2))


def _parts(stack: Stack) -> tuple[Tensor, Tensor]:
    """How much calls count where few units are missing, and where any number is, (B, m, 1) each.

    About half of the calls lack a number that is drawn on a log scale. Readers are told how well
    the formula predicts if all numbers are equally likely, so calls with many missing units count
    for more.
    """
    settings = stack.settings
    missing, units = stack.x[..., -1], stack.size[:, None] - 1
    real = (stack.weights[..., 0] > 0) & (missing > 0)
    few = real & (missing <= settings.few)
    few = torch.where(few.sum(dim=1, keepdim=True) < settings.least_few, real, few)
    logs = missing.clamp(min=1) * torch.log1p(units)
    rare = logs / (logs + units)
    return (few * rare)[..., None], (real * rare)[..., None]


def _predicted_shares(stack: Stack, left: Left) -> Tensor:
    """The share of the outputs' variance that is predicted of left-out calls, (2, B, C).

    First where few units are missing, then where any number is.
    """
    shares = []
    for part in _parts(stack):
        squares = (part * (left.left_out - left.whole[:, None]) ** 2).sum(dim=1)
        shares.append(1 - squares / stack.spread_of_each(part))
    return torch.stack(shares)


def _of_predicted(columns: Tensor, predicted: Tensor) -> Tensor:
    """The columns (K B, C) of the predicted outputs (B,) of B texts, K times each, (K, B)."""
    each = columns.reshape(-1, len(predicted), columns.shape[1])
    return each[:, torch.arange(len(predicted), device=each.device), predicted]


def _group(calls: int, groups: int) -> Tensor:
    """The group of each call, (m,), at random but always the same."""
    generator = torch.Generator().manual_seed(calls)
    groups = min(groups, calls)
    return torch.randperm(calls, generator=generator) % groups


@dataclass(frozen=True)
class _Fitted:
    """One problem of a stack, on the way to a formula."""

    request: FitRequest
    scale: Scale
    pairs: Tensor
    bounded: bool

    def form(self, u: Tensor, s: Tensor) -> BoundedSlalom:
        """The formula of parameters u (p, C) and s (p,)."""
        n, count = self.request.counts.shape[1], len(self.pairs)
        centre, half = self.scale
        inner = centre + half * u
        shift = s[:n].mean()
        return BoundedSlalom(
            inner[:n],
            s[:n] - shift,
            inner[-1],
            s[-1] - shift,
            centre,
            self.curvature,
            torch.zeros_like(inner[:n]),
            self.pairs.to(inner),
            inner[n : n + count],
            s[n : n + count] - shift,
        )

    @property
    def curvature(self) -> Tensor:
        """Of the bound, (C,)."""
        half = self.scale[1]
        return 1 / half if self.bounded else torch.zeros_like(half)

    def add_error(self, left_out: Tensor) -> Tensor:
        """Predictions for each call, had it not been used, (m, C), from their errors."""
        half = self.scale[1]
        return self.request.outputs + half * left_out[: len(self.request.counts)]

    def measure_unknown(self, left: Left) -> Tensor:
        """Posterior standard deviations, (C, 2, n), by Laplace's approximation."""
        spread = (left.variance[0] * left.inverse[0].diagonal(dim1=1, dim2=2)).clamp(min=0).sqrt()
        values, importances = spread.chunk(2, dim=1)
        n = self.request.counts.shape[1]
        return torch.stack([self.scale[1][:, None] * values[:, :n], importances[:, :n]], dim=1)

    def jackknife(
        self, stack: Stack, point: Point, left: Left, groups: Tensor
    ) -> tuple[tuple[Formulas, ...], Tensor]:
        """Formulas on the way to those without one group of calls, and how far: per column."""
        calls, p = len(groups), point.s.shape[1]
        n = self.request.counts.shape[1]
        real = [*range(n + len(self.pairs)), p - 1]
        columns, ways = [], []
        for column, (centre, half, curvature) in enumerate(
            zip(*self.scale, self.curvature, strict=True)
        ):
            slopes = left.slopes[0, column, :calls]
            pull = stack.weights[0, :calls, column] * left.left_out[0, :calls, column]
            each = torch.zeros(int(groups.max()) + 1, calls, dtype=pull.dtype, device=pull.device)
            each[groups, torch.arange(calls)] = pull
            steps = (each @ slopes) @ left.inverse[0, column]  # (G, 2p)
            way = (stack.settings.linear / steps.abs().amax(dim=1).clamp(min=1e-300)).clamp(max=1)
            steps = steps * way[:, None]
            u, s = point.u[0, :, column] + steps[:, :p], point.s[0] + steps[:, p:]
            s = s - s[:, :n].mean(dim=1, keepdim=True)
            columns.append(
                Formulas(
                    centre + half * u[:, real],
                    s[:, real],
                    centre.expand(len(u)),
                    curvature.expand(len(u)),
                    self.pairs.to(u),
                    n,
                )
            )
            ways.append(way)
        return tuple(columns), torch.stack(ways)
