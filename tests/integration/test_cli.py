"""The command as a person or a program runs it."""

import copy
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from alike import difference
from processes import started
from tiny import tiny

import slalom_xai
from slalom_xai import Explanation, methods
from slalom_xai.cli.output import for_command_line
from slalom_xai.errors import InputError
from slalom_xai.system.files import check_writable

REVIEW = "The opening is slow, but the two leads are wonderful and I would gladly watch it again."
ROOT = Path(__file__).parents[2]


def as_process(*arguments, stdin=None, **options):
    """The command in a process of its own, where that is the point."""
    environment = os.environ | {"COLUMNS": "100", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-m", "slalom_xai", *map(str, arguments)]
    return subprocess.run(
        command,
        input=stdin,
        capture_output=True,
        text=True,
        env=environment,
        timeout=3600,
        check=False,
        **options,
    )


def test_explain_shows_the_text_the_scores_the_trust_and_the_file(tmp_path):
    files = ("--out", tmp_path / "e.json", "--html", tmp_path / "e.html")
    done = as_process("explain", REVIEW, *files)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # quiet when piped
    assert "wonderful" in done.stdout
    assert re.search(r"word .*value .*importance .*Shapley value", done.stdout)
    assert re.search(r"wonderful .*±", done.stdout)
    assert f"Saved: {tmp_path / 'e.json'}" in done.stdout
    explanation = Explanation.load(tmp_path / "e.json")
    assert explanation.trust in " ".join(done.stdout.split())
    assert explanation.target == "positive"
    strongest = max(explanation.as_list("removal"), key=lambda pair: pair[1])
    assert strongest[0] in ("wonderful", "glad", "gladly")
    assert (tmp_path / "e.html").read_text().startswith("<!doctype html>")


def test_json_from_a_file_and_from_standard_input_agree(slalom, tmp_path):
    (tmp_path / "review.txt").write_text(REVIEW)
    by_file = slalom(
        "explain",
        "--file",
        tmp_path / "review.txt",
        "--json",
        "--seed",
        "3",
        "--budget",
        "200",
        "--target",
        "negative",
    )
    by_pipe = as_process(
        "explain", "-", "--json", "--seed", "3", "--budget", "200", "--target", "0", stdin=REVIEW
    )
    assert by_file.returncode == by_pipe.returncode == 0
    explanation = Explanation.from_dict(json.loads(by_file.stdout))
    assert difference(explanation, Explanation.from_dict(json.loads(by_pipe.stdout))) < 0.1
    assert explanation.random_state == 3
    assert explanation.calls <= 200
    assert explanation.target == "negative"
    shown = json.loads(by_file.stdout)
    assert shown["sources"] == {name: explanation.source(name) for name in shown["scores"]}
    assert shown["scores"]["value"] == explanation.values.tolist()


def test_methods_lists_every_method(slalom):
    done = slalom("methods")
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(methods())
    assert json.loads(slalom("methods", "--json").stdout) == methods()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["explain"], "give the text as an argument"),
        (["explain", "text", "--file", "x"], "but only one of them"),
        (["explain", " "], "only white space"),
        (["explain", "--file", "/no/such/file"], "cannot read /no/such/file"),
        (["explain", REVIEW, "--model", "/no/such/model"], "there is no folder"),
        (["explain", REVIEW, "--method", "guess"], "unknown --method 'guess': choose one of"),
        (["explain", REVIEW, "--target", "great"], "unknown --target 'great'"),
        (["explain", REVIEW, "--granularity", "letter"], "unknown --granularity 'letter'"),
        (["explain", REVIEW, "--budget", "5"], "at least"),
        (["explain", REVIEW, "--budget", "many"], "--budget"),
        (
            ["explain", REVIEW, "--budget", "0"],
            "--budget is 0: give a whole number of model calls, or leave it out",
        ),
        (["explain", REVIEW, "--seed", "-1"], "--seed is -1"),
        (["explain", REVIEW, "--device", "moon"], "unknown --device 'moon'"),
        (["explain", REVIEW, "--dtype", "int8"], "unknown --dtype 'int8'"),
        (
            ["explain", REVIEW, "--html", "/no/such/folder/e.html"],
            "give --html a file in a folder that exists",
        ),
        (
            ["explain", REVIEW, "--figure", "/no/such/folder/e.svg"],
            "give --figure a file in a folder that exists",
        ),
        (["explain", REVIEW, "--out", "/no/such/folder/e.json"], "cannot write"),
        (["explain", "good " * 600], "pass --truncation"),
        (["explain", REVIEW, "--colour"], "--colour"),
        (["train", "no.csv", "--out", "no", "--size", "huge"], "unknown --size 'huge'"),
        (
            ["train", "no.csv", "--out", "no", "--seed", str(2**70)],
            "--seed is 1180591620717411303424",
        ),
        (["explode"], "explode"),
    ],
)
def test_an_error_is_one_line_and_a_nonzero_exit(slalom, arguments, message):
    done = slalom(*arguments)
    assert done.returncode != 0
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr


