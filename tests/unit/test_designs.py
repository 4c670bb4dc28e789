import itertools

import numpy as np
import pytest

from slalom_xai.errors import BudgetError
from slalom_xai.slalom.plan import plan_rows
from slalom_xai.slalom.rows import check_budget, count_distinct_rows, default_budget, least_budget
from slalom_xai.system.row_keys import INERT


def keys(codes, masks):
    return [codes[mask].tobytes() for mask in masks]


def plan_of(codes, budget, seed=0):
    return plan_rows(codes, budget, 2 * len(codes) + 1, np.random.default_rng(seed))


@pytest.mark.parametrize(
    "codes",
    [
        np.arange(6),
        np.arange(60),
        np.arange(300) % 40,
        np.arange(30) % 2,
        np.array([0] * 10 + [1] + [0] * 10),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_rows_are_distinct_and_the_three_sets_disjoint(codes, seed):
    budget = default_budget(codes, 2 * len(codes) + 1)
    plan = plan_of(codes, budget, seed)
    report = set(keys(codes, plan.report.local)) | set(keys(codes, plan.report.wide))
    choose = set(keys(codes, plan.choose.local)) | set(keys(codes, plan.choose.wide))
    fit = keys(codes, plan.fit)
    assert len(fit) == len(set(fit))
    assert not report & choose
    assert not (report | choose) & set(fit)
    assert len(fit) + plan.choose.size + plan.report.size <= budget
    assert plan.fit[0].all()
    assert len(plan.fit) >= min(2 * len(codes) + 1, count_distinct_rows(codes))
    assert all(mask.any() for mask in plan.fit)


def test_a_large_budget_is_spent_in_full():
    plan = plan_of(np.arange(100), 1000)
    assert len(plan.fit) + plan.choose.size + plan.report.size == 1000


def test_numbers_deleted_are_as_promised():
    plan = plan_of(np.arange(150), 4000)
    local, wide = ((~masks).sum(axis=1) for masks in (plan.report.local, plan.report.wide))
    assert local.min() == 1
    assert local.max() == 10
    assert abs(wide.mean() - 75) < 10
    assert wide.max() > 135
    fit = (~plan.fit).sum(axis=1)
    assert 0.02 < (fit >= 148).mean() < 0.08  # one or two units left
    assert 0.4 < (fit <= 10).mean() < 0.6


@pytest.mark.parametrize("units", [2, 3, 4])
def test_short_texts_spend_every_row_on_the_fit(units):
    plan = plan_of(np.arange(units), 300)
    assert len(plan.fit) == 2**units - 1
    assert plan.choose is None
    assert plan.report is None


def test_a_text_of_five_units_keeps_rows_to_report():
    plan = plan_of(np.arange(5), 300)
    assert plan.report.size >= 5
    assert plan.choose.size >= 3
    assert len(plan.fit) >= 11


@pytest.mark.parametrize("units", [2038, 4077])
def test_long_texts_have_a_plan(units):
    parameters = 2 * units + 1
    assert least_budget(np.arange(units), parameters) == parameters + 20
    plan = plan_of(np.arange(units), parameters + 100)
    assert len(plan.fit) >= parameters


@pytest.mark.parametrize(
    "codes", [[0, 1], [0, 0, 1], [0, 1, 0, 1], [0] * 5 + [1] + [0] * 4, [0, 1, 2, 0, 1, 2, 0]]
)
def test_distinct_rows_are_counted_exactly(codes):
    every = {
        tuple(code for code, kept in zip(codes, mask, strict=True) if kept)
        for mask in itertools.product([0, 1], repeat=len(codes))
    }
    assert count_distinct_rows(np.array(codes)) == len(every) - 1


@pytest.mark.parametrize(
    "codes", [[0, INERT], [INERT, 1, INERT, 3], [INERT] * 4 + [4], [INERT, INERT]]
)
def test_units_that_change_nothing_make_no_rows(codes):
    masks = [mask for mask in itertools.product([0, 1], repeat=len(codes)) if any(mask)]
    every = {
        tuple(code for code, kept in zip(codes, mask, strict=True) if kept and code != INERT)
        for mask in masks
    }
    assert count_distinct_rows(np.array(codes)) == len(every)


def test_the_least_budget_is_stated_and_enforced():
    codes = np.arange(2000)
    least = least_budget(codes, 4001)
    assert 4001 < least <= 4100
    check_budget(2000, least, least)
    with pytest.raises(BudgetError, match=f"at least {least} calls"):
        check_budget(2000, least - 1, least)
    assert default_budget(codes, 4001) >= least
