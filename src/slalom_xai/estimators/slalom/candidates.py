"""The SLALOMs that ``slalom`` chooses from, all fitted to the same rows.

A SLALOM predicts, for a row that keeps the units K,

    F(K) = sum over t in K of softmax(s)_t v_t,

with a value v and an importance s per unit. A **sink** is a further unit that no row can
delete. A **prior** shrinks importances to those of a plain average; the weaker it is, the
closer the fit follows its rows. All fits are anchored: they pass through the whole text,
because scores are read as changes against it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from slalom_xai.estimators.evidence import Evidence
from slalom_xai.estimators.exactness import EXACTNESS, is_the_model, share_left
from slalom_xai.estimators.slalom.settings import SlalomSettings
from slalom_xai.surrogates.fit import Fit
from slalom_xai.surrogates.influence import Covariance, covariance
from slalom_xai.surrogates.problem import Extras, FitRequest
from slalom_xai.surrogates.row_weights import inverse_variance, length_penalty

ANCHORED = Extras(anchored=True)


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

    def without_sink(self, only: bool) -> Fit | None:
        """The paper's SLALOM, almost without a prior.

        Args:
            only: there are no other candidates.

        Returns:
            None where the model is clearly no such SLALOM and others can be tried.
        """
        nearly = self.settings.nearly
        bare = replace(self._request, sink=False)
        first = self.evidence.fit_slalom(
            replace(
                bare,
                prior=self.settings.first_prior,
                max_iterations=self._steps,
                tolerance=self.settings.bare_tolerance,
                hopeless=None if only else nearly,
            )
        )
        if not only and share_left(first, self.evidence) > nearly:
            return None
        free = self._without_prior(first, hopeless=None)
        if free.exact:
            return free
        if self.evidence.choose is None:
            # Importances without a prior run off where a few rows cannot be met exactly.
            return self.evidence.fit_slalom(replace(bare, prior=max(self.priors)))
        if only:
            return free
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
        free = self._without_prior(fit, hopeless=EXACTNESS.exact)
        return free if free.exact else None

    def richer(self, best: Fit, heads: int | None) -> Fit:
        """The best fit with further heads; None adds an additive one."""
        return self.evidence.fit_slalom(
            replace(
                self._request,
                row_weights=best.row_weights,
                prior=best.prior,
                heads=heads or 1,
                extras=replace(best.extras, additive=heads is None),
                start=best.surrogate,
                max_iterations=self._steps,
                tolerance=self.settings.first_tolerance,
            )
        )

    def with_nearest(self, best: Fit, rich: Fit) -> Fit:
        """A fit with several heads, and with the one-head SLALOM nearest to all of them."""
        predicted = replace(rich.surrogate, length_offsets=None).predict(self.evidence.fit.table)
        nearest = self.evidence.fit_slalom(
            replace(
                self._request,
                outputs=predicted,
                row_weights=best.row_weights,
                prior=max(best.prior, self.settings.readable_prior),
                start=best.surrogate,
                max_iterations=self.settings.nearest_steps,
                tolerance=self.settings.tolerance,
            )
        )
        return replace(rich, surrogate=replace(rich.surrogate, nearest=nearest.surrogate))

    def covariances(self, fit: Fit) -> tuple[Covariance, Covariance | None]:
        """Of the fit's parameters, and of its nearest one-head SLALOM's where there is one."""
        joint = self.covariance(fit)
        if fit.surrogate.nearest is None:
            return joint, None
        nearest = replace(
            fit,
            surrogate=fit.surrogate.nearest,
            prior=max(fit.prior, self.settings.readable_prior),
            extras=replace(fit.extras, additive=False),
        )
        return joint, self.covariance(nearest)

    def covariance(self, fit: Fit) -> Covariance:
        """Of the fit's parameters."""
        rows = self.evidence.fit
        return covariance(rows.table, rows.outputs, fit, self.evidence.whole_variance)

    @property
    def _request(self) -> FitRequest:
        """What all fits have in common."""
        rows = self.evidence.fit
        return FitRequest(rows.table, rows.outputs, offsets=self.evidence.offsets, extras=ANCHORED)

    @property
    def _steps(self) -> int:
        return self.settings.steps(self.evidence.fit.counts.shape[1])

    def _with_lengths(self, fit: Fit) -> Extras:
        """An anchor, and offsets by length, where what a fit leaves depends on the length."""
        penalty = length_penalty(fit, self.evidence.fit.table)
        if not math.isfinite(penalty):
            return ANCHORED
        return replace(ANCHORED, length_penalty=penalty)

    def _without_prior(self, before: Fit, hopeless: float | None) -> Fit:
        """A fit from where another ended, to the end, or until it is clear that it is not exact."""
        fit = self.evidence.fit_slalom(
            replace(
                self._request,
                sink=before.surrogate.has_sink,
                prior=self.settings.no_prior,
                start=before.surrogate,
                max_iterations=2 * self._steps,
                hopeless=hopeless,
            )
        )
        return replace(fit, exact=is_the_model(fit, before, self.evidence))
