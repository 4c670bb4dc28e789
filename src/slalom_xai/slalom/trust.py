"""How well a formula predicts outputs that were not used to find it, and how a reader is told.

The measure is the share of the variance of changes that is predicted, ``r2 = 1 - mse / variance``,
where a change is the output to a perturbed text less that to the whole text. An interval comes from
drawing perturbed texts with replacement (a bootstrap).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class TrustSettings:
    """Where words change, and how intervals are drawn.

    Attributes:
        doubtful: a share of variance. An explanation that predicts less of what removals do is
            not to be trusted. Half is a convention: below it, more is missed than is predicted.
        unsure: the same for the lower end of the interval.
        saturated: points of probability. Where removing a few units moves the prediction by less,
            what they do is next to nothing, and how well that is predicted says little.
        draws: samples behind an interval.
        ends: the quantiles of an interval.
        rounding: of the outputs' size. Smaller changes are rounding errors of a model in single
            precision, some 20 times its epsilon.
        lowest_r2: an R² below is written as this, because no file holds minus infinity.
    """

    doubtful: float = 0.5
    unsure: float = 0.4
    saturated: float = 0.02
    draws: int = 300
    ends: tuple[float, float] = (0.05, 0.95)
    rounding: float = 2e-6
    lowest_r2: float = -1e100


TRUST = TrustSettings()
NOTHING_CHANGES = (
    "There is nothing to explain: the model's output is the same for every perturbed text."
)
NONE = "none"  # in the place of a share


@dataclass(frozen=True)
class Agreement:
    """Predicted against true changes of the output.

    Attributes:
        r2: share of the changes' variance that is predicted; NaN where nothing changes.
        mse: mean squared error of the predicted changes.
        rows: how many perturbed texts it was measured on.
        r2_low: lower end of a 90% interval of ``r2``; NaN where there is none.
        r2_high: its upper end.
        mse_low: lower end of a 90% interval of ``mse``.
        mse_high: its upper end.
        largest_change: what nine of ten texts change the output by at most.
    """

    r2: float
    mse: float
    rows: int
    r2_low: float = math.nan
    r2_high: float = math.nan
    mse_low: float = math.nan
    mse_high: float = math.nan
    largest_change: float = math.nan

    @property
    def at_least(self) -> float:
        """The share that is surely predicted: the lower end, or the share where there is none."""
        if math.isnan(self.r2_low):
            return self.r2
        return min(self.r2, self.r2_low)


@dataclass(frozen=True)
class FewAndAny:
    """Agreement where few units are removed, and where any number is.

    Attributes:
        few: 1 to 10 units removed.
        any: 1 to all but one unit removed.
    """

    few: Agreement
    any: Agreement


@dataclass(frozen=True)
class Fidelity:
    """Agreement with the model on calls that were not used to fit, beside one score per unit.

    Attributes:
        few: the explanation, 1 to 10 units removed.
        any: the explanation, 1 to all but one unit removed.
        linear: a linear fit of the same calls; None where there is none to compare with, as for
            methods that give one score per unit.
        one_score: one score per unit behind the same bound, fitted to the same calls.
        changed: how many of all calls gave another output than the whole text.
        calls: how many there were; 0 where nobody counted.
    """

    few: Agreement
    any: Agreement
    linear: FewAndAny | None = None
    one_score: FewAndAny | None = None
    changed: int = 0
    calls: int = 0

    @property
    def local(self) -> Agreement:
        """The old name of ``few``."""
        return self.few

    @property
    def wide(self) -> Agreement:
        """The old name of ``any``."""
        return self.any

    @property
    def doubtful(self) -> bool:
        """Whether the explanation is not to be trusted."""
        whole = self.any
        if math.isnan(whole.r2):
            return False
        return whole.r2 < TRUST.doubtful or whole.at_least < TRUST.unsure

    def sentence(self, units: str = "units", points: float | None = None) -> str:
        """How far the explanation can be trusted, in plain words.

        Args:
            units: what is removed, such as "words".
            points: by how much removing a few of them moves the probability of the explained class
                in nine cases of ten; None where the outputs are not probabilities.
        """
        if math.isnan(self.any.r2):
            return self._nothing_tested(units)
        if self.doubtful:
            return f"Do not trust this explanation: {self._doubt(units)}"
        share = percent(self.any.r2)
        told = f"These scores reproduce {share} of what removing {units} does to this prediction"
        saturated = points is not None and points < TRUST.saturated
        if self.few.r2 < TRUST.doubtful and saturated:
            told += f".{self._beside(units)} No few {units} decide it: removing up to 10 moves its"
            told += f" probability by less than {_points(points)}"
            return f"{told}."
        told += f" ({percent(self.few.r2)} when only a few go).{self._beside(units)}"
        if self.few.r2 < TRUST.doubtful:
            told += f" Do not rely on them for single {units}: more calls may help."
        return told

    def _beside(self, units: str) -> str:
        """What one score per unit reproduces: the better of the two that were fitted."""
        others = [one.any.r2 for one in (self.linear, self.one_score) if one is not None]
        if not others:
            return ""
        return f" One score per {units.removesuffix('s')} reproduces {percent(max(others))}."

    def _doubt(self, units: str) -> str:
        """What speaks against the explanation, and what to do."""
        share = percent(self.any.r2)
        found = f"its scores reproduce {share} of what removing {units} does to this prediction"
        if self.any.r2 >= TRUST.doubtful:
            found += f", and perhaps only {percent(self.any.at_least)}"
        advice = "sentences in their place" if units in ("words", "tokens") else "larger parts"
        told = f"{found}.{self._beside(units)}"
        return f"{told} Allow more calls (a larger budget), or explain {advice}."

    def _nothing_tested(self, units: str) -> str:
        if not self.changed:
            return NOTHING_CHANGES
        return (
            f"Do not trust this explanation: the output differs in only {self.changed} of"
            f" {self.calls} perturbed texts, and in none of those that test it. Allow more calls (a"
            f" larger budget)."
        )


def _points(share: float | None) -> str:
    """A share of 1 in points of probability, rounded up."""
    assert share is not None
    points = 100 * share
    for limit in (0.01, 0.1, 0.5):
        if points < limit:
            return f"{limit:g} points"
    return f"{math.ceil(points)} point{'s' if points > 1 else ''}"


def compare_changes(predicted: Tensor, true: Tensor, level: float) -> list[Agreement]:
    """Compares changes of one output as several formulas predict them.

    A change within single-precision rounding of the outputs is none. Where every removal changes
    the output by the same, nothing of it can be told apart, and r2 is 0.

    Args:
        predicted: (k, m), what the formulas say.
        true: (m,), what the model says.
        level: the size of the outputs themselves.
    """
    return compare_many(predicted[None], true[None], [level])[0]


def compare_many(predicted: Tensor, true: Tensor, levels: Sequence[float]) -> list[list[Agreement]]:
    """The same for several outputs at once: (B, k, m), (B, m) and B levels."""
    predicted, true = predicted.detach().cpu(), true.detach().cpu()[:, None]
    kinds, rows = predicted.shape[1:]
    centred = true - true.mean(dim=2, keepdim=True)
    parts = torch.cat([(predicted - true) ** 2, centred**2, centred], dim=1)  # (B, k + 2, m)
    means = parts.mean(dim=2).tolist()
    draws = parts @ _draw_shares(rows).to(true)  # (B, k + 2, draws)
    mse_draws, square_draws, mean_draws = draws[:, :kinds], draws[:, -2:-1], draws[:, -1:]
    least = true.new_tensor([(TRUST.rounding * level) ** 2 for level in levels])[:, None, None]
    variances = torch.maximum(square_draws - mean_draws**2, least)
    lows, highs = _find_ends(torch.cat([mse_draws, 1 - mse_draws / variances], dim=1))
    sizes = true[:, 0].abs()
    most = sizes.amax(dim=1).tolist()
    largest = torch.quantile(sizes, 0.9, dim=1).tolist()
    found: list[list[Agreement]] = []
    for number, level in enumerate(levels):
        *errors, variance, _ = means[number]
        rounding = TRUST.rounding * level
        found.append([])
        for index, mse in enumerate(errors):
            ends = {
                "mse_low": lows[number][index],
                "mse_high": highs[number][index],
                "largest_change": largest[number],
            }
            if most[number] <= rounding:
                r2 = {"r2": math.nan}
            elif variance <= rounding**2:
                r2 = {"r2": 0.0}
            else:
                place = kinds + index
                shares = (1 - mse / variance, lows[number][place], highs[number][place])
                names = ("r2", "r2_low", "r2_high")
                r2 = {
                    name: max(share, TRUST.lowest_r2)
                    for name, share in zip(names, shares, strict=True)
                }
            found[-1].append(Agreement(mse=mse, rows=rows, **r2, **ends))
    return found


@functools.lru_cache(maxsize=64)
def _draw_shares(rows: int) -> Tensor:
    """Shares of each text in samples with replacement, (rows, draws), the same for every call."""
    generator = torch.Generator().manual_seed(rows)
    sampled = torch.randint(rows, (TRUST.draws, rows), generator=generator)
    ones = torch.ones(TRUST.draws, rows, dtype=torch.float64)
    shares = torch.zeros_like(ones).scatter_add_(1, sampled, ones)
    return (shares / rows).T.contiguous()


def _find_ends(draws: Tensor) -> list[list[list[float]]]:
    """The lower and upper ends of intervals, (2, B, k), from draws (B, k, draws)."""
    quantiles = torch.tensor(TRUST.ends, dtype=draws.dtype)
    ends: list[list[list[float]]] = torch.quantile(draws, quantiles, dim=2).tolist()
    return ends


def percent(r2: float) -> str:
    """A share in whole per cent; a fit worse than the mean predicts nothing."""
    if r2 <= 0:
        return NONE
    if r2 < 0.9995:
        return f"{min(round(100 * r2), 99)}%"
    return "100%"


def agreement(predicted: Tensor, true: Tensor, level: float) -> Agreement:
    """Compares changes of one output, (m,) each, as one formula predicts them."""
    return compare_changes(predicted[None], true, level)[0]
