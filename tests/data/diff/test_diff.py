"""Diffs of two models: relabelled words are found, equal models are equal, bad input is refused."""

from __future__ import annotations

import copy
import io
import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from planted import plant as planted_model
from rich.console import Console
from tiny import tiny

from research.benchmarks.diff import Language, difference, plant
from slalom_xai.data.corpus import Corpus, ExplainOptions
from slalom_xai.data.diff import diff_models
from slalom_xai.data.diff.report import as_data, diff_figure, markdown, render, summary
from slalom_xai.data.diff.run import Trust
from slalom_xai.data.diff.words import Paired
from slalom_xai.errors import InputError

WORDS = 60


def unit(word, value, importance, shapley=None):
    scores = {"value": value, "importance": importance, "shapley": shapley, "removal": None}
    return {"unit": word} | scores


@pytest.fixture(scope="module")
def scores():
    rng = np.random.default_rng(5)
    return 2 * rng.normal(size=WORDS), 0.5 * rng.normal(size=WORDS)


@pytest.fixture(scope="module")
def folder(scores, tmp_path_factory):
    """Two models of 60 words, of which six have other values and one another importance."""
    folder = tmp_path_factory.mktemp("diff")
    values, importances = scores
    planted_model(torch.as_tensor(values), torch.as_tensor(importances), folder / "old")
    planted_model(torch.as_tensor(values), torch.as_tensor(importances), folder / "copy")
    turned, louder = 1.3 * values, importances.copy()
    turned[:6] = np.where(turned[:6] > 0, -3.0, 3.0)
    louder[10] += 4
    planted_model(torch.as_tensor(turned), torch.as_tensor(louder), folder / "new")
    rng = np.random.default_rng(0)
    texts = [" ".join(f"t{word}" for word in rng.integers(0, WORDS, 9)) for _ in range(60)]
    lines = [json.dumps({"text": text}) + "\n" for text in texts]
    (folder / "texts.jsonl").write_text("".join(lines))
    return folder


@pytest.fixture(scope="module")
def options(folder):
    return ExplainOptions(model=str(folder / "old"), budget=40)


@pytest.fixture(scope="module")
def changed(folder, options):
    return run(folder, options, "new")


def run(folder, options, other, **more):
    return diff_models(
        options,
        options.replace(model=str(folder / other)),
        folder / "texts.jsonl",
        folder / f"diff-{other}",
        show_progress=False,
        **more,
    )


def test_a_model_and_its_copy_do_not_differ(folder, options):
    diff = run(folder, options, "copy")
    assert not diff.changed
    assert not diff.texts
    assert diff.compared == 60
    assert {word.value.difference for word in diff.words} == {0.0}
    assert "The scores of all words are the same." in summary(diff)
    assert "0 of 60 texts are predicted otherwise." in summary(diff)


def test_changed_words_are_found_and_a_larger_scale_is_none(changed):
    by_value = {word.word for word in changed.words if word.value.changed}
    assert by_value >= {f"t{number}" for number in range(6)}
    assert len(by_value) <= 7
    assert changed.drift["value"].slope == pytest.approx(1.3, abs=0.02)
    louder = {word.word for word in changed.words if word.importance and word.importance.changed}
    assert "t10" in louder


def test_texts_with_another_answer_name_the_words_behind_it(changed):
    assert changed.texts
    for text in changed.texts:
        assert text.before != text.after
        assert text.words
        assert {word.unit for word in text.words} <= set(text.text.split())
    named = {word.unit for text in changed.texts for word in text.words[:1]}
    assert named & {f"t{number}" for number in (*range(6), 10)}


def test_the_report_holds_what_was_found(changed):
    page = markdown(changed)
    assert "| t0 |" in page
    assert changed.texts[0].id in page
    assert json.loads(json.dumps(as_data(changed), allow_nan=False))["compared"] == 60
    figure = diff_figure(changed)
    assert {"t0", "t10"} & {text.get_text() for text in figure.axes[0].texts}


def test_how_much_there_was_comes_first_and_what_was_found_after_it(changed):
    lines = summary(changed)
    assert (
        lines[0]
        == f"60 texts were compared; {len(changed.words)} words stand in at least 2 of them."
    )
    assert f"{len(changed.changed)} of {len(changed.words)} words changed" in lines[1]
    assert all(trust.checked == 60 and trust.poor == 0 for trust in changed.trust)
    assert not [line for line in lines if "trust" in line]
    table = Console(width=200, record=True, file=io.StringIO())
    table.print(render(changed))
    printed = table.export_text()
    assert printed.index("60 texts were compared") < printed.index("importance")


def test_few_texts_are_not_said_to_have_no_changes(folder, options):
    """All words have other values and texts flip, but five texts cannot tell which by chance."""
    values = torch.as_tensor(4 * np.random.default_rng(9).normal(size=WORDS))
    planted_model(values, torch.zeros(WORDS, dtype=torch.float64), folder / "shaken")
    lines = (folder / "texts.jsonl").read_text().splitlines(keepends=True)
    (folder / "few.jsonl").write_text("".join(lines[:5]))
    other = options.replace(model=str(folder / "shaken"))
    diff = diff_models(
        options, other, folder / "few.jsonl", folder / "diff-few", show_progress=False
    )
    assert not diff.changed
    assert diff.texts
    assert max(abs(word.value.difference) for word in diff.words) > 2
    said = " ".join(summary(diff))
    assert said.startswith("5 texts were compared")
    assert "Fewer than 20 texts are too few to tell most words" in summary(diff)[0]
    assert "0 of" not in said
    assert "No word can be told to have changed" in said
    assert re.search(r"That does not say that none did: the value of “t\d+” moved most, by ", said)
    assert "no test says that they changed" in said
    assert "of which none can be told to have changed" in markdown(diff)


