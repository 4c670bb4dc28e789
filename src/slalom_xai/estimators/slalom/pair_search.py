"""Which pairs of units act together in a way that the two scores miss, by the rows asked so far.

A pair is estimated in two ways (``interactions``): by the process, and by regression.

Shapes: m rows, n units, P pairs, C columns (explained outputs).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch
from torch import Tensor

from slalom_xai.estimators.evidence import AnsweredRows, Evidence
from slalom_xai.surrogates.conditioning import Conditioned
from slalom_xai.surrogates.formula import SlalomSurrogate, TwoScores
from slalom_xai.surrogates.interactions import Interactions
from slalom_xai.surrogates.near_zero import TINY
from slalom_xai.surrogates.pairs import removed_together
from slalom_xai.surrogates.row_weights import inverse_variance


@dataclass(frozen=True)
class InteractionSettings:
    """What looking for pairs may cost, and what it takes for one.

    Attributes:
        one_in: calls; pairs may take one in so many of the budget.
        most: pairs that the model is asked about, at most.
        strong_units: units that do most by themselves, of which all pairs are looked at. Of other
            units, only neighbours are: all pairs of a long text would take long.
        neighbours: how much larger the effect of units side by side is taken to be, in the choice
            of pairs to ask about: "not good" is likelier than "not" with a word far off.
        judged: pairs that miss most by either estimate, for which it is worked out how sure that
            is by the process.
        sure: standard errors that the estimate by the process must have.
        sure_by_rows: standard errors that the estimate by regression must have; many pairs are
            tried, and one in thousands has four of them by chance.
        clear: standard errors that a strength must have, where the model is noisy.
        least_share: of the largest effect of a single unit, that a strength must have.
        missed: share of a strength that the two scores must miss.
        ridge: of the units' own parts in the share of the error, relative to the mean diagonal.
    """

    one_in: int = 40
    most: int = 10
    strong_units: int = 40
    neighbours: float = 2.0
    judged: int = 40
    sure: float = 3.0
    sure_by_rows: float = 4.0
    clear: float = 4.0
    least_share: float = 0.15
    missed: float = 1 / 3
    ridge: float = 1e-3


INTERACTIONS = InteractionSettings()


@dataclass(frozen=True)
class _Estimate:
    """What the two scores miss of the joint effects of pairs.

    Attributes:
        missed: (P, C).
        errors: (P, C), standard errors.
        sure: how many of them it takes.
    """

    missed: Tensor
    errors: Tensor
    sure: float

    @property
    def needed(self) -> Tensor:
        """What must be missed to be sure of it, (P, C)."""
        return self.sure * self.errors + TINY

    def of(self, some: Tensor) -> _Estimate:
        """Only some pairs, by their numbers."""
        return _Estimate(self.missed[some], self.errors[some], self.sure)


class PairSearch:
    """Looks for pairs that the two scores miss.

    Args:
        evidence: the rows.
        surrogate: predicts deletions.
        two: the two scores.
        known: the process of the surrogate, if it has one.
    """

    def __init__(
        self,
        evidence: Evidence,
        surrogate: SlalomSurrogate,
        two: TwoScores,
        known: Conditioned | None,
    ) -> None:
        self._evidence, self._surrogate, self._two = evidence, surrogate, two
        self._known = known
        self._whole = torch.ones(1, surrogate.units).to(evidence.fit.table)
        self._single = 1 - torch.eye(surrogate.units).to(self._whole)  # texts without one unit
        changes = surrogate.predict(self._whole) - surrogate.predict(self._single)
        self._largest = changes.abs().amax(dim=0) + TINY  # (C,)
        self._sizes = (changes.abs() / self._largest).amax(dim=1)  # (n,)

    @functools.cached_property
    def _judged(self) -> tuple[Tensor, list[_Estimate]]:
        """Pairs (P, 2) that may miss most, with estimates of what: by regression and process."""
        pairs = self._pairs()
        by_rows, missed = self._by_rows(pairs), self._missed(pairs)
        judged = torch.zeros(len(pairs), dtype=torch.bool, device=pairs.device)
        for size in (missed / self._largest, by_rows.missed / by_rows.needed):
            most = size.abs().amax(dim=1).topk(min(INTERACTIONS.judged, len(pairs)))
            judged[most.indices] = True
        some = judged.nonzero()[:, 0]
        estimates = [by_rows.of(some)]
        if self._known is not None:
            errors = self._errors(self._known, pairs[some])
            estimates.append(_Estimate(missed[some], errors, INTERACTIONS.sure))
        return pairs[some], estimates

    def promising(self) -> Tensor:
        """The pairs that are worth asking about, (P, 2), those that miss most first."""
        pairs, estimates = self._judged
        size = torch.zeros(len(pairs)).to(self._largest)
        for estimate in estimates:
            missed = estimate.missed.abs()
            certain = torch.where(missed >= estimate.needed, missed, 0.0)
            size = torch.maximum(size, (certain / self._largest).amax(dim=1))
        size = size * torch.where(pairs.diff(dim=1)[:, 0] == 1, INTERACTIONS.neighbours, 1.0)
        order = size.argsort(descending=True, stable=True)
        return pairs[order[: int((size > 0).sum())]]

    def kept(self, pairs: Tensor, answers: Tensor, variance: Tensor) -> Interactions | None:
        """The pairs that the model's answers confirm, the strongest first.

        Args:
            pairs: (P, 2), some of those that are promising.
            answers: (3 P, C), to the texts of ``masks``.
            variance: (C,), of a strength.
        """
        strengths = _joint(self._evidence.full, answers)  # (P, C)
        column = (strengths / self._largest).abs().argmax(dim=1, keepdim=True)  # (P, 1)

        def there(numbers: Tensor) -> Tensor:
            return numbers.expand_as(strengths).gather(1, column)[:, 0]

        sign, strength = there(strengths).sign(), there(strengths).abs()
        missed = there(strengths - self._joint(self._two, pairs))
        keep = strength >= INTERACTIONS.least_share * there(self._largest)
        keep &= strength >= INTERACTIONS.clear * there(variance.sqrt())
        keep &= sign * missed >= INTERACTIONS.missed * strength
        agrees = torch.zeros_like(keep)
        judged, estimates = self._judged
        numbers = (judged == pairs[:, None]).all(dim=2).long().argmax(dim=1)
        for estimate in estimates:
            here = estimate.of(numbers)
            agrees |= sign * there(here.missed) >= there(here.needed)
        keep &= agrees
        if not bool(keep.any()):
            return None
        order = strength[keep].argsort(descending=True, stable=True)
        found = strengths[keep][order]
        some = pairs[keep][order]
        errors = variance.sqrt().expand_as(found).clone()
        return Interactions(some.to(found), found, errors, self._shares(some))

    def masks(self, pairs: Tensor) -> Tensor:
        """Texts without the first, without the second and without both units, (3, P, n)."""
        number = torch.arange(len(pairs), device=pairs.device)
        masks = self._evidence.fit.table.new_ones(3, len(pairs), self._surrogate.units)
        for which, places in enumerate(((0,), (1,), (0, 1))):
            for place in places:
                masks[which, number, pairs[:, place]] = 0.0
        return masks

    def _pairs(self) -> Tensor:
        """The pairs that are looked at, (P, 2): neighbours, and all of the strongest units."""
        units = len(self._sizes)
        strong = self._sizes.topk(min(INTERACTIONS.strong_units, units)).indices.sort().values
        number = torch.arange(units - 1, device=strong.device)
        beside = torch.stack([number, number + 1], dim=1)
        pairs: Tensor = torch.unique(torch.cat([beside, torch.combinations(strong)]), dim=0)
        return pairs

    def _missed(self, pairs: Tensor) -> Tensor:
        """What the two scores miss of the predicted joint effects, (P, C)."""
        return self._joint(self._surrogate, pairs) - self._joint(self._two, pairs)

    def _joint(self, function: SlalomSurrogate | TwoScores, pairs: Tensor) -> Tensor:
        """The joint effects that a function has, (P, C)."""
        both = self.masks(pairs)[2]
        predicted = function.predict(torch.cat([self._whole, self._single, both]))
        whole, single, without = torch.split(predicted, [1, len(self._single), len(pairs)])
        joint: Tensor = whole - single[pairs].sum(dim=1) + without
        return joint

    def _errors(self, known: Conditioned, pairs: Tensor) -> Tensor:
        """Standard errors of the joint effects that a process predicts, (P, C)."""
        kernel, masks = known.process.kernel, self.masks(pairs)
        single, both = known.told(self._single), known.told(masks[2])  # (m, n), (m, P)
        told = both - single[:, pairs].sum(dim=2)
        signs = known.rows.new_tensor([-1.0, -1.0, 1.0])
        rows = masks.transpose(0, 1)  # (P, 3, n)
        own = kernel.between(rows, rows) @ signs @ signs
        own = own - (kernel.with_whole(rows) @ signs) ** 2 / kernel.whole
        return known.scaled(own - (told**2).sum(dim=0))

    def _by_rows(self, pairs: Tensor) -> _Estimate:
        """By regressions, one for each pair beside all units, with errors that rows' own show."""
        rows = self._evidence.fit
        left = self._left(rows)  # (m, C)
        missing, weights = 1 - rows.table, inverse_variance(left, rows.deleted)[:, None]
        factor = _factor(weights * missing, missing)
        together = removed_together(missing, pairs)  # (m, P)

        def beyond_units(columns: Tensor) -> Tensor:
            taken = torch.cholesky_solve(missing.T @ (weights * columns), factor)
            return columns - missing @ taken

        beyond, left = beyond_units(together), beyond_units(left)
        total = (weights * beyond**2).sum(dim=0)[:, None] + TINY  # (P, 1)
        slopes = beyond.T @ (weights * left) / total
        variances = (beyond**2).T @ (weights * left) ** 2 / total**2
        return _Estimate(slopes, variances.sqrt(), INTERACTIONS.sure_by_rows)

    def _shares(self, pairs: Tensor) -> Tensor:
        """The share that pairs take of what the two scores leave of the test, (C,).

        How much each takes is fitted to the rows to fit, beside what single units can take.
        """
        report, full = self._evidence.report, self._evidence.full
        if report is None:
            return torch.zeros_like(full)
        errors = []
        for some in (pairs[:0], pairs):
            found = self._what_missing_takes(some)
            squares = torch.zeros_like(full)
            for rows in report.both:
                after = self._left(rows) - _missing(rows.table, some) @ found
                squares = squares + after.pow(2).mean(dim=0)
            errors.append(squares)
        return (1 - errors[1] / (errors[0] + TINY)).clamp(min=0)

    def _what_missing_takes(self, pairs: Tensor) -> Tensor:
        """A linear fit of what the two scores leave: what units and pairs take, (n + P, C)."""
        rows = self._evidence.fit
        left, missing = self._left(rows), _missing(rows.table, pairs)
        weighed = inverse_variance(left, rows.deleted)[:, None] * missing
        return torch.cholesky_solve(weighed.T @ left, _factor(weighed, missing))

    def _left(self, rows: AnsweredRows) -> Tensor:
        """What the two scores leave of rows, (m, C)."""
        return -self._evidence.errors(self._two, rows)


def _joint(whole: Tensor, without: Tensor) -> Tensor:
    """Joint effects (P, C) from the whole text (C,) and texts (3 P, C) as in ``masks``."""
    first, second, both = without.reshape(3, -1, len(whole))
    joint: Tensor = whole - first - second + both
    return joint


def _factor(weighed: Tensor, missing: Tensor) -> Tensor:
    """The factor (k, k) of a linear fit's matrix, from what rows lack (m, k) and that weighed."""
    gram = weighed.T @ missing
    gram.diagonal().add_(INTERACTIONS.ridge * gram.diagonal().mean() + TINY)
    factor: Tensor = torch.linalg.cholesky(gram)
    return factor


def _missing(table: Tensor, pairs: Tensor) -> Tensor:
    """What rows (m, n) lack of units and of pairs, (m, n + P)."""
    missing = 1 - table
    return torch.cat([missing, removed_together(missing, pairs)], dim=1)
