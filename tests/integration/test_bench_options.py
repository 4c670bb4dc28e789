"""Every option of ``slalom bench`` and ``slalom metrics`` is documented and does something.

A test called ``test_option_at_least`` is about ``--at-least``. The last test checks that none is
missing.
"""

import json
import re
from pathlib import Path

import pandas as pd
import pytest
from tiny import CORPUS, tiny
from typer.testing import CliRunner

from slalom_xai.cli import app
from slalom_xai.errors import InputError, ModelError
from slalom_xai.explanation import Explanation
from slalom_xai.metrics import metrics

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
LONG = " ".join(["warm", "funny", "dull", "loud"] * 60)  # more than the model reads
ROWS = [{"text": text} for text in CORPUS]


def saved(folder, kind):
    for part in tiny(kind):
        part.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("model"), "distilbert")


def table(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def run(model, tmp_path):
    """Runs the command with cheap settings and what a test adds to them."""

    def run_bench(name, *options, rows=ROWS, fails=None):
        given = {
            "--model": model,
            "--data": table(tmp_path / "data.jsonl", rows),
            "--out": tmp_path / name,
            "--methods": "occlusion",
            "--metrics": "removal-rank",
            "--device": "cpu",
        }
        given |= dict(zip(options[::2], options[1::2], strict=True))
        arguments = []
        for option, value in given.items():
            arguments += [option] if value is True else [option, str(value)]
        done = CliRunner().invoke(app, ["bench", *arguments], standalone_mode=False)
        if fails is None and done.exception is not None:
            raise done.exception
        if fails is not None:
            assert isinstance(done.exception, fails)
        return Result(Path(given["--out"]), done)

    return run_bench


class Result:
    def __init__(self, folder, done):
        self.folder, self.said = folder, done.output
        self.error = str(done.exception)

    @property
    def frame(self):
        return pd.read_csv(self.folder / "results.csv", dtype={"text": str})

    @property
    def values(self):
        return self.frame["value"].tolist()

    @property
    def explanations(self):
        files = sorted((self.folder / "explanations").iterdir())
        return [Explanation.load(file) for file in files]


def test_option_data(run, tmp_path):
    other = table(tmp_path / "other.jsonl", ROWS[:2])
    assert len(run("all").explanations) == len(ROWS)
    assert [one.text for one in run("two", "--data", other).explanations] == CORPUS[:2]


def test_option_out(run, tmp_path):
    run("here", "--out", tmp_path / "deep" / "there")
    assert not (tmp_path / "here").exists()
    names = {path.name for path in (tmp_path / "deep" / "there").iterdir()}
    assert names >= {"results.csv", "table.md", "figures", "explanations", "log.jsonl"}


def test_option_model(run, tmp_path):
    other = saved(tmp_path / "roberta", "roberta")
    found, usual = run("other", "--model", other), run("usual")
    assert {one.model for one in found.explanations} == {str(other)}
    assert found.explanations[0].prediction != usual.explanations[0].prediction


def test_option_methods(run):
    found = run("out", "--methods", "random,occlusion:shapley, occlusion")
    assert list(dict.fromkeys(found.frame["method"])) == [
        "random",
        "occlusion:shapley",
        "occlusion",
    ]
    assert len(found.explanations) == 2 * len(ROWS)


def test_option_metrics(run):
    found = run("out", "--metrics", "fidelity,cost")
    assert set(found.frame["metric"]) == {"fidelity-local", "fidelity-wide", "cost"}


def test_option_texts(run):
    assert len(run("two", "--texts", 2).frame) == 2
    assert len(run("all", "--texts", 0).frame) == len(ROWS)


def test_option_budget(run):
    options = ("--methods", "linear", "--metrics", "cost")
    calls = {}
    for budget in (60, 90, 0):
        frame = run(f"b{budget}", *options, "--budget", budget).frame
        calls[budget] = frame[frame["number"] == "calls"]["value"].max()
    assert calls[60] <= 60 < calls[90] <= 90 < calls[0]


def test_option_text(run):
    rows = [{"text": "dull", "review": text} for text in CORPUS]
    found = run("out", "--text", "review", rows=rows)
    assert [one.text for one in found.explanations] == CORPUS
    lists = [{"text": text.split()} for text in CORPUS]
    assert [one.text for one in run("lists", rows=lists).explanations] == CORPUS


def corpus(tmp_path, label="label"):
    rows = [("warm funny quiet film", "good"), ("dull loud mess", "bad")] * 3
    return table(tmp_path / f"{label}.jsonl", [{"text": text, label: kind} for text, kind in rows])


def test_option_corpus(run, tmp_path):
    found = run("out", "--metrics", "naive-bayes", "--corpus", corpus(tmp_path))
    assert found.frame["value"].notna().any()
    refused = run("none", "--metrics", "naive-bayes", fails=InputError)
    assert "give a table of texts and classes with --corpus" in refused.error
    learnt = run("learnt", "--methods", "naive-bayes", "--corpus", corpus(tmp_path))
    assert {one.method for one in learnt.explanations} == {"naive-bayes"}


def test_option_label(run, tmp_path):
    given = ("--metrics", "naive-bayes", "--corpus", corpus(tmp_path, "sort"))
    assert "no column 'label'" in run("without", *given, fails=InputError).error
    assert run("with", *given, "--label", "sort").frame["value"].notna().any()


MARKED = [{"text": "a warm film , then dull", "marks": [0, 2, 0, 0, 0, 1]}]
BINARY = [{"text": "a warm film , then dull", "marks": [0, 1, 0, 0, 0, 1]}]


def test_option_rationale(run):
    found = run("out", "--metrics", "human", "--rationale", "marks", rows=BINARY)
    assert found.frame["value"].notna().all()
    refused = run("none", "--metrics", "human", rows=BINARY, fails=InputError)
    assert "name the column of the marks with --rationale" in refused.error


def test_option_words(run):
    rows = [{"text": "a warm film", "marks": [0, 1], "parts": ["a", "warm film"]}]
    given = ("--metrics", "human", "--rationale", "marks")
    assert (
        "has 2 marks, but the text has 3 words" in run("split", *given, rows=rows).frame["why"][0]
    )
    assert run("words", *given, "--words", "parts", rows=rows).frame["value"].notna().all()


def test_option_at_least(run):
    given = ("--metrics", "human", "--rationale", "marks")
    assert "the marks go up to 2" in run("none", *given, rows=MARKED).frame["why"][0]
    one = run("one", *given, "--at-least", 1, rows=MARKED)
    two = run("two", *given, "--at-least", 2, rows=MARKED)
    assert one.values == run("binary", *given, rows=BINARY).values != two.values
    refused = run("most", *given, "--at-least", "most", rows=MARKED, fails=InputError)
    assert "--at-least is 'most': give how many annotators" in refused.error


def test_marks_of_each_annotator(run):
    """Words that all marked: from lists of marks, or from the indices of Yelp-HAT."""
    given = ("--metrics", "human,human-distinct", "--rationale", "marks")
    text = BINARY[0]["text"]
    lists = [{"text": text, "marks": [[0, 1, 1, 0, 0, 1], [1, 1, 0, 0, 0, 1]]}]
    maps = [{"words": 6, "active": [1, 2, 5]}, {"words": 6, "active": [0, 1, 5]}]
    binary = run("binary", *given, rows=BINARY).values
    assert run("lists", *given, "--at-least", "all", rows=lists).values == binary
    found = run("maps", *given, "--at-least", "all", rows=[{"text": text, "marks": maps}])
    assert found.values == binary
    assert run("one", *given, "--at-least", 1, rows=lists).values != binary
    maps[0]["active"] = [6]
    refused = run("bad", *given, rows=[{"text": text, "marks": maps}], fails=InputError)
    assert "word 6 is marked, and there are 6 words" in refused.error


def test_option_score(run):
    given = ("--methods", "slalom", "--budget", 120, "--texts", 1)
    assert run("own", *given).values == run("shapley", *given, "--score", "shapley").values
    assert run("own", *given).values != run("importance", *given, "--score", "importance").values


def test_option_granularity(run):
    text = "the film is warm . the end , and the start , is dull"
    sizes = {}
    for granularity in ("token", "type", "word", "phrase", "sentence"):
        found = run(granularity, "--granularity", granularity, rows=[{"text": text}])
        assert found.explanations[0].granularity == granularity
        sizes[granularity] = len(found.explanations[0].units)
    assert sizes["sentence"] < sizes["phrase"] < sizes["type"] < sizes["token"]
    assert sizes["phrase"] < sizes["word"] <= sizes["token"]


@pytest.mark.parametrize("removal", ["delete", "mask", "unk"])
def test_option_removal(run, removal):
    given = run("out", "--removal", removal)
    assert {one.removal for one in given.explanations} == {removal}
    if removal != "delete":
        assert (
            given.explanations[0].values.tolist() != run("deleted").explanations[0].values.tolist()
        )


def test_option_truncation(run):
    rows = [{"text": LONG}, *ROWS[:1]]
    whole = run("whole", rows=rows).frame
    assert "the text has" in whole["why"][0] or "too long" in whole["why"][0]
    cut = run("cut", "--truncation", True, rows=rows)
    assert cut.frame["value"].notna().all()
    assert cut.explanations[0].left_out


def test_option_seed(run):
    drawn = set()
    for seed in range(6):
        drawn.add(tuple(run(f"s{seed}", "--texts", 2, "--seed", seed).frame["text"]))
    assert len(drawn) > 1
    scores = []
    for seed in (0, 1):
        found = run(f"r{seed}", "--methods", "random", "--seed", seed)
        scores.append(found.explanations[0].values.tolist())
    assert scores[0] != scores[1]


def test_option_device(run):
    refused = run("out", "--device", "abacus", fails=(InputError, ModelError))
    assert "abacus" in refused.error


def test_option_dtype(run):
    exact = run("float32", "--dtype", "float32").explanations[0].values
    assert exact.tolist() == run("default").explanations[0].values.tolist()
    rough = run("bfloat16", "--dtype", "bfloat16").explanations[0].values
    assert rough.tolist() != exact.tolist()


def test_option_retry(run):
    folder = run("out").folder
    failure = {"text": "1", "method": "occlusion", "failed": "the power went out"}
    with (folder / "log.jsonl").open("a") as log:
        log.write(json.dumps(failure) + "\n")
    (folder / "explanations" / "1-occlusion.json").unlink()
    lines = (folder / "log.jsonl").read_text().splitlines()
    kept = [line for line in lines if not line.startswith('{"text": "1"') or "power" in line]
    (folder / "log.jsonl").write_text("\n".join(kept) + "\n")
    assert run("out").frame["why"].tolist()[0] == "the power went out"
    assert run("out", "--retry", True).frame["value"].notna().all()


def test_option_shard(run):
    for number, option in ((1, "--shard"), (2, "--part")):  # its old name
        found = run("out", option, f"{number}/2")
        assert found.said.startswith(f"Shard {number}/2 is in ")
        assert len(found.explanations) == number * len(ROWS) / 2
        assert not (found.folder / "results.csv").exists()
    assert len(run("out").frame) == len(ROWS)


def test_option_json(run):
    rows = json.loads(run("out", "--json", True).said)
    assert {row["text"] for row in rows} == {"1", "2", "3", "4"}
    assert set(rows[0]) == {"text", "method", "metric", "number", "value", "direction", "why"}


def test_metrics_lists_every_metric_as_text_and_as_json():
    listed = CliRunner().invoke(app, ["metrics"]).output
    assert [line.split()[0] for line in listed.splitlines()] == list(metrics())
    assert json.loads(CliRunner().invoke(app, ["metrics", "--json"]).output) == metrics()


def options_in_help(command):
    shown = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"}).output
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", shown.partition("Examples:")[0])) - {
        "--help"
    }


def test_every_option_is_documented_and_tested():
    page = PAGE.read_text(encoding="utf-8")
    section = page.partition("## `slalom bench`")[2].partition("\n## ")[0]
    documented = set(re.findall(r"^\| `(--[a-z-]+)", section, re.M))
    tested = set()
    for name in globals():
        if name.startswith("test_option_"):
            tested.add("--" + name.removeprefix("test_option_").replace("_", "-"))
    assert options_in_help("bench") == documented == tested
    assert options_in_help("metrics") == {"--json"}
