"""What reports say about the prediction, the model and pieces of words."""

import dataclasses
import io

import numpy as np
import pytest
from made import explained, made
from rich.console import Console

from slalom_xai.explanation import Explanation
from slalom_xai.models.outputs import Outputs
from slalom_xai.reports.html import page
from slalom_xai.reports.terminal import render
from slalom_xai.reports.view import explanation_data, index_data
from slalom_xai.reports.wording import answer, model_name, question, unit_texts


def with_output(*full, kind="binary", labels=("negative", "positive"), target=1):
    made = explained("good bad film", classes=max(1, len(full)) if kind != "binary" else 1)
    return dataclasses.replace(made, full=full, outputs=Outputs(kind, labels), target_index=target)


def in_terminal(explanation, **options):
    console = Console(file=io.StringIO(), width=160, highlight=False)
    console.print(render(explanation, **options))
    return console.file.getvalue()


def test_the_predicted_class_comes_first_where_another_is_explained():
    explanation = with_output(-0.124)
    assert (
        answer(explanation)
        == "Predicted: negative, 53.1%. Explained: positive, 46.9% (log odds -0.12)"
    )
    assert question(explanation) == "Predicted “negative” (53.1%): what speaks for “positive”?"
    assert answer(explanation) in in_terminal(explanation)
    written = page(explanation)
    assert f"<strong>{answer(explanation)}</strong>" in written
    assert f"<h1>{question(explanation)}</h1>" in written


def test_one_class_is_named_once_where_it_is_predicted_and_explained():
    explanation = with_output(-2.0, target=0)
    assert answer(explanation) == "Predicted: negative, 88.1% (log odds +2.00)"
    assert question(explanation) == "Why “negative”?"


def test_many_classes_have_probabilities():
    explanation = with_output(
        2.0, 0.0, -2.0, kind="multiclass", labels=("sun", "rain", "snow"), target=2
    )
    assert (
        answer(explanation)
        == "Predicted: sun, 86.7%. Explained: snow, 1.6% (centred log probability -2.00)"
    )
    shown = in_terminal(explanation)
    assert "probability" in shown
    for label, share in (("sun", "86.7%"), ("rain", "11.7%"), ("snow", "1.6%")):
        line = next(line for line in shown.splitlines() if f"│ {label} " in line)
        assert share in line


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("single", "score, 73.1% (log odds +1.00)"),
        ("regression", "score: output +1.00"),
        ("multilabel", "score, 73.1% (log odds +1.00)"),
    ],
)
def test_outputs_that_choose_no_class(kind, said):
    explanation = with_output(1.0, kind=kind, labels=("score",), target=0)
    assert answer(explanation) == said
    assert question(explanation) == "Why “score”?"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("/home/somebody/models/mine", "mine"),
        ("./runs/mine/", "mine"),
        ("C:\\models\\mine", "mine"),
        ("/models/mine/model.onnx", "mine/model.onnx"),
        ("a/b/c", "c"),
        ("org/model", "org/model"),
        ("embedded movie-review classifier", "embedded movie-review classifier"),
        ("", ""),
    ],
)
def test_of_a_path_the_name_is_enough(name, shown):
    assert model_name(name) == shown


@pytest.mark.parametrize(
    ("explanation", "label", "probability"),
    [
        (with_output(-3.22), "negative", 0.96158),
        (with_output(3.22), "positive", 0.96158),
        (with_output(-3.22, kind="single", labels=("toxic",), target=0), "toxic", None),
        (with_output(-3.22, kind="regression", labels=("stars",), target=0), "stars", None),
    ],
)
def test_a_list_names_the_predicted_class_with_its_probability(explanation, label, probability):
    entry = index_data([explanation], "t")["texts"][0]
    assert entry["label"] == label
    assert entry["probability"] == (probability and pytest.approx(probability, abs=1e-5))
    assert entry["prediction"] == explanation.prediction


def test_no_report_shows_the_path_of_a_model():
    explanation = dataclasses.replace(explained(), model="/home/somebody/models/mine")
    assert explanation_data(explanation)["model"] == "mine"
    assert index_data([explanation], "t")["texts"][0]["names"] == ["slalom mine"]
    for shown in (page(explanation), in_terminal(explanation)):
        assert "somebody" not in shown
        assert "mine" in shown


def test_pieces_of_words_are_marked():
    text = "He plays, isn't playing 好人"
    cuts = [
        (0, 2),
        (3, 7),
        (7, 8),
        (8, 9),
        (10, 13),
        (13, 14),
        (14, 15),
        (16, 20),
        (20, 23),
        (24, 25),
        (25, 26),
    ]
    explanation = explained(text, units=cuts)
    expected = ["He", "play…", "…s", ",", "isn", "'", "t", "play…", "…ing", "好", "人"]
    assert unit_texts(explanation) == expected
    assert explanation_data(explanation)["units"] == expected
    assert "…ing" in in_terminal(explanation)
    assert '<td dir="auto">…ing</td>' in page(explanation)
    words = dataclasses.replace(explanation, granularity="word")
    assert unit_texts(words)[8] == "ing"


