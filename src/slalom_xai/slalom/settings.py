"""The tuned numbers of the method. None of them needs attention.

They are handed from ``Slalom(settings=...)`` to whatever uses them, so that a test can try others.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CallSettings:
    """How calls are shared out.

    Attributes:
        scarce: calls per unit below which most texts keep about half of the units.
        single: calls per unit from which on each unit is removed by itself, for ``removal``.
        tested: calls from which on some are set apart to test. Below, each is predicted from the
            others.
        test_share: share of the calls that only test, where that is more than the usual tenth.
        test_few: share of those that lack 1 to 10 units. The verdict rests on the others.
        enumerable: units; all texts with so many are listed where calls are left.
    """

    scarce: float = 3.0
    single: float = 6.0
    tested: int = 150
    test_share: float = 0.125
    test_few: float = 1 / 3
    enumerable: int = 12


@dataclass(frozen=True)
class SolverSettings:
    """How problems are solved.

    Attributes:
        sink_share: the prior on the sink's importance, as a share of that on the units'.
        spread: standard deviation of importances at most, where the calls leave a doubt.
        exact_spread: the same where the formula is nearly exact.
        exact: share of the outputs' variance that it leaves there, at most.
        settled: relative gain below which a fit has ended.
        checked: steps between two looks at which fits have ended.
        shares: of each step that are tried as well: a longer and a shorter way.
        widest: step of an importance at most, and of a value, as a share of one and its size.
        curved: relative gain of a step from which on steps are Newton's.
        damping: share of the diagonal that is added to it at first, and at least.
        farthest: value at most, in units of the range, where there is a bound: a value that is
            printed as the end of the range itself could not be told from one far beyond.
        tries: damped steps that are tried before a problem has ended.
        most: share of the texts that go on, below which the others are left out: to pick them out
            takes time as well.
        least: share of its own prediction that a call leaves to the others at least: a few calls
            that decide alone do not decide all choices.
        scarce_least: the same where there are far fewer calls than numbers to find. All of them
            decide nearly alone then, and a larger share would make a formula look good that passes
            through all calls.
        scarce_calls: calls for each number to find, below which they are far fewer.
        scarce: share of the outputs' variance that is taken for noise where there are far fewer
            calls than numbers to find: such a formula passes through all of them and tells nothing
            of its error.
    """

    sink_share: float = 0.1
    spread: float = 0.7
    exact_spread: float = 1.0
    exact: float = 1e-2
    settled: float = 1e-8
    checked: int = 3
    shares: tuple[float, ...] = (2.0, 0.3)
    widest: float = 1.0
    curved: float = 0.003
    damping: tuple[float, float] = (1e-3, 1e-6)
    farthest: float = 12.0
    tries: int = 6
    most: float = 0.75
    least: float = 0.05
    scarce_least: float = 1e-4
    scarce_calls: float = 0.75
    scarce: float = 0.3


@dataclass(frozen=True)
class FitSettings(SolverSettings):
    """How choices are made between fits.

    Attributes:
        strengths: of the prior on values, as shares of the outputs' variance, strongest first.
        first_strength: the same where fits are compared that differ in something else.
        scarce_strength: and where there are far fewer calls than numbers to find.
        scarce_weakest: the weakest of all strengths there.
        alone: the same where a unit has one score, times the number of units.
        value_cost: share of the outputs' variance that the strongest prior on values may cost.
        relative_cost: the same as a share of what the best leaves: a formula that predicts exactly
            is not given up for one that nearly does.
        pair_gain: relative error that pairs must take away.
        pair_share: share of the outputs' variance that they must add to what is predicted.
        pair_reach: words that stand at most so far apart may be a pair.
        tight_gain: relative error that a tighter bound must take away, where the prediction is not
            near an end of the outputs seen.
        saturated_gain: the same where it is: values of words that support it are near that end
            with any bound.
        saturated: share of half of the outputs' range, from which on a prediction is near its end.
        unbounded_gain: the same for doing without a bound.
        unbounded_probed: the same for a model whose ends were found by probing: a classifier.
        any_counts: weight, in choices, of how well any number of missing units is predicted; the
            rest is for few.
        few: units missing; up to so many are few.
        least_few: calls with few units missing, below which they are not judged by themselves.
        margin: the range is so much wider than the outputs that were seen: values of words that
            support a saturated prediction lie beyond it.
        tight: the same where left-out calls prefer a tighter bound.
        first_power: of the number of missing units, by which the first fit weighs calls down.
        first_prior: both priors of the first fit, as a share of the outputs' variance.
        first_steps: of the first fit.
        steps: where fits are compared, before the prior on importances follows from the fit, and
            after it.
        bound_steps: the same where bounds are compared.
        rounds: how often that prior is found there.
        nearly_exact: share of the outputs' variance that is left by a formula which may be exact.
        exact_steps: steps and rounds more where one is: which of two exact formulas it is shows
            late.
        last_steps: of the fit that is reported, at most.
        judged: calls by which fits are compared, at most.
        calls_to_choose: at least so many calls are used for choices, where there are as many.
        calls_per_element: or so many for each element,
        most_to_choose: but no more than so many.
        slack: calls that speak for errors which grow with the number of missing units.
        whole_weight: weight of the whole text, as a multiple of a text with one unit missing. An
            error there is in every change.
        steepness: of the weights that are tried, as a factor of the power that was found.
        steepest: ratio of the largest weight of an output to its smallest, at most, and of one
            output's weights to another's.
        groups: of calls, left out in turn for standard errors.
        cells: calls times units, in a stack of several texts at most.
        cells_on_gpu: the same on a GPU: in all texts at least, and in a stack at most.
        waste: by how many times a text in a stack is filled up, at most.
        waste_on_gpu: the same on a GPU, where few steps count for more than small ones.
        linear: change of a value or an importance up to which scores are nearly linear in it.
    """

    strengths: tuple[float, ...] = (0.1, 0.01, 0.001, 1e-6)
    first_strength: float = 0.0003
    scarce_strength: float = 0.003
    scarce_weakest: float = 1e-4
    alone: tuple[float, ...] = (1.0, 0.1, 0.01, 0.001)
    value_cost: float = 0.02
    relative_cost: float = 0.5
    pair_gain: float = 0.03
    pair_share: float = 0.005
    pair_reach: int = 3
    tight_gain: float = 0.3
    saturated_gain: float = 0.1
    saturated: float = 0.8
    unbounded_gain: float = 0.02
    unbounded_probed: float = 0.15
    any_counts: float = 2 / 3
    few: int = 10
    least_few: int = 10
    margin: float = 2.0
    tight: float = 1.03
    first_power: float = 1.0
    first_prior: float = 1e-2
    first_steps: int = 4
    steps: int = 4
    bound_steps: int = 6
    nearly_exact: float = 1e-3
    exact_steps: tuple[int, int] = (4, 6)
    rounds: int = 2
    last_steps: int = 30
    judged: int = 1000
    calls_to_choose: int = 250
    calls_per_element: int = 15
    most_to_choose: int = 1500
    slack: float = 10.0
    whole_weight: float = 10.0
    steepness: tuple[float, ...] = (0.6, 1.1, 1.8)
    steepest: float = 1e4
    groups: int = 20
    cells: int = 2**18
    cells_on_gpu: tuple[int, int] = (2**16, 2**22)
    waste: float = 2.0
    waste_on_gpu: float = 16.0
    linear: float = 0.1


CALLS = CallSettings()
FIT = FitSettings()
