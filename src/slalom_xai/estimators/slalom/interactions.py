"""Finds the few pairs of units whose joint effect the two scores of ``slalom`` miss.

What heads leave of the fitted rows says which pairs may be worth a call. The model is then asked
about the best few of them: the text without both tells what they do together,

    strength = f(all) - f(without i) - f(without j) + f(without both).

A pair is kept where that is clear, where the two scores miss most of it, and where other rows than
that one say the same: either the heads know it, which were fitted to other rows, or rows that were
not fitted are predicted better with a correction. Heads are fitted again beside a correction.

A SLALOM has joint effects of its own, because its units share one average. What the two scores say
of a pair is therefore no interaction.

Shapes: m rows, n units, P pairs, C columns (explained outputs).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from slalom_xai.designs import DESIGN, least_budget
from slalom_xai.estimators.evidence import Evidence
from slalom_xai.estimators.exactness import nothing_left
from slalom_xai.estimators.held_out import held_out_loss
from slalom_xai.estimators.slalom.candidates import Candidates
from slalom_xai.estimators.slalom.choice import Choice
from slalom_xai.estimators.slalom.measuring import Measured
from slalom_xai.queries import Queries
from slalom_xai.surrogates.formula import SlalomSurrogate, TwoScores
from slalom_xai.surrogates.interactions import Interactions, faded
from slalom_xai.surrogates.mask_rows import MaskRows
from slalom_xai.surrogates.near_zero import TINY
from slalom_xai.surrogates.row_weights import inverse_variance


@dataclass(frozen=True)
class InteractionSettings:
    """What looking for pairs may cost, and what it takes for one.

    Attributes:
        one_in: calls; pairs may take one in so many of the budget.
        most: pairs that are asked about, at most.
        strong_units: units that do most by themselves, of which all pairs are looked at. Of other
            units, only neighbours are: all pairs of a long text would take long.
        neighbours: how much larger a joint effect is expected of units side by side.
        least_size: what is expected of units that do little by themselves, relative to those that
            do most.
        clear: standard errors that a strength must have.
        rough: errors of the heads on rows with few deletions that a strength must have: a model can
            be rough where it is not noisy.
        least_share: of the largest effect of a single unit, that a strength must have.
        missed: share of a strength that the two scores must miss.
        known: share of a strength from which the heads, which were fitted to other rows, confirm
            it.
        enough: share of a strength from which the heads need no correction.
        fading: rates that are tried, by which a correction loses its say with each further unit
            that is missing.
        ridge: of the units' own parts while rates are compared, relative to the mean diagonal.
        measured_weight: what the answer to the text without both weighs beside the fitted rows, in
            rows.
    """

    one_in: int = 50
    most: int = 10
    strong_units: int = 40
    neighbours: float = 3.0
    least_size: float = 0.1
    clear: float = 4.0
    rough: float = 1.5
    least_share: float = 0.15
    missed: float = 1 / 3
    known: float = 0.4
    enough: float = 0.7
    fading: tuple[float, ...] = (0.0, 0.05, 0.2, 0.5)
    ridge: float = 1e-3
    measured_weight: float = 3.0


INTERACTIONS = InteractionSettings()


def calls_for_pairs(queries: Queries, measured: Measured, parameters: int) -> int:
    """How many calls pairs may take: none where values are not measured.

    Args:
        queries: with the budget.
        measured: what has been asked.
        parameters: what a fit must determine; it needs calls, too.
    """
    if measured.filled is None:
        return 0
    of_a_pair = 1 if measured.without is not None else 3
    needed = measured.beside + least_budget(queries.prompt.interchangeable, parameters)
    left = max(0, queries.distinct_budget - needed)
    share = queries.distinct_budget // INTERACTIONS.one_in
    return min(INTERACTIONS.most * of_a_pair, share, left)


def with_interactions(
    queries: Queries,
    candidates: Candidates,
    chosen: Choice,
    measured: Measured,
    calls: int,
    anew: Callable[[Evidence], Choice],
) -> Choice:
    """The choice with the pairs that the two scores miss; itself where there are none.

    Args:
        queries: asks the model.
        candidates: fits to the rows that the choice was fitted to.
        chosen: without pairs.
        measured: with values, and perhaps with the answers to texts without one unit.
        calls: that it may take.
        anew: chooses among all fits again, for other answers.
    """
    evidence = candidates.evidence
    units = evidence.fit.counts.shape[1]
    if chosen.exact or evidence.choose is None or units < 3 or measured.filled is None:
        return chosen
    most = min(INTERACTIONS.most, calls if measured.without is not None else calls // 3)
    if most < 1 or nothing_left(chosen.main, evidence):
        return chosen
    two = candidates.first_two_scores(measured.filled)
    search = _Search(evidence, chosen.surrogate, two)
    pairs = search.promising(most)
    if not len(pairs):
        return chosen
    asked = search.asked(queries, pairs)
    known, missed = search.known(asked), search.missed(asked)
    chosen = _corrected(candidates, chosen, missed, anew)
    return replace(chosen, interactions=_joined(chosen.interactions, known))


def _corrected(
    candidates: Candidates,
    chosen: Choice,
    missed: Interactions,
    anew: Callable[[Evidence], Choice],
) -> Choice:
    """The choice with as many of the missed pairs, strongest first, as held-out rows ask for.

    All of them are tried, then half of them, and so on, and the strongest at half strength. Heads
    that have bent to follow a pair may not come back if they are fitted again from where they are.
    All of them are then chosen anew.
    """
    if not len(missed.pairs):
        return chosen
    evidence = candidates.evidence
    before = held_out_loss(evidence, chosen.refitted(candidates).surrogate)
    for pairs in _fewer_and_weaker(missed):
        beside = replace(candidates, evidence=evidence.less(pairs))
        again = replace(chosen, interactions=pairs).refitted(beside)
        if held_out_loss(evidence, again.surrogate) < before:
            return again
    again = replace(anew(evidence.less(missed)), interactions=missed)
    if held_out_loss(evidence, again.surrogate) < before:
        return again
    return chosen


def with_shares(
    interactions: Interactions | None, two: TwoScores, evidence: Evidence
) -> Interactions | None:
    """The pairs with the share that they take of what the two scores leave of the test.

    How much each takes is fitted to the rows to fit, beside what single units can take.
    """
    if interactions is None or evidence.report is None:
        return interactions
    rows, left = evidence.fit, -evidence.errors(two, evidence.fit)
    weights = inverse_variance(left, rows.deleted)[:, None]
    errors = []
    for count in (0, len(interactions.pairs)):
        some = _some(interactions, torch.arange(count))
        known = _with_pairs(rows.table, some)
        gram = (weights * known).T @ known
        ridge = INTERACTIONS.ridge * gram.diagonal().mean() + TINY
        factor = torch.linalg.cholesky(gram + ridge * torch.eye(len(gram)).to(gram))
        found = torch.cholesky_solve((weights * known).T @ left, factor)
        squares = torch.zeros_like(evidence.full)
        for held_out in evidence.report.both:
            after = -evidence.errors(two, held_out) - _with_pairs(held_out.table, some) @ found
            squares = squares + after.pow(2).mean(dim=0)
        errors.append(squares)
    shares = 1 - errors[1] / (errors[0] + TINY)
    return replace(interactions, shares=shares.clamp(min=0))


def _with_pairs(table: Tensor, pairs: Interactions) -> Tensor:
    """What rows (m, n) lack of units and of pairs, (m, n + P)."""
    missing = 1 - table
    return torch.cat([missing, faded(missing, pairs.pairs.long(), pairs.fading)], dim=1)


@dataclass(frozen=True)
class _Asked:
    """What the model says of pairs.

    Attributes:
        pairs: (P, 2).
        strengths: (P, C).
        by_heads: (P, C), what the heads say of them.
        by_two: (P, C), what the two scores say.
        errors: (P, C), of the strengths.
    """

    pairs: Tensor
    strengths: Tensor
    by_heads: Tensor
    by_two: Tensor
    errors: Tensor


class _Search:
    """Looks for pairs that the two scores miss.

    Args:
        evidence: the rows.
        surrogate: the heads.
        two: the two scores.
    """

    def __init__(self, evidence: Evidence, surrogate: SlalomSurrogate, two: TwoScores) -> None:
        self._evidence, self._surrogate, self._two = evidence, surrogate, two
        rows = evidence.fit
        self._left = -evidence.errors(surrogate, rows)  # (m, C)
        self._missing = 1 - rows.table
        self._weights = inverse_variance(self._left, rows.deleted)
        only = torch.eye(surrogate.units).to(rows.table)
        changes = evidence.full - surrogate.predict(1 - only)  # (n, C)
        local = rows.deleted <= DESIGN.most_local
        self._roughness = self._left[local].pow(2).mean(dim=0).sqrt()  # (C,)
        self._largest = changes.abs().amax(dim=0) + TINY  # (C,)
        self._sizes = (changes.abs() / self._largest).amax(dim=1)  # (n,)

    def promising(self, most: int) -> Tensor:
        """The pairs to ask about, (P, 2), the most promising first.

        What the heads leave of the rows is compared with the products of what is missing. The
        expected size of a joint effect, larger for neighbours and for units that do much, weighs in
        as a prior does.
        """
        pairs = self._pairs()
        first, second = pairs.T
        expected = (self._sizes[first] * self._sizes[second]).sqrt()
        expected = expected.clamp(min=INTERACTIONS.least_size)
        expected = expected * torch.where(second - first == 1, INTERACTIONS.neighbours, 1.0)
        centred = self._missing - self._missing.mean(dim=1, keepdim=True)
        squares = centred**2
        total = ((self._weights[:, None] * squares).T @ squares)[first, second] + TINY
        promise = torch.zeros_like(expected)
        for column, left in enumerate(self._left.T):
            weighed = (self._weights * left)[:, None]
            slopes = ((weighed * centred).T @ centred)[first, second] / total
            variances = ((weighed**2 * squares).T @ squares)[first, second] / total**2
            prior = expected**2 * slopes.pow(2).median()
            found = slopes * prior / (prior + variances + TINY)
            promise = torch.maximum(promise, found.abs() / self._largest[column])
        return pairs[promise.topk(min(most, len(pairs))).indices]

    def asked(self, queries: Queries, pairs: Tensor) -> _Asked:
        """What the model says of pairs (P, 2): one call each, and more if units were not asked."""
        masks = self._masks(pairs)
        answers = queries.ask(masks.bool().cpu().numpy()).to(masks)
        full = self._evidence.full
        strengths = _joint(full, answers)
        errors = torch.zeros_like(strengths)
        if queries.noise is not None:
            variance = 3 * queries.noise.to(full)
            if queries.whole_variance is not None:
                variance = variance + queries.whole_variance.to(full)
            errors = errors + variance.sqrt()
        by_heads, by_two = self._joint(self._surrogate, pairs), self._joint(self._two, pairs)
        return _Asked(pairs, strengths, by_heads, by_two, errors)

    def known(self, asked: _Asked) -> Interactions:
        """The pairs that are clear and that the heads confirm, with nothing to add for them."""
        clear, column = self._clear(asked)
        share = _of(column, asked.by_heads / asked.strengths)
        some = (clear & (share >= INTERACTIONS.known)).nonzero()[:, 0]
        strengths = asked.strengths[some]
        nothing = torch.zeros_like(strengths)
        return Interactions(
            asked.pairs[some].to(strengths),
            strengths,
            asked.errors[some],
            nothing,
            strengths.new_zeros(len(some)),
            torch.zeros_like(self._largest),
        )

    def missed(self, asked: _Asked) -> Interactions:
        """The pairs that are clear and that the heads miss, with what they add, strongest first.

        The rows that the heads were fitted to must say the same as the model's answer.
        """
        clear, column = self._clear(asked)
        missed = asked.strengths - asked.by_heads
        share = _of(column, missed / asked.strengths)
        size = _of(column, missed / self._largest).abs() * (share > 1 - INTERACTIONS.enough) * clear
        kept, corrections, fading = [], [], []
        left = self._left
        for index in size.argsort(descending=True, stable=True)[: int((size > 0).sum())].tolist():
            rate, correction, after = self._best_rate(asked.pairs[index], missed[index], left)
            if float(correction[column[index]] * asked.strengths[index, column[index]]) > 0:
                kept.append(index)
                corrections.append(correction)
                fading.append(rate)
                left = after
        some = torch.tensor(kept, dtype=torch.long, device=left.device)
        columns = left.shape[1]
        return Interactions(
            asked.pairs[some].to(left),
            asked.strengths[some],
            asked.errors[some],
            torch.stack(corrections) if corrections else left.new_zeros(0, columns),
            torch.tensor(fading, dtype=left.dtype, device=left.device),
            torch.zeros_like(self._largest),
        )

    def _clear(self, asked: _Asked) -> tuple[Tensor, Tensor]:
        """Which pairs are clear, (P,), and the column in which each does most, (P,)."""
        column = (asked.strengths / self._largest).abs().argmax(dim=1)
        strength = _of(column, asked.strengths)
        clear = strength.abs() >= INTERACTIONS.least_share * self._largest[column]
        clear &= strength.abs() >= INTERACTIONS.clear * _of(column, asked.errors)
        clear &= strength.abs() >= INTERACTIONS.rough * self._roughness[column]
        missed = _of(column, asked.strengths - asked.by_two) * strength.sign()
        return clear & (missed >= INTERACTIONS.missed * strength.abs()), column

    def _best_rate(
        self, pair: Tensor, missed: Tensor, left: Tensor
    ) -> tuple[float, Tensor, Tensor]:
        """How fast a pair fades, what it adds (C,), and what is then left of the rows (m, C).

        Args:
            pair: (2,).
            missed: (C,), what the heads miss of its strength.
            left: (m, C), what is left of the rows without it.
        """
        weights = self._weights[:, None]
        own = INTERACTIONS.measured_weight * float(self._weights.max())
        found = []
        for rate in INTERACTIONS.fading:
            say = faded(self._missing, pair[None], left.new_full((1,), rate))  # (m, 1)
            mains = torch.cholesky_solve((weights * self._missing).T @ say, self._factor)
            beyond = say - self._missing @ mains
            total = (weights * beyond**2).sum() + own
            correction = ((weights * beyond * left).sum(dim=0) + own * missed) / total
            after = left - beyond * correction
            error = (weights * after**2).sum() + own * ((missed - correction) ** 2).sum()
            found.append((float(error), rate, correction, after))
        _, rate, correction, after = min(found, key=lambda one: one[0])
        return rate, correction, after

    @functools.cached_property
    def _factor(self) -> Tensor:
        """The Cholesky factor of a linear fit's matrix, (n, n): units take what they can."""
        gram: Tensor = (self._weights[:, None] * self._missing).T @ self._missing
        ridge = INTERACTIONS.ridge * gram.diagonal().mean() + TINY
        factor: Tensor = torch.linalg.cholesky(gram + ridge * torch.eye(len(gram)).to(gram))
        return factor

    def _pairs(self) -> Tensor:
        """The pairs that are looked at, (P, 2): neighbours, and all of the strongest units.

        A text that tests the explanation is not asked for.
        """
        units = len(self._sizes)
        strong = self._sizes.topk(min(INTERACTIONS.strong_units, units)).indices.sort().values
        number = torch.arange(units - 1, device=strong.device)
        beside = torch.stack([number, number + 1], dim=1)
        pairs = torch.unique(torch.cat([beside, torch.combinations(strong)]), dim=0)
        tested = torch.zeros(units, units, dtype=torch.bool, device=pairs.device)
        if self._evidence.report is not None:
            for rows in self._evidence.report.both:
                missing = (1 - rows.table[rows.deleted == 2]).topk(2, dim=1).indices
                tested[missing.amin(dim=1), missing.amax(dim=1)] = True
        untested: Tensor = pairs[~tested[pairs[:, 0], pairs[:, 1]]]
        return untested

    def _joint(self, function: SlalomSurrogate | TwoScores, pairs: Tensor) -> Tensor:
        """What a function says of the joint effects of pairs, (P, C)."""
        masks = self._masks(pairs)
        whole = torch.ones_like(masks[:1])
        return _joint(function.predict(whole)[0], MaskRows(masks).predict(function))

    def _masks(self, pairs: Tensor) -> Tensor:
        """Texts without the first, without the second and without both units, (3 P, n)."""
        number = torch.arange(len(pairs), device=pairs.device)
        masks = self._missing.new_ones(3, len(pairs), self._missing.shape[1])
        for which, units in enumerate(((0,), (1,), (0, 1))):
            for unit in units:
                masks[which, number, pairs[:, unit]] = 0.0
        return masks.flatten(0, 1)


