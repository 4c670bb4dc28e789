"""Sparse pairwise regression: a linear explanation with some pairs of units.

    F(K) = f(whole text) - sum over deleted units - sum over pairs of deleted units

Pairs are chosen by a lasso whose penalty is cross-validated. On short
texts this is the strongest published peer. The score of a unit is its Shapley value in F: its own
part and half of each of its pairs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from slalom_xai.methods.additive import (
    AdditiveSurrogate,
    PairsSurrogate,
    fit_additive,
    removed_together,
)
from slalom_xai.methods.base import Estimator, Findings, register
from slalom_xai.methods.evidence import Evidence, gather
from slalom_xai.methods.held_out import held_out_loss, inverse_variance, linear_fit, measure
from slalom_xai.queries import Queries

# Fits sparse pairwise surrogates: which pairs of units matter, and how much.
#
# What it has to do: regress the changes ``f(all) - f(row)`` on what each row removed and on which
# pairs of units it removed together.
#
# There are n (n - 1) / 2 pairs, most of which matter little. A lasso chooses some of them: it
# minimises
#
#   sum_r q_r | change_r - mains - pairs |^2 / 2  +  ridge |main|^2 / 2  +  penalty sum_p |joint_p|
#
# where |joint_p| is the length over columns, so that all columns share the pairs. A ridge
# regression then fits all units and the chosen pairs again, which takes away the lasso's bias.
# Cross-validation chooses the penalty and the last ridge.
#
# Why it is done this way: for given pairs the best mains are known in closed form, so that the
# search is over pairs alone, with what mains can predict taken out of them. In long texts only
# those pairs take part that go best with what a linear fit leaves.
#
# Shapes: m rows, n units, C columns (explained outputs), P pairs, p pairs that take part.


@dataclass(frozen=True)
class PairSettings:
    """Constants of the regression.

    Attributes:
        most_pairs: pairs that take part in the lasso. With 400 as with 1,000, errors on texts of 40
            to 90 tokens were the same within a tenth; time grows with the square.
        least_rows: rows that must remove a pair together for it to take part; from fewer, nothing
            can be learnt about it.
        first_ridge: of the mains, while pairs are chosen, relative to the mean diagonal of their
            Gram matrix.
        penalties: how many penalties are tried.
        second_look: the number of the penalty under which pairs are fitted before others are looked
            for.
        least_penalty: the smallest of them, relative to that under which no pair is chosen.
        ridges: of the last regression, relative as the first one; cross-validation chooses.
        folds: of the cross-validation.
        steps: of the lasso, for each penalty, at most.
        least_ridge: added to each, absolute: keeps a matrix of zeros definite.
        at_once: pairs that are written out together while the promising ones are found.
        precision: the lasso stops when its largest step is below this, relative to the largest
            number.
    """

    most_pairs: int = 400
    least_rows: int = 3
    first_ridge: float = 1e-3
    penalties: int = 8
    second_look: int = 4
    least_penalty: float = 0.02
    ridges: tuple[float, ...] = (1e-10, 1e-3, 1e-2, 1e-1, 1.0)
    folds: int = 5
    steps: int = 500
    least_ridge: float = 1e-12
    at_once: int = 4_000
    precision: float = 1e-4


PAIRS = PairSettings()


def fit_pairs(
    counts: Tensor, outputs: Tensor, full: Tensor, weights: Tensor | None = None
) -> PairsSurrogate | AdditiveSurrogate:
    """A regression on units and a few pairs; additive where no pair helps.

    Args:
        counts: (m, n), 1 keeps a unit and 0 deletes it, in random order.
        outputs: (m, C), what the model answered.
        full: (C,), its answer to the whole text, which is met exactly.
        weights: (m,), of the rows; equal by default.
    """
    changes = full - outputs
    scale = changes.pow(2).mean(dim=0).sqrt()
    scale = torch.where(scale > 0, scale, torch.ones_like(scale))
    if weights is None:
        weights = torch.ones_like(changes[:, 0])
    rows = _Rows(1 - counts, changes / scale, weights / weights.sum())
    pairs = _select_pairs(rows)
    together = removed_together(rows.missing, pairs)
    lasso = _Lasso(rows, together)
    number, ridge = _cross_validate(rows, together, lasso)
    chosen = lasso.chosen(rows, together)[number]
    (found,) = rows.refit(together[:, chosen], [ridge])
    found = found * scale
    mains, joints = found[: counts.shape[1]], found[counts.shape[1] :]
    if not len(joints):
        return AdditiveSurrogate(mains, full)
    return PairsSurrogate(mains, pairs[chosen].to(mains), joints, full)


@dataclass(frozen=True)
class _Rows:
    """What is regressed.

    Attributes:
        missing: (m, n).
        changes: (m, C), each column with mean square 1.
        weights: (m,).
    """

    missing: Tensor
    changes: Tensor
    weights: Tensor

    def part(self, some: Tensor) -> _Rows:
        """Some of the rows."""
        return _Rows(self.missing[some], self.changes[some], self.weights[some])

    @functools.cached_property
    def _weighed(self) -> Tensor:
        """The rows times their weights, (m, n)."""
        return self.weights[:, None] * self.missing

    @functools.cached_property
    def _factor(self) -> Tensor:
        """The Cholesky factor of a linear fit's matrix, (n, n)."""
        gram: Tensor = self._weighed.T @ self.missing
        factor: Tensor = torch.linalg.cholesky(_add_ridge(gram, PAIRS.first_ridge))
        return factor

    @functools.cached_property
    def left(self) -> Tensor:
        """What a linear fit leaves of the changes, (m, C)."""
        mains = torch.cholesky_solve(self._weighed.T @ self.changes, self._factor)
        predicted: Tensor = self.missing @ mains
        return self.changes - predicted

    def without_mains(self, together: Tensor) -> tuple[Tensor, Tensor]:
        """The Gram matrix (P, P) of pairs and their products with the changes, (P, C).

        What a linear fit predicts is taken out of both.

        Args:
            together: (m, P).
        """
        cross = self._weighed.T @ together
        weighed = self.weights[:, None] * together
        gram = weighed.T @ together - cross.T @ torch.cholesky_solve(cross, self._factor)
        return gram, weighed.T @ self.left

    def without_mains_each(self, together: Tensor) -> Tensor:
        """The diagonal of that matrix alone, (P,), above 0."""
        cross = self._weighed.T @ together
        weighed = self.weights[:, None] * together
        own = (weighed * together).sum(dim=0)
        predicted = (cross * torch.cholesky_solve(cross, self._factor)).sum(dim=0)
        return (own - predicted).clamp(min=PAIRS.least_ridge)

    def refit(self, together: Tensor, ridges: Sequence[float]) -> list[Tensor]:
        """Ridge regressions on units and pairs: what each takes away, (n + P, C) per ridge.

        Args:
            together: (m, P).
            ridges: relative.
        """
        every = torch.cat([self.missing, together], dim=1)
        weighed = self.weights[:, None] * every
        gram, target = weighed.T @ every, weighed.T @ self.changes
        found = []
        for ridge in ridges:
            factor = torch.linalg.cholesky(_add_ridge(gram, ridge))
            found.append(torch.cholesky_solve(target, factor))
        return found

    def missed(self, together: Tensor, found: Tensor) -> Tensor:
        """What is left of the changes by what a regression found, (n + P, C)."""
        predicted: Tensor = torch.cat([self.missing, together], dim=1) @ found
        return self.changes - predicted

    def error(self, together: Tensor, found: Tensor) -> float:
        """The weighted squared error of what a regression found, (n + P, C)."""
        return float(self.weights @ self.missed(together, found).pow(2).sum(dim=1))


