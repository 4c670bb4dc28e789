import io
import json
import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from games import surrogate
from hypothesis import given
from hypothesis import strategies as st
from made import explanation_with
from rich.console import Console

from slalom_xai.errors import InputError
from slalom_xai.explanation import Explanation
from slalom_xai.explanation.exchange.spans import read_tokens
from slalom_xai.explanation.exchange.with_shap import tiles
from slalom_xai.methods.scores import SCORES
from slalom_xai.models.text import Unit, words
from slalom_xai.reports.terminal import render

TEXT = "A slow start, but a wonderful film."
numbers = st.floats(-1e6, 1e6)


def known(text, units, **fields):
    return explanation_with(surrogate(len(units)), text, units, method="slalom", **fields)


def spans(explanation):
    return [(unit.start, unit.end) for unit in explanation.units]


@st.composite
def scored_spans(draw):
    """A text, disjoint spans of it in any order, and a score for each."""
    text = draw(
        st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=40).filter(
            str.strip
        )
    )
    edges = (
        draw(st.lists(st.integers(0, len(text)), min_size=2, unique=True).map(sorted))
        if len(text) > 1
        else [0, 1]
    )
    chosen = list(pairwise(edges))
    chosen = draw(st.permutations(draw(st.lists(st.sampled_from(chosen), min_size=1, unique=True))))
    return text, chosen, draw(st.lists(numbers, min_size=len(chosen), max_size=len(chosen)))


@given(scored_spans(), numbers)
def test_spans_keep_their_scores_and_come_in_reading_order(case, base):
    text, given_spans, scores = case
    found = Explanation.from_scores(text, given_spans, scores, base_value=base)
    assert spans(found) == sorted(given_spans)
    assert dict(zip(spans(found), found.scores(), strict=True)) == dict(
        zip(given_spans, scores, strict=True)
    )
    assert [unit.text for unit in found.units] == [
        text[start:end] for start, end in sorted(given_spans)
    ]
    assert math.isclose(found.base_value, base, rel_tol=1e-9, abs_tol=1e-3)
    assert math.isclose(found.prediction, base + sum(scores), rel_tol=1e-9, abs_tol=1e-3)


@given(scored_spans())
def test_a_saved_import_is_the_same(case):
    found = Explanation.from_scores(*case)
    assert Explanation.from_dict(json.loads(json.dumps(found.to_dict(), allow_nan=False))) == found


@given(scored_spans())
def test_units_of_another_explanation_are_taken_over(case):
    found = Explanation.from_scores(*case)
    again = Explanation.from_scores(found.text, found.units, found.scores())
    assert again.units == found.units
    assert np.array_equal(again.scores(), found.scores())


STYLES = {
    "plain": lambda first, token: token,
    "word pieces": lambda first, token: token if first else "##" + token,
    "byte-level": lambda first, token: ("Ġ" if first else "") + token,
    "sentence pieces": lambda first, token: ("▁" if first else "") + token,
}


