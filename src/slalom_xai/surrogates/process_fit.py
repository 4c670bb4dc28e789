"""Fits a Gaussian process: finds the kernel under which the answers are most likely.

``likelihood`` says how likely they are, and ``scoring`` searches. This module says where the search
begins and what the numbers of the kernel are drawn to. With few rows a weak pull lets the kernel
follow them: the correction of ``slalom`` has a strong one, and starts from how changes grow with
the number deleted.

Shapes: m rows, n units, C columns (explained outputs).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from slalom_xai.surrogates.conditioning import Changes, conditioned
from slalom_xai.surrogates.likelihood import SHARED, Likelihood, numbers_of, parts
from slalom_xai.surrogates.process import Kernel, Noise, Process
from slalom_xai.surrogates.scoring import Pull, likeliest


@dataclass(frozen=True)
class ProcessSettings:
    """Constants of the fit.

    Attributes:
        grows: whether changes may grow with the number deleted.
        most_rows: rows up to which all of them decide the kernel. An evaluation of the likelihood
            takes time with the cube of the rows.
        sampled_rows: rows that decide it where there are more; all are conditioned on.
        steps: evaluations of the likelihood, at most.
        halved_from: rows from which half of them decide first, in so many steps.
        last_steps: evaluations with all rows after that.
        pull: how strongly each unit's logarithms are drawn to their mean; keeps units that hardly
            any row deletes from running off.
        mean_pull: how strongly these means are drawn to their start.
        hold: how strongly the numbers that all units share are drawn to their start.
        together: entries of all kernels that are searched for at once: a processor's cache.
        lowest: of all logarithms. Less is nothing.
        highest: of all logarithms. More makes matrices singular.
    """

    grows: bool = False
    most_rows: int = 1_500
    sampled_rows: int = 1_000
    steps: int = 15
    halved_from: int = 1_000_000
    last_steps: int = 3
    pull: float = 0.01
    mean_pull: float = 0.01
    hold: float = 0.0
    together: int = 100_000
    lowest: float = -16.0
    highest: float = 8.0


# The peer that nothing is to be behind.
CEILING = ProcessSettings(pull=0.1)


def fit_process(
    counts: Tensor,
    outputs: Tensor,
    full: Tensor,
    generator: torch.Generator | None = None,
    *,
    moves: bool = False,
) -> Process:
    """A process of the changes against the whole text.

    Args:
        counts: (m, n), 1 keeps a unit and 0 deletes it; the whole text may be among them.
        outputs: (m, C), what the model answered.
        full: (C,), its answer to the whole text, which is met exactly.
        generator: chooses the rows that decide the kernel, where there are many; on the CPU.
        moves: whether later units move up where one is deleted.
    """
    deleting = counts.sum(dim=1) < counts.shape[1]
    changes = Changes.of(counts[deleting], (outputs - full)[deleting], moves)
    kernel, noise = fit_kernel(changes, CEILING, generator)
    return conditioned(kernel, noise, changes, full).process


def fit_kernel(
    changes: Changes,
    settings: ProcessSettings,
    generator: torch.Generator | None = None,
    near: tuple[Kernel, Noise] | None = None,
) -> tuple[Kernel, Noise]:
    """The kernel and the noise under which the changes are most likely.

    Args:
        changes: of rows.
        settings: how to search.
        generator: chooses rows, where there are many; on the CPU.
        near: where to begin the search, if something like it is known.
    """
    if len(changes.rows) > settings.most_rows:
        changes = changes.some(settings.sampled_rows, generator)
    start, begin = _starts(changes, settings)
    steps = settings.steps
    if near is not None:
        begin = numbers_of(*near)
    elif len(changes.rows) >= settings.halved_from:
        half = changes.some(len(changes.rows) // 2, generator)
        [begin] = _searched([half], [start], [begin], settings, steps)
        steps = settings.last_steps
    [found] = _searched([changes], [start], [begin], settings, steps)
    return _kernel(found, changes)


@dataclass(frozen=True)
class KernelRequest:
    """Sets of changes, such as those of one text, each of which has a kernel of its own.

    Attributes:
        sets: of changes.
        settings: how to search.
    """

    sets: Sequence[Changes]
    settings: ProcessSettings


def fit_kernels(requests: Sequence[KernelRequest]) -> list[list[tuple[Kernel, Noise]]]:
    """``fit_kernel`` for each set of each request; sets of one shape are searched together."""
    alike: dict[tuple[object, ...], list[tuple[int, int]]] = {}
    for number, request in enumerate(requests):
        for index, changes in enumerate(request.sets):
            kind = request.settings, changes.rows.shape, changes.changes.shape, changes.moves
            alike.setdefault(kind, []).append((number, index))
    found: dict[tuple[int, int], tuple[Kernel, Noise]] = {}
    for places in alike.values():
        settings = requests[places[0][0]].settings
        sets = [requests[number].sets[index] for number, index in places]
        found.update(zip(places, _fitted_alike(sets, settings), strict=True))
    return [
        [found[number, index] for index in range(len(request.sets))]
        for number, request in enumerate(requests)
    ]


def _fitted_alike(
    sets: Sequence[Changes], settings: ProcessSettings
) -> Iterator[tuple[Kernel, Noise]]:
    """The kernels of sets of one shape, as many at once as a processor's cache holds."""
    rows = len(sets[0].rows)
    if rows > settings.most_rows or rows >= settings.halved_from:
        yield from (fit_kernel(changes, settings) for changes in sets)
        return
    at_once = max(1, settings.together // rows**2)
    for first in range(0, len(sets), at_once):
        some = sets[first : first + at_once]
        starts, begins = zip(*(_starts(changes, settings) for changes in some), strict=True)
        numbers = _searched(some, starts, begins, settings, settings.steps)
        yield from map(_kernel, numbers, some)


def _starts(changes: Changes, settings: ProcessSettings) -> tuple[Tensor, Tensor]:
    """What the numbers (2 n + 7,) are drawn to, and where their search begins."""
    if not settings.grows:
        start = _start(changes.rows)
        return start, start
    start = _growing_start(changes.rows, changes.scaled)
    return start, start + _moved(changes.rows.shape[1]).to(start)


def _searched(
    sets: Sequence[Changes],
    starts: Sequence[Tensor],
    begins: Sequence[Tensor],
    settings: ProcessSettings,
    steps: int,
) -> Tensor:
    """The likeliest numbers (sets, 2 n + 7) for sets of one shape."""
    start, units = torch.stack(list(starts)), sets[0].rows.shape[1]
    held = torch.zeros_like(start[0], dtype=torch.bool)
    held[2 * units + _GROWTH] = not settings.grows
    held[2 * units + _PLACES] = not sets[0].moves
    return likeliest(
        Likelihood(Changes.stacked(sets)),
        torch.stack(list(begins)),
        Pull(start, settings.pull, settings.mean_pull, settings.hold),
        steps,
        (settings.lowest, settings.highest),
        held,
    )


def _kernel(numbers: Tensor, changes: Changes) -> tuple[Kernel, Noise]:
    """The kernel and the noise of numbers (2 n + 7,); places count for nothing where none moves."""
    kernel, noise = parts(numbers, changes.rows.shape[1])
    if not changes.moves:
        kernel = replace(kernel, place_level=torch.zeros_like(kernel.level))
    return kernel, noise


_PLACES, _GROWTH = 3, 4  # where they are among the numbers that units share
# How far numbers are found from their start, on average over reviews of 9 to 108 tokens and the
# embedded model. The search for changes that grow begins there, which saves it two steps.
_REACHES, _SLOPES = -0.4, -1.0
_LAST = (-1.4, -1.8, 1.5, 0.0, -0.4, 0.5, -4.5)


def _moved(units: int) -> Tensor:
    """From the start to where a search begins, (2 n + 7,)."""
    each = torch.tensor([_REACHES, _SLOPES]).repeat_interleave(units)
    return torch.cat([each, torch.tensor(_LAST)])


def _start(rows: Tensor) -> Tensor:
    """Where the search begins, for changes of mean square 1 that do not grow: (2 n + 7,)."""
    units = rows.shape[1]
    start = torch.full(
        (2 * units + SHARED,), -math.log(units), dtype=rows.dtype, device=rows.device
    )
    places = math.log(0.05 / units)
    start[2 * units :] = torch.tensor([0.0, math.log(0.1), 0.0, places, 0.0, math.log(0.02), 0.0])
    return start


def _growing_start(rows: Tensor, changes: Tensor) -> Tensor:
    """The same for changes that grow, (2 n + 7,): how they do is seen at once.

    Half of the variance of a few deletions is laid to single units and a fiftieth to places, half
    of all variance to interactions, a thirtieth to lengths and a twentieth to noise.
    """
    units = rows.shape[1]
    level, power = _growth(rows, changes)
    few = level + power * math.log(6 / (units + 1))  # log variance with five deleted
    last = [
        level + math.log(0.5),
        level + math.log(0.03),
        0.0,
        few + math.log(0.02 / units),
        power / 2,
        level + math.log(0.05) - power * math.log(units + 1),
        power * math.log(units + 1),
    ]
    start = rows.new_full((2 * units + SHARED,), -math.log(units))
    start[units : 2 * units] = few + math.log(0.1)
    start[2 * units :] = rows.new_tensor(last)
    return start


def _growth(rows: Tensor, changes: Tensor) -> tuple[float, float]:
    """Fits ``log E y^2 = level + power log((d + 1) / (n + 1))``, with d units deleted.

    Squares are taken for exponential variables of that mean. For a given power, the likeliest
    level is known; the power is the likeliest of ``_POWERS``.
    """
    units = rows.shape[1]
    logarithms = ((units - rows.sum(dim=1) + 1) / (units + 1)).log()
    squares = changes.pow(2).mean(dim=1)
    powers = torch.linspace(*_POWERS).to(logarithms)
    scaled = squares * torch.exp(-powers[:, None] * logarithms)  # (powers, m)
    levels = scaled.mean(dim=1).clamp(min=_TINY).log()
    best = int((levels + powers * logarithms.mean()).argmin())
    return float(levels[best]), float(powers[best])


_POWERS = (0.0, 8.0, 81)  # of the mean square: from, to, how many; independent units give 1
_TINY = 1e-12
