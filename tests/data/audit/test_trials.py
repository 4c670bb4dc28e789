"""The pieces of an audit: words in texts, shares and their intervals, tests of many words."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import false_discovery_control

from slalom_xai.data.audit.data import AuditText, WordCounts
from slalom_xai.data.audit.rules import NUMBERS, rule
from slalom_xai.data.audit.slices import slices
from slalom_xai.data.audit.trials import (
    Place,
    chances,
    evidence,
    far_end,
    random_places,
    wilson,
    without_word,
)
from slalom_xai.data.audit.words import categories, own_lists, read_list, read_word_lists
from slalom_xai.errors import InputError
from slalom_xai.models.text import words


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


class TestSpread:
    """Laws of which the far end is known."""

    @pytest.mark.parametrize("law", ["normal", "exponential", "laplace"])
    def test_harmless_words_do_not_stand_out(self, law):
        """With 5% of false discoveries allowed, about one of 20 sets may hold one."""
        found = 0
        for seed in range(30):
            rng = np.random.default_rng(seed)
            draws = {"normal": rng.normal, "exponential": rng.exponential, "laplace": rng.laplace}
            adjusted = false_discovery_control(
                chances(draws[law](size=300), np.ones(300, dtype=bool))
            )
            found += bool((adjusted <= 0.05).any())
        assert found <= 4

    def test_a_word_far_beyond_them_stands_out_alone(self):
        changes = np.random.default_rng(0).normal(size=400)
        changes[7] = 8.0
        found = chances(changes, np.ones(400, dtype=bool))
        assert np.flatnonzero(false_discovery_control(found) <= 0.05).tolist() == [7]

    def test_the_far_end_of_an_exponential_law(self):
        end = far_end(np.random.default_rng(0).exponential(size=20_000))
        assert end.beyond(5.0) == pytest.approx(math.exp(-5), rel=0.2)
        assert end.beyond(end.threshold - 1) == 1

    def test_a_word_that_the_data_tie_to_the_class_needs_to_do_less(self):
        """Four deviations are within reach of 400 harmless words; with a z of 8 they are not."""
        rng = np.random.default_rng(0)
        changes, z, harmless = rng.normal(size=400), rng.normal(size=400), np.ones(400, dtype=bool)
        changes[7] = 4.0
        untied = false_discovery_control(evidence(changes, z, harmless))
        z[7] = 8.0
        tied = false_discovery_control(evidence(changes, z, harmless))
        assert (untied > 0.05).all()
        assert np.flatnonzero(tied <= 0.05).tolist() == [7]

    def test_a_word_that_the_data_do_not_tie_to_the_class_is_found_if_it_is_loud(self):
        rng = np.random.default_rng(0)
        changes, z, harmless = rng.normal(size=400), rng.normal(size=400), np.ones(400, dtype=bool)
        changes[7], z[7] = 12.0, -1.0
        found = evidence(changes, z, harmless)
        assert np.flatnonzero(false_discovery_control(found) <= 0.05).tolist() == [7]
        without_classes = evidence(changes, np.full(400, math.nan), harmless)
        assert without_classes[7] < found[7] < 1e-4

    def test_words_that_do_the_same_hide_no_word_that_does_not(self):
        """As in a model that knows a few words only: a rounding error is no finding."""
        changes = np.zeros(100)
        changes[:2] = 3.0, 1e-7
        found = chances(changes, np.ones(100, dtype=bool))
        assert found[0] < 1e-4
        assert found[1] > 0.05


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
            "nor",
            "neither",
            "unless",
            "thumb",
        }
        assert categories("black", lists) == ("colours", "identity")

    def test_own_lists_are_added_or_stand_alone(self, tmp_path):
        (tmp_path / "brands.txt").write_text("# ours\nAcme  Initech\n")
        assert read_list(tmp_path / "brands.txt") == {"acme", "initech"}
        assert set(read_word_lists([tmp_path / "brands.txt"], True)) == {"brands"}
        assert "names" in read_word_lists([tmp_path / "brands.txt"], False)

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
            read_word_lists([], True)


def measured(by=None, missing=None, **numbers):
    return {"numbers": numbers, "numbers come from": by or {}, "not measured": missing or {}}


class TestSlices:
    def by_length(self, lengths):
        sample = [AuditText(row, "a" * size, "", ()) for row, size in enumerate(lengths)]
        odds = np.zeros((len(sample), 2))
        table = slices(sample, [], odds, [-1] * len(sample), ("no", "yes"), 20, 0.05)
        return {one["group"]: one["texts"] for one in table if one["by"] == "length"}

    def test_texts_of_one_length_have_no_halves(self):
        assert self.by_length([9] * 40) == {}

    def test_ties_do_not_fill_one_half(self):
        """By the median, all but two of these would be short."""
        assert self.by_length([*[3] * 18, *[5] * 20, *[8] * 2]) == {
            "up to 3 characters": 18,
            "more than 3 characters": 22,
        }

    def test_halves_of_different_lengths_are_equal(self):
        assert set(self.by_length(range(1, 41)).values()) == {20}


class TestRules:
    def test_what_breaks_them(self):
        found = rule(" flip_rate >= 0.1", NUMBERS)
        by = {"flip_rate": "'thursday' turns 10% of 60 texts into yes"}
        assert found.broken_by(measured(flip_rate=0.1, by=by)) == (
            "flip_rate is 0.1 ('thursday' turns 10% of 60 texts into yes)"
        )
        assert found.broken_by(measured(flip_rate=0.09)) is None
        assert rule("accuracy<0.9", NUMBERS).broken_by(measured(accuracy=0.5))

    @pytest.mark.parametrize("compared", ["accuracy<0.9", "accuracy>0.9"])
    def test_what_was_not_measured_breaks_them_and_is_named(self, compared):
        why = {"accuracy": "no class is known"}
        broken = rule(compared, NUMBERS).broken_by(measured(accuracy=None, missing=why))
        assert broken == "accuracy was not measured (no class is known)"
        half = measured(flip_rate=0.0, missing={"flip_rate": "7 texts towards yes"})
        assert "7 texts towards yes" in rule("flip_rate>0.1", NUMBERS).broken_by(half)

    def test_a_bound_that_nothing_reaches(self):
        with pytest.raises(InputError, match="infinity"):
            rule("accuracy>1e999", NUMBERS)

    @pytest.mark.parametrize("said", ["flips>1", "flip_rate", "flip_rate>", "flip_rate=1", "a>b"])
    def test_what_is_none(self, said):
        with pytest.raises(InputError, match=r'such as "flip_rate>0\.1"'):
            rule(said, NUMBERS)
