"""The tuned numbers of a fit, in one object that is passed in."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FitSettings:
    """Constants of the objective, its curvature, the search and the covariance.

    Those of the search decide how fast it ends and hardly where: see the tests.

    Attributes:
        value_prior: the ridge on values, as a fraction of the one on importances (no unit). Small,
            because values follow from the rows; not zero, because units that never differ in any
            row leave their values open.
        additive_sink: how much the additive head's sink outweighs all units together (a factor).
            The larger, the more nearly linear the head; values grow by the same factor and lose
            digits.
        hold: the ridge on values that are held; rows weigh one in all.
        no_variance: outputs whose variance is below this fraction of their mean square are a
            constant with rounding errors. It lies above the square of double precision, 5e-32,
            and far below what single-precision models give, 1e-14.
        least_left: the least part of an importance's own curvature that damping is relative to.
            Where values can stand in for an importance, hardly any of its curvature is left, and
            damping relative to nothing would not damp. Smaller values mean longer first steps
            there.
        first_damping: of the first step, relative to the diagonal of the curvature (no unit).
            Less is faster on easy texts and wastes a step on others.
        least_damping: below it damping makes no difference in double precision.
        heaviest_damping: a step damped by more moves nothing. Where it does not help, none does.
        increase: the damping is multiplied by this after a step that failed.
        decrease: it is divided by this after a step that kept more than ``well`` of its promise.
        slow_decrease: it is divided by this where more than ``fairly`` was kept.
        well: see ``decrease``; a fraction of the promised fall.
        fairly: see ``slow_decrease``; a fraction of the promised fall.
        largest_step: in an importance, a natural logarithm: e^3 is a factor of 20 in a weight. It
            keeps the first steps where the quadratic picture means something.
        give_up_fall: a fit that leaves too much to be of use (``FitRequest.give_up_above``) ends at
            a step that lowers the objective by less than this fraction. Larger values give up
            sooner, perhaps on a fit that would have come below the limit.
        tilt: the heads of a fit with several begin so far apart in importance. Equal heads would
            stay equal for ever.
        misfit: standard errors are widened by this factor. Residuals are misfit more than noise and
            row weights are estimated, so errors against known truths were larger than the
            sandwich's by about this; ``research/benchmarks/coverage.py`` measures it.
        ridges: fractions of the mean curvature that are added, one after the other, until the
            curvature can be inverted. The first is at rounding level and hardly changes an error.
        least_freedom: rows that must be left beside the parameters; with fewer, residuals say
            nothing about errors.
    """

    value_prior: float = 1e-3
    additive_sink: float = 10.0
    hold: float = 1e8
    no_variance: float = 1e-20
    least_left: float = 1e-6
    first_damping: float = 1e-2
    least_damping: float = 1e-9
    heaviest_damping: float = 100.0
    increase: float = 5.0
    decrease: float = 5.0
    slow_decrease: float = 1.5
    well: float = 0.75
    fairly: float = 0.4
    largest_step: float = 3.0
    give_up_fall: float = 0.1
    tilt: float = 0.5
    misfit: float = 1.1
    ridges: tuple[float, ...] = (1e-12, 1e-8, 1e-5)
    least_freedom: float = 0.5


FIT_SETTINGS = FitSettings()
