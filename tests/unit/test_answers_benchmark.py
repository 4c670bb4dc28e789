"""What ``research.benchmarks.answers`` fits, on rows whose answers are known."""

import numpy as np
import pytest

from research.benchmarks.answers import measured
from research.benchmarks.answers_fits import FITS
from research.benchmarks.answers_prompts import Prompt
from research.benchmarks.answers_rows import KINDS, Rows, draw_rows, load_rows, save_rows

UNITS = 20


def known(weights):
    """Rows whose logit is a sum over the sources that are kept."""
    masks, kinds = draw_rows(UNITS, np.random.default_rng(0))
    prompt = Prompt("story", tuple(f"source {number}" for number in range(UNITS)), "which?")
    tokens = np.zeros((len(masks), 4), dtype=np.float32)
    return Rows(prompt, "this one", masks, kinds, tokens, masks @ weights - 5.0)


@pytest.fixture
def rows():
    weights = np.zeros(UNITS)
    weights[[3, 11]] = 6.0, -2.0
    return known(weights)


@pytest.mark.parametrize("name", FITS)
def test_every_fit_finds_the_source_that_counts(rows, name):
    fitted = FITS[name](rows, 64)
    assert int(np.argmax(fitted.scores)) == 3
    numbers = measured(rows, fitted)
    assert numbers["half rank"] > 0.9
    assert numbers["half r2"] > 0.9
    assert numbers["size r2"] > 0.8


def test_leaving_out_each_source_needs_a_call_for_each(rows):
    assert FITS["leave-one-out"](rows, UNITS) is None
    assert FITS["leave-one-out"](rows, UNITS + 1) is not None


def test_held_out_rows_are_fitted_by_nobody(rows):
    held = {row.tobytes() for kind in ("half", "size") for row in rows.of(f"held-{kind}")[0]}
    for kind in ("half", "size"):
        assert held.isdisjoint(row.tobytes() for row in rows.of(kind)[0])


def test_rows_are_stored_and_loaded(rows, tmp_path):
    save_rows(tmp_path / "rows.npz", [rows, rows])
    loaded = load_rows(tmp_path / "rows.npz")[1]
    assert loaded.prompt == rows.prompt
    assert loaded.answer == "this one"
    for kind in KINDS:
        for found, expected in zip(loaded.of(kind), rows.of(kind), strict=True):
            np.testing.assert_array_equal(found, expected)
