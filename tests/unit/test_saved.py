"""Result files from anywhere: what is saved loads again, and anything else is one clear line."""

import io
import json
import math
import random

import pytest
from made import SHAPES, made, shaped
from rich.console import Console

from slalom_xai.errors import InputError, SlalomError
from slalom_xai.explainer import REMOVALS as TAKEN
from slalom_xai.explanation import Explanation
from slalom_xai.explanation.file_checks import SAVED_REMOVALS
from slalom_xai.models.text import GRANULARITIES
from slalom_xai.reports.html import page
from slalom_xai.reports.terminal import render


def stored(tmp_path, content):
    path = tmp_path / "result.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_loads_as_it_was_saved(tmp_path, name):
    explanation = shaped(name)
    assert Explanation.load(explanation.save(tmp_path / "a.json")) == explanation


def test_what_an_explainer_takes_can_be_loaded(tmp_path):
    assert set(SAVED_REMOVALS) == {*TAKEN, "unknown"} - {"auto"}
    data = made().to_dict()
    for granularity in GRANULARITIES:
        for removal in SAVED_REMOVALS:
            loaded = Explanation.load(
                stored(tmp_path, data | {"granularity": granularity, "removal": removal})
            )
            assert (loaded.granularity, loaded.removal) == (granularity, removal)
    imported = Explanation.from_scores("a b", ["a", "b"], [1.0, 2.0])
    assert Explanation.load(imported.save(tmp_path / "b.json")) == imported
    assert (
        Explanation.from_dict(data | {"random_state": 2**70}).random_state == 2**70
    )  # a seed may be any whole number


def test_files_without_the_fields_of_later_versions_load(tmp_path):
    data = made().to_dict()
    del data["text_pair"]
    for unit in data["units"]:
        del unit["part"]
    assert Explanation.load(stored(tmp_path, data)) == made()


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"process": True}, {"place_level": 0.0, "growth": 0.0}),
        ({"heads": 2}, {"length_offsets": None}),
    ],
)
def test_parts_of_earlier_functions_that_say_nothing_are_left_out(tmp_path, options, parts):
    data = made(**options).to_dict()
    data["function"] |= parts
    assert Explanation.load(stored(tmp_path, data)) == made(**options)


@pytest.mark.parametrize(
    ("options", "parts"),
    [({"process": True}, {"place_level": 0.3}), ({"heads": 2}, {"length_offsets": [[0.5]] * 19})],
)
def test_parts_of_earlier_functions_that_said_something_are_noted(tmp_path, options, parts):
    data = made(**options).to_dict() | {"version": 2, "fidelity": None}
    data["function"] |= parts
    loaded, known = Explanation.load(stored(tmp_path, data)), made(**options)
    assert "its corrections can no longer be evaluated" in loaded.notes[-1]
    assert loaded.to_dict()["function"] == known.to_dict()["function"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[" * 200_000, "nested too deep"),
        (
            '{"format": "slalom-explanation", "version": 1, "text": '
            + "[" * 200_000
            + "]" * 200_000
            + "}",
            "nested too deep",
        ),
        ('{"version": ' + "9" * 5000 + "}", "a number of thousands of digits"),
        ("", "is not JSON"),
        ("\x00\x00", "is not JSON"),
        ("[]", "is not a saved explanation"),
        ("null", "is not a saved explanation"),
        (
            '{"format": "slalom-explanation", "version": [[1]]}',
            "has version unknown, but this package reads versions up to 3",
        ),
    ],
    ids=[
        "brackets",
        "a deep field",
        "digits",
        "empty",
        "zeros",
        "a list",
        "null",
        "an odd version",
    ],
)
def test_what_is_no_result_file_is_one_clear_line(tmp_path, content, message):
    with pytest.raises(InputError, match=message) as caught:
        Explanation.load(stored(tmp_path, content))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


def put(*path):
    """A change that puts its last argument at a place in the data."""

    def change(data):
        *way, last, value = path
        for step in way:
            data = data[step]
        data[last] = value

    return change


def nested(depth):
    return json.loads("[" * depth + "]" * depth)


