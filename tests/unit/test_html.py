"""Reports as pages: what goes into them, and what is refused."""

import json
import re
from dataclasses import fields, replace
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from made import SHAPES, TEXT, made, shaped
from typer.testing import CliRunner

from slalom_xai.cli import app
from slalom_xai.errors import InputError
from slalom_xai.explanation import Explanation
from slalom_xai.methods.paper.formula import SlalomSurrogate
from slalom_xai.methods.scores import SCORES
from slalom_xai.models.text import Unit, words
from slalom_xai.reports.html import page, write_report
from slalom_xai.reports.view import explanation_data, text_pieces, to_json

ELEMENTS = {
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "div",
    "h1",
    "section",
    "p",
    "strong",
    "span",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "script",
}


class Elements(HTMLParser):
    """Every element that a browser would make, and what stands in scripts."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.names: list[str] = []
        self.scripts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.names and self.names[-1] == "script":
            self.scripts[-1] += data


def embedded(html: str) -> list[dict]:
    """The data blocks of a page, the list of texts first."""
    return [json.loads(script) for script in Elements(html).scripts[:-1]]


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=60))
def test_no_text_becomes_an_element_and_none_is_lost(text):
    text = "a " + text + " </script><img src=x><!--"
    found = Elements(page(made(text, labels=(text, "<b>"), notes=(text,))))
    assert set(found.names) <= ELEMENTS
    assert len(found.scripts) == 3
    data = json.loads(found.scripts[1])
    assert data["labels"][1] == "<b>"
    assert "</script><img" in data["labels"][0]


def test_json_cannot_leave_its_element():
    odd = "</script><!--\u2028\u2029\ud800&'"
    assert re.search(r"[<>&\u0080-\U0010ffff]", to_json({"a": odd})) is None
    assert json.loads(to_json({"a": odd})) == {"a": odd}


def test_the_view_is_small_and_its_own():
    static = files("slalom_xai.reports").joinpath("static")
    script, style = (
        static.joinpath(name).read_text(encoding="utf-8") for name in ("view.js", "view.css")
    )
    assert len(script) + len(style) < 300_000
    assert "</script" not in script
    assert "</style" not in style
    assert re.findall(r"https?://[^\"']+", script + style) == [
        "http://www.w3.org/2000/svg"
    ]  # the name of SVG; nothing is fetched
    assert not re.search(r"\beval\(|innerHTML|document\.write|new Function|localStorage", script)


@pytest.mark.parametrize("name", SHAPES)
def test_the_surrogate_goes_in_at_full_precision(name):
    explanation = shaped(name)
    _, data = embedded(page(explanation))
    same_numbers(data["function"], explanation.function)
    shown = explanation.for_target(1) if explanation.outputs.kind == "binary" else explanation
    column = data["columns"][
        0 if explanation.outputs.kind == "binary" else explanation.target_index
    ]
    for score, numbers in column["scores"].items():
        assert np.allclose(numbers, shown.scores(score), rtol=1e-6, atol=0)


def same_numbers(shown, function):
    """What the page got is the function to the last digit."""
    names = {field.name for field in fields(function)}
    assert shown.keys() - {"kind"} == names
    for key in names:
        part = getattr(function, key)
        assert shown[key] == (None if part is None else part.tolist())


def test_every_score_says_where_it_comes_from():
    explanation = shaped("measured scores")
    (column,) = explanation_data(explanation)["columns"]
    assert column["sources"] == {name: explanation.source(name) for name in SCORES}
    measured = {name for name, source in column["sources"].items() if source == "measured"}
    assert measured == {"removal", "filled"}
    assert set(explanation_data(made())["columns"][0]["sources"].values()) == {"fitted"}


def test_without_scripts_there_is_a_table_of_the_scores():
    titles = "<th>value</th><th>importance</th><th>Shapley value</th>"
    assert titles in page(made(measured=True))
    assert "<th>score</th>" in page(made(additive=True))


def test_scores_of_very_many_classes_are_left_out_but_for_the_strongest():
    explanation = made(
        "one two three", kind="multiclass", labels=tuple(map(str, range(40))), target=7
    )
    columns = explanation_data(explanation)["columns"]
    there = [index for index, column in enumerate(columns) if column is not None]
    assert 7 in there
    assert set(np.argsort(explanation.full)[-12:].tolist()) <= set(there)
    assert len(there) <= 13


def test_pieces_give_the_text_back():
    pair = made(
        "One text. ", units=(Unit("text", 4, 8), Unit("Two", 0, 3, (), 1)), text_pair="Two texts"
    )
    first, second = text_pieces(pair)
    assert ["".join(text for text, _ in part) for part in (first, second)] == [
        "One text. ",
        "Two texts",
    ]
    assert first == [("One ", []), ("text", [0]), (". ", [])]
    cut = made(TEXT, units=words(TEXT)[:4], left_out="it again.")
    assert "".join(text for text, _ in text_pieces(cut)[0]) == TEXT.removesuffix("it again.")


def test_units_that_share_characters_share_a_piece_and_overlaps_are_left_to_the_table():
    emoji = made(
        "x 🙂 y",
        units=(
            Unit("x", 0, 1),
            Unit("🙂", 2, 3),
            Unit("🙂", 2, 3),
            Unit("", 3, 3),
            Unit("🙂 y", 2, 5),
        ),
    )
    (pieces,) = text_pieces(emoji)
    assert [text for text, _ in pieces] == ["x", " ", "🙂", " y"]
    assert sorted(pieces[2][1]) == [1, 2]


def test_other_places_of_a_token_are_found_only_where_the_count_is_right():
    def marked(text: str, times: int) -> list[str]:
        units = (Unit("the", 0, 3), Unit("end", 4, 7))
        explanation = made(text, units=units, occurrences=(times, 1))
        return [piece for piece, units in text_pieces(explanation)[0] if units == [0]]

    assert marked("the end of The other, the last", 3) == ["the", "The", "the"]
    assert marked("the end of The other, the last", 4) == ["the"]
    assert marked("the end there", 1) == ["the"]


def test_reports_group_explanations_by_text(tmp_path):
    path = write_report(
        [made(), made("Other."), made(additive=True)],
        tmp_path / "report.html",
        title="Mine & <yours>",
    )
    index, *blocks = embedded(path.read_text(encoding="utf-8"))
    assert [entry["items"] for entry in index["texts"]] == [[0, 2], [1]]
    assert index["title"] == "Mine & <yours>"
    assert [block["method"] for block in blocks] == ["slalom", "slalom", "linear"]


def test_what_cannot_be_reported_is_said():
    with pytest.raises(InputError, match="no explanations to report"):
        page([])
    with pytest.raises(InputError, match="entry 1 of the report is of type str"):
        page([made(), "explanation.json"])
    broken = SlalomSurrogate(
        torch.full((1, 18, 1), torch.nan).double(), torch.zeros(1, 18).double()
    )
    with pytest.raises(InputError, match="scores that are not finite numbers"):
        page(replace(made(), function=broken))
    known = made()
    endless = replace(known.function, inner_sink=torch.full((1,), torch.inf).double())
    with pytest.raises(InputError, match="scores that are not finite numbers"):
        page(replace(known, function=endless))


def nan_value(data):
    data["function"]["inner_values"][0][0] = float("nan")


def a_shorter_list(data):
    data["function"]["importances"].pop()


def no_outputs(data):
    data["full"] = [None]


BAD = {
    "missing": (lambda data: data.pop("units"), "the field 'units' is missing"),
    "foreign": (lambda data: data.update(colour="red"), "unknown fields 'colour'"),
    "foreign in the function": (
        lambda data: data["function"].update(colour=[1.0]),
        "function is .*, which is not a function of numbers",
    ),
    "newer": (
        lambda data: data.update(version=4),
        "version 4, but this package reads versions up to 3",
    ),
    "NaN": (nan_value, r"function.inner_values has entries that are not finite"),
    "a null": (no_outputs, "full is \\[null\\], which is not a list of finite numbers"),
    "lengths": (a_shorter_list, "function.importances has shape"),
    "target": (lambda data: data.update(target=5), "target is 5, with 2 labels"),
    "kind": (lambda data: data["outputs"].update(kind="odd"), "not a known kind"),
    "text": (lambda data: data.update(text=7), "text is 7, which is not a text"),
    "no sink": (
        lambda data: data["function"].update(inner_sink=None),
        "function is .*, which is not a function of numbers",
    ),
    "no units": (
        lambda data: data.update(units=[]),
        "units is \\[\\], which is not a list of units",
    ),
    "occurrences": (lambda data: data.update(occurrences=[1]), "occurrences do not fit"),
    "errors": (lambda data: data.update(standard_errors=[]), "standard_errors do not fit"),
    "no values": (
        lambda data: data["function"].update(inner_values=None),
        "function is .*, which is not a function of numbers",
    ),
    "a number for values": (
        lambda data: data["function"].update(inner_values=3),
        r"function.inner_values has shape \(\)",
    ),
    "importances far apart": (
        lambda data: data["function"].update(sink_importance=1e5),
        "function has importances that differ by more than 700",
    ),
    "a range that bends outwards": (
        lambda data: data["function"].update(curvature=[-0.1]),
        "function.curvature is below 0",
    ),
    "ranges of other outputs": (
        lambda data: data["function"].update(centre=[0.0, 1.0]),
        r"function.centre has shape \(2,\)",
    ),
    "a pair of one unit": (
        lambda data: data["function"]["pairs"].__setitem__(0, [1, 1]),
        "function.pairs are not two different units each",
    ),
    "a pair of units that are not there": (
        lambda data: data["function"]["pairs"].__setitem__(0, [1, 99]),
        "function.pairs are not numbers of units",
    ),
    "a value of a pair fewer": (
        lambda data: data["function"]["pair_values"].pop(),
        r"function.pair_values has shape",
    ),
    "Shapley values of another text": (
        lambda data: data["function"]["shapley"].pop(),
        r"function.shapley has shape \(17, 1\)",
    ),
    "measured scores of another text": (
        lambda data: data["measured"][0]["removal"].pop(),
        "measured does not fit the units",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_damaged_result_file_is_one_clear_line(tmp_path, name):
    change, message = BAD[name]
    data = made(together=True, measured=True).to_dict()
    change(data)
    path = tmp_path / "damaged.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(InputError, match=message) as caught:
        Explanation.load(path)
    assert "\n" not in str(caught.value)
    done = CliRunner().invoke(app, ["report", str(path), "--html", str(tmp_path / "out.html")])
    assert isinstance(done.exception, InputError)
    assert "damaged.json" in str(done.exception)
    assert not (tmp_path / "out.html").exists()


BAD_OF_THE_PAPER = {
    "half a sink": (
        lambda function: function.update(sink_values=None),
        "only one of the two numbers of a sink",
    ),
    "importances of another text": (
        lambda function: function["importances"][0].pop(),
        r"function.importances has shape \(1, 17\)",
    ),
}


@pytest.mark.parametrize("name", BAD_OF_THE_PAPER)
def test_a_damaged_function_of_the_paper_is_named(name):
    change, message = BAD_OF_THE_PAPER[name]
    data = made(heads=1).to_dict()
    change(data["function"])
    with pytest.raises(InputError, match=message):
        Explanation.from_dict(data)


def test_the_command_makes_one_report_of_files_and_folders(tmp_path):
    (tmp_path / "results").mkdir()
    made(seed=1).save(tmp_path / "results" / "a.json")
    made("Other.", seed=2).save(tmp_path / "results" / "b.json")
    made(additive=True).save(tmp_path / "c.json")
    out = tmp_path / "out.html"
    done = CliRunner().invoke(
        app,
        [
            "report",
            str(tmp_path / "c.json"),
            str(tmp_path / "results"),
            "--html",
            str(out),
            "--title",
            "All",
        ],
    )
    assert done.exit_code == 0
    assert str(out) in done.stdout
    index, *blocks = embedded(out.read_text(encoding="utf-8"))
    assert index["title"] == "All"
    assert len(blocks) == 3
    assert [entry["items"] for entry in index["texts"]] == [[0, 1], [2]]


def test_the_command_says_what_it_cannot_do(tmp_path):
    def error(*arguments):
        return str(CliRunner().invoke(app, ["report", *map(str, arguments)]).exception)

    assert "cannot read" in error(tmp_path / "missing.json", "--html", tmp_path / "out.html")
    assert "holds no .json files" in error(tmp_path, "--html", tmp_path / "out.html")
    made().save(tmp_path / "a.json")
    assert "folder that exists" in error(
        tmp_path / "a.json", "--html", tmp_path / "no" / "out.html"
    )


def test_every_option_of_the_command_is_documented():
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
    shown = CliRunner().invoke(app, ["report", "--help"]).stdout.split("Examples")[0]
    options = set(re.findall(r"--[a-z]+", shown)) - {"--help"}
    assert options == {"--html", "--title"}
    assert all(f"`{option} " in page for option in options)