def test_a_file_that_is_not_text_is_named(slalom, tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    done = slalom("explain", "--file", tmp_path / "binary")
    assert done.returncode == 1
    assert "not UTF-8" in done.stderr


def test_truncation_is_reported(slalom):
    done = slalom(
        "explain",
        "a dull story with a good end and more words " * 60,
        "--truncation",
        "--method",
        "slalom-eff",
        "--budget",
        "600",
    )
    assert done.returncode == 0, done.stderr
    assert "characters are left out" in done.stdout


def test_hostile_text_cannot_reach_the_terminal(slalom):
    done = slalom("explain", "good \x1b[31m film \x07 [bold]not markup[/bold]")
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    assert "\x07" not in done.stdout
    assert "[bold]not markup[/bold]" in done.stdout


def test_help_has_examples_and_does_not_import_torch(slalom):
    code = (
        "import sys; sys.argv = ['slalom', '--help']\n"
        "from slalom_xai.cli import main\n"
        "try:\n    main()\n"  # which exits
        "finally:\n    assert not {'torch', 'scipy'} & sys.modules.keys()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "explain" in done.stdout
    for command in ("explain", "cite", "corpus", "audit", "methods", "train"):
        page = slalom(command, "--help").stdout
        assert "Example" in page
        assert f"slalom {command}" in page


@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal as Unix has them")
def test_control_c_ends_cleanly_while_the_model_is_asked():
    long_text = " ".join(f"word{index}" for index in range(120))
    command = [sys.executable, "-m", "slalom_xai", "explain", long_text, "--budget", "100000"]
    ours, theirs = (
        os.openpty()
    )  # the bar is only shown in a terminal, and says when the asking has begun
    with started(command, stdout=subprocess.PIPE, stderr=theirs, text=True) as process:
        os.close(theirs)
        seen = b""
        while b"asking the model" not in seen:
            seen += os.read(ours, 4096)
        process.send_signal(signal.SIGINT)
        while True:  # the terminal is read to its end, or the command would wait for its reader
            try:
                seen += os.read(ours, 4096)
            except OSError:
                break
        assert process.wait() == 130
        assert process.stdout.read() == ""
    os.close(ours)
    assert b"error: interrupted" in seen
    assert b"Traceback" not in seen


SWALLOWED = """
import os, signal, sys

class InTheWay:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            try:
                os.kill(os.getpid(), signal.SIGINT)
                for _ in range(1000):
                    pass
            except BaseException:
                pass

sys.meta_path.insert(0, InTheWay())
sys.argv = ["slalom", "explain", "A film.", "--budget", "100000"]
from slalom_xai.__main__ import main
main()
"""


@pytest.mark.parametrize("module", ["typer", "transformers"])
def test_control_c_inside_an_import_that_swallows_it_ends_the_command(module):
    command = [sys.executable, "-c", SWALLOWED.format(module=module)]
    with started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        output, errors = process.communicate()
    assert process.returncode == 130
    assert errors == "error: interrupted\n"
    assert output == ""


LOST = """
import os, signal, weakref
from slalom_xai.system.interrupts import resend_interrupts

class Thing:
    pass

def callback(_):
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000):
        pass

with resend_interrupts():
    thing = Thing()
    reference = weakref.ref(thing, callback)
    try:
        del thing  # Python prints what a callback raises, and goes on
        while True:
            pass
    except KeyboardInterrupt:
        print("heard")
"""


def test_control_c_inside_a_callback_is_heard_afterwards():
    with started(
        [sys.executable, "-c", LOST], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        output, errors = process.communicate()
    assert (output, errors) == ("heard\n", "")


def test_version(slalom):
    done = slalom("--version")
    assert done.returncode == 0
    assert done.stdout == f"slalom-xai {slalom_xai.__version__}\n"


@pytest.mark.long
def test_json_can_be_loaded_whatever_the_encoding_of_standard_output(tmp_path):
    text = "Ein schöner Film – 好 “really” ±"
    path = tmp_path / "e.json"
    with path.open("w") as file:
        command = [
            sys.executable,
            "-m",
            "slalom_xai",
            "explain",
            text,
            "--json",
            "--budget",
            "60",
        ]
        environment = os.environ | {"PYTHONIOENCODING": "ascii", "HF_HUB_OFFLINE": "1"}
        done = subprocess.run(
            command, stdout=file, stderr=subprocess.PIPE, env=environment, check=False
        )
    assert done.returncode == 0, done.stderr
    assert Explanation.load(path).text == text


def no_space():
    """As on a disk that is full: no file of this process may grow beyond some bytes."""
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits as Unix has them")
def test_a_result_that_cannot_be_saved_is_printed_and_nothing_is_lost(tmp_path):
    done = as_process(
        "explain",
        REVIEW,
        "--out",
        tmp_path / "e.json",
        "--html",
        tmp_path / "e.html",
        "--budget",
        "100",
        preexec_fn=no_space,
    )
    assert done.returncode == 1
    assert Explanation.from_dict(json.loads(done.stdout)).text == REVIEW
    assert done.stderr.startswith(f"error: --out: cannot write {tmp_path / 'e.json'}")
    assert "--html: cannot write" in done.stderr
    assert "the result is on standard output, as JSON" in done.stderr
    assert done.stderr.count("\n") == 1


@contextmanager
def never_root():
    """Root may write anywhere: what may be written is asked for the real user, who is another."""
    root = os.getuid() == 0
    if root:
        os.setreuid(65534, -1)
    try:
        yield
    finally:
        if root:
            os.setreuid(0, -1)


def test_a_file_that_cannot_be_written_is_refused_before_the_work(tmp_path):
    path = tmp_path / "e.json"
    path.write_text("old")
    path.chmod(0o444)
    refused = r"cannot write .*e\.json: Permission denied; give --out another place"
    with never_root(), pytest.raises(InputError, match=refused):
        check_writable("--out", path)
    assert path.read_text() == "old"
    path.chmod(0o644)
    check_writable("--out", path)
    check_writable("--out", tmp_path / "new.json")
    assert os.listdir(tmp_path) == ["e.json"]


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (
            "random_state is -1: give a whole number from 0 on",
            "--seed is -1: give a whole number from 0 on",
        ),
        ("unknown target 'random_state=1': choose", "unknown --target 'random_state=1': choose"),
        (
            'removal="mask" needs it: use removal="delete"',
            "--removal mask needs it: use --removal delete",
        ),
        (
            "cannot put 'a device=' on cuda; pass device='cpu'",
            "cannot put 'a device=' on cuda; pass --device cpu",
        ),
        (
            "save the tokenizer there, or pass tokenizer=",
            "save the tokenizer there, or pass --tokenizer",
        ),
        ("text_pair: the text is empty", "--pair: the text is empty"),
        (
            "x.json is not JSON: give a file written by Explanation.save",
            "x.json is not JSON: give a file that --out wrote",
        ),
    ],
)
def test_errors_name_options_and_not_arguments(said, shown):
    assert for_command_line(said) == shown


def test_every_option_and_method_is_documented(slalom):
    page = (ROOT / "docs" / "cli.md").read_text()
    for command in ("explain", "cite", "corpus", "audit", "methods", "train"):
        options = set(re.findall(r"--[a-z]+", slalom(command, "--help").stdout)) - {"--help"}
        assert [option for option in sorted(options) if f"`{option}" not in page] == []
    everything = "".join(path.read_text() for path in (ROOT / "docs").glob("*.md"))
    assert [name for name in methods() if f"`{name}`" not in everything] == []


def test_classes_that_are_only_numbered_can_be_named(slalom, tmp_path):
    model, tokenizer = copy.deepcopy(tiny("bert"))  # other tests have the same one
    model.config.id2label = {0: "LABEL_0", 1: "LABEL_1"}
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    shown = slalom(
        "explain", "good film", "--model", str(tmp_path), "--labels", "bad, fine", "--json"
    )
    assert json.loads(shown.stdout)["outputs"]["labels"] == ["bad", "fine"]
    refused = slalom("explain", "good film", "--labels", "bad,fine")
    assert refused.returncode == 1
    assert "names its own classes" in refused.stderr


@pytest.mark.parametrize("name", ["embedded", "bundled"])
def test_every_command_knows_the_bundled_model_by_name(slalom, tmp_path, name):
    table = tmp_path / "texts.csv"
    table.write_text("text\nA warm and funny film\nA dull and tired film\n")
    few = ("--budget", 80, "--granularity", "word")
    commands = {
        "explain": ("explain", "A warm film", "--model", name),
        "diff": ("diff", name, "embedded", "--data", table, "--out", tmp_path / "diff", *few),
        "corpus": ("corpus", table, "--model", name, "--out", tmp_path / "corpus", *few),
        "again": ("corpus", table, "--out", tmp_path / "corpus", *few),  # the same run goes on
        "vocabulary": ("vocabulary", table, "--model", name, "--estimate"),
        "bench": (
            *("bench", "--model", name, "--data", table, "--out", tmp_path / "bench"),
            *("--methods", "linear", "--metrics", "cost", "--budget", 80),
        ),
    }
    for command, arguments in commands.items():
        done = slalom(*arguments)
        assert done.returncode == 0, f"{command}: {done.stderr}"
    (tmp_path / "context.txt").write_text("It rains.")
    refused = slalom(
        *("cite", "--model", name, "--context", tmp_path / "context.txt", "--question", "Why?")
    )
    assert refused.returncode == 1
    assert f"error: {name!r} is the bundled classifier" in refused.stderr
    assert refused.stderr.count("\n") == 1
