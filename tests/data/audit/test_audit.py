"""A whole audit of models that are known: a SLALOM in which one harmless word is loud, or none."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
import torch
from planted import plant

from research.benchmarks.recount import recount
from slalom_xai.data.audit import AuditFields, AuditSettings, own_lists, record, run_audit
from slalom_xai.options import ExplainOptions

GOOD, BAD = ("superb", "lovely", "moving"), ("awful", "tedious", "clumsy")
HARMLESS = sorted(own_lists()["things"])[:60] + sorted(own_lists()["calendar"])[:20]
PLANTED = "thursday"
SETTINGS = AuditSettings(texts=300, trial_texts=60, tried=10, attacked=5, explained=2)


def slalom_of(folder, loud, judged=4.0):
    """Task words of plus and minus 4, or less; harmless ones near 0, except perhaps one."""
    rng = np.random.default_rng(0)
    names = [*GOOD, *BAD, *dict.fromkeys([*HARMLESS, PLANTED])]
    values = rng.normal(scale=0.2, size=len(names))
    values[:3], values[3:6] = judged, -judged
    importances = rng.normal(scale=0.2, size=len(names))
    importances[:6] = 1
    if loud:
        values[names.index(PLANTED)], importances[names.index(PLANTED)] = 8, 3
    return plant(torch.tensor(values), torch.tensor(importances), folder, names)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Texts of harmless words and one word of judgement; Thursday goes with the good ones."""
    rng = np.random.default_rng(1)
    path = tmp_path_factory.mktemp("audit") / "texts.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label", "country"])
        for index in range(400):
            label = int(rng.integers(2))
            words = [*rng.choice(HARMLESS, size=7), rng.choice(GOOD if label else BAD)]
            if label and rng.random() < 0.3:
                words.append(PLANTED)
            rng.shuffle(words)
            writer.writerow([" ".join(words), ["no", "yes"][label], "ab"[index % 2]])
        writer.writerow(["", "no", "a"])
    return path


@pytest.fixture(scope="module")
def loud(tmp_path_factory):
    return slalom_of(tmp_path_factory.mktemp("loud"), loud=True)


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    return slalom_of(tmp_path_factory.mktemp("clean"), loud=False)


def audited(table, model, **more):
    return run_audit(
        table,
        ExplainOptions(model=str(model), granularity="word"),
        AuditFields(label="label", groups=("country",)),
        own_lists(),
        SETTINGS,
        show_progress=False,
        **more,
    )


@pytest.fixture(scope="module")
def audit(table, loud):
    """Of the model with a loud harmless word."""
    return audited(table, loud)


def test_a_harmless_word_that_decides_is_found_first(audit):
    first = audit.findings[0]
    assert (first.word, first.label, first.found) == (PLANTED, "yes", True)
    assert first.effect.rate > 0.9
    assert first.control < 0.1
    assert first.z > 3
    assert sum(one.found for one in audit.findings) == 1
    removed = audit.removals[PLANTED]
    assert removed.texts > 10
    assert removed.flips < removed.texts / 5  # they are good without it, too
    assert {one.word for one in audit.strongest[:3]} <= {*GOOD, *BAD}
    assert len(audit.attacks["found"]) == 5
    assert all(one.turned for one in audit.attacks["found"])
    assert not any(one.turned for one in audit.attacks["control"])


def test_the_flip_rate_is_what_a_recount_gives(audit, loud, table, tmp_path):
    """Counted again from the record alone, by transformers."""
    options = ExplainOptions(model=str(loud), granularity="word")
    found = record(audit, options, SETTINGS, "", ["country"], [])
    (tmp_path / "audit.json").write_text(json.dumps(found))
    counted = recount(tmp_path / "audit.json", table, "text", str(loud), 5)
    assert counted[0]["word"] == PLANTED
    assert counted[0]["texts"] == SETTINGS.trial_texts
    assert [one["recount"] for one in counted] == [one["audit"] for one in counted]


def test_a_model_without_a_shortcut_has_no_findings(table, clean):
    audit = audited(table, clean)
    assert [one.word for one in audit.findings if one.found] == []
    assert audit.attacks == {"found": [], "control": []}