@given(
    st.lists(
        st.lists(st.text("abcé", min_size=1, max_size=3), min_size=1, max_size=3),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from(sorted(STYLES)),
    st.sampled_from([" ", "  ", "\n"]),
)
def test_sub_word_tokens_are_found_where_they_stand(split_words, style, gap):
    text, tokens, expected = "", [], []
    for word in split_words:
        text += gap if text else ""
        for place, piece in enumerate(word):
            tokens.append(STYLES[style](place == 0, piece))
            expected.append((len(text), len(text) + len(piece)))
            text += piece
    assert spans(Explanation.from_scores(text, tokens, np.arange(len(tokens)))) == expected


@pytest.mark.parametrize(
    ("text", "units", "expected"),
    [
        ("another an", ["an"], [(8, 10)]),  # a whole word, not the first letters of one
        ("It is, it was", ["it"], [(7, 9)]),  # in its own case before any case
        ("The Film", ["the", "film"], [(0, 3), (4, 8)]),
        ("bad bad film", ["bad", "bad"], [(0, 3), (4, 7)]),
        ("low lower", ["low</w>", "low", "er</w>"], [(0, 3), (4, 7), (7, 9)]),
        ("# a ## b", ["##", "b"], [(4, 6), (7, 8)]),  # a marker that is in the text is text
        ("naïve 🎬 中文", ["naïve", "🎬", "中", "文"], [(0, 5), (6, 7), (8, 9), (9, 10)]),
        (
            "café été",
            ["c", "a", "f", "é", "é", "é", "é", "t", "é", "é"],
            [(0, 1), (1, 2), (2, 3), (3, 4), (3, 4), *[(5, 6)] * 2, (6, 7), *[(7, 8)] * 2],
        ),
        ("中 a 中", ["中", "中"], [(0, 1), (4, 5)]),
        ("(a+b)* twice", ["(a+b)*", "twice"], [(0, 6), (7, 12)]),
    ],
)
def test_strings_are_found_from_left_to_right(text, units, expected):
    assert spans(Explanation.from_scores(text, units, [1.0] * len(units))) == expected


def test_an_import_is_an_additive_explanation():
    found = Explanation.from_scores(
        TEXT, ["slow", "wonderful"], [-1.0, 3.0], base_value=0.5, label="positive", model="mine"
    )
    assert (found.method, found.model, found.target, found.surrogate, found.calls) == (
        "imported",
        "mine",
        "positive",
        "linear",
        0,
    )
    assert (found.prediction, found.base_value, found.importances, found.fidelity) == (
        2.5,
        0.5,
        None,
        None,
    )
    assert found.predict([[1, 1], [0, 1], [0, 0], [1, 0.5]]).tolist() == [2.5, 3.5, 0.5, 1.0]
    assert found.trust.startswith("Not tested: these scores were made elsewhere")
    assert found.notes == ()
    for name in SCORES:
        if name not in ("importance", "alone", "filled"):
            assert found.scores(name).tolist() == [-1.0, 3.0]
    assert found.scores("alone").tolist() == [-0.5, 3.5]


def test_an_import_goes_through_every_report(tmp_path):
    found = Explanation.from_scores(TEXT, ["slow", "wonderful"], [-1.0, 3.0], label="positive")
    assert found.to_frame()["value"].tolist() == [-1.0, 3.0]
    assert found.as_list() == [("slow", -1.0), ("wonderful", 3.0)]
    assert "made elsewhere" in found.to_html(tmp_path / "import.html").read_text(encoding="utf-8")
    assert Explanation.load(found.save(tmp_path / "import.json")) == found
    screen = io.StringIO()
    Console(file=screen, width=100).print(render(found))
    shown = screen.getvalue()
    assert "wonderful" in shown
    assert "+3.00" in shown
    assert "made elsewhere" in shown


def test_what_is_missing_of_base_value_and_prediction_follows_from_the_rest():
    only_prediction = Explanation.from_scores(TEXT, ["slow"], [2.0], prediction=3.0)
    assert (only_prediction.prediction, only_prediction.base_value, only_prediction.notes) == (
        3.0,
        1.0,
        (),
    )
    neither = Explanation.from_scores(TEXT, ["slow"], [2.0])
    assert (neither.prediction, neither.base_value) == (2.0, 0.0)


def test_numbers_that_do_not_add_up_are_kept_and_told():
    found = Explanation.from_scores(TEXT, ["slow"], [2.0], prediction=3.5, base_value=1.0)
    assert (found.prediction, found.base_value) == (3.5, 1.0)
    assert found.predict([[1]]).tolist() == [3.0]
    assert len(found.notes) == 1
    assert "add up to 3," in found.notes[0]
    assert "3.5" in found.notes[0]


def test_several_labels_share_their_units():
    scores = torch.tensor([[1.0, -1.0, 0.0], [2.0, 0.5, 9.0]], requires_grad=True)
    found = Explanation.from_scores(
        TEXT, [(28, 32), (2, 6)], scores, base_value=[0, 1, 2], label=["a", "b", "c"]
    )
    assert found.target == "c"
    assert found.prediction == 11.0
    assert found.for_target("a").scores().tolist() == [2.0, 1.0]
    assert found.for_target("b").base_value == 1.0
    assert spans(found) == [(2, 6), (28, 32)]


@pytest.mark.parametrize(
    ("units", "scores", "options", "message"),
    [
        (["slow", "fast"], [1, 2], {}, r"unit 1 \('fast'\) does not occur in the text"),
        (["film", "slow"], [1, 2], {}, r"unit 1 \('slow'\) does not occur in the text after"),
        (["slow", " "], [1, 2], {}, r"unit 1 is empty \(' '\)"),
        (["slow", "▁"], [1, 2], {}, r"unit 1 \('▁'\) does not occur in the text"),
        ([], [], {}, "at least one unit"),
        (["slow"], [1, 2], {}, "1 units were given with 2 scores"),
        (["slow"], [math.nan], {}, "scores: nan at 0 is not a finite number"),
        (["slow", "film"], [1, math.inf], {}, "scores: inf at 1"),
        (["slow"], ["high"], {}, "cannot be read as numbers"),
        (["slow"], [[1, 2]], {}, r"scores have shape \(1, 2\), but label names 1 outputs"),
        (["slow"], [[1, 2]], {"label": ["a", "b", "c"]}, "label names 3 outputs"),
        (["slow"], [1], {"base_value": [1, 2]}, r"base_value has shape \(2,\) for 1 labels"),
        (["slow"], [1], {"prediction": math.inf}, "prediction: inf at 0"),
        ([(0, 4), (3, 8)], [1, 2], {}, r"the spans \(0, 4\) and \(3, 8\) overlap"),
        ([(3, 8), (3, 8)], [1, 2], {}, "overlap"),
        ([(30, 36)], [1], {}, r"unit 0 has the span \(30, 36\): expected 0 <= start < end <= 35"),
        ([(-1, 2)], [1], {}, "unit 0 has the span"),
        ([(4, 4)], [1], {}, "unit 0 has the span"),
        ([(0.0, 2.0)], [1], {}, "unit 0 is"),
        ([(0, 1), "slow"], [1, 2], {}, "unit 1 is 'slow': give all units as strings"),
        ([Unit("fast", 2, 6)], [1], {}, r"unit 0 \('fast'\) is not at 2 to 6"),
        ([Unit("slow", 99, 103)], [1], {}, "is not at 99 to 103"),
        ("slow", [1, 2, 3, 4], {}, "units are of type str"),
    ],
)
def test_what_cannot_be_imported_is_refused_in_one_line(units, scores, options, message):
    with pytest.raises(InputError, match=message) as caught:
        Explanation.from_scores(TEXT, units, scores, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "empty"), (" \n", "empty"), (None, "NoneType"), ("a \ud800", "surrogate")],
)
def test_a_text_is_needed(text, message):
    with pytest.raises(InputError, match=message):
        Explanation.from_scores(text, ["a"], [1])