def test_other_values_that_no_text_hears_are_counted_beside_no_changes(changed):
    """Words whose scores changed are said to have other scores, not to be the same by chance."""
    quiet = [
        replace(word, effect=replace(word.effect, changed=False))
        for word in changed.words
        if word.effect is not None
    ]
    moved = sum(word.moved for word in quiet)
    assert moved >= 6
    said = " ".join(summary(replace(changed, words=tuple(quiet))))
    assert "No word can be told to do something else in these texts" in said
    assert f"but {moved} of {len(quiet)} have another value or importance" in said
    assert "chance" not in said


def test_explanations_that_fail_are_named_before_the_words(changed):
    poor = Trust(checked=60, median=-0.4, poor=45, below_zero=31)
    lines = summary(replace(changed, trust=(changed.trust[0], poor)))
    assert lines[1].startswith(f"Do not trust 45 of 60 explanations of {changed.models[1]}")
    assert "(31 of them below 0)" in lines[1]
    before = changed.trust[0].median
    assert before > 0.95
    assert lines[2] == f"The median R² of explanations was {before:.2f} and is -0.40."
    unknown = Trust(checked=0, median=None, poor=0, below_zero=0)
    assert "is not known" in summary(replace(changed, trust=(unknown, changed.trust[1])))[1]


def test_the_trust_of_a_diff_is_the_fidelity_of_its_explanations(folder, changed):
    for name, trust in zip(("before", "after"), changed.trust, strict=True):
        records = Corpus.open(folder / "diff-new" / name).records()
        found = [record["fidelity"]["any_r2"] for record in records]
        assert trust.median == pytest.approx(float(np.median(found)))


def test_a_second_run_asks_nothing_and_says_the_same(folder, options, changed):
    again = run(folder, options, "new")
    assert as_data(again) == as_data(changed)


def test_models_that_do_not_fit_together_are_refused(folder, options):
    network, tokenizer = copy.deepcopy(tiny("bert"))  # other tests have the same one
    network.save_pretrained(folder / "other")
    tokenizer.save_pretrained(folder / "other")
    with pytest.raises(InputError, match="different labels"):
        run(folder, options, "other")
    network.config.id2label, network.config.label2id = {0: "no", 1: "yes"}, {"no": 0, "yes": 1}
    network.save_pretrained(folder / "cut")
    tokenizer.save_pretrained(folder / "cut")
    with pytest.raises(InputError, match="--granularity word"):
        run(folder, options.replace(granularity="token"), "cut")
    assert not (folder / "diff-cut").exists()
    with pytest.raises(InputError, match="false discovery rate is 5"):
        run(folder, options, "new", rate=5)


def test_no_words_are_found_where_only_noise_differs():
    """Of 20 comparisons without a change, few find anything, though words stand in few texts."""
    finds = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        paired = Paired()
        for _ in range(40):
            words = rng.choice(80, 10, replace=False)
            before = [unit(f"w{word}", word / 20, 0.0) for word in words]
            after = [
                unit(one["unit"], one["value"] + rng.normal(0, 0.3), rng.normal()) for one in before
            ]
            paired.add({"units": before}, {"units": after})
        found, _ = paired.changes(0.05, 1)
        finds += any(word.changed for word in found)
    assert finds <= 4


def test_words_without_importances_are_compared_by_value():
    paired = Paired()
    for _ in range(3):
        before = [unit("a", 1.0, None), unit("b", 2.0, None)]
        paired.add({"units": before}, {"units": before})
    found, _ = paired.changes(0.05, 1)
    assert [word.importance for word in found] == [None, None]


def test_a_word_that_no_text_hears_did_not_change_whatever_its_value_is():
    """Two words get other values; one of them does something else in the texts, too."""
    rng = np.random.default_rng(0)
    paired = Paired()
    for _ in range(40):
        words = [0, 1, *rng.choice(np.arange(2, 60), 8, replace=False)]
        before = [unit(f"w{word}", word / 20, 0.0, 0.1 * rng.normal()) for word in words]
        after = [
            unit(one["unit"], one["value"] + 0.1 * rng.normal(), 0.0, 0.1 * rng.normal())
            for one in before
        ]
        for turned in after[:2]:
            turned["value"] -= 3
        after[0]["shapley"] -= 2
        paired.add({"units": before}, {"units": after})
    found, _ = paired.changes(0.05, 2)
    assert {word.word for word in found if word.moved} >= {"w0", "w1"}
    assert [word.word for word in found if word.changed] == ["w0"]


@pytest.mark.long
def test_fine_tuning_on_relabelled_words_is_found(tmp_path):
    language = Language(
        words=60, relabelled=10, sentences=1500, tested=80, epochs=8, more_epochs=8, layers=1
    )
    relabelled = plant(tmp_path, language, seed=0)
    found = [word.word for word in difference(tmp_path, "new", 60).changed]
    assert len(set(relabelled) & set(found)) >= 9
    assert not difference(tmp_path, "copy", 60).changed