def test_a_result_made_elsewhere_is_shown_too():
    found = Explanation.from_scores("good film", ["good", "film"], [1.0, 0.5])
    assert "good" in in_terminal(found)
    assert question(found) == "Why “output”?"


def row_of(shown, text):
    """The cells of a table's line that begins with a text."""
    line = next(line for line in shown.splitlines() if line.startswith(f"│ {text} "))
    return [cell.strip() for cell in line.strip("│").split("│")]


def titles_of(shown):
    """The titles of the first table's columns."""
    line = next(line for line in shown.splitlines() if line.startswith("┃"))
    return [cell.strip() for cell in line.strip("┃").split("┃")]


def strongest(explanation):
    return int(np.argmax(np.abs(explanation.scores()) * explanation.has_effect))


def test_a_terminal_shows_two_scores_and_a_share_with_its_error():
    explanation = made(measured=True)
    shown = in_terminal(explanation)
    assert titles_of(shown) == ["word", "value", "importance", "Shapley value"]
    index = strongest(explanation)
    _, value, importance, share = row_of(shown, explanation.units[index].text)
    assert value == f"{explanation.values[index]:+.2f}"
    assert importance == f"{explanation.importances[index]:+.2f}"
    error = explanation.standard_errors["shapley"][index]
    assert share == f"{explanation.scores('shapley')[index]:+.2f} ± {error:.2f}"
    assert "These scores reproduce 93% of what removing words does to this prediction" in shown


def test_a_terminal_shows_all_scores_with_their_errors_on_request():
    explanation = made(measured=True)
    shown = in_terminal(explanation, verbose=True)
    names = titles_of(shown)[1:]
    assert names[:3] == ["value", "importance", "Shapley value"]
    assert set(names[3:]) == {"removal", "alone", "slope", "linearized", "filled"}
    index = strongest(explanation)
    cells = dict(zip(names, row_of(shown, explanation.units[index].text)[1:], strict=True))
    assert cells["removal"] == f"{explanation.scores('removal')[index]:+.2f}"  # it is exact
    error = explanation.standard_errors["value"][index]
    assert cells["value"] == f"{explanation.values[index]:+.2f} ± {error:.2f}"
    assert "this explanation" in shown
    assert "one score with the same range" in shown


def test_the_noise_of_a_measured_score_is_shown():
    steady = made(measured=True)
    errors = dict(steady.column_errors[0]) | {"removal": np.full(len(steady), 0.25)}
    noisy = dataclasses.replace(steady, column_errors=(errors,))
    shown = in_terminal(noisy, verbose=True)
    index = strongest(noisy)
    cells = row_of(shown, noisy.units[index].text)
    assert cells[titles_of(shown).index("removal")] == (
        f"{noisy.scores('removal')[index]:+.2f} ± 0.25"
    )


def test_a_unit_without_effect_has_no_numbers():
    explanation = made("good bad film")
    errors = dict(explanation.column_errors[0])
    errors["shapley"] = np.array([0.0, 1e3, 0.0])
    doubtful = dataclasses.replace(explanation, column_errors=(errors,))
    assert doubtful.has_effect.tolist() == [True, False, True]
    assert row_of(in_terminal(doubtful), "bad") == ["bad", "no effect", "", ""]
    errors["shapley"] = np.zeros(3)
    certain = dataclasses.replace(explanation, column_errors=(errors,))
    assert "no effect" not in in_terminal(certain)


def test_units_that_are_heard_together_have_a_table():
    explanation = made(together=True)
    shown = in_terminal(explanation)
    assert "Heard together" in shown
    for pair in explanation.interactions:
        cells = row_of(shown, " ".join(pair.texts))
        assert cells[1:] == [f"{pair.value:+.2f}", f"{pair.importance:+.2f}"]
    assert "Heard together" not in in_terminal(made())


def test_a_fitted_score_that_is_certain_has_its_error():
    explanation = explained("good bad film", errors=0.0)
    assert explanation.source("value") == "fitted"
    assert "± 0.00" in in_terminal(explanation)


def test_a_terminal_says_nothing_of_sources_for_additive_methods():
    shown = in_terminal(made(additive=True))
    assert "fitted" not in shown
    assert "measured" not in shown


def test_every_output_says_what_predicts_how_much():
    classes = {"kind": "multiclass", "labels": ("sun", "rain", "snow"), "target": 0}
    assert row_of(in_terminal(made(**classes)), "rain")[3:] == ["93%", "75%"]
    assert row_of(in_terminal(made(**classes, additive=True)), "rain")[3:] == ["70%"]
