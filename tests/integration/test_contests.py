"""Two printed scores say which of two words wins: ``docs/contests.md``, on three texts."""

import pytest

from benchmarks.contests import example_texts, hold_contests
from slalom_xai import Explainer

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
    assert len(found.disputed) >= 10
    assert found.won >= 0.9 * len(found.disputed)
