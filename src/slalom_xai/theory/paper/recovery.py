"""A SLALOM can be read off a few answers: Proposition 5.2, with the printed signs and with the right ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd
import torch
from torch import Tensor

from slalom_xai.surrogates.formula import SlalomSurrogate, averages, weights
from slalom_xai.surrogates.recover import recover, recover_with_sink, references
from slalom_xai.theory.base import Outcome, Settings, at_least, at_most, reproduction
from slalom_xai.theory.drawing import BLUE, GREY, ORANGE, RED, panels
from slalom_xai.theory.paper.transformer import PlainTransformer, answers, planted, random_slalom

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RECOVERED = 1e-6


@dataclass(frozen=True)
class Signs:
    """Which of the printed signs to use; each is wrong.

    Attributes:
        difference: Eq. 55: log(1/g − 1) as s(τ) − s(τ̂), where it is the negative of that.
        chain: Eq. 56: the difference between the two references subtracted, where the worked form
            beside it adds it.
        constant: Eq. 58: s(θ) as the mean of the differences, where it is minus that.
    """

    difference: bool = False
    chain: bool = False
    constant: bool = False


class Counted:
    """A model without a sink that counts how often it is asked."""

    def __init__(self, model: PlainTransformer, front: Sequence[int] = ()) -> None:
        self._model, self._front, self.calls = model, list(front), 0

    def ask(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Answers (m, C)."""
        self.calls += len(rows)
        return answers(self._model, [[*self._front, *row] for row in rows])


def follow_the_proof(
    model: Counted, units: int, signs: Signs | None = None
) -> tuple[Tensor, Tensor]:
    """Values (n,) and importances (n,) by the steps of App. B.6, the first token being the reference θ.

    Args:
        model: a SLALOM with one output that is not constant.
        units: how many tokens there are.
        signs: printed signs to use; None uses none.
    """
    chosen = signs or Signs()
    values = model.ask([[token] for token in range(units)])[:, 0]
    second = int((values - values[0]).abs().argmax())  # the paper's θ̂: any token of another value
    differences = torch.zeros(units, dtype=torch.float64)
    for token in [second, *(other for other in range(1, units) if other != second)]:
        reference = second if values[token] == values[0] else 0
        share = (model.ask([[token, reference]])[0, 0] - values[reference]) / (
            values[token] - values[reference]
        )
        step = torch.log(1 / share - 1) * (1 if chosen.difference else -1)
        if reference == second:
            step = step - differences[second] if chosen.chain else step + differences[second]
        differences[token] = step
    return values, differences + differences.mean() * (1 if chosen.constant else -1)


@reproduction(
    name="recovery",
    title="A SLALOM is recovered from 2|V| − 1 answers, and with a sink from 2|V| + 1",
    source="Leemann et al. 2024, Proposition 5.2 and Appendix B.6, mended; with a sink ours",
)
def recovery(settings: Settings) -> Outcome:
    """Vocabularies of several sizes, the printed signs, answers with noise, and fewer calls than needed."""
    sizes = pd.DataFrame([_recovered(units, settings.seed) for units in (2, 5, 20, 100)])
    signs = pd.DataFrame(_wrong_signs(settings.seed))
    noise = _noise(settings.seed)
    rank, free = _rank(5, settings.seed)
    plain, sunk = (
        sizes["calls − (2|V| − 1)"].abs().max(),
        sizes["with a sink: calls − (2|V| + 1)"].abs().max(),
    )
    slope = (
        noise["error of s"].iloc[-1]
        / noise["error of s"].iloc[0]
        / (noise["noise"].iloc[-1] / noise["noise"].iloc[0])
    )
    return Outcome(
        checks=(
            at_most("calls beyond 2|V| − 1", plain, 0),
            at_most(
                "largest error of a value or importance",
                sizes[["error of v", "error of s"]].max().max(),
                RECOVERED,
            ),
            at_most("with a sink: calls beyond 2|V| + 1", sunk, 0),
            at_most(
                "with a sink: largest error of a value or importance",
                sizes["with a sink: error"].max(),
                RECOVERED,
            ),
            at_most(
                "our own solver against the steps of the proof: largest difference",
                sizes["difference to our solver"].max(),
                RECOVERED,
            ),
            at_least(
                "smallest error of the importances with a printed sign (Eq. 55, 56 or 58)",
                signs["error of s"].iloc[1:].min(),
                0.1,
            ),
            at_most(
                "independent answers among all rows of one and two tokens, beyond 2|V| − 1",
                abs(rank - free),
                0,
            ),
            at_most(
                "noise: growth of the error per growth of the noise, over six powers of ten",
                slope,
                2.0,
            ),
        ),
        tables={"sizes": sizes, "signs": signs, "noise": noise},
        figures={"recovered": lambda: _draw(settings.seed)},
        remarks=(
            "No scheme needs fewer calls: a SLALOM has 2|V| − 1 free parameters, all of which "
            "show in the answers, and a call gives "
            "one number. With noise in the answers the error is many times the noise, which is "
            "why the methods ask more.",
        ),
    )


def _with_ties(units: int, seed: int) -> SlalomSurrogate:
    """A random SLALOM where the third token has the value of the first, so that Eq. 56 is needed."""
    known = random_slalom(units, seed=seed)
    if units > 2:
        known.values[0, 2] = known.values[0, 0]
    return known