class _Lasso:
    """Chooses pairs under each of some penalties, the strongest first.

    Args:
        rows: all of them.
        together: (m, p), of the pairs that take part.
    """

    def __init__(self, rows: _Rows, together: Tensor) -> None:
        gram, target = rows.without_mains(together)
        self._lengths = gram.diagonal().clamp(min=PAIRS.least_ridge).sqrt()
        strongest = 0.0
        if len(target):
            strongest = float((target / self._lengths[:, None]).norm(dim=1).max())
        shares = torch.logspace(0, math.log10(PAIRS.least_penalty), PAIRS.penalties + 1)[1:]
        self._penalties = [strongest * share for share in shares.tolist()]

    def chosen(self, rows: _Rows, together: Tensor) -> list[Tensor]:
        """Which pairs are chosen, (p,) each: none of them, and those under each penalty."""
        gram, target = rows.without_mains(together)
        gram = gram / self._lengths / self._lengths[:, None]
        target = target / self._lengths[:, None]
        joints = torch.zeros_like(target)
        chosen = [torch.zeros(len(target), dtype=torch.bool, device=target.device)]
        if not len(target):
            return chosen * (1 + len(self._penalties))
        steepest = torch.linalg.matrix_norm(gram, 2)
        for penalty in self._penalties:
            joints = _solve_lasso(gram / steepest, target / steepest, penalty / steepest, joints)
            chosen.append(joints.abs().amax(dim=1) > 0)
        return chosen


