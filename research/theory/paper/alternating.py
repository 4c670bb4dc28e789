"""Algorithm 2's second step minimises something else than the error (Appendix D.2).

For fixed importances the values of a SLALOM solve a linear least squares. For fixed values the
paper minimises |E s̄|² over weights s̄ ≥ 0 (Eq. 77), with E = the row's counts times (v − y). But

    (E s̄)_r = W_r (F_r − y_r),   W_r = the total weight of row r,

so that each residual is multiplied by W_r: rows of small weight hardly count. With noise in the
answers the best fit is therefore no place to rest: one more round leaves it. The control takes
turns in the same way, with the error itself in the second step: what goes wrong with Eq. 77 and not
there is the doing of Eq. 77, and not of taking turns.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd
import torch
from torch import Tensor

from research.base import Check, Outcome, Settings, at_least, at_most, reproduction
from research.drawing import BLUE, ORANGE, RED, panels
from research.theory.paper.transformer import random_slalom
from slalom_xai.methods.paper.fit import fit_slalom
from slalom_xai.methods.paper.fits import nonnegative_scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_UNITS = 30
_ROUNDS = 60
_STEPS = 20  # of Gauss-Newton in a round of the control; the first few do nearly all
_FLOOR = 1e-9  # of the weights
_EXACT, _NOISY = "exact answers", "noisy answers"


Second = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # a second step; see ``_by_eq_77``


class Trace(NamedTuple):
    """What 60 rounds reach with each second step, beside a fit of all scores together."""

    errors: list[float]  # mean squares, one for each round with Eq. 77
    control: list[float]  # the same with the error itself in the second step
    joint: float  # mean square of the joint fit
    left: float  # mean square after one round with Eq. 77 that starts at the joint fit
    stayed: float  # the same with the error itself
    least_weight: float  # in 60 rounds with Eq. 77; the mean weight is 1


@reproduction(
    name="alternating",
    title="Algorithm 2's second step, Eq. 77, minimises something else than the error, so with "
    "noise its rounds leave the best fit; the same rounds with the error itself reach it",
    source="Leemann et al. 2024, Appendix D.2, Eqs. 74 to 79",
)
def alternating(settings: Settings) -> Outcome:
    """Eq. 77 beside the error it stands for, round by round, with and without noise."""
    generator = torch.Generator().manual_seed(settings.seed)
    known = random_slalom(_UNITS, seed=settings.seed)
    rows = _random_rows(generator)
    clean = known.predict(rows)
    noisy = clean + 0.3 * torch.randn(clean.shape, generator=generator, dtype=torch.float64)
    traces = {_EXACT: _traced(rows, clean), _NOISY: _traced(rows, noisy)}
    lines = [line for name, trace in traces.items() for line in _lines(name, trace)]
    return Outcome(
        checks=_checks(traces, _identity(rows, noisy)),
        tables={"rounds": pd.DataFrame(lines)},
        figures={"rounds": lambda: _draw(traces)},
        remarks=(
            "Errors are mean squares. Each second step is solved exactly: Eq. 77 as the quadratic "
            "problem that it is, the error by Gauss-Newton steps. With exact answers the right "
            "scores make both zero, and both come near: which is faster depends on the draw. With "
            "noise Eq. 77 raises the error in some rounds of nearly every draw. slalom-fidel with "
            "the paper's solver keeps the best round, and stops after three without progress.",
        ),
    )


def _random_rows(generator: torch.Generator) -> Tensor:
    """Up to 1,500 rows (m, n) of zeros and ones that keep any share of the units, none empty."""
    drawn = torch.rand(1500, _UNITS, generator=generator)
    shares = torch.rand(1500, 1, generator=generator)
    rows = (drawn < shares).double()
    return rows[rows.sum(dim=1) > 0]


def _identity(rows: Tensor, outputs: Tensor) -> float:
    """How far E s̄ is from the row's total weight times its residual."""
    known = random_slalom(_UNITS, seed=1)
    weight = known.importances[0].exp()
    left = (rows * (known.values[0, :, 0] - outputs)) @ weight
    right = (rows @ weight) * (known.predict(rows) - outputs)[:, 0]
    return float((left - right).abs().max())


def _traced(rows: Tensor, outputs: Tensor) -> Trace:
    """Both ways of taking turns on rows (m, n) and outputs (m, 1)."""
    fitted = fit_slalom(rows, outputs, sink=False, prior=1e-9)
    best = fitted.surrogate.importances[0].exp()
    even = torch.ones(_UNITS, dtype=torch.float64)
    errors, least_weight = _rounds(rows, outputs, _by_eq_77, even, _ROUNDS)
    return Trace(
        errors=errors,
        control=_rounds(rows, outputs, _by_the_error, even, _ROUNDS)[0],
        joint=float(fitted.residuals.square().mean()),
        left=_rounds(rows, outputs, _by_eq_77, best, 2)[0][-1],
        stayed=_rounds(rows, outputs, _by_the_error, best, 2)[0][-1],
        least_weight=least_weight,
    )


