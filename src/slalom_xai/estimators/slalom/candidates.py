"""The SLALOMs that ``slalom`` chooses from, all fitted to the same rows.

A SLALOM predicts, for a row x,

    F(x) = sum over units t kept in x of softmax(s)_t v_t,

with a value v and an importance s per unit; the softmax is over the units kept. A **sink**
is a further unit that no row can delete. A **prior** shrinks importances to those of a plain
average; the weaker it is, the closer the fit follows its rows. All fits are anchored: they
pass through the whole text, because scores are read as changes against it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from slalom_xai.estimators.evidence import Evidence
from slalom_xai.estimators.exactness import EXACTNESS, is_the_model, share_left
from slalom_xai.estimators.slalom.settings import SlalomSettings
from slalom_xai.surrogates.fit import Fit
from slalom_xai.surrogates.formula import TwoScores
from slalom_xai.surrogates.influence import Covariance, CovarianceRequest, covariances
from slalom_xai.surrogates.problem import Extras, FitRequest
from slalom_xai.surrogates.row_weights import inverse_variance, length_penalty

ANCHORED = Extras(anchored=True)


@dataclass(frozen=True)
class Reading:
    """Two scores, and how certain their importances are.

    Attributes:
        two: the scores.
        fit: that found the importances.
        without: (groups, n), the importances without one group of rows after the other.
        shaken: (draws, n), the importances that go with values of other noise; NaN where the noise
            is not known; no rows for a model that repeats itself.
    """

    two: TwoScores
    fit: Fit
    without: Tensor
    shaken: Tensor

    def importance_errors(self, sandwich: Tensor) -> Tensor:
        """Standard errors of the importances, (n,).

        A sandwich follows the slope of the objective at its end. Importances can also jump, where
        another unit could take over the part of one. The rows without a group show that (a
        jackknife). Each sees what the other misses, so the larger one counts.

        Args:
            sandwich: (n,), standard errors by the sandwich.
        """
        groups = len(self.without)
        moved = self.without - self.without.mean(dim=0)
        jackknife = (groups - 1) / groups * (moved**2).sum(dim=0)
        variance = torch.maximum(sandwich**2, jackknife)
        if len(self.shaken):
            variance = variance + ((self.shaken - self.two.importances) ** 2).mean(dim=0)
        return variance.sqrt()


@dataclass(frozen=True)
class Candidates:
    """Fits to one evidence.

    Attributes:
        evidence: rows with answers.
        priors: penalties on the importances to try with a sink.
        settings: of the method.
    """

    evidence: Evidence
    priors: Sequence[float]
    settings: SlalomSettings

    def without_sink(self, no_other_candidates: bool) -> Fit | None:
        """The paper's SLALOM, almost without a prior.

        A first fit has a weak prior. A second one starts there and has none. What is returned
        is the first line that applies:

            the fits                            rows to choose by   others   returned
            the first leaves more than nearly   any                 yes      None
            the second is exact                 any                 any      the second
            the second is not exact             none                any      a third, below
            the second is not exact             some                no       the second
            the second is not exact             some                yes      None

        The third has the strongest prior. The first gives up early where it may be dropped.

        Args:
            no_other_candidates: nothing else will be tried, so there must be a fit.
        """
        nearly = self.settings.nearly
        give_up_above = None if no_other_candidates else nearly
        bare = replace(self._request, sink=False)
        first = self.evidence.fit_slalom(
            replace(
                bare,
                prior=self.settings.first_prior,
                max_iterations=self._steps,
                tolerance=self.settings.bare_tolerance,
                give_up_above=give_up_above,
            )
        )
        if not no_other_candidates and share_left(first, self.evidence) > nearly:
            return None
        second = self._without_prior(first, give_up_above=None)
        if second.exact:
            return second
        if self.evidence.choose is None:
            # Importances without a prior run off where a few rows cannot be met exactly.
            return self.evidence.fit_slalom(replace(bare, prior=max(self.priors)))
        if no_other_candidates:
            return second
        return None  # without a prior it follows the rows it has seen and no others

    def with_sink(self) -> Iterator[Fit]:
        """One fit per prior, strongest first.

        A first one shows how errors grow with deletions and what the length of a row does.
        """
        settings, rows = self.settings, self.evidence.fit
        request = replace(self._request, max_iterations=self._steps)
        strongest = replace(request, prior=max(self.priors), tolerance=settings.first_tolerance)
        fit = self.evidence.fit_slalom(strongest)
        priors = sorted(self.priors, reverse=True)
        weaker = [priors[-1] / factor for factor in settings.weaker_priors]
        for prior in (*priors, *weaker):
            if prior < priors[-1] and share_left(fit, self.evidence) > settings.nearly:
                return  # weaker priors are for models that are nearly a SLALOM
            fit = self.evidence.fit_slalom(
                replace(
                    request,
                    row_weights=inverse_variance(fit.residuals, rows.deleted),
                    prior=prior,
                    extras=self._with_lengths(fit),
                    start=fit.surrogate,
                    tolerance=settings.tolerance,
                )
            )
            yield fit

    def exact_with_sink(self, fit: Fit) -> Fit | None:
        """A SLALOM with a sink and without a prior, where the model is exactly that; else None."""
        if not fit.surrogate.has_sink or share_left(fit, self.evidence) > self.settings.nearly:
            return None
        free = self._without_prior(fit, give_up_above=EXACTNESS.exact)
        return free if free.exact else None

    def with_heads(self, best: Fit, heads: int) -> Fit:
        """The best fit with further heads, so many in all."""
        extras = replace(best.extras, additive=False)
        return self.evidence.fit_slalom(replace(self._richer(best), heads=heads, extras=extras))

    def with_additive_head(self, best: Fit) -> Fit:
        """The best fit with an additive head beside its one."""
        ridge = max(1.0, (self.settings.additive_rows / len(self.evidence.fit.outputs)) ** 2)
        extras = replace(best.extras, additive=True, additive_ridge=ridge)
        return self.evidence.fit_slalom(replace(self._richer(best), extras=extras))

    def refitted(self, best: Fit) -> Fit:
        """The best fit again, to these rows, which are more than it was chosen by."""
        rows = self.evidence.fit
        residuals = self.evidence.errors(best.surrogate, rows)
        return self.evidence.fit_slalom(
            replace(
                self._richer(best),
                row_weights=inverse_variance(residuals, rows.deleted),
                sink=best.surrogate.has_sink,
                heads=len(best.surrogate.values) - best.extras.additive,
                extras=best.extras,
            )
        )

    def two_scores(self, values: Tensor, noise: Tensor | None = None) -> Reading:
        """The importances that go with measured values (n, C), fitted to the same rows.

        The less a first fit leaves of the rows, the less its prior should say: a second one has a
        prior in proportion. The same is then fitted again to the rows without one group of them
        after the other, to see how far importances move, and, if the model is noisy, to values
        that are off by its noise.

        Args:
            values: (n, C), measured.
            noise: (C,), the variance of an answer; None for a model that repeats itself.
        """
        settings, (request, fit) = self.settings, self._reading(values)
        weights = self._reading_weights
        request = replace(request, start=fit.surrogate)
        others = []
        group = torch.arange(len(weights), device=weights.device) % settings.groups
        for number in range(settings.groups):
            left = self._with_whole(weights * (group != number))
            others.append(replace(request, row_weights=left))
        known = noise is not None and bool(noise.isfinite().all())
        if noise is not None and known:
            generator = torch.Generator().manual_seed(0)
            for _ in range(settings.groups):
                drawn = torch.randn(values.shape, generator=generator, dtype=torch.float64)
                held = values + drawn.to(values) * noise.to(values).sqrt()
                others.append(replace(request, extras=Extras(held=held)))
        again = self.evidence.fit_slaloms(others)
        importances = torch.stack([one.surrogate.importances[0] for one in again])
        without, shaken = importances[: settings.groups], importances[settings.groups :]
        if noise is not None and not known:
            shaken = torch.full_like(without[:1], torch.nan)
        return Reading(_read(values, fit), fit, without, shaken)

    def first_two_scores(self, values: Tensor) -> TwoScores:
        """The same as ``two_scores``, but how certain it is stays open."""
        return _read(values, self._reading(values)[1])

    def _reading(self, values: Tensor) -> tuple[FitRequest, Fit]:
        """The importances that go with measured values (n, C), and what they were asked by."""
        settings = self.settings
        request = replace(
            self._request,
            extras=Extras(held=values),
            prior=settings.reading_prior,
            row_weights=self._with_whole(self._reading_weights),
            max_iterations=self._steps,
            tolerance=settings.reading_tolerance,
        )
        fit = self.evidence.fit_slalom(request)
        weaker = max(settings.no_prior, settings.reading_share * share_left(fit, self.evidence))
        if weaker < settings.reading_prior:
            request = replace(request, prior=weaker, start=fit.surrogate)
            fit = self.evidence.fit_slalom(request)
        return request, fit

    @property
    def _reading_weights(self) -> Tensor:
        """Row weights (m,) of the fit to measured values: the fewer units are missing, the more."""
        return (1 + self.evidence.fit.deleted) ** -self.settings.reading_power

    def _with_whole(self, row_weights: Tensor) -> Tensor:
        """Row weights (m,) that sum to one, of which the whole text has a fixed share.

        What is missed of the whole text is missed in every change.
        """
        share = self.settings.whole_share
        weights = row_weights * (1 - share) / row_weights[1:].sum()
        weights[0] = share
        return weights

    def covariance(self, fit: Fit) -> Covariance:
        """Of the fit's parameters."""
        rows = self.evidence.fit
        request = CovarianceRequest(rows.table, rows.outputs, fit, self.evidence.whole_variance)
        return self.evidence.work.run(covariances, request)

    @property
    def _request(self) -> FitRequest:
        """What all fits have in common."""
        rows = self.evidence.fit
        return FitRequest(rows.table, rows.outputs, offsets=self.evidence.offsets, extras=ANCHORED)

    def _richer(self, best: Fit) -> FitRequest:
        """What fits with more heads have in common: they start from the best one of one head."""
        return replace(
            self._request,
            row_weights=best.row_weights,
            prior=best.prior,
            start=best.surrogate,
            max_iterations=self._steps,
            tolerance=self.settings.first_tolerance,
        )

    @property
    def _steps(self) -> int:
        return self.settings.steps(self.evidence.fit.counts.shape[1])

    def _with_lengths(self, fit: Fit) -> Extras:
        """An anchor, and offsets by length, where what a fit leaves depends on the length."""
        penalty = length_penalty(fit, self.evidence.fit.table)
        if not math.isfinite(penalty):
            return ANCHORED
        return replace(ANCHORED, length_penalty=penalty)

    def _without_prior(self, before: Fit, give_up_above: float | None) -> Fit:
        """A fit from where another ended, to the end, or until it is clear that it is not exact."""
        fit = self.evidence.fit_slalom(
            replace(
                self._request,
                sink=before.surrogate.has_sink,
                prior=self.settings.no_prior,
                start=before.surrogate,
                max_iterations=2 * self._steps,
                give_up_above=give_up_above,
            )
        )
        return replace(fit, exact=is_the_model(fit, before, self.evidence))


def _read(values: Tensor, fit: Fit) -> TwoScores:
    """Measured values (n, C) with the importances that were fitted to them."""
    found = fit.surrogate
    assert found.sink_values is not None
    assert found.sink_importances is not None
    return TwoScores(values, found.importances[0], found.sink_values[0], found.sink_importances[0])
