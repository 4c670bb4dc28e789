"""``slalom figure`` and the figures of ``slalom explain``, as a person runs them."""

import re
from pathlib import Path

import pytest
from made import explained

REVIEW = "The opening is slow, but the two leads are wonderful and I would gladly watch it again."
ROOT = Path(__file__).parents[2]


@pytest.fixture
def saved(tmp_path):
    explained(REVIEW).save(tmp_path / "one.json")
    explained(REVIEW, method="linear").save(tmp_path / "two.json")
    return tmp_path


def test_explain_draws_what_it_found(slalom, tmp_path):
    done = slalom(
        "explain", REVIEW, "--budget", "200", "--figure", tmp_path / "f.svg", "--kind", "text"
    )
    assert done.returncode == 0, done.stderr
    assert f"Saved: {tmp_path / 'f.svg'}" in done.stdout
    assert "<!-- wonderful -->" in (tmp_path / "f.svg").read_text()


def test_saved_results_are_drawn_without_a_model(slalom, saved):
    done = slalom(
        "figure",
        saved / "one.json",
        saved / "two.json",
        "--kind",
        "side-by-side",
        "--score",
        "shapley",
        "--out",
        saved / "f.pdf",
    )
    assert done.returncode == 0, done.stderr
    assert (done.stdout, done.stderr) == (f"Saved: {saved / 'f.pdf'}\n", "")
    assert (saved / "f.pdf").read_bytes().startswith(b"%PDF")


def test_characters_without_a_font_are_one_note(slalom, tmp_path):
    explained("good \ue123 film").save(tmp_path / "e.json")
    done = slalom("figure", tmp_path / "e.json", "--kind", "bars", "--out", tmp_path / "f.png")
    assert done.returncode == 0
    assert re.fullmatch(r"note: no installed font has .*\n", done.stderr)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["one.json", "--kind", "pie", "--out", "f.svg"],
            "unknown kind of figure 'pie': choose one of scatter, text",
        ),
        (["one.json", "--out", "f.jpeg"], "ends in .svg, .pdf, .png"),
        (["one.json", "--out", "none/f.svg"], "cannot write"),
        (
            ["one.json", "two.json", "--out", "f.svg"],
            "2 results were given, but --kind scatter draws only one",
        ),
        (["two.json", "--out", "f.svg"], "has no importances"),
        (
            ["one.json", "--kind", "bars", "--score", "weight", "--out", "f.svg"],
            "unknown --score 'weight'",
        ),
        (["missing.json", "--out", "f.svg"], "cannot read"),
    ],
)
def test_an_error_is_one_line(slalom, saved, arguments, message):
    files = [
        saved / argument if "." in argument and "--" not in argument else argument
        for argument in arguments
    ]
    done = slalom("figure", *files)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr


def test_every_option_is_documented_and_the_help_has_examples(slalom):
    page, shown = (ROOT / "docs" / "cli.md").read_text(), slalom("figure", "--help").stdout
    assert "slalom figure explanation.json" in shown
    options = set(re.findall(r"--[a-z]+", shown)) - {"--help"}
    assert [option for option in sorted(options) if f"`{option}" not in page] == []
