"""Rows cut into batches that borrow a common beginning."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slalom_xai.queries.cutting import CUTTING, plan_batches


def deletions(rows, tokens, fewest, most, fixed=0, seed=0):
    """How many tokens each row shares with the beginning of its text, and how many it has."""
    rng = np.random.default_rng(seed)
    gone = [
        fixed + rng.choice(tokens - fixed, rng.integers(fewest, most + 1), replace=False)
        for _ in range(rows)
    ]
    return np.array([places.min() for places in gone]), np.array(
        [tokens - len(places) for places in gone]
    )


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 60)), min_size=1, max_size=80),
    st.integers(1, 400),
)
def test_every_row_is_in_one_batch_that_fits_and_borrows_no_more_than_it_shares(rows, budget):
    lengths = np.array([length for _, length in rows])
    shared = np.minimum([share for share, _ in rows], lengths)
    plan = plan_batches(shared, lengths, budget, 61)
    assert sorted(np.concatenate([batch.rows for batch in plan.batches]).tolist()) == list(
        range(len(rows))
    )
    for batch in plan.batches:
        assert batch.shared <= shared[batch.rows].min()
        assert batch.width == (lengths[batch.rows] - batch.shared).max()
        assert (lengths[batch.rows] - batch.shared).min() >= 1
        if len(batch.rows) > 1:
            assert len(batch.rows) * batch.width <= budget
            assert len(batch.rows) * (batch.shared + batch.width) <= CUTTING.borrowed * (
                budget + len(batch.rows)
            )
    assert plan.tokens == sum(batch.tokens for batch in plan.batches) + 61
    assert plan.plain_tokens >= lengths.sum()


@pytest.mark.parametrize(
    ("most", "fixed", "least"),
    [(5, 0, 0.25), (10, 0, 0.14), (5, 150, 0.75)],  # of 0.30, 0.20 and 0.82 that rows share
)
def test_most_of_what_rows_share_is_saved(most, fixed, least):
    shared, lengths = deletions(2000, 200, 1, most, fixed)
    plan = plan_batches(shared, lengths, 8192, 200)
    assert least < plan.saved < np.minimum(shared, lengths - 1).sum() / lengths.sum()
    assert plan.pays


def test_nothing_is_borrowed_where_rows_share_next_to_nothing():
    shared, lengths = deletions(2000, 200, 1, 199)
    plan = plan_batches(shared, lengths, 8192, 200)
    assert not plan.pays
    assert plan.saved == pytest.approx(0, abs=0.02)


def test_a_long_beginning_does_not_make_batches_of_many_short_rows():
    lengths = np.full(500, 4010)
    plan = plan_batches(np.full(500, 4000), lengths, 8192, 4010)
    assert max(len(batch.rows) * 4010 for batch in plan.batches) <= CUTTING.borrowed * 8192
    assert plan.saved > 0.99


def test_no_rows_need_no_batches():
    empty = np.zeros(0, dtype=np.int64)
    plan = plan_batches(empty, empty, 100, 0)
    assert plan.batches == ()
    assert not plan.pays
