"""Two printed scores say which of two words wins: ``docs/contests.md``, on three texts."""

from pathlib import Path

import pytest

from benchmarks.contests import example_texts, hold_contests, write_into
from slalom_xai import Explainer

ROOT = Path(__file__).parents[2]
BEGINNINGS = ("It starts well", "I wanted to like it", "An awful film")


@pytest.fixture(scope="module")
def explainer():
    return Explainer(show_progress=False)


@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_printed_values_and_importances_say_which_of_two_words_wins(explainer, beginning):
    (text,) = [text for text in example_texts() if text.startswith(beginning)]
    found = hold_contests(explainer, text)
    assert len(found.tokens) == 10
    assert len(found.contests) == 45
    assert found.r2 > 0.8
    assert found.r2 > found.r2_of_values + 0.1  # importances tell what values alone do not
    assert len(found.disputed) >= 10  # words of opposite sign, and the scores name a winner
    assert found.won >= 0.8 * len(found.disputed)


def test_tables_are_written_into_a_page_between_their_marks(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("Before.\n\n<!-- texts -->\nold\n<!-- end of texts -->\n\nAfter.\n")
    write_into(page, {"texts": "| new |"})
    write_into(page, {"texts": "| newer |"})
    assert page.read_text() == (
        "Before.\n\n<!-- texts -->\n\n| newer |\n\n<!-- end of texts -->\n\nAfter.\n"
    )
    with pytest.raises(SystemExit, match="does not have the marks"):
        write_into(page, {"scores": "| new |"})
    with_marks = (ROOT / "docs" / "contests.md").read_text(encoding="utf-8")
    for name in ("scores", "contests", "texts", "drawn texts"):
        assert with_marks.count(f"<!-- {name} -->\n\n| ") == 1
        assert with_marks.count(f" |\n\n<!-- end of {name} -->") == 1