def _rounds(
    rows: Tensor, outputs: Tensor, second: Second, weights: Tensor, rounds: int
) -> tuple[list[float], float]:
    """The error at the start of each round, and the least weight of all rounds."""
    errors, least = [], float(weights.min())
    for _ in range(rounds):
        shares = _shares(rows, weights)
        values = torch.linalg.lstsq(shares, outputs, driver="gelsd").solution  # (n, 1)
        errors.append(float((shares @ values - outputs).square().mean()))
        weights = second(rows, outputs, values, weights)
        least = min(least, float(weights.min()))
    return errors, least


def _shares(rows: Tensor, weights: Tensor) -> Tensor:
    raw = rows * weights
    return raw / raw.sum(dim=1, keepdim=True).clamp(min=1e-300)


def _by_eq_77(rows: Tensor, outputs: Tensor, values: Tensor, weights: Tensor) -> Tensor:
    """The weights (n,) that minimise Eq. 77 for given values, with no floor to speak of.

    Args:
        rows: (m, n).
        outputs: (m, 1).
        values: (n, 1).
        weights: (n,), those of the round before; Eq. 77 does not need them.
    """
    return nonnegative_scale(rows * (values[:, 0] - outputs), floor=_FLOOR)


def _by_the_error(rows: Tensor, outputs: Tensor, values: Tensor, weights: Tensor) -> Tensor:
    """The weights (n,) that minimise the error for given values; arguments as in ``_by_eq_77``.

    Damped Gauss-Newton steps in the logarithms of the weights; a step that raises the error is
    taken again with more damping.
    """
    logs, damping = weights.log(), 1e-3
    shares = _shares(rows, weights)
    residuals = shares @ values - outputs
    for _ in range(_STEPS):
        slopes = shares * (values[:, 0] - shares @ values)  # (m, n), of the predictions
        gram = slopes.T @ slopes
        gram.diagonal().add_(damping * gram.diagonal().mean())
        tried = logs - torch.linalg.solve(gram, slopes.T @ residuals)[:, 0]
        tried_shares = _shares(rows, (tried - tried.mean()).exp())
        tried_residuals = tried_shares @ values - outputs
        if tried_residuals.square().sum() < residuals.square().sum():
            logs, shares, residuals = tried - tried.mean(), tried_shares, tried_residuals
            damping /= 10
        else:
            damping *= 10
    return logs.exp()


def _raised(errors: list[float]) -> int:
    """Rounds that raised the error."""
    return sum(after > before * (1 + 1e-9) for before, after in itertools.pairwise(errors))


def _lines(name: str, trace: Trace) -> list[dict[str, str | float]]:
    """The table's lines for one kind of answers."""
    ways = (
        ("Eq. 77", trace.errors, trace.left, trace.least_weight),
        ("the error", trace.control, trace.stayed, float("nan")),
    )
    return [
        {
            "answers": name,
            "second step": step,
            "error at the start": errors[0],
            "least error in 60 rounds": min(errors),
            "error after 60 rounds": errors[-1],
            "rounds that raised it": _raised(errors),
            "error of the joint fit": trace.joint,
            "one round from there": next_error,
            "least weight": least_weight,
        }
        for step, errors, next_error, least_weight in ways
    ]


def _checks(traces: dict[str, Trace], identity: float) -> tuple[Check, ...]:
    noisy = traces[_NOISY]
    return (
        at_most(
            "E s̄ against the row's total weight times its residual: largest difference",
            identity,
            1e-10,
        ),
        at_least(
            "noisy answers, one round from the joint fit, Eq. 77: error over that of the fit",
            noisy.left / noisy.joint,
            1.01,
        ),
        at_most(
            "the same, control",
            noisy.stayed / noisy.joint,
            1.001,
        ),
        at_least(
            "noisy answers, best of 60 rounds, Eq. 77: error over that of the joint fit",
            min(noisy.errors) / noisy.joint,
            1.1,
        ),
        at_most(
            "noisy answers, last of 60 rounds, control: the same",
            noisy.control[-1] / noisy.joint,
            1.05,
        ),
        at_most(
            "noisy answers, Eq. 77, no floor: the least weight in 60 rounds, of a mean of 1",
            noisy.least_weight,
            1e-6,
        ),
        at_most(
            "control, both kinds of answers: rounds of 60 that raise the error",
            max(_raised(trace.control) for trace in traces.values()),
            0,
        ),
    )


def _draw(traces: dict[str, Trace]) -> Figure:
    """The errors of each round beside that of the joint fit."""
    figure, made = panels(len(traces), width=3.4, height=2.7)
    for axes, (name, trace) in zip(made, traces.items(), strict=True):
        rounds = range(1, _ROUNDS + 1)
        axes.semilogy(rounds, trace.errors, color=RED, label="taking turns, Eq. 77")
        axes.semilogy(rounds, trace.control, color=ORANGE, label="taking turns, the error")
        axes.axhline(max(trace.joint, 1e-12), color=BLUE, label="all scores together")
        axes.set(xlabel="round", title=name)
    made[0].set_ylabel("mean squared error")
    made[0].legend(fontsize=7, frameon=False)
    return figure