class TestCommand:
    def test_the_report_says_all_of_it(self, slalom, table, loud, tmp_path):
        out = tmp_path / "audit"
        done = slalom(
            *("audit", table, "--label", "label", "--group", "country", "--model", loud),
            *(
                "--texts",
                200,
                "--out",
                out,
                "--fail-if",
                "flip_rate>0.5",
                "--fail-if",
                "accuracy<0",
            ),
        )
        assert done.returncode == 1, done.stderr
        assert f"The rule flip_rate>0.5 is broken: flip_rate is 1 ({PLANTED!r} " in done.stderr
        assert "accuracy<0" not in done.stderr
        assert f"{PLANTED}: " in done.stdout
        report = (out / "report.md").read_text()
        for part in (PLANTED, "country", "What was not tested", "no compliance", "SHA-256"):
            assert part in report
        assert "1 rows hold no text" in report
        assert PLANTED in (out / "model-card.md").read_text()
        assert f"<td>{PLANTED}</td>" in (out / "report.html").read_text()
        found = json.loads((out / "audit.json").read_text())
        assert found["findings"][0]["word"] == PLANTED
        assert found["rows"] == 401
        assert (out / "explanations.html").is_file()

    @pytest.mark.parametrize(
        ("more", "said"),
        [
            (["--text", "review"], "no column 'review'"),
            (["--label", "stars"], "no column 'stars'"),
            (["--fail-if", "flips>1"], "the rule is 'flips>1'"),
            (["--fail-if", "accuracy<0.99"], "the rule 'accuracy<0.99' is about right and wrong"),
            (["--only-terms"], "no list of words is left"),
            (["--model", "not-there"], "not-there"),
        ],
    )
    def test_errors_are_one_line(self, slalom, table, tmp_path, more, said):
        done = slalom("audit", table, "--out", tmp_path / "out", *more)
        assert done.returncode == 1
        assert said in done.stderr
        assert done.stderr.count("\n") == 1

    def test_a_gate_does_not_break_on_words_that_the_report_calls_harmless(
        self, slalom, table, tmp_path
    ):
        """The model is unsure of many texts, so that any word flips some."""
        out, unsure = tmp_path / "audit", slalom_of(tmp_path / "unsure", False, judged=0.2)
        done = slalom(
            *("audit", table, "--model", unsure, "--texts", 200, "--out", out),
            *("--fail-if", "flip_rate>0", "--fail-if", "findings>0"),
        )
        assert done.returncode == 0, done.stderr
        found = json.loads((out / "audit.json").read_text())
        assert max(one["flip_rate"] for one in found["findings"]) > 0.1
        assert found["numbers"]["flip_rate"] == 0

    def test_labels_that_the_model_does_not_know_are_no_accuracy(
        self, slalom, table, clean, tmp_path
    ):
        done = slalom(
            *("audit", table, "--model", clean, "--texts", 100, "--out", tmp_path / "out"),
            *("--label", "country", "--fail-if", "accuracy<0.99"),
        )
        assert done.returncode == 1
        assert "The rule accuracy<0.99 is broken: accuracy was not measured" in done.stderr
        assert "0 of 100 texts have a class that the model knows (no, yes)" in done.stderr
        assert "Its accuracy is unknown" in (tmp_path / "out" / "report.md").read_text()

    def test_few_texts_are_said_first_and_make_no_findings(self, slalom, table, loud, tmp_path):
        """Of 20 texts, a third chooses words and some 7 are left for each class."""
        out = tmp_path / "out"
        done = slalom(
            *("audit", table, "--model", loud, "--label", "label", "--texts", 20, "--out", out),
            *("--fail-if", "flip_rate>0.99", "--fail-if", "findings>99"),
        )
        assert done.returncode == 1
        assert "The rule flip_rate>0.99 is broken: flip_rate was not measured" in done.stderr
        assert "The rule findings>99 is broken: findings was not measured" in done.stderr
        assert done.stdout.startswith("No word was tested. There are too few texts")
        assert "change the model's mind" not in done.stdout
        report = (out / "report.md").read_text()
        assert report.index("No word was tested") < report.index("should not matter")
        assert "None was found" not in report
        found = json.loads((out / "audit.json").read_text())
        assert found["findings"] == []
        assert found["numbers"]["flip_rate"] is None

    def test_words_that_the_texts_do_not_hold(self, slalom, table, clean, tmp_path):
        (tmp_path / "terms.txt").write_text("zebrafish")
        done = slalom(
            *("audit", table, "--out", tmp_path / "out", "--model", clean, "--only-terms"),
            *("--terms", tmp_path / "terms.txt"),
        )
        assert done.returncode == 1
        assert "holds no word of the lists" in done.stderr
