"""Explaining a table into a folder: what is in it, and that nothing is lost or done twice."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from killed_corpus import files
from tiny import CORPUS, tiny

from slalom_xai.data.corpus import Corpus, ExplainOptions, explain_corpus
from slalom_xai.data.corpus.engines import Engine
from slalom_xai.data.corpus.folder import CorpusFolder
from slalom_xai.data.corpus.schema import explained_schema, read_records, write_records
from slalom_xai.data.corpus.source import CorpusFields
from slalom_xai.data.corpus.staging import PartSize
from slalom_xai.data.corpus.worker import PartWorker
from slalom_xai.errors import InputError
from slalom_xai.system.shards import WHOLE, Shard

TEXTS = [" ".join(text.split()[start : start + 6]) for start in range(3) for text in CORPUS]
SIZE = PartSize(texts=5)
HELPERS = Path(__file__).parents[2] / "helpers"


@pytest.fixture(scope="module")
def options(model):
    return ExplainOptions(model=model, budget=60)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "texts.jsonl"
    texts = [*TEXTS, "", "word " * 600]
    records = [{"name": f"t{index}", "text": text} for index, text in enumerate(texts)]
    path.write_text("".join(json.dumps(record) + "\n" for record in records) + "not json\n")
    return path


@pytest.fixture(scope="module")
def whole(tmp_path_factory, table, options):
    """A folder that nobody disturbed."""
    out = tmp_path_factory.mktemp("whole") / "out"
    summary = run(table, out, options)
    assert summary.is_complete
    return out


def run(table, out, options, **more):
    more.setdefault("size", SIZE)
    return explain_corpus(
        table, out, options, fields=CorpusFields(id="name"), show_progress=False, **more
    )


def test_each_row_is_what_the_explainer_says_of_its_text(whole, options):
    records = {record["id"]: record for record in Corpus.open(whole).records()}
    explainer = options.load_for_table()
    for number in (0, 7, 11):
        explanation = explainer(TEXTS[number])
        record = records[f"t{number}"]
        assert record["status"] == "explained"
        assert record["text"] == TEXTS[number]
        assert record["calls"] == explanation.calls
        assert record["prediction"] == pytest.approx(explanation.prediction, rel=1e-4)
        assert record["target"] == explanation.target
        units = record["units"]
        assert [unit["unit"] for unit in units] == [unit.text for unit in explanation.units]
        for score in ("value", "importance", "removal"):
            found = [unit[score] for unit in units]
            np.testing.assert_allclose(found, explanation.scores(score), rtol=1e-3, atol=1e-3)
        assert (
            TEXTS[number][units[1]["start"] : units[1]["end"]].strip() == units[1]["unit"].strip()
        )


def test_texts_that_fail_are_rows_too_and_listed_with_the_reason(whole):
    frame = pd.read_parquet(whole / "parts")
    assert len(frame) == len(TEXTS) + 3
    assert frame["row"].tolist() == list(range(1, len(frame) + 1))
    assert frame["status"].value_counts().to_dict() == {"explained": len(TEXTS), "failed": 3}
    lines = [json.loads(line) for line in (whole / "errors.jsonl").read_text().splitlines()]
    assert [line["id"] for line in lines] == ["t12", "t13", None]
    assert "empty" in lines[0]["problem"]
    assert "at most" in lines[1]["problem"]
    assert "not JSON" in lines[2]["problem"]


def test_the_manifest_has_what_decides_results(whole, options):
    manifest = Corpus.open(whole).manifest
    assert manifest["model fingerprint"] == Corpus.open(whole).records().__next__()["fingerprint"]
    assert manifest["explained with"]["budget"] == 60
    schema = pq.read_schema(whole / "parts" / "part-000000.parquet")
    assert schema.metadata[b"slalom_corpus_version"] == b"2"


def test_a_second_run_asks_nothing(whole, table, options):
    before = files(whole)
    summary = run(table, whole, options)
    assert (summary.texts_now, summary.explained, summary.failed) == (0, len(TEXTS), 3)
    assert files(whole) == before


def test_shards_together_are_the_whole(whole, table, options, tmp_path):
    first = run(table, tmp_path / "out", options, shard=Shard(1, 2))
    assert not first.is_complete
    second = run(table, tmp_path / "out", options, shard=Shard(2, 2))
    assert second.is_complete
    assert files(tmp_path / "out") == files(whole)


def test_a_part_that_a_killed_worker_had_finished_is_found_done(whole, options):
    """As after a kill between writing a part and saying so."""
    worker = PartWorker(CorpusFolder(whole), options, options.fingerprint())
    before, told = files(whole), []
    done = worker.explain(1, told.append)
    assert (done.part, done.texts, sum(told)) == (1, SIZE.texts, SIZE.texts)
    assert files(whole) == before


@pytest.mark.long
def test_processes_give_the_same_bytes_and_one_that_dies_is_replaced(
    whole, table, options, tmp_path
):
    def kill_one():
        while not list((tmp_path / "out").glob("parts/*.parquet")):
            time.sleep(0.01)
        multiprocessing.active_children()[0].kill()

    killer = threading.Thread(target=kill_one, daemon=True)
    killer.start()
    summary = run(table, tmp_path / "out", options, engine=Engine(workers=2), size=SIZE)
    killer.join()
    assert summary.is_complete
    assert files(tmp_path / "out") == files(whole)


@pytest.mark.long
def test_kills_at_random_moments_lose_nothing_and_change_no_byte(tmp_path):
    done = subprocess.run(
        [sys.executable, HELPERS / "killed_corpus.py", tmp_path, "20"],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": _path()},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["files"] == 10
    assert told["different"] == []
    assert told["left"] == []


def _path():
    return os.pathsep.join([str(HELPERS), *sys.path])


@pytest.mark.long
def test_a_text_that_failed_for_a_while_is_tried_again(whole, table, options, tmp_path):
    """As after a lack of memory: the row says failed, the text is there."""
    run(table, tmp_path / "out", options)
    part = CorpusFolder(tmp_path / "out").part(1)
    records = read_records(part)
    lost = {**records[2], "status": "failed", "problem": "no memory", "units": [], "calls": 0}
    for name in ("target", "predicted", "prediction", "surrogate", "sink", "fidelity"):
        lost[name] = None
    write_records(part, [*records[:2], {**lost, "notes": []}, *records[3:]], explained_schema())
    summary = run(table, tmp_path / "out", options)
    assert summary.failed == 4
    summary = run(table, tmp_path / "out", options, retry=True)
    assert summary.failed == 3
    again, before = read_records(part)[2], records[2]
    assert again["status"] == "explained"
    for unit, unit_before in zip(again["units"], before["units"], strict=True):
        assert unit["value"] == pytest.approx(unit_before["value"], abs=1e-4)


def test_additive_methods_have_no_importance(table, model, tmp_path):
    options = ExplainOptions(model=model, method="occlusion", granularity="word")
    run(table, tmp_path / "out", options)
    record = next(Corpus.open(tmp_path / "out").records())
    assert record["surrogate"] == "linear"
    assert all(unit["importance"] is None for unit in record["units"])


def test_pairs_of_texts(model, tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_text("text,other\na quiet film,it is loud\nthe actors,\n")
    summary = explain_corpus(
        path,
        tmp_path / "out",
        ExplainOptions(model=model, budget=80),
        fields=CorpusFields(pair="other"),
        show_progress=False,
    )
    record, empty = Corpus.open(tmp_path / "out").records()
    assert {unit["part"] for unit in record["units"]} == {0, 1}
    assert summary.failed == 1
    assert "empty" in empty["problem"]


class TestBadInput:
    def test_a_folder_of_another_run(self, whole, table, model):
        with pytest.raises(
            InputError, match=r"other settings \(explained with: budget 60, now 70\)"
        ):
            run(table, whole, ExplainOptions(model=model, budget=70))

    def test_a_folder_of_something_else(self, table, options, tmp_path):
        (tmp_path / "thesis.txt").write_text("mine")
        with pytest.raises(InputError, match=r"not empty and is not a corpus"):
            run(table, tmp_path, options)
        with pytest.raises(InputError, match=r"is a file: give a folder"):
            run(table, tmp_path / "thesis.txt", options)

    def test_a_table_that_changed(self, whole, table, options, tmp_path):
        other = tmp_path / table.name
        other.write_bytes(table.read_bytes() + b'{"name": "new", "text": "more"}\n')
        with pytest.raises(InputError, match=r"other settings .*table sha256"):
            run(other, whole, options)

    def test_a_model_that_changed(self, table, tmp_path):
        network, tokenizer = tiny("bert")
        network.save_pretrained(tmp_path / "model")
        tokenizer.save_pretrained(tmp_path / "model")
        options = ExplainOptions(model=str(tmp_path / "model"), budget=60)
        run(table, tmp_path / "out", options)
        weights = tmp_path / "model" / "model.safetensors"
        content = bytearray(weights.read_bytes())
        content[-1] ^= 1
        weights.write_bytes(content)
        with pytest.raises(InputError, match=r"other settings .*model fingerprint"):
            run(table, tmp_path / "out", options)

    def test_two_runs_at_once(self, whole, table, options):
        with (
            CorpusFolder(whole).held(WHOLE),
            pytest.raises(InputError, match=r"another process is filling"),
        ):
            run(table, whole, options)

    def test_a_damaged_part_is_named(self, table, options, tmp_path):
        run(table, tmp_path / "out", options)
        part = CorpusFolder(tmp_path / "out").part(1)
        part.write_bytes(part.read_bytes()[:-20])
        with pytest.raises(InputError, match=r"cannot read .*part-000001.parquet"):
            run(table, tmp_path / "out", options)

    def test_a_damaged_plan_is_made_again_when_it_is_removed(self, table, options, tmp_path):
        run(table, tmp_path / "out", options)
        plan = tmp_path / "out" / "plan.json"
        before = plan.read_text()
        plan.write_text('{"rows": 5}')
        with pytest.raises(InputError, match=r"plan.json does not say .*remove it"):
            run(table, tmp_path / "out", options)
        plan.unlink()
        assert run(table, tmp_path / "out", options).texts_now == 0
        assert plan.read_text() == before

    def test_a_corpus_of_another_version(self, whole, tmp_path):
        with pytest.raises(InputError, match=r"holds no corpus"):
            Corpus.open(tmp_path)
        copy = tmp_path / "parts"
        copy.mkdir()
        for name in ("manifest.json", "plan.json"):
            (tmp_path / name).write_bytes((whole / name).read_bytes())
        old = pq.read_table(whole / "parts" / "part-000000.parquet")
        old = old.replace_schema_metadata({b"slalom_corpus_version": b"0"})
        pq.write_table(old, copy / "part-000000.parquet")
        with pytest.raises(InputError, match=r"version 0 of the columns, and this is version 2"):
            Corpus.open(tmp_path)

    def test_engines_that_are_none(self):
        with pytest.raises(InputError, match=r"unknown engine 'spark'"):
            Engine("spark")
        with pytest.raises(InputError, match=r"workers is 0"):
            Engine(workers=0)
        with pytest.raises(InputError, match=r"choose the engine ray"):
            Engine(address="auto")


class TestCommand:
    def test_it_says_what_is_there_and_what_failed(self, slalom, table, model, tmp_path):
        done = slalom(
            *("corpus", table, "--id", "name", "--model", model, "--budget", 60),
            *("--out", tmp_path / "out", "--part-texts", 5),
        )
        assert done.returncode == 1, done.stderr
        assert f"{len(TEXTS)} of {len(TEXTS) + 3} texts are explained" in done.stdout
        assert "(3 of 3 parts)" in done.stdout
        assert "3 texts failed" in done.stderr
        again = slalom(
            *("corpus", table, "--id", "name", "--model", model, "--budget", 60, "--json"),
            *("--out", tmp_path / "out", "--part-texts", 5),
        )
        assert json.loads(again.stdout)["texts_now"] == 0

    @pytest.mark.parametrize(
        ("more", "said"),
        [
            (["--text", "review"], "no column 'review'"),
            (["--shard", "5"], "such as 3/16"),
            (["--engine", "spark"], "unknown engine 'spark'"),
            (["--method", "nope"], "unknown --method 'nope'"),
            (["--model", "not-there"], "not-there"),
            (["--workers", "0"], "workers is 0"),
        ],
    )
    def test_errors_are_one_line(self, slalom, table, tmp_path, more, said):
        done = slalom("corpus", table, "--out", tmp_path / "out", *more)
        assert done.returncode == 1
        assert said in done.stderr
        assert done.stderr.count("\n") == 1
        assert not (tmp_path / "out" / "parts").exists()


class TestReaders:
    """The examples of docs/corpus.md."""

    @pytest.fixture
    def examples(self, whole, tmp_path, monkeypatch):
        page = (Path(__file__).parents[3] / "docs" / "corpus.md").read_text()
        (tmp_path / "explanations").symlink_to(whole)
        monkeypatch.chdir(tmp_path)
        return re.findall(r"```(python|sql)\n(.*?)```", page, re.S)

    def test_pandas_and_polars(self, examples):
        found = {}
        for package in ("pandas", "polars"):
            (code,) = (code for _, code in examples if f"import {package} " in code)
            names = {}
            exec(compile(code, package, "exec"), names)
            units = names["units"] if package == "pandas" else names["units"].collect()
            found[package] = sorted(units["unit"])
        assert found["pandas"] == found["polars"]
        assert any("film" in unit for unit in found["pandas"])

    def test_duckdb(self, examples):
        (query,) = (code for kind, code in examples if kind == "sql")
        rows = duckdb.sql(query).fetchall()
        assert any("film" in unit for unit, _, _ in rows)
