"""A SLALOM can be read off a few answers (Proposition 5.2 and Appendix B.6).

The answer to one token is its value. The answer to a pair of tokens of different values tells the
share α of the first, and with it the difference of their importances:

    F([t, r]) = α v_t + (1 − α) v_r,   s_t − s_r = −log(1/α − 1).

A token with the value of the reference r is compared with another reference. That makes |V| + |V| −
1 calls. Importances are known up to a constant, which is chosen so that they sum to zero. Three of
the signs that the paper prints on the way are wrong; ``recovery_steps`` follows the proof with any
of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
import torch
from torch import Tensor

from research.base import Check, Outcome, Settings, at_least, at_most, reproduction
from research.drawing import BLUE, NEUTRAL, ORANGE, RED, diagonal, panels
from research.theory.paper.recovery_noise import noise_checks, noise_table
from research.theory.paper.recovery_steps import Counted, Signs, follow_the_proof
from research.theory.paper.transformer import answers, planted, random_slalom
from slalom_xai.methods.paper.exact import recover, recover_with_sink, references
from slalom_xai.methods.paper.formula import SlalomSurrogate, averages, weights

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RECOVERED = 1e-6  # scores are recovered within this
_SIZES = (2, 5, 20, 100)  # of the vocabularies
_SHOWN = 20  # tokens in the figure and in the table of signs


@reproduction(
    name="recovery",
    title="A SLALOM is recovered from 2|V| − 1 answers, and with a sink from 2|V| + 1",
    source="Leemann et al. 2024, Proposition 5.2 and Appendix B.6, mended; with a sink ours",
)
def recovery(settings: Settings) -> Outcome:
    """Several vocabularies, the printed signs, answers with noise, and how few calls can do."""
    sizes = pd.DataFrame(
        [_without_sink(units, settings.seed) | _with_sink(units, settings.seed) for units in _SIZES]
    )
    signs = pd.DataFrame(_wrong_signs(settings.seed))
    noise = noise_table(settings.seed)
    rank, free = _rank(5, settings.seed)
    return Outcome(
        checks=(
            *_size_checks(sizes),
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
            *noise_checks(noise),
        ),
        tables={"sizes": sizes, "signs": signs, "noise": noise},
        figures={"recovered": lambda: _draw(settings.seed)},
        remarks=(
            "No scheme needs fewer calls: a SLALOM has 2|V| − 1 free parameters, all of which "
            "show in the answers, and a call gives one number. With noise the steps of the proof "
            "fail where a token has nearly the value of the reference. Ours compare each token "
            "with the lowest or the highest value, whichever is further away. The table of noise "
            "is over 60 SLALOMs of 100 tokens; a SLALOM with NaN counts as an infinite error.",
        ),
    )


def _size_checks(sizes: pd.DataFrame) -> tuple[Check, ...]:
    calls = sizes["calls − (2|V| − 1)"]
    sink_calls = sizes["with a sink: calls − (2|V| + 1)"]
    return (
        at_most("calls beyond 2|V| − 1", calls.abs().max(), 0),
        at_most(
            "largest error of a value or importance",
            sizes[["error of v", "error of s"]].max().max(),
            RECOVERED,
        ),
        at_most("with a sink: calls beyond 2|V| + 1", sink_calls.abs().max(), 0),
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
    )


def _with_ties(units: int, seed: int) -> SlalomSurrogate:
    """A random SLALOM whose third token has the value of the first, so that Eq. 56 is needed."""
    known = random_slalom(units, seed=seed)
    if units > 2:
        known.values[0, 2] = known.values[0, 0]
    return known


def _without_sink(units: int, seed: int) -> dict[str, float]:
    """The steps of the proof, and the package's own solver, against the planted scores."""
    known = _with_ties(units, seed)
    model = Counted(planted(known))
    values, importances = follow_the_proof(model, units)
    singles, pairs = _asked(known)
    ours, _ = recover(singles, pairs)
    return {
        "|V|": units,
        "calls": model.calls,
        "calls − (2|V| − 1)": model.calls - (2 * units - 1),
        "error of v": float((values - known.values[0, :, 0]).abs().max()),
        "error of s": float((importances - known.importances[0]).abs().max()),
        "difference to our solver": float((importances - ours.importances[0]).abs().max()),
    }


