"""Preliminary results: what a library user gets of them, and what a person at a terminal sees."""

import os
import re
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from fakes import Averaging
from processes import started

from slalom_xai import Explainer, Explanation
from slalom_xai.methods import Slalom

ROOT = Path(__file__).parents[2]
REVIEW = "The opening is slow, but the two leads are wonderful and I would gladly watch it again."
TO_THE_END = Slalom(tolerance=0)  # in rounds, until the budget is used
UNIX = pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal as Unix has them")


def test_rounds_have_growing_calls_and_the_final_result_is_the_same():
    rounds = []
    watched = Explainer(method=TO_THE_END, on_round=rounds.append)(REVIEW)
    calls = [one.calls for one in rounds]
    assert calls
    assert calls == sorted(set(calls))
    assert calls[-1] < watched.calls
    assert watched == Explainer(method=TO_THE_END)(REVIEW)
    for one in rounds:
        assert f"after {one.calls} calls" in one.notes[-1]
        assert one.full == watched.full
        assert one.fidelity is not None
    assert not any("calls were to follow" in note for note in watched.notes)


def test_with_a_budget_there_is_one_round_and_no_preliminary_result():
    rounds = []
    Explainer(budget=400, on_round=rounds.append)(REVIEW)
    assert rounds == []


def test_of_a_list_each_preliminary_result_says_its_text():
    rounds = []
    texts = [REVIEW, REVIEW.replace("wonderful", "dull"), REVIEW.replace("slow", "strong")]
    found = Explainer(method=TO_THE_END, on_round=rounds.append)(texts)
    assert {one.text for one in rounds} == set(texts)
    for explanation in found:
        before = [one.calls for one in rounds if one.text == explanation.text]
        assert max(before) < explanation.calls


def test_what_a_watcher_raises_reaches_the_caller():
    def refuse(explanation):
        raise LookupError(explanation.calls)

    with pytest.raises(LookupError):
        Explainer(method=TO_THE_END, on_round=refuse)(REVIEW)


def test_a_model_that_is_a_slalom_has_nothing_to_refine():
    rounds = []
    found = Explainer(Averaging(), on_round=rounds.append)(REVIEW)
    assert found.fidelity.wide.r2 > 0.999
    assert rounds == []


def command(*arguments):
    return [sys.executable, "-m", "slalom_xai", "explain", *map(str, arguments)]


def surroundings():
    return os.environ | {"COLUMNS": "100", "LINES": "40", "TERM": "xterm", "HF_HUB_OFFLINE": "1"}


class Terminals:
    """A terminal for each of the two streams, read to their ends."""

    def __init__(self):
        self.ours, self.theirs = zip(*(os.openpty() for _ in range(2)), strict=True)
        self.seen = dict.fromkeys(self.ours, b"")

    def close_theirs(self):
        for end in self.theirs:
            os.close(end)

    def read_until(self, awaited, end):
        while awaited not in self.seen[end]:
            self.seen[end] += os.read(end, 65536)

    def read_to_the_end(self):
        open_ends = set(self.ours)
        while open_ends:
            for end in select.select(list(open_ends), [], [])[0]:
                try:
                    more = os.read(end, 65536)
                except OSError:  # how Linux says that nobody writes any more
                    more = b""
                self.seen[end] += more
                if not more:
                    open_ends.discard(end)
                    os.close(end)

    @property
    def printed(self):
        """What standard output and standard error showed, without colours."""
        return [plain(self.seen[end].decode()) for end in self.ours]


def plain(text):
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r\n", "\n")


def run_watched(arguments, interrupt=False):
    terminals = Terminals()
    streams = {"stdout": terminals.theirs[0], "stderr": terminals.theirs[1]}
    with started(command(*arguments), env=surroundings(), **streams) as process:
        terminals.close_theirs()
        if interrupt:
            terminals.read_until(b"being refined", terminals.ours[1])
            process.send_signal(signal.SIGINT)
        terminals.read_to_the_end()
        status = process.wait()
    return status, *terminals.printed


@UNIX
@pytest.mark.long
def test_watched_output_shows_rounds_and_ends_as_piped_output_does():
    piped = subprocess.run(
        command(REVIEW), env=surroundings(), capture_output=True, text=True, check=True
    )
    assert piped.stderr == ""
    status, output, shown = run_watched([REVIEW])
    assert status == 0
    assert output == piped.stdout
    rounds = re.findall(r"(\d+) calls: reproduces \d+% of what removing any number does", shown)
    assert len(rounds) >= 2
    assert [int(calls) for calls in rounds] == sorted({int(calls) for calls in rounds})
    assert f"{rounds[-1]} model calls" in output
    assert "strongest of " in shown  # the first result, before the last


@UNIX
@pytest.mark.long
def test_json_in_a_terminal_waits_for_the_end():
    status, output, shown = run_watched([REVIEW, "--json"])
    assert status == 0
    assert output.startswith("{")
    assert "calls: predicts" not in shown


@pytest.mark.long
@UNIX
def test_control_c_while_refining_keeps_the_last_result(tmp_path):
    saved = tmp_path / "first.json"
    long_text = ROOT / "examples" / "review.txt"
    status, output, shown = run_watched(["--file", long_text, "--out", saved], interrupt=True)
    assert status == 130
    first = Explanation.load(saved)
    assert f"Note: A first result, after {first.calls} calls" in output
    assert f"{first.calls} model calls" in output
    assert f"Saved: {saved}" in output
    assert f"the result of the first {first.calls} calls" in shown
    assert shown.endswith("error: interrupted\n")
    assert "Traceback" not in shown
