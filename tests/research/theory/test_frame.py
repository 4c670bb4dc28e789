"""The frame around the claims: the register, the report and the command."""

import json
import math
import re
from pathlib import Path

import pandas as pd
import pytest

from research import base
from research.base import Outcome, Reproduction, Settings, at_least, at_most
from research.registry import chosen, claims, everything
from research.report import as_dict, markdown, save
from slalom_xai.errors import InputError

ROOT = Path(__file__).parents[3]


def test_a_check_holds_up_to_its_bound_and_never_for_nan():
    assert at_most("", 1.0, 1.0).holds
    assert not at_most("", 1.1, 1.0).holds
    assert at_least("", 1.0, 1.0).holds
    assert not at_least("", 0.9, 1.0).holds
    assert not at_most("", math.nan, 1.0).holds
    assert not at_least("", math.nan, 1.0).holds
    assert Outcome(checks=(at_most("", 0, 1),)).holds
    assert not Outcome(checks=(at_most("", 0, 1), at_most("", 2, 1))).holds


def test_every_claim_has_a_title_a_source_and_a_place_in_the_documentation():
    pages = "".join(
        path.read_text()
        for path in [ROOT / "docs" / "theory.md", *(ROOT / "docs" / "theory").glob("*.md")]
    )
    for name, one in claims().items():
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)
        assert one.title
        assert one.source
        assert f"python -m research {name}" in pages, f"{name} is not documented"


def test_names_are_taken_once_and_in_order():
    first, second = list(claims())[:2]
    assert [one.name for one in chosen([second, first, second])] == [second, first]
    assert [one.name for one in chosen(["claims"])] == list(claims())
    with pytest.raises(InputError, match=r"unknown reproduction 'recovry': did you mean recovery"):
        chosen(["recovry"])
    with pytest.raises(InputError) as caught:
        chosen(["zzzz"])
    assert "did you mean" not in str(caught.value)


def test_the_order_is_that_of_the_pages_whatever_was_imported_first():
    names = list(claims())
    assert names[:4] == ["repeated-token", "repeated-token-sink", "planted-slalom", "recovery"]
    sources = ["Leemann" in one.source for one in claims().values()]
    assert sources == sorted(sources, reverse=True)


def test_progress_counts_what_passes():
    class Bar:
        total, done = 0, 0

        def start(self, total, label="", *, afresh=False):
            self.total = total

        def advance(self, rows):
            self.done += rows

    bar = Bar()
    assert list(Settings(bar=bar).track("abc", "working")) == ["a", "b", "c"]
    assert (bar.total, bar.done) == (3, 3)
    assert list(Settings().track("abc", "working")) == ["a", "b", "c"]


def outcome():
    def draw():
        from research.drawing import panels

        figure, (axes,) = panels()
        axes.plot([1, 2])
        assert not axes.spines["top"].get_visible()  # the look of all figures
        return figure

    table = pd.DataFrame({"|V|": [2], "text": ["a|b"], "number": [math.nan]})
    return Outcome(
        (at_most("2|V| − 1", math.nan, 1e-6),), {"sizes": table}, {"line": draw}, ("A remark.",)
    )


def test_the_report_tells_failures_and_keeps_tables_whole(tmp_path):
    claim = Reproduction("claim", "A claim", "a book", lambda settings: outcome())
    text = markdown(claim, outcome())
    assert "**FAILS**" in text
    assert "A remark." in text
    for line in text.splitlines():
        if line.startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", line)) in (4, 6)  # bars inside cells are escaped
    record = json.loads(json.dumps(as_dict(claim, outcome(), 1.0, [])))
    assert record["holds"] is False
    assert record["checks"][0]["value"] is None
    files = save(claim, outcome(), tmp_path / "new")
    assert [path.name for path in files] == ["claim.md", "claim-sizes.csv", "claim-line.svg"]
    again = save(claim, outcome(), tmp_path / "other")
    assert files[2].read_bytes() == again[2].read_bytes()
    with pytest.raises(InputError, match="cannot write"):
        save(claim, outcome(), files[0])


def test_the_list_for_people_and_programs(reproduce):
    records = reproduce("--list", "--json")
    names = [record["name"] for record in json.loads(records.stdout)]
    assert names == list(everything())
    assert [line.split()[0] for line in reproduce("--list").stdout.splitlines()] == names


def test_a_claim_from_the_command_line(reproduce, tmp_path):
    done = reproduce("many-classes", "--out", str(tmp_path), "--json")
    assert done.returncode == 0, done.stderr
    (record,) = json.loads(done.stdout)
    assert record["holds"] is True
    assert all(check["holds"] for check in record["checks"])
    page, table, figure = (Path(path) for path in record["files"])
    assert page.read_text().count("| holds |") == len(record["checks"])
    names, *lines = table.read_text().splitlines()
    assert names.split(",") == list(record["tables"]["sizes"][0])
    assert len(lines) == len(record["tables"]["sizes"]) == 9
    assert "<svg" in figure.read_text()


def test_a_check_that_fails_is_told_and_exits_with_1(reproduce, monkeypatch):
    wrong = Reproduction(
        "wrong", "2 is 1", "nobody", lambda settings: Outcome((at_most("2 against 1", 2, 1),))
    )
    monkeypatch.setitem(base.REGISTER, "wrong", wrong)
    done = reproduce("wrong")
    assert done.returncode == 1
    assert "1 of 1 checks FAIL" in done.stdout
    assert done.stderr == ""
    assert reproduce("wrong", "--json").returncode == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--json",), "no claim was named"),
        (("recovry",), "did you mean recovery"),
        (("recovery", "--seed", "-1"), "--seed is -1"),
        (
            ("recovery", "--seed", str(2**70)),
            "--seed is 1180591620717411303424: give a whole number from 0 to 4294967295",
        ),
        (("recovery", "--seed", str(10**400)), "--seed is a number of more than 30 digits"),
        (("recovery", "--out", __file__), "which cannot be created"),
        (("recovery", "--full"), "--full is for experiments, but recovery has one size"),
        (("table6",), "did you mean table-6"),
        (("table-6", "--share", "2/8"), "--shard needs a folder"),  # its old name
    ],
)
def test_errors_are_one_line(reproduce, arguments, told):
    done = reproduce(*arguments)
    assert done.returncode == 1
    assert done.stdout == ""
    assert told in done.stderr
    assert done.stderr.count("\n") == 1


def test_help_has_examples_and_every_option_is_documented(reproduce):
    page, help_page = (ROOT / "docs" / "experiments.md").read_text(), reproduce("--help").stdout
    assert "python -m research --list" in help_page
    section = page.partition("## Options\n")[2].partition("\n## ")[0]
    options = set(re.findall(r"--[a-z]+", help_page)) - {"--help"}
    assert [option for option in sorted(options) if f"`{option}" not in section] == []
