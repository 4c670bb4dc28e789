"""How well a surrogate predicts the model, on rows it has not seen.

The measure is the share of the variance of changes that is predicted, ``r2 = 1 - mse / variance``,
with an interval from drawing rows with replacement (a bootstrap). ``Fidelity.sentence`` turns it
into words.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class QualitySettings:
    """Where words change, and how intervals are drawn.

    Attributes:
        doubtful: a share of variance. An explanation that predicts less of what deletions do is
            not to be trusted. Half is a convention, not a tuned number: below it, more is missed
            than is predicted. Larger values warn more often, also of explanations that are right;
            ``benchmarks/trust.py`` counts those that should have been warned of.
        close_to_linear: a share of variance. A linear explanation that is behind by less does as
            well. Not tuned: larger values call models linear whose importances matter; with
            smaller ones, the chance of a few held-out rows decides.
        out_of_bounds: predictions that leave the range of answers are named where they add more
            than this times the squared error.
        draws: samples of rows behind an interval. With so many, its ends vary by about 4% of its
            width; more draws cost time.
        ends: the quantiles of an interval.
        rounding: of the outputs' size. Smaller changes are rounding errors of a model in single
            precision, some 20 times its epsilon.
        lowest_r2: an R² below is written as this. Outputs near 1e-160 have a variance so small that
            it would be minus infinity, which no file holds.
    """

    doubtful: float = 0.5
    close_to_linear: float = 0.03
    out_of_bounds: float = 1.0
    draws: int = 300
    ends: tuple[float, float] = (0.05, 0.95)
    rounding: float = 2e-6
    lowest_r2: float = -1e100


QUALITY = QualitySettings()
NOTHING_CHANGES = (
    "There is nothing to explain: the model's output does not change when parts of the text are"
    " deleted."
)


NONE = "none"  # in the place of a share


@dataclass(frozen=True)
class Agreement:
    """Predicted against true changes of the output.

    Attributes:
        r2: share of the changes' variance that is predicted; NaN where nothing changes.
        mse: mean squared error of the predicted changes.
        rows: how many rows it was measured on.
        r2_low: lower end of a 90% interval of ``r2``, from drawing rows with replacement; NaN
            where there is none.
        r2_high: its upper end.
        mse_low: lower end of a 90% interval of ``mse``.
        mse_high: its upper end.
        beyond: what predictions that leave the range of all answers would add to ``mse``, on rows
            that were not asked; ``r2_low`` counts it.
    """

    r2: float
    mse: float
    rows: int
    r2_low: float = math.nan
    r2_high: float = math.nan
    mse_low: float = math.nan
    mse_high: float = math.nan
    beyond: float = 0.0

    @property
    def at_least(self) -> float:
        """The share that is surely predicted: the lower end, or the share where there is none."""
        if math.isnan(self.r2_low):
            return self.r2
        return min(self.r2, self.r2_low)


@dataclass(frozen=True)
class FewAndMany:
    """Agreement on held-out deletions of few and of many units.

    Attributes:
        local: 1 to 10 units deleted.
        wide: 1 to all but one unit deleted.
    """

    local: Agreement
    wide: Agreement


@dataclass(frozen=True)
class Fidelity:
    """Agreement on held-out deletions of what predicts, of what is printed, and of a linear fit.

    Attributes:
        local: the explanation, 1 to 10 units deleted.
        wide: the explanation, 1 to all but one unit deleted.
        linear_local: the linear fit of the same calls, same rows as ``local``; None where there
            is none to compare with, as for methods that give one score per unit.
        linear_wide: the linear fit, same rows as ``wide``.
        two_scores: what the average of the values under the importances predicts by itself; None
            for methods that give one score per unit.
    """

    local: Agreement
    wide: Agreement
    linear_local: Agreement | None = None
    linear_wide: Agreement | None = None
    two_scores: FewAndMany | None = None

    def sentence(self) -> str:
        """How far the explanation can be trusted, in plain words."""
        if math.isnan(self.wide.r2):
            return NOTHING_CHANGES
        if self.wide.at_least < QUALITY.doubtful:
            return f"Do not trust this: {self._doubt()}{self._beside_linear()}."
        if self.two_scores is None:
            told = f"Predicts {_both(self.local, self.wide)}"
            return f"{told}{self._beside_linear()}."
        return self._of_two_scores(self.two_scores)

    def _of_two_scores(self, two: FewAndMany) -> str:
        """The sentence about values and importances, and about what is added to them."""
        told = f"The two scores predict {_both(two.local, two.wide)}"
        corrected = ""
        if two != FewAndMany(self.local, self.wide):
            shares = f"{percent(self.wide.r2)} and {percent(self.local.r2)}"
            corrected = f"; with its corrections, the explanation predicts {shares}"
        if two.wide.at_least < QUALITY.doubtful:
            return (
                f"Do not read the two scores alone: they predict {_both(two.local, two.wide)}"
                f"{corrected}{self._beside_linear()}. Read removal and Shapley values instead."
            )
        instead = ""
        if two.local.at_least < QUALITY.doubtful:
            instead = " For a few deletions, read removal."
        return f"{told}{corrected}{self._beside_linear()}.{instead}"

    def _beside_linear(self) -> str:
        """What a linear explanation does, where there is one."""
        if self.linear_wide is None or self.linear_local is None:
            return ""
        shares = f"{percent(self.linear_wide.r2)} and {percent(self.linear_local.r2)}"
        close = ""
        as_good = self.linear_wide.r2 > self.wide.r2 - QUALITY.close_to_linear
        if as_good and self.linear_wide.r2 >= QUALITY.doubtful:
            close = ": this model is close to linear here"
        return f"; a linear explanation of the same calls predicts {shares}{close}"

    def _doubt(self) -> str:
        """What speaks against the explanation."""
        wide = self.wide
        ours, surely = percent(wide.r2), percent(wide.at_least)
        few = f"and {percent(self.local.r2)} of what a few do"
        if wide.r2 < QUALITY.doubtful:
            return f"it predicts {ours} of what deletions do {few}"
        if wide.beyond > QUALITY.out_of_bounds * wide.mse:
            return (
                f"it predicts {ours} of what the tested deletions do {few}, but for others it "
                "predicts outputs that the model never gave"
            )
        return (
            f"it predicts {ours} of what the tested deletions do {few}, but perhaps only {surely} "
            "of what others do"
        )


def _both(local: Agreement, wide: Agreement) -> str:
    """What is predicted of many and of few deletions, with the lower ends."""
    many = f"{percent(wide.r2)} of what deletions do{_surely(wide)}"
    return f"{many} and {percent(local.r2)} of what a few do{_surely(local)}"


def _surely(found: Agreement) -> str:
    """The lower end in brackets, where it differs in whole per cent."""
    surely = percent(found.at_least)
    if surely == percent(found.r2):
        return ""
    if surely == NONE:
        return " (perhaps none)"
    return f" (at least {surely})"


def agreement(predicted: Tensor, true: Tensor, level: float, beyond: float = 0.0) -> Agreement:
    """Compares changes of one output.

    A change within single-precision rounding of the outputs is none. Where every deletion
    changes the output by the same, nothing of it can be told apart, and r2 is 0.

    Args:
        predicted: (m,), what the surrogate says.
        true: (m,), what the model says.
        level: the size of the outputs themselves.
        beyond: what other predictions, outside the range of all answers, add to the squared error.
    """
    return agreements(predicted[None], true, level, [beyond])[0]


def agreements(
    predicted: Tensor, true: Tensor, level: float, beyond: Sequence[float]
) -> list[Agreement]:
    """Compares changes of one output as several surrogates predict them.

    Args:
        predicted: (k, m), what the surrogates say.
        true: (m,), what the model says.
        level: the size of the outputs themselves.
        beyond: (k,), as for one.
    """
    predicted, true = predicted.cpu(), true.cpu()  # small, and every number is looked at
    centred = true - true.mean()
    parts = torch.cat([(predicted - true) ** 2, centred[None] ** 2, centred[None]])  # (k + 2, m)
    *errors, variance, _ = parts.mean(dim=1).tolist()
    draws = parts @ _draws(len(true)).to(true)  # (k + 2, draws)
    mse_draws, square_draws, mean_draws = draws[:-2], draws[-2], draws[-1]
    rounding = QUALITY.rounding * level
    least = rounding**2
    variances = (square_draws - mean_draws**2).clamp(min=least)
    lows, highs = _ends(torch.cat([mse_draws, 1 - mse_draws / variances]))
    nothing_changes = float(true.abs().max()) <= rounding
    found = []
    for index, (mse, of_others) in enumerate(zip(errors, beyond, strict=True)):
        ends = {"mse_low": lows[index], "mse_high": highs[index]}
        if nothing_changes:
            found.append(Agreement(math.nan, mse, len(true), **ends))
        elif variance <= least:
            found.append(Agreement(0.0, mse, len(true), **ends))
        else:
            low, high = lows[len(errors) + index], highs[len(errors) + index]
            shares = (1 - mse / variance, low - of_others / variance, high)
            r2, low, high = (max(share, QUALITY.lowest_r2) for share in shares)
            found.append(Agreement(r2, mse, len(true), low, high, **ends, beyond=of_others))
    return found


@functools.lru_cache(maxsize=64)
def _draws(rows: int) -> Tensor:
    """Shares of each row in samples with replacement, (rows, draws).

    They are always the same for the same number of rows.
    """
    generator = torch.Generator().manual_seed(rows)
    sampled_rows = torch.randint(rows, (QUALITY.draws, rows), generator=generator)
    ones = torch.ones(QUALITY.draws, rows, dtype=torch.float64)
    shares = torch.zeros_like(ones).scatter_add_(1, sampled_rows, ones)
    return (shares / rows).T.contiguous()


def _ends(draws: Tensor) -> list[list[float]]:
    """The lower and upper ends of the intervals of k numbers, (2, k), from draws (k, draws)."""
    quantiles = torch.tensor(QUALITY.ends, dtype=draws.dtype)
    ends: list[list[float]] = torch.quantile(draws, quantiles, dim=1).tolist()
    return ends


def percent(r2: float) -> str:
    """A share in whole per cent; a fit worse than the mean predicts nothing."""
    if r2 <= 0:
        return NONE
    if r2 < 0.9995:
        return f"{min(round(100 * r2), 99)}%"
    return "100%"
