"""``research.benchmarks.speed`` at its smallest size."""

import json
import sys

import pytest

from research.benchmarks.speed import others
from research.benchmarks.speed.__main__ import main
from research.benchmarks.speed.tables import targets


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["speed", *map(str, arguments)])
    main()


@pytest.mark.slow
def test_methods_are_compared_and_one_that_fails_stops_no_other(monkeypatch, tmp_path, capsys):
    def fail(subject, calls):
        raise ValueError("out of order")

    monkeypatch.setitem(others.SCORES, "shap-partition", fail)
    out = tmp_path / "speed.jsonl"
    methods = "slalom,shap-partition,lime"
    run(monkeypatch, "--smallest", "--part", "one", "--methods", methods, "--out", out)
    records = {one["method"]: one for one in map(json.loads, out.read_text().splitlines())}
    assert records["shap-partition"]["failed"] == "ValueError: out of order"
    ours, lime = records["slalom"], records["lime"]
    assert ours["calls"] == ours["rows"] <= 64  # within the budget, and no text twice
    assert len(ours["seconds"]) == len(ours["forward"]) == 3
    assert ours["any"] < lime["any"]
    capsys.readouterr()
    run(monkeypatch, "--tables", out)
    printed = capsys.readouterr().out
    assert "| `lime` | 64 |" in printed
    assert "failed" in printed


def test_the_fewest_calls_that_are_good_enough_count():
    def record(method, calls, seconds, error):
        same = {"part": "sooner", "model": "bundled", "setting": "5 texts"}
        same |= {"machine": "x86_64, 2 threads", "method": method}
        return {**same, "calls": calls, "seconds": [seconds], "any": error}

    records = [
        record("lime", 5000, 3.0, 0.2),
        record("shap-kernel", 5000, 3.0, 0.05),
        record("slalom", 100, 0.05, 0.3),
        record("slalom", 150, 0.1, 0.2),
        record("slalom", 200, 0.2, 0.1),
    ]
    reached, not_reached = targets(records)
    assert "lime" in reached[0]
    assert reached[1:] == ("30.0 times, with 150 calls", True)
    assert not_reached[1:] == ("not reached", False)


@pytest.mark.parametrize("arguments", [["--part", "nothing"], ["--tables", "nothing.jsonl"]])
def test_what_is_not_there_is_an_error(monkeypatch, arguments):
    with pytest.raises(SystemExit) as stopped:
        run(monkeypatch, *arguments)
    assert stopped.value.code != 0