def _recovered(units: int, seed: int) -> dict[str, float]:
    known = _with_ties(units, seed)
    model = Counted(planted(known))
    values, importances = follow_the_proof(model, units)
    singles = answers(planted(known), [[token] for token in range(units)])
    beside = references(singles)[0].tolist()
    ours, _ = recover(
        singles, answers(planted(known), [[token, beside[token]] for token in range(units)])
    )
    sunk, truth = (
        Counted(planted(random_slalom(units + 1, seed=seed)), front=[units]),
        random_slalom(units + 1, seed=seed),
    )
    rows = [[], *([token] for token in range(units)), *([token, token] for token in range(units))]
    found = sunk.ask(rows)
    fitted, _ = recover_with_sink(found[0], found[1 : units + 1], found[units + 1 :])
    moved = truth.importances[0] - truth.importances[0, :units].mean()
    assert fitted.sink_values is not None
    assert fitted.sink_importances is not None
    sink_off = torch.cat(
        [fitted.importances[0] - moved[:units], fitted.sink_importances - moved[units:]]
    )
    return {
        "|V|": units,
        "calls": model.calls,
        "calls − (2|V| − 1)": model.calls - (2 * units - 1),
        "error of v": float((values - known.values[0, :, 0]).abs().max()),
        "error of s": float((importances - known.importances[0]).abs().max()),
        "difference to our solver": float((importances - ours.importances[0]).abs().max()),
        "with a sink: calls − (2|V| + 1)": sunk.calls - (2 * units + 1),
        "with a sink: error": float(
            torch.cat([sink_off, (fitted.values[0] - truth.values[0, :units])[:, 0]]).abs().max()
        ),
    }


def _wrong_signs(seed: int) -> list[dict[str, object]]:
    drawn = _with_ties(20, seed)
    drawn.importances[0, 0] = (
        4.0  # a reference unlike the others: where it is average, Eq. 58's sign does not matter
    )
    known = drawn.normalised()
    tried = {
        "none: all mended": Signs(),
        "Eq. 55: s(τ) − s(τ̂) = log(1/g − 1)": Signs(difference=True),
        "Eq. 56: minus d(θ̂, θ)": Signs(chain=True),
        "Eq. 58: s(θ) = Σ η / |V|": Signs(constant=True),
        "all three": Signs(True, True, True),
    }
    found = []
    for name, signs in tried.items():
        _, importances = follow_the_proof(Counted(planted(known)), 20, signs)
        off = importances - known.importances[0]
        found.append(
            {
                "printed sign used": name,
                "error of s": float(off.abs().max()),
                "sum of s": float(importances.sum()),
            }
        )
    return found


def _noise(seed: int, units: int = 20) -> pd.DataFrame:
    """The error of the recovered importances when every answer is off by a little."""
    known = random_slalom(units, seed=seed)
    singles = answers(planted(known), [[token] for token in range(units)])
    beside = references(singles)[0].tolist()
    pairs = answers(planted(known), [[token, beside[token]] for token in range(units)])
    generator = torch.Generator().manual_seed(seed)
    shakes = [torch.randn(2, units, 1, generator=generator, dtype=torch.float64) for _ in range(30)]
    rows = []
    for size in (1e-8, 1e-6, 1e-4, 1e-2):
        found = [
            recover(singles + size * shake[0], pairs + size * shake[1])[0].importances[0]
            for shake in shakes
        ]
        errors = torch.stack([(one - known.importances[0]).square().mean().sqrt() for one in found])
        rows.append((size, float(errors.mean()), float(errors.mean()) / size))
    return pd.DataFrame(rows, columns=["noise", "error of s", "error / noise"])


def _rank(units: int, seed: int) -> tuple[int, int]:
    """How many of all answers to one and two tokens are independent near a SLALOM, and its number of free parameters."""
    known = random_slalom(units, seed=seed)
    pairs = [
        torch.eye(units)[first] + torch.eye(units)[second]
        for first in range(units)
        for second in range(first)
    ]
    rows = torch.cat([torch.eye(units), torch.stack(pairs)]).double()

    def predict(values: Tensor, importances: Tensor) -> Tensor:
        return averages(weights(rows, importances), values)[:, 0, 0]

    by_values, by_importances = torch.autograd.functional.jacobian(
        predict, (known.values, known.importances)
    )  # type: ignore[no-untyped-call]
    jacobian = torch.cat(
        [by_values.reshape(len(rows), -1), by_importances.reshape(len(rows), -1)], dim=1
    )
    return int(torch.linalg.matrix_rank(jacobian, rtol=1e-10)), 2 * units - 1


def _draw(seed: int) -> Figure:
    known = _with_ties(20, seed)
    figure, (left, right) = panels(2, width=3.6, height=3.0)
    values, importances = follow_the_proof(Counted(planted(known)), 20)
    left.plot(
        known.values[0, :, 0],
        known.importances[0],
        "o",
        color=GREY,
        markersize=7,
        fillstyle="none",
        label="planted",
    )
    left.plot(values, importances, ".", color=BLUE, label="recovered from 39 calls")
    left.set(xlabel="value", ylabel="importance")
    left.legend(fontsize=8, frameon=False)
    ends = [float(known.importances.min()), float(known.importances.max())]
    right.plot(ends, ends, color=GREY, linewidth=0.8)
    for signs, colour, label in (
        (Signs(difference=True), RED, "Eq. 55 as printed"),
        (Signs(constant=True), ORANGE, "Eq. 58 as printed"),
        (Signs(), BLUE, "mended"),
    ):
        right.plot(
            known.importances[0],
            follow_the_proof(Counted(planted(known)), 20, signs)[1],
            ".",
            color=colour,
            label=label,
        )
    right.set(xlabel="planted importance", ylabel="recovered importance")
    right.legend(fontsize=8, frameon=False)
    return figure
