"""The tuned numbers of ``slalom``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SlalomSettings:
    """When ``slalom`` tries what, and what it takes for better.

    A prior is a ridge on the importances in units of the outputs' variance; a share is one of
    the variance of the fitted answers; log errors are natural logarithms of squared errors. Each
    field says what it trades off; tests halve and double them and see how little predictions move.

    Attributes:
        no_prior: prior that stands for none. A little is needed to keep the equations solvable.
        first_prior: prior of the first fit without a sink, from which one without a prior starts.
        steady_prior: the weakest prior that is trusted where no rows are left to choose by;
            weaker ones follow the fitted rows too closely.
        reading_prior: prior of the importances that are fitted to measured values. On four models
            that were used to find it, contests between two units came out best around it, and
            hardly worse within a factor of ten.
        reading_share: that prior, as a multiple of the share of the variance that the fit leaves,
            where that is less: a model that is nearly an average needs no prior.
        reading_power: rows weigh less in that fit, the more units they lack, by this power. It is
            fixed, because weights that are estimated move the importances with them.
        reading_tolerance: as ``tolerance``; importances are read, so the fit must have ended.
        whole_share: share of the rows' weight that the whole text has in that fit.
        groups: of rows that are left out in turn, to see how far importances move.
        steady_misfit: standard errors of fitted scores are widened by this factor, if the model
            repeats itself. What is then left of the rows is misfit, and more calls change which
            fit is chosen; ``benchmarks/seeds.py`` measures what is missing otherwise.
        additive_rows: rows from which an additive head has the usual ridge. With fewer, the ridge
            grows with the square of what is missing: a few hundred rows would otherwise be followed
            too closely.
        weaker_priors: factors by which priors become weaker than the weakest given, where a fit
            with a sink is nearly exact.
        nearly: share left below which a fit may become exact and is worth finishing. Models that
            are no SLALOM leave more, and are spared the time.
        indifference: log error. The simpler candidate is kept where it costs less than this: its
            values stay readable.
        round_pays: log errors, local and wide together, that a further round must save; a round
            doubles the calls.
        additive_head_rows: rows per unit from which an additive head is tried; with fewer it
            would follow noise.
        most_free: importances that calls must determine. In longer texts the prior holds those
            that no row tells apart.
        tolerance: part of the objective. A step that lowers it by less ends a fit, since
            held-out errors can no longer tell.
        first_tolerance: the same for the first fit with a sink and for richer ones.
        bare_tolerance: the same for the first fit without a sink, which must come nearer to show
            whether it may become exact.
        step_work: Gauss-Newton steps times units that a fit may take; bounds the time of long
            texts, where each step is dear. Later fits start from earlier ones.
        least_steps: steps that a fit may take in any text.
        most_steps: steps that a fit may take in a short text.
    """

    no_prior: float = 1e-12
    first_prior: float = 1e-6
    steady_prior: float = 1e-2
    reading_prior: float = 1e-2
    reading_share: float = 0.05
    reading_power: float = 0.5
    reading_tolerance: float = 1e-5
    whole_share: float = 0.05
    groups: int = 5
    steady_misfit: float = 1.4
    additive_rows: float = 4000
    weaker_priors: tuple[float, ...] = (1e2, 1e4)
    nearly: float = 0.05
    indifference: float = 0.05
    round_pays: float = 0.2
    additive_head_rows: float = 2
    most_free: int = 30
    tolerance: float = 5e-3
    first_tolerance: float = 1e-3
    bare_tolerance: float = 1e-4
    step_work: int = 20_000
    least_steps: int = 8
    most_steps: int = 60

    def steps(self, units: int) -> int:
        """Gauss-Newton steps that a fit of so many units may take."""
        return max(self.least_steps, min(self.most_steps, self.step_work // units))


SLALOM = SlalomSettings()
