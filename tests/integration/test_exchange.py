"""Explanations to and from the libraries themselves; skipped where a library is not installed."""

import re
import warnings
from html import unescape
from pathlib import Path

import numpy as np
import pytest
import torch
from games import surrogate
from made import explanation_with
from tiny import tiny

from slalom_xai import Explainer
from slalom_xai.errors import InputError
from slalom_xai.explanation import Explanation
from slalom_xai.methods.additive import AdditiveSurrogate
from slalom_xai.models.outputs import Outputs
from slalom_xai.models.text import Unit, words

TEXT = "A good good film, not a bad one."
WEIGHTS = {"good": 1.0, "bad": -1.5, "film": 0.3}


def library(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a library says about itself while it is imported
        return pytest.importorskip(name, reason=f"{name} is not installed")


@pytest.fixture(scope="module")
def shap():
    return library("shap")


@pytest.fixture(scope="module")
def captum():
    return library("captum.attr")


@pytest.fixture(scope="module")
def lime():
    return library("lime.lime_text")


BINARY = Outputs("binary", ("no", "yes"))


def odds(texts):
    return np.array(
        [sum(WEIGHTS.get(word, 0.0) for word in re.findall(r"\w+", text)) for text in texts]
    )


def probabilities(texts):
    positive = 1 / (1 + np.exp(-odds(texts)))
    return np.stack([1 - positive, positive], axis=1)


def known(function, text=TEXT, *, outputs=BINARY, **fields):
    return explanation_with(function, text, kind=outputs.kind, labels=outputs.labels, **fields)


N = len(words(TEXT))
SHARED = [
    Unit("so", 0, 2),
    *[Unit("🎬", 3, 4, (token,)) for token in (7, 8, 9)],
    Unit("good", 5, 9),
]
ADDITIVE = AdditiveSurrogate(
    torch.linspace(-1, 2, N, dtype=torch.float64)[:, None], torch.tensor([0.5], dtype=torch.float64)
)
CASES = {
    "sink": known(surrogate(N)),
    "no sink": known(surrogate(N, sink=False)),
    "two heads": known(surrogate(N, heads=2)),
    "other target": known(surrogate(N), target=0),
    "additive": known(ADDITIVE),
    "type": known(
        surrogate(3), units=[words(TEXT)[place] for place in (0, 1, 3)], granularity="type"
    ),
    "shared spans": known(surrogate(5), text="so 🎬 good", units=SHARED),
    "one unit": known(surrogate(1, sink=False), text="good"),
    "one unit and a sink": known(surrogate(1), text="good"),
    "marks": known(surrogate(6), text="\n <b> & good\tfilm "),
    "nothing to tell": known(
        AdditiveSurrogate(torch.zeros(N, 1).double(), torch.zeros(1).double())
    ),
    "imported": Explanation.from_scores(
        TEXT, ["good", "bad"], [1, -2], base_value=0.25, label="yes"
    ),
}


def spans(explanation):
    return [(unit.start, unit.end) for unit in explanation.units]


def drawn(html):
    """Base value, f(inputs) and the text, as shap's plot shows them."""
    base = re.search(r">([-+.\de]+)</text><text [^>]*>base value</text>", html)
    whole = re.search(
        r'font-weight="bold" fill="rgb\(0,0,0\)"[^>]*>([-+.\de]+)</text>'
        r"<text [^>]*>f<tspan [^>]*>([^<]*)</tspan>",
        html,
    )
    shown = re.findall(r">([^<>]*)</div></div>", html)
    return float(base[1]), float(whole[1]), whole[2], unescape("".join(shown))


@pytest.mark.parametrize("name", CASES)
def test_shap_values_add_up_in_its_plot(shap, name):
    explanation = CASES[name]
    exported = explanation.to_shap()
    whole = float(explanation.predict(np.ones((1, len(explanation))))[0])
    assert abs(exported.base_values + exported.values.sum() - whole) < 1e-9
    assert exported.base_values == explanation.base_value
    assert np.allclose(exported.values, explanation.scores("shapley"), atol=1e-8)
    assert list(exported.feature_names) == [unit.text for unit in explanation.units]
    base, drawn_whole, label, shown = drawn(shap.plots.text(exported, display=False))
    assert (base, drawn_whole) == pytest.approx((explanation.base_value, whole), rel=1e-5, abs=1e-5)
    assert label == explanation.target
    if explanation.granularity == "type":
        assert shown == "".join(f"{unit.text} " for unit in explanation.units)
    else:
        assert shown == explanation.text[explanation.units[0].start :]


@pytest.mark.parametrize("name", CASES)
def test_what_goes_to_shap_comes_back(shap, name):
    explanation = CASES[name]
    back = Explanation.from_shap(explanation.to_shap(), explanation.text)
    assert spans(back) == spans(explanation)
    assert [unit.text for unit in back.units] == [unit.text for unit in explanation.units]
    assert np.allclose(back.scores(), explanation.scores("shapley"), atol=1e-8)
    assert back.base_value == pytest.approx(explanation.base_value)
    assert back.target == explanation.target
    assert back.notes == ()
    again = Explanation.from_shap(back.to_shap(), explanation.text)
    assert np.allclose(again.scores(), back.scores(), atol=1e-12)
    assert spans(again) == spans(back)


def test_without_a_text_shap_s_tokens_are_the_text(shap):
    back = Explanation.from_shap(CASES["sink"].to_shap())
    assert (back.text, spans(back)) == (TEXT, spans(CASES["sink"]))


def test_byte_tokens_of_a_real_model_reach_shap_and_captum(shap, captum):
    text = "a quiet film 🎬 that grows on you"
    explainer = Explainer(
        *tiny("roberta"), method="linear", budget=150, granularity="token", show_progress=False
    )
    explanation = explainer(text)
    assert len(set(spans(explanation))) < len(explanation)  # the tokens of the emoji share it
    *_, shown = drawn(shap.plots.text(explanation.to_shap(), display=False))
    assert shown == text
    assert spans(Explanation.from_shap(explanation.to_shap())) == spans(explanation)
    back = Explanation.from_captum(explanation.to_captum(), text)
    assert spans(back) == [
        (unit.start, unit.end) for unit in explanation.units if unit.text.strip()
    ]
    assert back.base_value + back.scores().sum() == pytest.approx(
        explanation.scores("shapley").sum()
    )


def test_shap_explanations_of_two_outputs(shap):
    explainer = shap.Explainer(
        probabilities, shap.maskers.Text(r"\W"), output_names=["negative", "positive"], silent=True
    )
    values = explainer([TEXT], max_evals=300)
    found = Explanation.from_shap(values[0], TEXT, output="positive")
    assert found.text == TEXT
    assert found.target == "positive"
    assert [unit.text for unit in found.units] == [
        "A",
        "good",
        "good",
        "film,",
        "not",
        "a",
        "bad",
        "one",
    ]
    for column, label in enumerate(["negative", "positive"]):
        one = found.for_target(label)
        assert one.prediction == pytest.approx(probabilities([TEXT])[0, column], abs=1e-6)
        assert one.base_value == pytest.approx(values[0].base_values[column], abs=1e-6)
    assert found.as_list()[6] == (
        "bad",
        pytest.approx(values[0].values[list(values[0].data).index("bad "), 1]),
    )
    assert Explanation.from_shap(values).text == TEXT.rstrip(
        "."
    )  # a batch of one; the last mark is not in shap's tokens
    assert Explanation.from_shap(values[0], output=0).target == "negative"
    single = Explanation.from_shap(values[0, :, 1], TEXT)
    assert single.target == "positive"
    assert np.array_equal(single.scores(), found.scores())
    with pytest.raises(InputError, match="unknown target 'neutral'"):
        Explanation.from_shap(values[0], output="neutral")


def test_shap_explanations_of_one_output(shap):
    values = shap.Explainer(odds, shap.maskers.Text(r"\W"), silent=True)(
        [TEXT, "a good film"], max_evals=300
    )
    found = Explanation.from_shap(values[1])
    assert found.as_list() == [
        ("a", pytest.approx(0, abs=1e-9)),
        ("good", pytest.approx(1)),
        ("film", pytest.approx(0.3)),
    ]
    assert (found.method, found.target) == ("shap", "output")
    with pytest.raises(
        InputError,
        match=r"holds 2 texts: give one of them, as in Explanation.from_shap\(values\[0\]\)",
    ):
        Explanation.from_shap(values)


def test_special_tokens_in_shap_go_to_the_base_value(shap):
    values = shap.Explanation(
        values=np.array([0.5, 1.0, 2.0, 0.25]),
        base_values=0.1,
        data=np.array(["", "good ", "film", ""], dtype=object),
    )
    found = Explanation.from_shap(values)
    assert found.as_list() == [("good", 1.0), ("film", 2.0)]
    assert found.base_value == pytest.approx(0.85)
    assert found.prediction == pytest.approx(3.85)
    assert "2 input pieces" in found.notes[0]


def test_shap_explanations_of_other_things_are_refused(shap):
    with pytest.raises(InputError, match="should be tokens and are float64"):
        Explanation.from_shap(shap.Explanation(values=np.ones(3), base_values=0.0, data=np.ones(3)))
    with pytest.raises(InputError, match="the shap values: nan at 1"):
        Explanation.from_shap(
            shap.Explanation(
                values=np.array([1, np.nan]),
                base_values=0.0,
                data=np.array(["a ", "b"], dtype=object),
            )
        )


@pytest.mark.parametrize("bow", [True, False])
def test_lime_words_keep_their_weights(lime, bow):
    explainer = lime.LimeTextExplainer(
        class_names=["negative", "positive"], bow=bow, random_state=0
    )
    theirs = explainer.explain_instance(TEXT, probabilities, num_features=20, num_samples=300)
    found = Explanation.from_lime(theirs)
    expected = (
        ["A", "good", "film", "not", "a", "bad", "one"]
        if bow
        else ["A", "good", "good", "film", "not", "a", "bad", "one"]
    )
    assert [unit.text for unit in found.units] == expected
    assert all(TEXT[unit.start : unit.end] == unit.text for unit in found.units)
    assert dict(enumerate(found.scores())) == pytest.approx(dict(theirs.local_exp[1]))
    assert found.granularity == ("type" if bow else "token")
    assert found.occurrences == ((1, 2, 1, 1, 1, 1, 1) if bow else ())
    assert found.base_value == pytest.approx(theirs.intercept[1])
    assert found.prediction == pytest.approx(probabilities([TEXT])[0, 1])
    assert found.predict(np.ones((1, len(found)))) == pytest.approx(theirs.local_pred)
    assert (found.method, found.target) == ("lime", "positive")
    assert "probabilities" in found.notes[0]
    assert not any("no weight" in note for note in found.notes)


def test_lime_with_few_features_and_several_labels(lime, tmp_path):
    explainer = lime.LimeTextExplainer(class_names=["negative", "positive"], random_state=0)
    theirs = explainer.explain_instance(
        TEXT, probabilities, labels=(0, 1), num_features=2, num_samples=300
    )
    found = Explanation.from_lime(theirs, TEXT, label="negative")
    assert (found.target, len(found)) == ("negative", 7)
    assert np.count_nonzero(found.scores()) == 2
    assert any("5 of 7 words have no weight" in note for note in found.notes)
    assert Explanation.from_lime(theirs, label=1).target == "positive"
    assert found.for_target("positive").base_value == pytest.approx(theirs.intercept[1])
    assert Explanation.load(found.save(tmp_path / "lime.json")) == found
    with pytest.raises(
        InputError, match=r"unknown label 2: choose one of negative \(0\), positive \(1\)"
    ):
        Explanation.from_lime(theirs, label=2)
    with pytest.raises(InputError, match="not the one that lime explained"):
        Explanation.from_lime(theirs, "another text")


def test_a_captum_record_says_what_the_explanation_says(captum):
    explanation = CASES["sink"]
    record = explanation.to_captum()
    assert record.raw_input_ids == [unit.text for unit in explanation.units]
    assert np.array_equal(record.word_attributions.numpy(), explanation.scores("shapley"))
    assert record.attr_score == pytest.approx(
        float(explanation.predict(np.ones((1, N)))[0]) - explanation.base_value
    )
    assert record.convergence_score == pytest.approx(
        float(explanation.predict(np.ones((1, N)))[0]) - 0.5
    )
    assert (record.pred_class, record.attr_class) == ("yes", "yes")
    assert record.pred_prob == pytest.approx(1 / (1 + np.exp(-0.5)))
    assert np.array_equal(
        explanation.to_captum("removal").word_attributions.numpy(), explanation.scores("removal")
    )
    row = captum.visualization.format_word_importances(
        record.raw_input_ids, record.word_attributions
    )
    assert row.count("<mark") == N


@pytest.mark.parametrize(
    ("outputs", "full", "label", "probability"),
    [
        (Outputs("binary", ("no", "yes")), (-2.0,), "no", 1 / (1 + np.exp(-2))),
        (
            Outputs("multiclass", ("a", "b", "c")),
            (0.0, 1.0, -1.0),
            "b",
            np.e / (1 + np.e + 1 / np.e),
        ),
        (Outputs("multilabel", ("a", "b")), (0.0, -1.0), "a", 0.5),
        (Outputs("single", ("spam",)), (1000.0,), "spam", 1.0),
        (Outputs("regression", ("stars",)), (4.5,), "stars", np.nan),
    ],
)
def test_captum_s_prediction(captum, outputs, full, label, probability):
    record = known(
        surrogate(N, classes=len(full)), outputs=outputs, target=0, full=full
    ).to_captum()
    assert record.pred_class == label
    assert record.pred_prob == pytest.approx(probability, nan_ok=True)


@pytest.mark.parametrize("name", ["sink", "regression"])
def test_captum_draws_the_record(captum, name):
    library("IPython")  # captum's drawing needs it
    explanation = CASES["sink"] if name == "sink" else CASES["imported"]
    page = captum.visualization.visualize_text([explanation.to_captum()]).data
    assert all(unit.text in page for unit in explanation.units)


def test_what_goes_to_captum_comes_back(captum):
    explanation = CASES["no sink"]
    back = Explanation.from_captum(explanation.to_captum(), TEXT)
    assert spans(back) == spans(explanation)
    assert np.array_equal(back.scores(), explanation.scores("shapley"))
    assert (back.method, back.target, back.base_value) == (
        "captum",
        "yes",
        pytest.approx(0, abs=1e-12),
    )
    assert "sum of the attributions" in back.notes[0]


def test_attributions_of_a_generated_answer(captum):
    result = captum.LLMAttributionResult(
        input_tokens=["Rate", "Ġthis", "Ġfilm"],
        output_tokens=["Ġvery", "Ġgood"],
        seq_attr=[0.5, -0.25, 2.0],
    )
    found = Explanation.from_captum(result)
    assert (found.text, found.target) == ("Rate this film", "very good")
    assert found.as_list() == [("Rate", 0.5), ("this", -0.25), ("film", 2.0)]


def test_the_examples_of_the_documentation_run(shap, captum, lime):
    page = (Path(__file__).parents[2] / "docs" / "exchange.md").read_text(encoding="utf-8")
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL):
        exec(block, names)
    assert names["imported"].base_value == pytest.approx(0.1)
    assert "base value" in names["page"]