DAMAGE = {
    "a deep list": (put("notes", nested(400)), "nested more than 16 deep"),
    "a huge output": (put("full", 0, 10**400), "a whole number beyond"),
    "a huge number of calls": (put("calls_fit", 10**400), "a whole number beyond"),
    "a huge value": (put("function", "inner_values", 0, 0, 10**400), "a whole number beyond"),
    "a huge place": (put("units", 0, "start", 10**400), "a whole number beyond"),
    "an infinite output": (put("full", 0, math.inf), "full is .* not a list of finite numbers"),
    "true as an output": (put("full", 0, True), "full is .* not a list of finite numbers"),
    "true for the outputs": (put("full", True), "full is true"),
    "true as the target": (put("target", True), "target is true"),
    "true as calls": (put("calls_check", True), "calls_check is true"),
    "calls below zero": (put("calls_check", -1), "calls_check is -1"),
    "true as a value": (put("function", "inner_values", 0, 0, True), "not a function of numbers"),
    "a huge importance": (
        put("function", "importances", 0, 1e308),
        "importances that differ by more than 700",
    ),
    "a text as a value": (put("function", "inner_values", 0, 0, "1"), "not a function of numbers"),
    "another kind of function": (put("function", "kind", "neural"), "not a function of numbers"),
    "notes of numbers": (put("notes", [1]), "notes is .* not a list of texts"),
    "one text as notes": (put("notes", "a note"), "notes is .* not a list of texts"),
    "a text as fidelity": (
        put("fidelity", 0, "any", "r2", "much"),
        "fidelity is .* not a list of agreements",
    ),
    "infinite fidelity": (
        put("fidelity", 0, "any", "r2", -math.inf),
        "fidelity is .* not a list of agreements",
    ),
    "true as rows": (
        put("fidelity", 0, "any", "rows", True),
        "fidelity is .* not a list of agreements",
    ),
    "a list as agreement": (
        put("fidelity", 0, "any", []),
        "fidelity is .* not a list of agreements",
    ),
    "a text as error": (
        put("standard_errors", 0, "value", 0, "1.5"),
        "standard_errors is .* not a list of errors",
    ),
    "an infinite error": (
        put("standard_errors", 0, "value", 0, math.inf),
        "standard_errors is .* not a list of errors",
    ),
    "errors of no score": (
        put("standard_errors", 0, "beauty", [0.0]),
        "standard_errors is .* not a list of errors",
    ),
    "another granularity": (
        put("granularity", "<b>"),
        'granularity is "<b>", which is not one of token, type',
    ),
    "a list as granularity": (put("granularity", ["token"]), "granularity is .* not one of"),
    "another removal": (
        put("removal", "constructor"),
        'removal is "constructor", which is not one of hide, delete',
    ),
    "a seed below zero": (put("random_state", -1), "random_state is -1"),
    "no seed": (put("random_state", None), "random_state is null"),
    "a unit beyond the text": (put("units", -1, "end", 4000), "which is not in the text"),
    "a unit before its start": (put("units", 3, "start", 70), "which is not in the text"),
    "a unit of a second text": (put("units", 0, "part", 1), "which is not in the text"),
    "true as a place": (put("units", 0, "start", True), "not a list of units"),
    "a place below zero": (put("units", 0, "start", -1), "not a list of units"),
    "a text as token ids": (put("units", 0, "token_ids", "12"), "not a list of units"),
    "units that are texts": (put("units", ["a", "b"]), "not a list of units"),
    "more left out than there is": (put("left_out", "x" * 500), "left_out is longer than the text"),
    "labels that are numbers": (put("outputs", "labels", [0, 1]), "not a known kind"),
    "labels as one text": (put("outputs", "labels", "ab"), "not a known kind"),
    "one label of two classes": (put("outputs", "labels", ["one"]), "1 labels for two classes"),
    "a list as kind": (put("outputs", "kind", ["binary"]), "not a known kind"),
    "occurrences of halves": (
        put("occurrences", [0.5] * 18),
        "occurrences is .* not a list of whole numbers",
    ),
    "a function for importances": (
        lambda data: data["function"].update(importances=dict(data["function"])),
        "function is .* not a function of numbers",
    ),
    "half a character": (put("notes", ["\ud800"]), "half a character"),
    "half a character in a name": (put("\udfff", 1), "half a character"),
    "a long name": (put("n" * 5000, 1), "unknown fields 'nnnn"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_field_is_named_in_one_line(tmp_path, name):
    change, message = DAMAGE[name]
    data = made().to_dict()
    change(data)
    with pytest.raises(InputError, match=f"the saved explanation is damaged .*{message}") as caught:
        Explanation.load(stored(tmp_path, data))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


DAMAGE_OF_ONE_SCORE = {
    "half a unit in a pair": ("pairs", put("pairs", 0, 1, 1.5), "pairs are not numbers of units"),
    "a unit that is not there": ("pairs", put("pairs", 0, 1, 18), "pairs are not numbers of units"),
    "a unit with itself": ("pairs", put("pairs", 1, [3, 3]), "not two different units each"),
    "one pair fewer": ("pairs", put("joints", [[1.0]]), r"joints has shape \(1, 1\)"),
    "no pairs": ("pairs", put("pairs", []), r"pairs has shape \(0,\)"),
    "more bits than units": ("process", put("packed", 0, 0, 2**18), "more bits than"),
    "half a row": ("process", put("packed", 0, 0, 0.5), "packed are not whole numbers"),
    "no rows": ("process", put("packed", []), r"packed has shape \(0,\)"),
    "one row fewer": ("process", put("weights", [[1.0]]), r"weights has shape \(1, 1\)"),
    "a variance below 0": ("process", put("level", -1.0), "a kernel with numbers below 0"),
    "an infinite reach": ("process", put("reaches", 0, math.inf), "reaches has entries"),
    "no length": ("process", put("length_reach", None), "not a function of numbers"),
}


@pytest.mark.parametrize("name", DAMAGE_OF_ONE_SCORE)
def test_damaged_pairs_and_processes_are_named_in_one_line(tmp_path, name):
    kind, change, message = DAMAGE_OF_ONE_SCORE[name]
    data = made(**{kind: True}).to_dict()
    change(data["function"])
    with pytest.raises(InputError, match=f"the saved explanation is damaged .*{message}") as caught:
        Explanation.load(stored(tmp_path, data))
    assert "\n" not in str(caught.value)


ODD = [
    None,
    True,
    False,
    0,
    -1,
    3,
    0.5,
    1e308,
    -1e308,
    math.nan,
    math.inf,
    10**400,
    "",
    "x",
    "token",
    "\ud800",
    "<b>",
    [],
    [[]],
    [0],
    {},
    {"a": 1},
]


def places(data, way=()):
    """Every place in nested data."""
    yield way
    entries = (
        data.items()
        if isinstance(data, dict)
        else enumerate(data)
        if isinstance(data, list)
        else ()
    )
    for key, entry in entries:
        yield from places(entry, (*way, key))


def mutated(data, rng):
    data = json.loads(json.dumps(data))
    for _ in range(rng.choice((1, 1, 2))):
        found = [way for way in places(data) if way]
        by_length = {}
        for way in found:  # short ways first: most places are numbers deep in the function
            by_length.setdefault((way[0], len(way)), []).append(way)
        *way, last = rng.choice(rng.choice(list(by_length.values())))
        holder = data
        for step in way:
            holder = holder[step]
        if rng.random() < 0.2:
            del holder[last]
        else:
            holder[last] = rng.choice(ODD)
    return data


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        *list(SHAPES)[:4],
        "four classes",
        "measured scores of four classes",
        "pairs of units",
        "a process",
    ],
)
def test_files_with_random_damage_are_refused_or_shown(name):
    rng = random.Random(name)
    whole = shaped(name).to_dict()
    refused = []
    for _ in range(150):
        data = mutated(whole, rng)
        try:
            explanation = Explanation.from_dict(data)
            assert page(explanation).startswith("<!doctype html>")
            assert isinstance(explanation.trust, str)
            assert len(explanation.to_frame()) == len(explanation)
        except SlalomError as error:
            refused.append(str(error))
    assert 50 < len(refused) < 150
    assert not [line for line in refused if "\n" in line or len(line) > 600]


def test_nothing_of_a_file_reaches_a_terminal_raw():
    data = made().to_dict()
    data["notes"], data["method"], data["model"] = (
        ["\x1b]0;owned\x07\x1b[2J"],
        "\x1b[2J",
        "\x1b[31m",
    )
    found = Explanation.from_dict(data)
    screen = io.StringIO()
    Console(file=screen, width=100).print(render(found))
    assert "\x1b" not in screen.getvalue()
    assert len(repr(found).splitlines()) == 1
