"""Explanations under the clock, at a tiny size."""

import math

import numpy as np
import pytest

from research.base import Settings
from research.paper import table_2, table_13b
from research.paper.timing import (
    ALONE,
    Clock,
    Timed,
    by_text,
    ratios,
    seconds_table,
    timed_work,
)
from research.registry import experiments
from research.report import save

TINY_2 = table_2.Size(texts=2, words=12, calls=(60,), alone=1, width=64)
TINY_13B = table_13b.Size(texts=2, words=12, calls=60, alone=1, width=16, layers=1, heads=2)


@pytest.fixture(scope="module")
def reviews(tmp_path_factory):
    """Ten reviews of 8 to 17 words."""
    rng = np.random.default_rng(0)
    lines = ["text,label"]
    for index in range(10):
        words = [f"word{number}" for number in rng.integers(50, size=8 + index)]
        lines.append(f"{' '.join(words)},{('negative', 'positive')[index % 2]}")
    folder = tmp_path_factory.mktemp("reviews")
    (folder / "imdb_train.csv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.long
@pytest.mark.parametrize(
    ("module", "size", "name"), [(table_2, TINY_2, "table-2"), (table_13b, TINY_13B, "table-13b")]
)
def test_every_method_is_timed_on_every_text(module, size, name, reviews, tmp_path):
    settings = Settings(data=reviews, store=tmp_path / "cells")
    found = module.study(settings, size)
    assert list(found) == ["review-0", "review-1"]
    for index, numbers in enumerate(found.values()):
        assert 8 <= numbers["tokens"] <= 12
        for timed in module.timed(size):
            if timed.alone and index == 1:
                assert timed.key not in numbers  # one text of two is asked row by row
                continue
            seconds, rows = numbers[timed.key]
            assert seconds > 0
            if "gradient" in timed.name or timed.name == "attn-lrp":
                assert rows > timed.budget - 10  # a few calls, and passes over embeddings
            else:
                assert timed.budget // 2 <= rows <= timed.budget
    assert module.study(settings, size) == found  # from the finished cells
    outcome = module.outcome(found, size)
    table = outcome.tables["seconds"].set_index(["method", "calls"])
    assert table.loc[("gradient", 21), "paper"] == {"table-2": 0.01, "table-13b": 0.06}[name]
    assert table.loc[("lime", 60), "texts"] == 2
    assert table.loc[(ALONE, 60), "texts"] == 1
    assert outcome.finding.endswith(" s.")
    assert any(path.suffix == ".svg" for path in save(experiments()[name], outcome, tmp_path))


def test_what_asks_row_by_row_is_spread_over_the_texts():
    """A run that is stopped half way has half of both."""

    def unread():
        pytest.fail("nothing is measured yet")

    clock = Clock(unread, texts=50, words=10, configured=lambda tokenizer: None, framed=True)
    methods = table_2.timed(table_2.FULL)
    work = list(timed_work(clock, 50, methods, 5))
    assert len(work) == 55
    by_row = [index for index, name in enumerate(work) if "row by row" in name]
    assert by_row == [1, 12, 23, 34, 45]
    assert "row by row" not in " ".join(timed_work(clock, 3, methods, 0))
    parts = {"review-0": {"a": 1}, "review-1": {"a": 2}, "review-1 row by row": {"b": 3}}
    assert by_text(parts) == {"review-0": {"a": 1}, "review-1": {"a": 2, "b": 3}}


def test_a_run_that_was_stopped_judges_what_it_has():
    methods = [timed for timed in table_2.timed(table_2.SMALL) if not timed.alone]
    numbers = {"tokens": 9} | {timed.key: [1.0, timed.budget] for timed in methods}
    found = table_2.outcome({"review-0": numbers}, table_2.SMALL)
    assert not any("one row a call" in check.statement for check in found.checks)
    assert "before Kernel SHAP asked one row a call" in found.remarks[-1]
    numbers |= {timed.key: [2.0, timed.budget] for timed in table_2.timed(table_2.SMALL)}
    found = table_2.outcome({"review-0": numbers}, table_2.SMALL)
    assert any("one row a call" in check.statement for check in found.checks)
    assert "before Kernel SHAP" not in " ".join(found.remarks)


def test_only_texts_that_have_both_methods_are_compared():
    found = {
        "a": {"x, 10": [1.0, 10], "y, 10": [4.0, 10], "x, 20": [3.0, 20], "y, 20": [2.0, 20]},
        "b": {"x, 10": [100.0, 10]},
        "c": {"x, 10": [2.0, 10], "y, 10": [2.0, 10]},
    }
    assert ratios(found, (10, 20, 30), "x", "y") == pytest.approx([0.5, 1.5])
    assert math.isnan(*ratios(found, (10,), "x", "z"))
    timed = [Timed("x", "lime", 10), Timed("y", "lime", 10), Timed("z", "lime", 10)]
    table = seconds_table(found, timed, {("y", 10): 7.0})
    assert table["ours"].tolist() == pytest.approx([103 / 3, 3.0])
    assert table["texts"].tolist() == [3, 2]
    assert math.isnan(table["paper"][0])
    assert table["paper"][1] == 7.0
    assert table["s.e."][1] == pytest.approx(1.0)  # of 4 and 2


def test_the_printed_columns_of_table_2():
    size = table_2.FULL
    found = {"a": {timed.key: [1.0, timed.budget] for timed in table_2.timed(size)} | {"tokens": 1}}
    table = table_2.outcome(found, size).tables["seconds"].set_index(["method", "calls"])["paper"]
    assert table[(ALONE, 5000)] == 11.56
    assert table[("slalom-eff", 5000)] == 2.03
    assert table[("slalom-fidel", 10_000)] == 7.95
    assert math.isnan(table[("slalom", 5000)])