def _joint(whole: Tensor, without: Tensor) -> Tensor:
    """Joint effects (P, C) from the whole text (C,) and texts as ``_masks`` gives them."""
    first, second, both = without.reshape(3, -1, len(whole))
    joint: Tensor = whole - first - second + both
    return joint


def _of(column: Tensor, numbers: Tensor) -> Tensor:
    """Of each row of numbers (P, C) that of its column, (P,)."""
    return numbers.gather(1, column[:, None])[:, 0]


def _fewer_and_weaker(pairs: Interactions) -> Iterator[Interactions]:
    """All pairs, the stronger half of them, and so on; the strongest one at half strength, last."""
    count = len(pairs.pairs)
    while count:
        some = _some(pairs, torch.arange(count))
        yield some
        count //= 2
    yield replace(some, corrections=some.corrections / 2)


def _some(pairs: Interactions, which: Tensor) -> Interactions:
    """Some of the pairs, by their numbers."""
    parts = {name: part[which] for name, part in vars(pairs).items() if name != "shares"}
    return replace(pairs, **parts)


def _joined(corrected: Interactions | None, known: Interactions) -> Interactions | None:
    """Both kinds of pairs, each pair once, the strongest first; None for no pair at all."""
    found = known
    if corrected is not None:
        there = {tuple(pair) for pair in corrected.pairs.tolist()}
        new = [index for index, pair in enumerate(known.pairs.tolist()) if tuple(pair) not in there]
        other = vars(_some(known, torch.tensor(new, dtype=torch.long)))
        parts = {name: torch.cat([part, other[name]]) for name, part in vars(corrected).items()}
        found = Interactions(**{**parts, "shares": known.shares})
    if not len(found.pairs):
        return None
    order = found.strengths.abs().amax(dim=1).argsort(descending=True, stable=True)
    return _some(found, order)