def _solve_lasso(gram: Tensor, target: Tensor, penalty: Tensor, start: Tensor) -> Tensor:
    """The lasso's numbers (p, C), by accelerated proximal steps that restart when they overshoot.

    Args:
        gram: (p, p), with largest eigenvalue 1.
        target: (p, C).
        penalty: of the length of each row of the numbers, ().
        start: (p, C).
    """
    found, ahead, momentum = start, start, 1.0
    for _ in range(PAIRS.steps):
        free = ahead + target - gram @ ahead
        lengths = free.norm(dim=1, keepdim=True).clamp(min=torch.finfo(free.dtype).tiny)
        better = free * (1 - penalty / lengths).clamp(min=0)
        step = better - found
        if float(((ahead - better) * step).sum()) > 0:
            momentum = 1.0
        next_momentum = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
        ahead = better + (momentum - 1) / next_momentum * step
        found, momentum = better, next_momentum
        if float(step.abs().max()) <= PAIRS.precision * float(found.abs().max()):
            break
    return found


def _cross_validate(rows: _Rows, together: Tensor, lasso: _Lasso) -> tuple[int, float]:
    """The number of the penalty, 0 for no pairs, and the ridge that predict left out rows best."""
    size = len(rows.weights)
    folds = min(PAIRS.folds, size)
    errors = torch.zeros(PAIRS.penalties + 1, len(PAIRS.ridges))
    if folds < 2:
        return 0, PAIRS.ridges[0]
    fold = torch.arange(size, device=together.device) % folds
    for number in range(folds):
        seen, left_out = fold != number, fold == number
        fitted, tested = rows.part(seen), rows.part(left_out)
        for penalty, chosen in enumerate(lasso.chosen(fitted, together[seen])):
            some = together[:, chosen]
            for place, found in enumerate(fitted.refit(some[seen], PAIRS.ridges)):
                errors[penalty, place] += tested.error(some[left_out], found)
    penalty, place = divmod(int(errors.argmin()), len(PAIRS.ridges))
    return penalty, PAIRS.ridges[place]