def _asked(known: SlalomSurrogate) -> tuple[Tensor, Tensor]:
    """Answers (n, 1) to each token alone and to each beside its reference."""
    model = planted(known)
    singles = answers(model, [[token] for token in range(known.units)])
    beside = references(singles)[0].tolist()
    pairs = answers(model, [[token, beside[token]] for token in range(known.units)])
    return singles, pairs


def _with_sink(units: int, seed: int) -> dict[str, float]:
    """Recovery from nothing, each token once and each token twice, behind a token in front."""
    truth = random_slalom(units + 1, seed=seed)
    model = Counted(planted(truth), front=[units])
    once = [[token] for token in range(units)]
    twice = [[token, token] for token in range(units)]
    outputs = model.ask([[], *once, *twice])
    fitted, _ = recover_with_sink(outputs[0], outputs[1 : units + 1], outputs[units + 1 :])
    assert fitted.sink_values is not None
    assert fitted.sink_importances is not None
    # Importances of both are measured from the mean over the units, the sink left out.
    wanted = truth.importances[0] - truth.importances[0, :units].mean()
    off = torch.cat(
        [
            fitted.importances[0] - wanted[:units],
            fitted.sink_importances - wanted[units:],
            (fitted.values[0] - truth.values[0, :units])[:, 0],
        ]
    )
    return {
        "with a sink: calls − (2|V| + 1)": model.calls - (2 * units + 1),
        "with a sink: error": float(off.abs().max()),
    }


def _wrong_signs(seed: int) -> list[dict[str, object]]:
    """The error of the importances with each printed sign."""
    drawn = _with_ties(_SHOWN, seed)
    # A reference unlike the others: where it is average, the sign of Eq. 58 does not matter.
    drawn.importances[0, 0] = 4.0
    known = drawn.normalise()
    tried = {
        "none: all mended": Signs(),
        "Eq. 55: s(τ) − s(τ̂) = log(1/g − 1)": Signs(difference=True),
        "Eq. 56: minus d(θ̂, θ)": Signs(chain=True),
        "Eq. 58: s(θ) = Σ η / |V|": Signs(constant=True),
        "all three": Signs(True, True, True),
    }
    rows: list[dict[str, object]] = []
    for name, signs in tried.items():
        _, importances = follow_the_proof(Counted(planted(known)), _SHOWN, signs)
        off = importances - known.importances[0]
        rows.append(
            {
                "printed sign used": name,
                "error of s": float(off.abs().max()),
                "sum of s": float(importances.sum()),
            }
        )
    return rows


def _rank(units: int, seed: int) -> tuple[int, int]:
    """How many answers to rows of one and two tokens are independent near a SLALOM.

    Returns:
        The rank of the derivative of these answers by all values and importances, and the number of
        free parameters, 2|V| − 1.
    """
    known = random_slalom(units, seed=seed)
    one = torch.eye(units)
    pairs = [one[first] + one[second] for first in range(units) for second in range(first)]
    rows = torch.cat([one, torch.stack(pairs)]).double()

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
    """Planted and recovered scores; importances with each of two printed signs."""
    known = _with_ties(_SHOWN, seed)
    figure, (left, right) = panels(2, width=3.6, height=3.0)
    values, importances = follow_the_proof(Counted(planted(known)), _SHOWN)
    left.plot(
        known.values[0, :, 0],
        known.importances[0],
        "o",
        color=NEUTRAL,
        markersize=7,
        fillstyle="none",
        label="planted",
    )
    left.plot(values, importances, ".", color=BLUE, label="recovered from 39 calls")
    left.set(xlabel="value", ylabel="importance")
    left.legend(fontsize=8, frameon=False)
    diagonal(right, float(known.importances.min()), float(known.importances.max()))
    for signs, colour, label in (
        (Signs(difference=True), RED, "Eq. 55 as printed"),
        (Signs(constant=True), ORANGE, "Eq. 58 as printed"),
        (Signs(), BLUE, "mended"),
    ):
        _, recovered = follow_the_proof(Counted(planted(known)), _SHOWN, signs)
        right.plot(known.importances[0], recovered, ".", color=colour, label=label)
    right.set(xlabel="planted importance", ylabel="recovered importance")
    right.legend(fontsize=8, frameon=False)
    return figure