@pytest.mark.parametrize(
    "importer", [Explanation.from_shap, Explanation.from_captum, Explanation.from_lime]
)
@pytest.mark.parametrize("other", [None, 3, "a text", np.ones(3), torch.ones(3)])
def test_other_objects_are_refused(importer, other):
    with pytest.raises(InputError, match="expected"):
        importer(other)


def test_tokens_and_attributions_need_no_library():
    found = Explanation.from_captum(
        (["[CLS]", "a", "slow", "##ish", "film", "[SEP]"], [0.5, 0.1, -1.0, -0.5, 0.2, 0.25])
    )
    assert found.text == "a slowish film"
    assert spans(found) == [(0, 1), (2, 6), (6, 9), (10, 14)]
    assert found.scores().tolist() == [0.1, -1.0, -0.5, 0.2]
    assert found.base_value == pytest.approx(0.75)
    assert any("2 input pieces without a place" in note for note in found.notes)
    typed = Explanation.from_captum((["[CLS]", "ok"], [1.0, 2.0]), text="[CLS] ok")
    assert spans(typed) == [(0, 5), (6, 8)]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (([1, 2], [0.1, 0.2]), "not a list of strings"),
        ((["a", "b"], np.ones((2, 8))), r"shape \(2, 8\) for 2 tokens"),
        ((["a", "b"], [1.0]), r"shape \(1,\) for 2 tokens"),
        ((["a", "b"], [1.0, math.nan]), "attributions: nan at 1"),
        ((["[CLS]"], [1.0]), "empty"),
    ],
)
def test_bad_captum_pairs_are_refused(record, message):
    with pytest.raises(InputError, match=message):
        Explanation.from_captum(record)


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        (["a", "slow", "##ish", "film"], "a slowish film"),
        (["a", "Ġslow", "ish", "Ġfilm", "Ċ"], "a slowish film"),
        (["▁a", "▁slow", "ish"], "a slowish"),
        (["a</w>", "slow", "ish</w>"], "a slowish"),
        (["a ", "slow", "ish"], "a slowish"),
        (["a", "film"], "a film"),
    ],
)
def test_tokens_read_as_a_text(tokens, text):
    assert read_tokens(tokens) == text


@given(st.text(max_size=60).filter(lambda text: text.strip() and words(text)))
def test_tiles_read_as_the_text_from_its_first_unit_on(text):
    units = words(text)
    assert "".join(tiles(known(text, units))) == text[units[0].start :]


def test_tiles_of_special_cases():
    text = " so 🎬 good"
    shared = [
        Unit("so", 1, 3),
        *[Unit("🎬", 4, 5, (token,)) for token in (7, 8, 9)],
        Unit("good", 6, 10),
    ]
    assert tiles(known(text, shared)) == ["so ", "🎬 ", "", "", "good"]
    overlapping = [Unit("so 🎬", 1, 5), Unit("🎬 good", 4, 10)]
    assert tiles(known(text, overlapping)) == ["so ", "🎬 good"]
    assert tiles(known(text, [Unit("so", 1, 3), Unit("good", 6, 10)], granularity="type")) == [
        "so ",
        "good ",
    ]
    assert tiles(known(text, [Unit("so", 1, 3)], left_out=" good")) == ["so 🎬"]
    pair = [Unit("so", 1, 3), Unit("good", 6, 10), Unit("yes", 0, 3, part=1)]
    assert tiles(known(text, pair, text_pair="yes!")) == ["so 🎬 ", "good\n", "yes!"]
