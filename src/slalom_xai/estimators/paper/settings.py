"""The tuned numbers of the paper's estimators."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Candidate:
    """What one of slalom-fidel's fits is given.

    Attributes:
        whole_weight: weight of the whole text, as a part of all other rows' together. Scores are
            read as changes against the whole text, which as one row of many is fitted badly.
        prior: on the importances.
    """

    whole_weight: float
    prior: float


@dataclass(frozen=True)
class PaperSettings:
    """How the paper's SLALOMs are fitted and tested.

    A prior is a ridge on the importances in units of the outputs' variance; a share is one of
    the variance of the fitted answers; a tolerance is the part of the objective by which a step
    must lower it.

    Attributes:
        weak_prior: next to nothing: what an exact SLALOM needs.
        eff_priors: priors that slalom-eff chooses from, strong and weak.
        eff_least_rows: rows from which slalom-eff chooses at all; fewer are all needed to fit.
        eff_test_part: one row in so many decides.
        eff_least_report: rows that slalom-eff is tested on at least, where there are so many.
            They are as long as the text, and so take longer than the short ones that are fitted.
        without_sink: what slalom-fidel chooses from; the last is the one that may be exact.
        with_sink: the same with a sink. Those of one prior stand together and are fitted at once.
        vanishing_priors: ever weaker priors, where slalom-fidel suspects an exact SLALOM.
        exact: share left below which a model is exactly the SLALOM that is fitted. Single precision
            leaves about 1e-12 of one, other models leave far more.
        suspected: share left below which there seems to be one.
        halved: a weaker prior must at once leave less than this part of what was left.
        trial_steps: steps in which it must.
        vanishing_steps: steps of a fit whose prior vanishes.
        tolerance: of fits that are compared; held-out errors no longer tell beyond it.
        final_tolerance: of slalom-eff's last fit.
        vanishing_tolerance: of fits whose prior vanishes, which must end where nothing is left.
        least_units: of a text that is tested; shorter ones have no rows to spare.
    """

    weak_prior: float = 1e-6
    eff_priors: tuple[float, ...] = (1e-2, 1e-6)
    eff_least_rows: int = 30
    eff_test_part: int = 10
    eff_least_report: int = 40
    without_sink: tuple[Candidate, ...] = (Candidate(0.1, 1e-3), Candidate(0.1, 1e-6))
    with_sink: tuple[Candidate, ...] = (
        Candidate(0.1, 1e-2),
        Candidate(1.0, 1e-2),
        Candidate(0.1, 1e-3),
        Candidate(1.0, 1e-3),
    )
    vanishing_priors: tuple[float, ...] = (1e-9, 1e-12, 1e-15)
    exact: float = 1e-8
    suspected: float = 1e-4
    halved: float = 0.5
    trial_steps: int = 12
    vanishing_steps: int = 300
    tolerance: float = 1e-4
    final_tolerance: float = 1e-5
    vanishing_tolerance: float = 1e-12
    least_units: int = 5


PAPER = PaperSettings()
