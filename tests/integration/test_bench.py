"""Benchmarks: the grid, going on after an interruption, failures, tables and figures."""

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fakes import Averaging
from processes import started
from tiny import CORPUS, tiny

from slalom_xai.data.bench import BenchOptions, bench, summary, summary_table
from slalom_xai.data.bench.results import ceiling_shares
from slalom_xai.errors import InputError
from slalom_xai.explanation import Explanation

QUICK = BenchOptions(
    methods=("slalom", "linear", "random"),
    metrics=("fidelity", "deletion", "cost"),
    texts=None,
    budget=120,
)
LIGHT = BenchOptions(  # for what does not depend on methods and metrics
    methods=("linear", "random"), metrics=("deletion",), texts=None, budget=120
)


def table(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def texts(tmp_path):
    return table(tmp_path / "texts.jsonl", [{"text": text} for text in CORPUS])


def test_every_method_and_metric_is_in_the_tidy_frame(texts, tmp_path):
    frame = bench(Averaging(), texts, tmp_path / "out", QUICK)
    assert set(frame["method"]) == set(QUICK.methods)
    assert set(frame["metric"]) == {"fidelity-local", "fidelity-wide", "deletion", "cost"}
    assert len(frame) == len(frame.drop_duplicates(["text", "method", "metric", "number"]))
    assert frame["value"].notna().all()
    wide = (
        frame[(frame["metric"] == "fidelity-wide") & (frame["number"] == "r2")]
        .groupby("method")["value"]
        .mean()
    )
    assert wide["slalom"] > 0.99 > wide["random"]
    saved = pd.read_csv(tmp_path / "out" / "results.csv", keep_default_na=True)
    assert np.allclose(saved["value"], frame["value"])
    assert sorted(path.name for path in (tmp_path / "out" / "figures").iterdir()) == [
        "cost.svg",
        "deletion.svg",
        "fidelity-local.svg",
        "fidelity-wide.svg",
    ]
    assert "| slalom | **" in (tmp_path / "out" / "table.md").read_text()


def test_fidelity_is_given_as_a_share_of_the_ceiling(texts, tmp_path):
    options = BenchOptions(
        methods=("linear", "gp", "zero"), metrics=("fidelity-wide",), texts=2, budget=150
    )
    frame = bench(Averaging(), texts, tmp_path / "out", options)
    found = frame[frame["number"] == "r2"].pivot(index="text", columns="method", values="value")
    assert (found["gp"] > 0).all()
    shares = ceiling_shares(frame, "fidelity-wide")
    expected = {name: np.median(found[name] / found["gp"]) for name in ("linear", "zero")}
    assert shares == pytest.approx(expected)
    told = f"linear {shares['linear']:.0%}, zero {shares['zero']:.0%}"
    assert f"fidelity-wide: share of what the ceiling predicts (median): {told}" in summary(frame)
    assert told in (tmp_path / "out" / "table.md").read_text()
    without = frame[frame["method"] != "gp"]
    assert ceiling_shares(without, "fidelity-wide") == {}
    assert "ceiling" not in summary(without)


def test_a_second_run_asks_nothing_again_and_may_add_methods_and_metrics(texts, tmp_path):
    first = bench(Averaging(), texts, tmp_path / "out", QUICK)
    model = Averaging()
    assert bench(model, texts, tmp_path / "out", QUICK).equals(first)
    assert model.asked == []
    more = BenchOptions(
        methods=("slalom", "linear", "random", "zero"), metrics=("cost",), texts=None, budget=120
    )
    second = bench(model, texts, tmp_path / "out", more)
    assert set(second["method"]) == {"slalom", "linear", "random", "zero"}
    kept = second[second["method"] == "slalom"]["value"].tolist()
    assert (
        kept == first[(first["method"] == "slalom") & (first["metric"] == "cost")]["value"].tolist()
    )
    with pytest.raises(
        InputError, match=r"other settings \(budget 120, now 200\): give another folder"
    ):
        bench(model, texts, tmp_path / "out", BenchOptions(texts=None, budget=200))


def test_one_explanation_may_be_ranked_by_several_scores(texts, tmp_path):
    options = BenchOptions(
        methods=("slalom", "slalom:shapley", "slalom:value"),
        metrics=("removal-rank",),
        texts=None,
        budget=120,
    )
    frame = bench(Averaging(), texts, tmp_path / "out", options)
    assert len(list((tmp_path / "out" / "explanations").iterdir())) == len(CORPUS)
    means = frame.groupby("method")["value"].mean()
    assert (
        means["slalom"] > means["slalom:value"]
    )  # what is lost without a unit is more than where it pulls
    with pytest.raises(InputError, match="unknown score 'beauty'"):
        bench(Averaging(), texts, tmp_path / "other", BenchOptions(methods=("slalom:beauty",)))


def test_a_line_cut_short_is_done_again(texts, tmp_path):
    first = bench(Averaging(), texts, tmp_path / "out", LIGHT)
    log = tmp_path / "out" / "log.jsonl"
    log.write_text(log.read_text()[:-20])
    second = bench(Averaging(), texts, tmp_path / "out", LIGHT)
    same = first["number"] != "seconds"
    assert second[same].equals(first[same])


def test_a_line_cut_inside_a_letter_swallows_nothing(tmp_path):
    path = table(tmp_path / "texts.jsonl", [{"text": ""}, *({"text": text} for text in CORPUS[:2])])
    out = tmp_path / "out"
    bench(Averaging(), path, out, LIGHT)
    log = out / "log.jsonl"
    whole = log.read_bytes()
    torn = (
        whole[: whole.rindex(b'{"text"')]
        + '{"text": "9", "method": "slalom", "failed": "ü'.encode()[:-1]
    )
    log.write_bytes(torn)
    bench(Averaging(), path, out, LIGHT)
    assert log.read_bytes().startswith(torn + b"\n{")
    model = Averaging()
    bench(model, path, out, LIGHT)
    assert model.asked == []  # the record after the torn line was found


def test_odd_lines_in_the_log_are_left_out(texts, tmp_path):
    first = bench(Averaging(), texts, tmp_path / "out", QUICK)
    odd = [
        *(
            "",
            "[]",
            "7",
            '{"text": "1"}',
            '{"text": 1, "method": "slalom", "failed": "x"}',
            '{"text": "1", "method": [], "failed": "x"}',
        ),
        *(
            '{"text": "1", "method": "slalom", "made": []}',
            '{"text": "1", "method": "slalom", "made": {"seconds": "long", "calls": 1}}',
        ),
        *(
            '{"text": "1", "method": "slalom", "metric": "cost", "values": [], "reason": ""}',
            "[" * 100_000,
            "9" * 5000,
        ),
        '{"text": "1", "method": "slalom", "metric": "cost", '
        '"values": {"calls": "many"}, "reason": ""}',
        '{"text": "1", "method": "slalom", "metric": 3, "values": {}, "reason": ""}',
    ]
    with (tmp_path / "out" / "log.jsonl").open("a", encoding="utf-8") as file:
        file.write("\n".join(odd) + "\n\x00\x00")
    assert bench(Averaging(), texts, tmp_path / "out", QUICK).equals(first)


@pytest.mark.parametrize(
    ("damage", "retry"),
    [("", False), ("{", False), ("[" * 200_000, False), (None, False), ("{", True)],
)
def test_a_damaged_explanation_is_made_again(texts, tmp_path, damage, retry):
    options = replace(LIGHT, retry=retry)
    first = bench(Averaging(), texts, tmp_path / "out", options)
    path = tmp_path / "out" / "explanations" / "3-linear.json"
    whole = path.read_bytes()
    if damage is None:
        path.unlink()
    else:
        path.write_text(damage)
    told = []
    assert bench(Averaging(), texts, tmp_path / "out", options, tell=told.append).equals(first)
    assert path.read_bytes() == whole
    assert len(told) == 1
    assert told[0].startswith("row 3, linear: ")
    assert told[0].endswith("; the text is explained again")


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", "null", "{", "[" * 200_000, "9" * 5000, "\x00"]
)
def test_settings_that_cannot_be_read_are_one_line(texts, tmp_path, content):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "settings.json").write_text(content)
    with pytest.raises(InputError, match=r"settings\.json") as caught:
        bench(Averaging(), texts, tmp_path / "out", QUICK)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


def test_settings_of_other_types_are_other_settings(texts, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "settings.json").write_text(
        json.dumps({"model": ["x"] * 1000, "data": None, "seed": {"a": 1}})
    )
    with pytest.raises(
        InputError, match=r"holds a benchmark with other settings \(model \['x', 'x'"
    ) as caught:
        bench(Averaging(), texts, tmp_path / "out", QUICK)
    assert len(str(caught.value)) < 2000


KILLED = """
import json, shutil, sys
from dataclasses import replace
from pathlib import Path
from fakes import Averaging
from killed import every_step
from slalom_xai.data.bench import BenchOptions, bench

root = Path(sys.argv[1])
data, out = root / "texts.jsonl", root / "out"
rows = [{"text": "warm and dull film"}, {"text": ""}]
data.write_text("".join(json.dumps(row) + "\\n" for row in rows))
options = BenchOptions(methods=("random",), metrics=("cost",), texts=None, budget=40)
whole = bench(Averaging(), data, root / "whole", options)

def run():
    return bench(Averaging(), data, out, options, show_progress=False)

def check():
    found = run()
    same = whole["number"] != "seconds"
    assert found[same].equals(whole[same]), found
    assert not [path for path in out.rglob("*") if path.name.startswith(".")], list(out.rglob("*"))

print(every_step(lambda: shutil.rmtree(out, ignore_errors=True), run, check, out))
"""


@pytest.mark.long
def test_a_run_that_was_killed_at_any_step_goes_on(tmp_path):
    paths = os.pathsep.join([str(Path(__file__).parents[1] / "helpers"), *sys.path])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", KILLED, str(tmp_path)],
        capture_output=True,
        text=True,
        env=ENVIRONMENT | {"PYTHONPATH": paths},
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 10


def test_texts_are_named_by_their_row(tmp_path):
    path = tmp_path / "texts.csv"
    path.write_text('text\n"warm\nand\nfunny film"\n""\n"dull, loud mess"\n')
    frame = bench(Averaging(), path, tmp_path / "out", QUICK)
    assert list(dict.fromkeys(frame["text"])) == ["1", "2", "3"]
    page = (tmp_path / "out" / "table.md").read_text()
    assert "- 1 × slalom: the text is empty: give at least one word (row 2)" in page
    assert "named by their row in the data file" in page
    assert "the first is row 2, slalom: the text is empty" in summary(frame)
    settings = json.loads((tmp_path / "out" / "settings.json").read_text())
    del settings["texts_named_by"]  # as before, when rows of CSV files were named by their lines
    (tmp_path / "out" / "settings.json").write_text(json.dumps(settings))
    with pytest.raises(InputError, match="other settings"):
        bench(Averaging(), path, tmp_path / "out", QUICK)


def test_the_summary_is_short_and_names_the_best_first(texts, tmp_path):
    methods = ("random", "zero", "linear", "slalom", "occlusion", "kernel-shap", "gam")
    options = BenchOptions(
        methods=methods, metrics=("fidelity-wide", "cost"), texts=None, budget=120
    )
    lines = summary(bench(Averaging(), texts, tmp_path / "out", options)).split("\n")
    assert lines[0] == "7 methods, 2 metrics, 4 texts"
    assert lines[1].startswith("fidelity-wide: mse (lower is better): slalom ")
    assert lines[1].endswith(" and 2 more")
    assert len(lines) == 3


def test_failures_are_recorded_and_the_rest_goes_on(tmp_path):
    rows = [{"text": CORPUS[0]}, {"text": ""}, {"text": "   "}, {"text": None}, {"text": CORPUS[1]}]
    path = table(tmp_path / "texts.jsonl", rows)
    frame = bench(Averaging(), path, tmp_path / "out", QUICK)
    failed = frame[frame["value"].isna()]
    assert set(failed["text"]) == {"2", "3", "4"}
    assert failed["why"].str.contains("the text is").all()
    page = (tmp_path / "out" / "table.md").read_text()
    assert "9 explanations could not be made" in page
    assert " (2) |" in page


def test_rationales_are_mapped_and_a_wrong_length_is_said(tmp_path):
    text = "the film is warm and the end is dull"
    rows = [
        {"text": text, "marks": [int(word in ("warm", "dull")) for word in text.split()]},
        {"text": text + " now", "marks": [1, 0]},
    ]
    options = BenchOptions(
        methods=("occlusion", "random"),
        metrics=("human",),
        texts=None,
        budget=100,
        rationale="marks",
    )
    frame = bench(Averaging(), table(tmp_path / "t.jsonl", rows), tmp_path / "out", options)
    good, bad = frame[frame["text"] == "1"], frame[frame["text"] == "2"]
    assert good["value"].notna().all()
    assert bad["value"].isna().all()
    assert bad["why"].str.contains("2").all()
    with pytest.raises(
        InputError,
        match="human compares scores with people's marks: "
        "name the column of the marks with --rationale",
    ):
        bench(
            Averaging(), tmp_path / "t.jsonl", tmp_path / "other", BenchOptions(metrics=("human",))
        )


def test_labels_of_the_table_reach_the_metric(tmp_path):
    """A label by name, by number, missing, and one that the model does not have."""
    text = "the film is warm and the end is dull"
    labels = ["yes", "no", 1, 0, None, "maybe"]
    rows = [{"text": text, "label": label} for label in labels]
    options = BenchOptions(methods=("occlusion",), metrics=("aopc",), texts=None, budget=100)
    frame = bench(Averaging(), table(tmp_path / "t.jsonl", rows), tmp_path / "out", options)
    found = frame.pivot(index="text", columns="number", values="value")["deletion"]
    assert found["1"] == found["3"]
    assert found["2"] == found["4"]
    assert found["1"] != found["2"]
    assert found["5"] in (found["1"], found["2"])  # whichever the model answers
    assert np.isnan(found["6"])
    assert "'maybe' is none of the model's" in frame.loc[frame["text"] == "6", "why"].iloc[0]


def test_naive_bayes_learns_from_a_corpus(texts, tmp_path):
    rows = [
        {"text": "warm funny quiet film", "label": "yes"},
        {"text": "dull loud mess", "label": "no"},
    ] * 3
    options = BenchOptions(
        methods=("naive-bayes", "slalom"),
        metrics=("naive-bayes",),
        texts=2,
        budget=120,
        corpus=table(tmp_path / "corpus.jsonl", rows),
    )
    frame = bench(Averaging(), texts, tmp_path / "out", options)
    own = frame[(frame["method"] == "naive-bayes")]["value"].dropna()
    assert np.allclose(own, 1)
    with pytest.raises(InputError, match="naive-bayes learns from a corpus"):
        bench(Averaging(), texts, tmp_path / "other", BenchOptions(methods=("naive-bayes",)))


def test_agreement_and_stability(texts, tmp_path):
    options = BenchOptions(
        methods=("slalom", "linear", "occlusion"),
        metrics=("agreement", "stability"),
        texts=2,
        budget=120,
    )
    frame = bench(Averaging(), texts, tmp_path / "out", options)
    means = frame[frame["number"] == "spearman"].groupby(["metric", "method"])["value"].mean()
    assert set(means.index.get_level_values("metric")) == {"agreement", "stability"}
    assert (means > 0.5).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": ("slalom", "magic")}, "unknown method 'magic'"),
        ({"metrics": ("beauty",)}, "unknown metric 'beauty'"),
        (
            {"text": "review"},
            r"has no column 'review', only 'text': say which to use with --text COLUMN",
        ),
        ({"texts": 0}, "--texts is 0"),
        ({"methods": ()}, "no method was named"),
        ({"score": "nope"}, "unknown score 'nope'"),
        ({"score": "importance"}, "method 'linear' has no importances to rank by"),
        ({"methods": ("linear:importance",)}, "method 'linear' has no importances to rank by"),
        ({"granularity": "letter"}, "unknown granularity 'letter'"),
        ({"removal": "cut"}, "unknown removal 'cut'"),
        ({"budget": -1}, "--budget is -1"),
        ({"seed": -1}, "--seed is -1"),
        ({"seed": 2**70}, "--seed is 1180591620717411303424: give a whole number from 0 to"),
        ({"at_least": math.nan}, "--at-least is nan"),
    ],
)
def test_bad_options_are_one_line(texts, tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        bench(Averaging(), texts, tmp_path / "out", BenchOptions(**options))
    assert not (tmp_path / "out").exists()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match="is not empty and is not a benchmark"):
        bench(Averaging(), texts, tmp_path / "full", QUICK)