def _select_pairs(rows: _Rows) -> Tensor:
    """The pairs that take part, (p, 2): those that go best with what a linear fit leaves.

    Strong pairs hide weak ones. So some are fitted, and those are taken that go best with what is
    then left, beside the strong ones.
    """
    units = rows.missing.shape[1]
    pairs = torch.triu_indices(units, units, 1, device=rows.missing.device).T
    both = rows.missing.T @ rows.missing  # how many rows remove two units together
    pairs = pairs[both[pairs[:, 0], pairs[:, 1]] >= PAIRS.least_rows]
    if len(pairs) <= PAIRS.most_pairs:
        return pairs
    first = _best(rows, pairs, rows.left)
    together = removed_together(rows.missing, pairs[first])
    chosen = _Lasso(rows, together).chosen(rows, together)[PAIRS.second_look]
    (found,) = rows.refit(together[:, chosen], [PAIRS.first_ridge])
    second = _best(rows, pairs, rows.missed(together[:, chosen], found))
    return pairs[torch.unique(torch.cat([first[chosen], second]))]


def _best(rows: _Rows, pairs: Tensor, left: Tensor) -> Tensor:
    """The numbers of the pairs that go best with what is left of the changes.

    Args:
        rows: all of them.
        pairs: (P, 2), to choose from.
        left: (m, C).
    """
    fits = []
    for some in torch.split(pairs, PAIRS.at_once):
        together = removed_together(rows.missing, some)
        products = (rows.weights[:, None] * together).T @ left
        fits.append(products.norm(dim=1) / rows.without_mains_each(together).sqrt())
    return torch.cat(fits).topk(PAIRS.most_pairs).indices


def _add_ridge(gram: Tensor, ridge: float) -> Tensor:
    """A Gram matrix with a ridge relative to its mean diagonal."""
    penalty = ridge * gram.diagonal().mean() + PAIRS.least_ridge
    return gram + torch.diag_embed(penalty.expand(len(gram)))


# Sparse pairwise regression: a linear explanation with some pairs of units.


@register
@dataclass(frozen=True)
class Pairs(Estimator):
    """One score per unit, and a function that knows which pairs of units act together."""

    name: ClassVar[str] = "pairs"
    summary: ClassVar[str] = (
        "sparse pairwise regression: scores of tokens and of the pairs that matter, on the same "
        "calls as slalom"
    )
    combines: ClassVar[bool] = True
    estimates: ClassVar[str] = "shapley"

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Asks the model and fits."""
        question = queries.prompt
        parameters = self.parameters(len(question.units), question.distinct)
        evidence = gather(queries, parameters, rng)
        surrogate = pairs_fit(evidence)
        fidelity = measure(evidence, surrogate)
        return Findings(surrogate, ({},) * len(evidence.full), fidelity, _notes(surrogate))


def pairs_fit(evidence: Evidence) -> PairsSurrogate | AdditiveSurrogate:
    """The regression of all rows but those for the report.

    Rows are weighted by how well they can be predicted or not, whichever held-out rows prefer. They
    may also prefer a linear fit: where calls are few, chance chooses pairs.
    """
    if evidence.choose is None:
        return _make_surrogate(evidence, False)
    linear = linear_fit(evidence).surrogate
    plain, weighted = (
        held_out_loss(evidence, _make_surrogate(evidence, each)) for each in (False, True)
    )
    if held_out_loss(evidence, linear) <= min(plain, weighted):
        return linear
    return _make_surrogate(evidence.settled, weighted < plain)


def _make_surrogate(evidence: Evidence, weighted: bool) -> PairsSurrogate | AdditiveSurrogate:
    rows = evidence.fit
    weights: Tensor | None = None
    if weighted:
        linear = fit_additive(rows.table, rows.outputs, evidence.full).surrogate
        weights = inverse_variance(linear.predict(rows.table) - rows.outputs, rows.deleted)
    return fit_pairs(rows.table, rows.outputs, evidence.full, weights)


def _notes(surrogate: PairsSurrogate | AdditiveSurrogate) -> tuple[str, ...]:
    """How many pairs there are."""
    if isinstance(surrogate, AdditiveSurrogate):
        return ("No pair of units helps to predict deletions: the explanation is linear.",)
    pairs = f"{len(surrogate.pairs)} pairs of units act"
    if len(surrogate.pairs) == 1:
        pairs = "One pair of units acts"
    return (f"{pairs} together. A unit's score has half of what each of its pairs adds.",)
