"""The case study: what is flagged and counted, by hand, and all of it at a tiny size."""

import json

import numpy as np
import pytest

from research.base import Settings
from research.paper import case_study, fig_14
from research.paper.edited_reviews import (
    FLAGGED,
    CaseSize,
    CaseStudy,
    edits_to_turn,
    with_word,
)
from research.paper.fig_14 import CONTROL, LOUD_AND_NEGATIVE
from research.paper.imdb import Found
from research.paper.review_models import ModelSpec
from research.paper.vocabulary_fit import draw_pairs
from research.registry import experiments
from research.report import save
from slalom_xai.errors import InputError

SPEC = ModelSpec("BERT type", init="embedded", limit=512)


def scores(**changed):
    """Twenty loud tokens and eighty quiet ones; values rise from −1 to 1 within each kind."""
    given = {
        "tokens": [f"loud{'abcdefghijklmnopqrst'[index]}" for index in range(20)]
        + ["quiet" + chr(97 + index // 9) + chr(97 + index % 9) for index in range(80)],
        "values": [*np.linspace(-1, 1, 20), *np.linspace(-1, 1, 80)],
        "importances": [3.0] * 20 + [0.0] * 80,
        "naive-bayes": [0.0] * 100,
        "seen": [50] * 100,
    }
    return given | changed


def test_loud_negative_and_neutral_words_are_flagged():
    table = LOUD_AND_NEGATIVE.table(scores())
    assert table["token"][table["flagged"]].tolist() == ["louda", "loudb", "loudc", "loudd"]
    assert (table["value"][table["control"]].abs() < 0.55).all()
    weights = [0.5, *[0.0] * 99]  # the first is negative in the data, too
    seen = [50, 9, *[50] * 98]  # the second is hardly a word
    table = LOUD_AND_NEGATIVE.table(scores(**{"naive-bayes": weights, "seen": seen}))
    assert table["token"][table["flagged"]].tolist() == ["loudc", "loudd"]


def test_without_loud_tokens_the_loudest_tenth_is_taken():
    importances = [0.01 * index for index in range(100)]
    table = LOUD_AND_NEGATIVE.table(scores(importances=importances))
    assert table["loud"].sum() == 10
    assert table["loud"].tail(10).all()


def test_edits_and_flips_are_counted():
    assert with_word("a b c", "x") == ["x a b c", "a x b c", "a b c x"]
    assert edits_to_turn([1.0, 0.2, -0.1, 0.3, -1.0]) == 2
    assert edits_to_turn([1.0, 0.5]) is None
    turned, kept = [1.0, 0.5, -0.5, -1.0, -1.5], [1.0, 0.9, 0.8, 0.7, 0.6]
    rows = {"vocabulary": scores()}
    rows |= {f"edited-{index}": {FLAGGED: turned, CONTROL: kept} for index in range(3)}
    found = fig_14.outcome(Found((SPEC,), {SPEC.key: rows}, ("Planted.",)))
    assert found.verdict == "holds"
    flips = found.tables["flips"].set_index("words")
    assert flips.loc[FLAGGED, "turned"] == 3
    assert flips.loc[FLAGGED, "edits, median"] == 2
    assert flips.loc[CONTROL, "log odds lost"] == pytest.approx(0.4)
    rows |= {f"edited-{index}": {FLAGGED: kept, CONTROL: kept} for index in range(3)}
    assert fig_14.outcome(Found((SPEC,), {SPEC.key: rows}, ())).verdict == "holds in part"
    with pytest.raises(InputError, match="the scores of the vocabulary are not finished"):
        fig_14.outcome(Found((SPEC,), {SPEC.key: {"edited-0": rows["edited-0"]}}, ()))


def test_pairs_have_two_tokens_and_use_all_alike():
    pairs = draw_pairs(7, 70, np.random.default_rng(0))
    assert (pairs[:, 0] != pairs[:, 1]).all()
    uses = np.bincount(pairs.ravel(), minlength=7)
    assert uses.max() - uses.min() <= 8


def test_a_tiny_case_study_on_the_embedded_model(tmp_path):
    rng = np.random.default_rng(0)
    filling = ["the", "film", "story", "actor", "scene", "was", "quite", "music"]
    reviews = []
    for index in range(60):
        words = rng.choice(filling, size=6).tolist()
        words[2] = ("awful", "wonderful")[index % 2]
        reviews.append({"text": " ".join(words), "label": index % 2})
    lines = "".join(json.dumps(review) + "\n" for review in reviews)
    (tmp_path / "imdb_test.jsonl").write_text(lines)
    (tmp_path / "imdb_train.jsonl").write_text(lines * 90)
    settings = Settings(data=tmp_path, store=tmp_path / "cells")
    case = CaseSize(reviews=3, words=20, pairs=90)
    found = CaseStudy(settings, "fig-14", case, LOUD_AND_NEGATIVE).found()
    numbers = found.rows["embedded"]["vocabulary"]
    values = dict(zip(numbers["tokens"], numbers["values"], strict=True))
    assert set(values) == {*filling, "awful", "wonderful"}
    assert values["awful"] < min(values[word] for word in filling)
    assert values["wonderful"] > max(values[word] for word in filling)
    assert (
        CaseStudy(settings, "fig-14", case, LOUD_AND_NEGATIVE).found().rows == found.rows
    )  # from the finished cells
    made = fig_14.outcome(found)
    assert any(path.suffix == ".svg" for path in save(experiments()["fig-14"], made, tmp_path))
    many = CaseSize(reviews=400, words=20, pairs=90)
    with pytest.raises(InputError, match="fig-14 edits 400 positive reviews"):
        CaseStudy(Settings(data=tmp_path), "fig-14", many, LOUD_AND_NEGATIVE).found()


def test_the_case_study_flags_neutral_words_by_both_scores_and_looks_at_every_model():
    names = [f"word{chr(97 + index)}" for index in range(20)]
    given = {
        "tokens": names,
        "values": [-1.0] * 18 + [-3.0, 2.0],
        "importances": [0.1 * index for index in range(18)] + [1.0, 4.0],
        "naive-bayes": [0.0] * 20,
        "z": [0.0] * 17 + [-3.0, 0.5, 0.0],  # the eighteenth is bad in the data, too
        "seen": [50] * 20,
    }
    table = case_study.PULLING.table(given)
    tried = case_study.PULLING.tried(table)["token"].tolist()
    assert tried == [names[18], *names[16:2:-1]]  # -3e is below -exp(1.6), and the last is positive
    assert set(table["token"][table["control"]]) == {*names[:3], names[19]}
    turned, kept = [1.0, -0.5], [1.0, 0.9]
    rows = {"vocabulary": given, "edited-0": {FLAGGED: turned, case_study.CONTROL: kept}}
    other = {"vocabulary": given, "edited-0": {FLAGGED: kept, case_study.CONTROL: kept}}
    second = ModelSpec("BERT type", init="minilm")
    found = Found((SPEC, second), {SPEC.key: rows, second.key: other}, ("Planted.",))
    made = case_study.outcome(found)
    assert [check.holds for check in made.checks] == [True, False]
    assert made.finding.startswith("BERT type: of 1 reviews, flagged words turn 1 and random")