def test_the_best_is_bold_and_the_worse_are_told_apart():
    rng = np.random.default_rng(0)
    rows = [
        (str(text), method, "m", "n", value, "lower", "")
        for text in range(40)
        for method, value in (
            ("good", rng.normal(1, 0.1)),
            ("same", rng.normal(1.01, 0.1)),
            ("bad", rng.normal(2, 0.1)),
            ("none", math.nan),
        )
    ]
    frame = pd.DataFrame(
        rows, columns=["text", "method", "metric", "number", "value", "direction", "why"]
    )
    found = summary_table(frame, "m", "n").set_index("method")
    assert found["best"].sum() == 1
    assert found.loc["bad", "p"] < 0.01
    assert found.loc[["good", "same"], "p"].min() > 0.05
    assert found.loc["none", "texts"] == 0
    assert found.loc["bad", "low"] < found.loc["bad", "mean"] < found.loc["bad", "high"]


def saved_model(folder):
    for part in tiny("distilbert"):
        part.save_pretrained(folder)
    return str(folder)


def command(*arguments):
    return [sys.executable, "-m", "slalom_xai", "bench", *map(str, arguments)]


ENVIRONMENT = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}


def test_the_command_prints_a_summary_and_says_where_the_table_is(slalom, texts, tmp_path):
    model = saved_model(tmp_path / "model")
    arguments = ("--model", model, "--data", texts, "--methods", "slalom,gradient")
    arguments += ("--budget", 120, "--out", tmp_path / "out", "--device", "cpu")
    done = slalom("bench", *arguments, "--metrics", "fidelity,cost")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(
        "2 methods, 3 metrics, 4 texts\nfidelity-local: mse (lower is better): "
    )
    assert done.stdout.count("\n") == 5
    assert f"Saved: {tmp_path / 'out' / 'table.md'}" in done.stdout
    page = (tmp_path / "out" / "table.md").read_text()
    assert page.startswith("# Benchmark: 2 methods, 3 metrics, 4 texts")
    results = pd.read_csv(tmp_path / "out" / "results.csv").query(
        "method == 'gradient' and number == 'calls'"
    )
    for text, value in zip(results["text"], results["value"], strict=True):
        explanation = Explanation.load(tmp_path / "out" / "explanations" / f"{text}-gradient.json")
        assert value == explanation.calls + explanation.passes > explanation.calls
    as_json = slalom("bench", *arguments, "--metrics", "cost", "--json")
    assert {row["method"] for row in json.loads(as_json.stdout)} == {"slalom", "gradient"}
    refused = slalom("bench", "--data", tmp_path / "none.csv", "--out", tmp_path / "x")
    assert refused.returncode == 1
    assert refused.stderr.startswith("error: cannot read ")
    assert refused.stderr.count("\n") == 1
    empty = table(tmp_path / "empty.jsonl", [{"text": ""}, {"text": " "}])
    nothing = slalom("bench", "--data", empty, "--out", tmp_path / "y")
    assert nothing.returncode == 1
    assert "error: nothing could be measured" in nothing.stderr


