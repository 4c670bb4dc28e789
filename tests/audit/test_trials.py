"""The pieces of an audit: words in texts, shares and their intervals, tests of many words."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slalom_xai.audit.bias import WordCounts
from slalom_xai.audit.rules import rule
from slalom_xai.audit.summary import NUMBERS
from slalom_xai.audit.trials import (
    Place,
    at_least,
    random_places,
    wilson,
    without_word,
)
from slalom_xai.audit.word_lists import categories, checked_lists, own_lists, read_list
from slalom_xai.errors import InputError
from slalom_xai.text import words


class TestWordsInTexts:
    @pytest.mark.parametrize(
        ("at", "expected"),
        [(0, "so a fine film."), (2, "a so fine film."), (12, "a fine film. so")],
    )
    def test_a_word_is_put_in_with_spaces_around_it(self, at, expected):
        assert Place("a fine film.", at).with_word("so") == expected

    @given(st.text(alphabet="ab ,.é\n", min_size=1, max_size=30), st.integers(0, 2**32 - 1))
    def test_nothing_else_changes(self, text, seed):
        (place,) = random_places([text], np.random.default_rng(seed))
        before = [unit.text for unit in words(text)]
        after = [unit.text for unit in words(place.with_word("word"))]
        assert "word" in after
        after.remove("word")
        assert after == before

    def test_every_occurrence_is_taken_out(self):
        assert without_word("The end, the END of the thread.", "the") == " end, END of thread."
        assert without_word("nothing here", "the") == "nothing here"


class TestShares:
    def test_the_interval_of_a_share(self):
        assert wilson(0, 0) == (0.0, 1.0)
        low, high = wilson(10, 100)
        assert (low, high) == pytest.approx((0.0552, 0.1744), abs=1e-4)

    @given(st.integers(1, 200), st.data())
    def test_the_share_is_inside(self, of, data):
        hits = data.draw(st.integers(0, of))
        low, high = wilson(hits, of)
        assert 0 <= low <= hits / of <= high <= 1

    def test_how_likely_so_many_hits_are(self):
        assert at_least(0, 10, 0.3) == pytest.approx(1)
        assert at_least(10, 10, 0.5) == pytest.approx(2**-10)
        assert at_least(2, 3, 0.5) == pytest.approx(0.5)


class TestBias:
    def test_a_word_that_goes_with_a_class(self):
        counts = WordCounts()
        for _ in range(50):
            counts.add("Thursday was good", "good")
            counts.add("it was bad", "bad")
        assert counts.count("thursday") == 50
        assert counts.z("thursday", "good") == pytest.approx(math.sqrt(50))
        assert counts.z("thursday", "bad") == pytest.approx(-math.sqrt(50))
        assert counts.z("was", "good") == 0
        assert math.isnan(counts.z("never", "good"))


class TestLists:
    def test_those_that_come_along_have_no_words_of_judgement(self):
        lists = own_lists()
        every = {word for of_list in lists.values() for word in of_list}
        assert {"thursday", "chair", "jennifer", "the", "muslim", "href"} <= every
        assert not every & {
            "good",
            "bad",
            "great",
            "terrible",
            "love",
            "hate",
            "not",
            "never",
            "no",
        }
        assert categories("black", lists) == ("colours", "identity")

    def test_own_lists_are_added_or_stand_alone(self, tmp_path):
        (tmp_path / "brands.txt").write_text("# ours\nAcme  Initech\n")
        assert read_list(tmp_path / "brands.txt") == {"acme", "initech"}
        assert set(checked_lists([tmp_path / "brands.txt"], True)) == {"brands"}
        assert "names" in checked_lists([tmp_path / "brands.txt"], False)

    def test_lists_that_cannot_be_used(self, tmp_path):
        (tmp_path / "empty.txt").write_text("# nothing\n")
        (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
        with pytest.raises(InputError, match="has no words"):
            read_list(tmp_path / "empty.txt")
        with pytest.raises(InputError, match="not UTF-8"):
            read_list(tmp_path / "latin.txt")
        with pytest.raises(InputError, match="cannot read"):
            read_list(tmp_path / "none.txt")
        with pytest.raises(InputError, match="no list of words is left"):
            checked_lists([], True)


class TestRules:
    def test_what_breaks_them(self):
        found = rule(" flip_rate >= 0.1", NUMBERS)
        assert found.broken_by({"flip_rate": 0.1})
        assert not found.broken_by({"flip_rate": 0.09})
        assert not found.broken_by({"flip_rate": None})
        assert rule("accuracy<0.9", NUMBERS).broken_by({"accuracy": 0.5})

    @pytest.mark.parametrize("said", ["flips>1", "flip_rate", "flip_rate>", "flip_rate=1", "a>b"])
    def test_what_is_none(self, said):
        with pytest.raises(InputError, match=r'such as "flip_rate>0\.1"'):
            rule(said, NUMBERS)
