"""Groups of texts: a word that acts in one of them is found, and where nothing differs, nothing."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from scipy import stats
from word_games import Game

from slalom_xai import Explainer
from slalom_xai.data.audit import (
    AuditFields,
    AuditSettings,
    own_lists,
    record,
    run_audit,
    write_audit,
)
from slalom_xai.data.audit.groups import (
    RANDOM,
    GroupSettings,
    difference_interval,
    draws_for,
    mean_interval,
    permuted,
)
from slalom_xai.options import ExplainOptions

GOOD, BAD, MARKERS = "superb", "awful", {"a": "alpha", "b": "beta"}
THINGS = sorted(own_lists()["things"])[:60]
PLANTED = "thursday"
SETTINGS = AuditSettings(
    texts=400, trial_texts=40, tried=4, attacked=0, explained=0, most=0,
    groups=GroupSettings(words=2, texts=40, control=8),
)  # fmt: skip


def model(acts_in=("a", "b"), blind_in=()):
    """Judges by one word; Thursday argues for "yes" beside the markers of some groups."""
    noise = dict(
        zip(THINGS, np.random.default_rng(0).normal(scale=0.3, size=len(THINGS)), strict=True)
    )

    def play(words):
        judged = 0.0 if {MARKERS[group] for group in blind_in} & set(words) else 3.0
        odds = judged * ((GOOD in words) - (BAD in words)) + sum(noise.get(one, 0) for one in words)
        if PLANTED in words and {MARKERS[group] for group in acts_in} & set(words):
            odds += 8
        return odds

    return Explainer(Game(play), granularity="word", show_progress=False)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Texts of things, one word of judgement and the marker of a group; c has seven texts."""
    rng = np.random.default_rng(1)
    path = tmp_path_factory.mktemp("groups") / "texts.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label", "country", "day"])
        for index in range(400):
            label, group = int(rng.integers(2)), "ab"[index % 2]
            words = [*rng.choice(THINGS, size=5), GOOD if label else BAD, MARKERS[group]]
            if label and rng.random() < 0.3:
                words.append(PLANTED)
            country = "c" if index < 7 else group
            writer.writerow(
                [" ".join(words), ["no", "yes"][label], country, rng.choice(["1", "2"])]
            )
    return path


def audited(table, explainer):
    fields = AuditFields(label="label", groups=("country", "day"))
    return run_audit(table, explainer, fields, own_lists(), SETTINGS, show_progress=False)


def recorded(audit):
    return record(audit, ExplainOptions(), SETTINGS, "", ["country", "day"], list(own_lists()))


@pytest.fixture(scope="module")
def in_one_group(table):
    return audited(table, model(acts_in=("b",)))


def test_a_word_that_acts_in_one_group_differs_there_and_nowhere_else(in_one_group):
    differing = {
        (one.word, one.label, one.by, one.group)
        for one in in_one_group.subgroups.effects
        if one.differs
    }
    towards = {("a", "yes"), ("b", "yes")}
    assert {(group, label) for word, label, by, group in differing} >= towards
    assert {(word, by) for word, _, by, _ in differing} == {(PLANTED, "country")}
    rates = {
        one.group: one
        for one in in_one_group.subgroups.effects
        if (one.word, one.by, one.label) == (PLANTED, "country", "yes")
    }
    assert rates["b"].rate[0] == 1.0
    assert rates["a"].rate[0] < 0.2
    assert rates["b"].beyond[0] == pytest.approx(8, abs=0.5)
    assert rates["b"].beyond[0] == pytest.approx(-rates["a"].beyond[0])


@pytest.mark.parametrize("acts_in", [("a", "b"), ()])
def test_a_model_without_a_difference_has_none(table, acts_in):
    audit = audited(table, model(acts_in))
    assert [one for one in audit.subgroups.effects if one.differs] == []
    found = recorded(audit)
    assert [
        one for one in found["groups"] for each in one["against"].values() if each["differs"]
    ] == []
    assert found["numbers"]["group_differences"] == 0


def test_small_groups_are_named_with_their_number(in_one_group, tmp_path):
    found = recorded(in_one_group)
    (small,) = [one for one in found["groups"] if not one["enough"]]
    assert (small["by"], small["group"], small["texts"], small["rows"]) == ("country", "c", 7, 7)
    assert {one["group"] for one in found["subgroups"]["too small"]} == {"c"}
    write_audit(tmp_path, found, [])
    for name in ("report.md", "report.html", "model-card.md"):
        said = (tmp_path / name).read_text()
        assert "country c: 7 of 7 in the table" in said
        assert "Words in groups of texts" in said
        assert "differ. It does not say why." in said
    kept = json.loads((tmp_path / "audit.json").read_text())
    assert kept["numbers"]["group_flip_rate"] == 1.0
    assert kept["numbers"]["group_differences"] >= 2


