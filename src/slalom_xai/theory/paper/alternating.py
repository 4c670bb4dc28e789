"""Algorithm 2's second step minimises something else than the error (Appendix D.2).

For fixed importances the values of a SLALOM solve a linear least squares. For fixed values the
paper minimises |E s̄|² over weights s̄ ≥ 0 (Eq. 77), with E = the row's counts times (v − y). But

    (E s̄)_r = W_r (F_r − y_r),   W_r = the total weight of row r,

so that each residual is multiplied by W_r: small weights make the objective small whatever the
error is. Rounds therefore stall, and some weights vanish.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd
import torch
from torch import Tensor

from slalom_xai.surrogates.fit import fit_slalom
from slalom_xai.surrogates.published import nonnegative_scale
from slalom_xai.theory.base import Check, Outcome, Settings, at_least, at_most, reproduction
from slalom_xai.theory.drawing import BLUE, RED, panels
from slalom_xai.theory.paper.transformer import random_slalom

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_UNITS = 30
_ROUNDS = 60
_EXACT, _NOISY = "exact answers", "noisy answers"


class Trace(NamedTuple):
    """What 60 rounds of Algorithm 2 reach, beside a fit of values and importances together."""

    errors: list[float]  # mean squares, one for each round
    least_weight: float  # at the end; the mean weight is 1
    joint: float  # mean square of the joint fit


@reproduction(
    name="alternating",
    title="Algorithm 2's second step, Eq. 77, minimises something else than the error, so rounds "
    "stall and weights vanish",
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
    table = pd.DataFrame([{"answers": name, **_row(trace)} for name, trace in traces.items()])
    return Outcome(
        checks=_checks(table, _identity(rows, noisy)),
        tables={"rounds": table},
        figures={"rounds": lambda: _draw(traces)},
        remarks=(
            "Errors are mean squares. slalom-fidel with the paper's solver keeps the best round, "
            "stops after three without progress, and has a floor.",
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
    """Algorithm 2 with Eq. 77 and no floor to speak of, on rows (m, n) and outputs (m, 1)."""
    weights, errors = torch.ones(_UNITS, dtype=torch.float64), []
    for _ in range(_ROUNDS):
        raw = rows * weights
        shares = raw / raw.sum(dim=1, keepdim=True).clamp(min=1e-300)
        values = torch.linalg.lstsq(shares, outputs, driver="gelsd").solution  # (n, 1)
        errors.append(float((shares @ values - outputs).square().mean()))
        weights = nonnegative_scale(rows * (values[:, 0] - outputs), weights, floor=1e-9)
    joint = fit_slalom(rows, outputs, sink=False, prior=1e-9).residuals.square().mean()
    return Trace(errors, float(weights.min()), float(joint))


def _row(trace: Trace) -> dict[str, float]:
    steps = itertools.pairwise(trace.errors)
    raised = sum(after > before * (1 + 1e-9) for before, after in steps)
    return {
        "error at the start": trace.errors[0],
        "least error in 60 rounds": min(trace.errors),
        "error after 60 rounds": trace.errors[-1],
        "error of the joint fit": trace.joint,
        "rounds that raised it": raised,
        "least weight": trace.least_weight,
    }


def _checks(table: pd.DataFrame, identity: float) -> tuple[Check, ...]:
    exact, noise = table.iloc[0], table.iloc[1]
    return (
        at_most(
            "E s̄ against the row's total weight times its residual: largest difference",
            identity,
            1e-10,
        ),
        at_least(
            "exact answers: least error in 60 rounds over that of the joint fit",
            exact["least error in 60 rounds"] / exact["error of the joint fit"],
            100,
        ),
        at_least(
            "noisy answers: rounds of 60 that raise the error",
            noise["rounds that raised it"],
            1,
        ),
        at_least(
            "noisy answers: last error over that of the joint fit",
            noise["error after 60 rounds"] / noise["error of the joint fit"],
            1.05,
        ),
        at_most(
            "noisy answers, no floor: the least weight, of a mean of 1",
            noise["least weight"],
            1e-6,
        ),
    )


def _draw(traces: dict[str, Trace]) -> Figure:
    """The error of each round beside that of the joint fit."""
    figure, made = panels(len(traces), width=3.4, height=2.7)
    for axes, (name, trace) in zip(made, traces.items(), strict=True):
        rounds = range(1, len(trace.errors) + 1)
        axes.semilogy(rounds, trace.errors, color=RED, label="alternating with Eq. 77")
        axes.axhline(max(trace.joint, 1e-12), color=BLUE, label="values and importances together")
        axes.set(xlabel="round", title=name)
        axes.legend(fontsize=7, frameon=False)
    made[0].set_ylabel("mean squared error")
    return figure
