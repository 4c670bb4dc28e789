"""The command as a person or a program runs it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slalom_xai import Explanation, methods

REVIEW = "The opening is slow, but the two leads are wonderful and I would gladly watch it again."
ROOT = Path(__file__).parents[2]


def slalom(*arguments, stdin=None, **options):
    environment = os.environ | {"COLUMNS": "100", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-m", "slalom_xai.cli", *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, env=environment, timeout=400, check=False, **options)


def test_explain_shows_the_text_the_scores_the_trust_and_the_file(tmp_path):
    done = slalom("explain", REVIEW, "--out", tmp_path / "e.json", "--html", tmp_path / "e.html")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # quiet when piped
    assert "wonderful" in done.stdout
    assert re.search(r"value .*importance .*lost without it", done.stdout)
    assert re.search(r"Predicts \d+% of what deletions do; a linear explanation of the same calls \d+%", done.stdout)
    assert f"Saved: {tmp_path / 'e.json'}" in done.stdout
    explanation = Explanation.load(tmp_path / "e.json")
    assert explanation.target == "positive"
    strongest = max(explanation.as_list("removal"), key=lambda pair: pair[1])
    assert strongest[0] in ("wonderful", "glad", "gladly")
    assert (tmp_path / "e.html").read_text().startswith("<!doctype html>")


def test_json_from_a_file_and_from_standard_input_agree(tmp_path):
    (tmp_path / "review.txt").write_text(REVIEW)
    by_file = slalom("explain", "--file", tmp_path / "review.txt", "--json", "--seed", "3", "--budget", "200", "--target", "negative")
    by_pipe = slalom("explain", "-", "--json", "--seed", "3", "--budget", "200", "--target", "0", stdin=REVIEW)
    assert by_file.returncode == by_pipe.returncode == 0
    explanation = Explanation.from_dict(json.loads(by_file.stdout))
    assert explanation == Explanation.from_dict(json.loads(by_pipe.stdout))
    assert explanation.random_state == 3
    assert explanation.calls <= 200
    assert explanation.target == "negative"


def test_methods_lists_every_method():
    done = slalom("methods")
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(methods())
    assert json.loads(slalom("methods", "--json").stdout) == methods()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["explain"], "give the text as an argument"),
        (["explain", "text", "--file", "x"], "not several"),
        (["explain", " "], "only white space"),
        (["explain", "--file", "/no/such/file"], "cannot read /no/such/file"),
        (["explain", REVIEW, "--model", "/no/such/model"], "there is no folder"),
        (["explain", REVIEW, "--method", "guess"], "unknown method 'guess': choose one of"),
        (["explain", REVIEW, "--target", "great"], "unknown target 'great'"),
        (["explain", REVIEW, "--granularity", "letter"], "unknown granularity"),
        (["explain", REVIEW, "--budget", "5"], "at least"),
        (["explain", REVIEW, "--budget", "many"], "--budget"),
        (["explain", REVIEW, "--out", "/no/such/folder/e.json"], "cannot write"),
        (["explain", "good " * 600], "at most 512"),
        (["explain", REVIEW, "--colour"], "--colour"),
        (["explode"], "explode"),
    ],
)
def test_an_error_is_one_line_and_a_nonzero_exit(arguments, message):
    done = slalom(*arguments)
    assert done.returncode != 0
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr


def test_a_file_that_is_not_text_is_named(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    done = slalom("explain", "--file", tmp_path / "binary")
    assert done.returncode == 1
    assert "not UTF-8" in done.stderr


def test_truncation_is_reported():
    done = slalom("explain", "a dull story with a good end and more words " * 60, "--truncation", "--budget", "1300")
    assert done.returncode == 0, done.stderr
    assert "Left out" in done.stdout


def test_hostile_text_cannot_reach_the_terminal():
    done = slalom("explain", "good \x1b[31m film \x07 [bold]not markup[/bold]")
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    assert "\x07" not in done.stdout
    assert "[bold]not markup[/bold]" in done.stdout


def test_help_has_examples_and_does_not_import_torch():
    code = "import sys; sys.argv = ['slalom', '--help']\nfrom slalom_xai.cli import main\nmain()\nassert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "explain" in done.stdout
    for command in ("explain", "methods", "train"):
        page = slalom(command, "--help").stdout
        assert "Example" in page
        assert f"slalom {command}" in page


def test_control_c_ends_cleanly():
    long_text = " ".join(f"word{index}" for index in range(120))
    command = [sys.executable, "-m", "slalom_xai.cli", "explain", long_text, "--budget", "100000"]
    # A test run in the background ignores Ctrl-C and so would its children: give the command the usual handler back.
    heard = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.default_int_handler)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **heard)
    time.sleep(8)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.strip() == "error: interrupted"


def test_every_option_and_method_is_documented():
    page = (ROOT / "docs" / "cli.md").read_text()
    for command in ("explain", "methods", "train"):
        options = set(re.findall(r"--[a-z]+", slalom(command, "--help").stdout)) - {"--help"}
        assert [option for option in sorted(options) if f"`{option}" not in page] == []
    everything = "".join(path.read_text() for path in (ROOT / "docs").glob("*.md"))
    assert [name for name in methods() if f"`{name}`" not in everything] == []