@pytest.mark.long
def test_processes_share_a_folder_and_the_last_run_makes_the_tables(slalom, tmp_path):
    model = saved_model(tmp_path / "model")
    path = table(tmp_path / "texts.jsonl", [{"text": text} for text in CORPUS])
    arguments = ("--model", model, "--data", path, "--methods", "occlusion", "--metrics", "cost")
    arguments += ("--budget", 150, "--device", "cpu", "--out", tmp_path / "out")
    with contextlib.ExitStack() as stack:
        shards = [
            stack.enter_context(
                started(
                    command(*arguments, "--shard", f"{number}/2"),
                    stdout=subprocess.DEVNULL,
                    env=ENVIRONMENT,
                )
            )
            for number in (1, 2)
        ]
        assert [process.wait() for process in shards] == [0, 0]
    log = (tmp_path / "out" / "log.jsonl").read_text()
    assert log.count('"made"') == len(CORPUS)
    assert not (tmp_path / "out" / "results.csv").exists()
    last = slalom("bench", *arguments, "--json")
    assert last.returncode == 0, last.stderr
    assert {row["text"] for row in json.loads(last.stdout)} == {
        str(number + 1) for number in range(len(CORPUS))
    }
    assert (tmp_path / "out" / "log.jsonl").read_text() == log


@pytest.mark.long
def test_an_interrupted_run_goes_on(slalom, tmp_path):
    model = saved_model(tmp_path / "model")
    rows = [{"text": f"{text} {number}"} for number in range(4) for text in CORPUS]
    path = table(tmp_path / "texts.jsonl", rows)
    arguments = ("--model", model, "--data", path, "--methods", "slalom", "--metrics", "cost")
    arguments += ("--texts", 0, "--budget", 150, "--device", "cpu", "--out", tmp_path / "out")
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with started(command(*arguments), env=ENVIRONMENT, **streams) as process:
        log = tmp_path / "out" / "log.jsonl"
        while process.poll() is None and not (log.is_file() and '"made"' in log.read_text()):
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
    assert process.returncode == 130, errors
    assert "run the same command again to continue" in errors
    assert 0 < log.read_text().count('"made"') < len(rows)
    again = slalom("bench", *arguments, "--json")
    assert again.returncode == 0, again.stderr
    assert len({row["text"] for row in json.loads(again.stdout)}) == len(rows)
    assert log.read_text().count('"made"') == len(rows)
