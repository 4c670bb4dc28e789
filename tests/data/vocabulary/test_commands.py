"""The commands ``slalom vocabulary`` and ``slalom diff``, as a person uses them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch
from planted import plant
from typer.testing import CliRunner

from slalom_xai.cli.command import app
from slalom_xai.errors import SlalomError

ROOT = Path(__file__).parents[3]


def slalom(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("commands")
    generator = torch.Generator().manual_seed(0)
    plant(torch.randn(8, generator=generator), torch.zeros(8), folder / "model")
    texts = ["t0 t1 t2 t3 t4", "t3 t4 t5 t6 t7 t0", "t7 t1 t5"]
    (folder / "texts.csv").write_text("text\n" + "".join(f"{text}\n" for text in texts))
    (folder / "words.txt").write_text("t1\n\nt2\nt5\n")
    (folder / "empty.txt").write_text("\n")
    return folder


def test_a_vocabulary_is_built_saved_drawn_and_shown(folder):
    out, figure = folder / "v.json", folder / "v.svg"
    built = slalom(
        "vocabulary", folder / "texts.csv", "--model", folder / "model", "--out", out,
        "--figure", figure,
    )  # fmt: skip
    assert built.exit_code == 0, built.output
    assert "8 items, 3 texts:" in built.stderr
    assert figure.read_text().startswith("<?xml")
    shown = slalom("vocabulary", "--show", out, "--word", "t3", "--json")
    (item,) = json.loads(shown.stdout)
    assert item["item"] == "t3"
    assert item["texts"] == 2
    assert item["contexts"] <= 2


def test_a_list_is_enough_and_an_estimate_asks_nothing(folder):
    given = ("vocabulary", "--list", folder / "words.txt", "--model", folder / "model")
    plan = json.loads(slalom(*given, "--estimate", "--json").stdout)
    assert plan["items"] == 3
    assert plan["calls"] == plan["fills"] + plan["sequences"]
    assert len(json.loads(slalom(*given, "--json").stdout)) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("texts.csv", "--text", "review"), "review"),
        (("--list", "empty.txt"), "is empty: give one word on each line"),
        (("--list", "none.txt"), "cannot read"),
        ((), "nothing to read"),
        (("--show", "words.txt"), "not JSON"),
        (("texts.csv", "--budget", "5"), "need at least"),
        (("texts.csv", "--lengths", "few"), "--lengths has 'few'"),
        (("texts.csv", "--granularity", "sentence"), "granularity"),
    ],
)
def test_bad_input_is_one_clear_line(folder, arguments, message):
    paths = [folder / part if "." in part else part for part in arguments]
    more = () if "--show" in arguments else ("--model", folder / "model")
    failed = slalom("vocabulary", *paths, *more)
    assert isinstance(failed.exception, SlalomError)
    assert message in str(failed.exception)
    assert "\n" not in str(failed.exception)


def test_a_diff_is_written_and_a_copy_has_none(folder):
    out = folder / "diff"
    model = folder / "model"
    found = slalom("diff", model, model, "--data", folder / "texts.csv", "--out", out)
    assert found.exit_code == 0, found.output
    assert "0 of" in found.stdout
    assert {path.name for path in out.iterdir()} >= {"diff.json", "diff.md", "diff.svg"}
    assert json.loads((out / "diff.json").read_text())["compared"] == 3


@pytest.mark.parametrize("command", ["vocabulary", "diff"])
def test_every_option_is_documented(command):
    page = (ROOT / "docs" / "cli.md").read_text()
    section = page.partition(f"## `slalom {command}`")[2].partition("\n## ")[0]
    shown = slalom(command, "--help").stdout.partition("Examples:")[0]
    options = set(re.findall(r"--[a-z][a-z-]*", shown)) - {"--help"}
    assert options
    assert [option for option in sorted(options) if f"`{option}" not in section] == []