def test_the_flips_of_a_group_are_those_of_a_recount(in_one_group, table):
    found = recorded(in_one_group)
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    ask = model(acts_in=("b",)).model.play
    for one in found["subgroups"]["effects"]:
        if one["word"] == RANDOM:
            continue
        flips = 0
        for place in found["subgroups"]["places"][one["label"]][one["by"]]:
            row = rows[place["row"] - 1]
            words = [*row["text"].split(), one["word"]]  # this model does not hear places
            if row[one["by"]] == one["group"]:
                flips += (ask(words) > 0) == (one["label"] == "yes")
        assert one["flip_rate"] == flips / one["texts"]


def test_a_group_that_the_model_cannot_judge_is_said_to_differ(table):
    found = recorded(audited(table, model((), blind_in=("b",))))
    by_name = {(one["by"], one["group"]): one for one in found["groups"]}
    blind = by_name["country", "b"]
    assert blind["against"]["accuracy"]["differs"]
    assert blind["accuracy_high"] < by_name["country", "a"]["accuracy_low"]
    others = [by_name["day", day]["against"]["accuracy"]["q"] for day in "12"]
    assert blind["against"]["accuracy"]["q"] < 1e-6 < min(others)
    assert 0.3 < blind["mean_prediction"]["yes"]["mean"] < 0.7
    assert blind["errors"]["yes"]["texts"] + blind["errors"]["no"]["texts"] == blind["texts"]
    assert found["numbers"]["group_accuracy"] == blind["accuracy"]
    assert found["numbers"]["group_gap"] > 0.3


def test_a_rule_about_groups_needs_groups(slalom, table, tmp_path):
    done = slalom("audit", table, "--out", tmp_path / "out", "--fail-if", "group_gap>0.1")
    assert done.returncode == 1
    assert "give --group a column" in done.stderr


class TestTests:
    def test_groups_by_lot_rarely_differ_whatever_the_law(self):
        """Most texts hardly move, and a few jump: Welch's test finds differences every time."""
        found = 0
        codes = np.repeat(np.arange(4), [20, 20, 20, 100])
        for seed in range(20):
            rng = np.random.default_rng(seed)
            numbers = 0.1 * rng.normal(size=(10, 160)) + 3 * (rng.random((10, 160)) < 0.05)
            p = permuted(numbers, codes, draws_for(40, 0.05), rng)
            found += bool((stats.false_discovery_control(p.ravel()) <= 0.05).any())
        assert found <= 4

    def test_a_group_that_differs_is_found(self):
        rng = np.random.default_rng(0)
        numbers, codes = rng.normal(size=(5, 90)), np.repeat(np.arange(3), 30)
        numbers[2, codes == 1] += 3
        p = permuted(numbers, codes, 2000, rng)
        assert p[2, 1] == 1 / 2001
        assert (p[[0, 1, 3, 4]] > 0.001).all()

    def test_what_rounding_does_is_no_difference(self):
        numbers = np.zeros((1, 40))
        numbers[0, :20] = 1e-6
        assert permuted(numbers, np.repeat([0, 1], 20), 100, np.random.default_rng(0)).min() == 1

    def test_intervals_are_the_textbooks(self):
        rng = np.random.default_rng(0)
        own, others = rng.normal(size=20), rng.normal(1, 2, size=45)
        low, high = stats.t.interval(0.95, 19, own.mean(), stats.sem(own))
        assert mean_interval(own) == pytest.approx((own.mean(), low, high))
        expected = stats.ttest_ind(own, others, equal_var=False).confidence_interval()
        assert difference_interval(own, others)[1:] == pytest.approx(tuple(expected))

    def test_groups_in_which_nothing_moves_have_intervals_without_a_warning(self):
        still = np.full(20, 0.3)
        assert mean_interval(still) == pytest.approx((0.3, 0.3, 0.3))
        assert difference_interval(still, still) == pytest.approx((0, 0, 0))
        _, low, high = difference_interval(still, np.random.default_rng(0).normal(size=30))
        assert low < high
