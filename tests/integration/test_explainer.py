"""The front door: input of every kind, good and bad."""

import numpy as np
import pytest
from tiny import ASKING, BY_NAME, TEXT, tiny

from slalom_xai import Explainer, Explanation, explain
from slalom_xai.errors import BudgetError, InputError, ModelError
from slalom_xai.methods import Slalom, SlalomEff, SlalomExact, SlalomFidel, estimator
from slalom_xai.methods.scores import DEFAULT_SCORE
from slalom_xai.metrics import asker
from slalom_xai.models import prompt
from slalom_xai.models.outputs import Outputs
from slalom_xai.queries import Queries
from slalom_xai.slalom.trust import percent

MODEL = tiny("bert")
every_method = pytest.mark.parametrize("method", BY_NAME)
every_asking_method = pytest.mark.parametrize("method", ASKING)


@pytest.fixture(scope="module")
def explanation():
    return Explainer(*MODEL, budget=300, target="good")(TEXT)


@pytest.mark.parametrize("text", ["", " ", "\n\t \u3000"])
def test_an_empty_text_is_named(text):
    with pytest.raises(InputError, match=r"empty|white space"):
        Explainer(*MODEL)(text)


@pytest.mark.parametrize("text", [None, 3, b"bytes"])
def test_something_that_is_no_text_is_named(text):
    with pytest.raises(InputError, match=r"expected a text \(str\) or a list of texts, got"):
        Explainer(*MODEL)(text)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda ex: ex("a film", target="good"), r"target .*Explainer\(model, target=\.\.\.\)"),
        (lambda ex: ex("a film", tagret="good"), "unknown tagret .* a call takes text, text_pair"),
        (lambda ex: ex([("a", "b")]), "text 0: .* got tuple of 2: give pairs as two lists"),
        (lambda ex: ex("a", ["b"]), "text_pair: expected a text"),
        (lambda ex: ex({"text": "a film"}), "got dict: give a list of str"),
        (lambda ex: ex([{"text": "a film"}]), r'text 0: .* got dict: .*row\["text"\]'),
        (lambda ex: ex([b"a film"]), r"text 0: .* got bytes: decode it"),
        (lambda ex: list(ex.each("a film")), "expected a list of texts, got one text"),
    ],
)
def test_a_call_of_another_shape_says_how_to_call(call, said):
    with pytest.raises(InputError, match=said):
        call(Explainer(*MODEL))


def test_a_table_in_the_place_of_texts_is_refused():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"text": ["a film"]})
    with pytest.raises(InputError, match=r"got DataFrame: .*one column of a table"):
        Explainer(*MODEL)(table)


@every_method
@pytest.mark.parametrize("text", ["a", "aaaa"])
def test_one_distinct_token_gets_the_models_output(text, method):
    found = Explainer(*MODEL, method=method)(text)
    assert len({unit.token_ids for unit in found.units}) == 1
    assert found.calls == 1
    assert found.fidelity is None
    assert found.predict(np.ones((1, len(found)))) == pytest.approx(found.prediction)
    if found.importances is not None:
        assert np.allclose(found.values, found.prediction)
        assert np.allclose(found.importances, 0)


@pytest.mark.parametrize("removal", ["unk", "mask"])
@pytest.mark.parametrize("method", ["kernel-shap", "lime", "occlusion"])
def test_copies_of_one_token_share_what_replacing_them_changes(removal, method):
    explainer = Explainer(*MODEL, method=method, removal=removal)
    found = explainer("aaaa")
    answers = asker(explainer, found)(np.array([[True] * len(found), [False] * len(found)]))
    assert found.calls == 2
    assert found.prediction == pytest.approx(answers[0])
    assert found.base_value == pytest.approx(answers[1])
    assert found.values == pytest.approx(
        np.full(len(found), (answers[0] - answers[1]) / len(found))
    )


def test_kernel_shap_of_one_unit_is_what_the_empty_text_lacks():
    """Called directly: the explainer does not ask methods about one distinct unit."""
    explainer = Explainer(*MODEL)
    question = prompt(explainer.model.read("a"), "token")
    queries = Queries(explainer.batches, question, budget=20)
    found = estimator("kernel-shap").explain(queries, np.random.default_rng(0))
    change = queries.ask_whole("fit") - queries.ask(~question.whole, "fit")[0]
    assert found.surrogate.unit_scores[0].tolist() == pytest.approx(change.tolist())


@every_asking_method
def test_one_distinct_word_for_a_function(method):
    found = explain("so so so", lambda texts: [[0.3, 0.7]] * len(texts), method=method)
    assert found.calls == 1
    assert found.prediction == pytest.approx(np.log(0.7 / 0.3))
    assert "nothing to compare" in found.trust
    if method == "slalom":
        assert np.allclose(found.values, found.prediction)


@every_method
@pytest.mark.parametrize(
    "text", ["good film", "a good film", "not a good film", "it is not a good film"]
)
def test_short_texts_are_explained(text, method):
    found = Explainer(*MODEL, method=method)(text)
    assert np.isfinite(found.values).all()
    if method in ("slalom", "linear"):
        copies = 2 * len(found) * (method == "slalom")  # texts of copies, and with one more
        assert found.calls <= 2 ** len(found) - 1 + copies
    if found.fidelity is None:
        assert found.calls_check <= 1  # the whole text, where it is not fitted
        assert "Not tested" in found.trust


@pytest.mark.parametrize("method", [name for name in ASKING if name != "random"])
def test_a_constant_model_has_nothing_to_explain(method):
    found = explain(TEXT, lambda texts: [[0.25, 0.75]] * len(texts), method=method)
    assert "nothing to explain" in found.trust
    assert np.isnan(found.fidelity.wide.r2)
    assert found.fidelity.wide.mse < 1e-12
    assert np.isfinite(found.values).all()
    assert Explanation.from_dict(found.to_dict()) == found


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "guess"}, "unknown method 'guess': choose one of .*slalom"),
        ({"method": Slalom}, "give a name"),
        (
            {"granularity": "letter"},
            "unknown granularity 'letter': choose one of token, type, word",
        ),
        ({"removal": "burn"}, "unknown removal 'burn': choose one of auto, hide, delete"),
        ({"method": SlalomEff, "budget": 9}, "give a name"),
        ({"budget": 0}, "budget is 0"),
        ({"budget": 2.5}, "budget is 2.5"),
        ({"batch_tokens": 0}, "batch_tokens is 0"),
    ],
)
def test_unknown_options_list_the_valid_ones(options, message):
    with pytest.raises(InputError, match=message):
        Explainer(*MODEL, **options)


@pytest.mark.parametrize("target", ["great", 2, -1, True])
def test_an_unknown_target_lists_the_labels(target):
    with pytest.raises(InputError, match=r"unknown target .*bad \(0\), good \(1\)"):
        Explainer(*MODEL, target=target)(TEXT)


def test_targets_by_label_or_index_mirror_each_other(explanation):
    for target in ("bad", 0, "0"):
        other = Explainer(*MODEL, budget=300, target=target)(TEXT)
        assert other == explanation.for_target("bad")
        assert np.array_equal(other.values, -explanation.values)
        assert np.array_equal(other.importances, explanation.importances)


def test_an_unknown_score_lists_the_scores(explanation):
    with pytest.raises(InputError, match="unknown score 'weight': choose one of value, importance"):
        explanation.scores("weight")
    with pytest.raises(InputError, match="one score per unit"):
        Explainer(*MODEL, method="linear", budget=300)(TEXT).scores("importance")


@every_method
def test_a_budget_too_small_says_the_least_that_works(method):
    with pytest.raises(BudgetError, match="at least") as caught:
        Explainer(*MODEL, method=method, budget=5)(TEXT)
    least = int(str(caught.value).split("at least ")[1].split()[0])
    found = Explainer(*MODEL, method=method, budget=least)(TEXT)
    assert found.calls <= least
    with pytest.raises(BudgetError):
        Explainer(*MODEL, method=method, budget=least - 1)(TEXT)


def test_a_list_gives_what_each_text_gives_alone():
    explainer = Explainer(*MODEL, budget=200)
    texts = [TEXT, "a much shorter text than the other one is"]
    assert explainer(texts) == [Explainer(*MODEL, budget=200)(text) for text in texts]
    assert explainer([]) == []


def test_a_bad_text_in_a_list_is_found_before_any_call():
    asked = []

    def function(texts):
        asked.extend(texts)
        return [[0.4, 0.6]] * len(texts)

    with pytest.raises(InputError, match="text 1: the text is empty"):
        Explainer(function)(["fine words here", ""])
    assert not asked


def test_what_was_finished_before_a_failure_is_kept():
    def function(texts):
        return [
            [float("nan"), 1.0] if "poison" in text else [0.2, 0.8 - 1e-9 * len(text)]
            for text in texts
        ]

    with pytest.raises(ModelError, match="poison") as caught:
        Explainer(lambda texts: function(texts), output="logits")(
            ["fine words here", "a poison pill"]
        )
    assert [found.text for found in caught.value.finished] == ["fine words here"]


def test_what_was_finished_before_an_interrupt_is_kept():
    def function(texts):
        if any("interrupt" in text for text in texts):
            raise KeyboardInterrupt
        return [[0.2 + 1e-3 * len(text), 0.8 - 1e-3 * len(text)] for text in texts]

    with pytest.raises(KeyboardInterrupt) as caught:
        Explainer(function)(["fine words here", "interrupt now please"])
    assert [found.text for found in caught.value.finished] == ["fine words here"]


def test_control_characters_markup_emoji_and_other_scripts_are_explained_and_escaped(
    explanation, tmp_path
):
    text = "<script>alert('x')</script> \x1b[31mred\x07 👩‍👩‍👧 שלום עולם &amp; done"
    found = Explainer(*MODEL, budget=400)(text)
    for html in (found._repr_html_(), found.to_html(tmp_path / "page.html").read_text()):
        assert "<script>alert" not in html
        assert "\x1b" not in html
        assert "alert(" in html
    assert Explanation.load(found.save(tmp_path / "saved.json")) == found


def test_saving_and_loading(explanation, tmp_path):
    path = explanation.save(tmp_path / "e.json")
    loaded = Explanation.load(path)
    assert loaded == explanation
    assert loaded.fidelity == explanation.fidelity
    assert np.array_equal(loaded.scores("shapley"), explanation.scores("shapley"))
    with pytest.raises(InputError, match="cannot write"):
        explanation.save(tmp_path / "no" / "folder.json")
    with pytest.raises(InputError, match="cannot read"):
        Explanation.load(tmp_path / "missing.json")
    path.write_text("{}")
    with pytest.raises(InputError, match="not a saved explanation"):
        Explanation.load(path)
    path.write_text("not json")
    with pytest.raises(InputError, match="not JSON"):
        Explanation.load(path)
    newer = explanation.to_dict() | {"version": 99}
    with pytest.raises(InputError, match=r"version 99.*update"):
        Explanation.from_dict(newer)
    broken = explanation.to_dict()
    del broken["function"]["importances"]
    with pytest.raises(InputError, match="damaged"):
        Explanation.from_dict(broken)


def test_nothing_in_an_explanation_changes(explanation):
    with pytest.raises(AttributeError):
        explanation.text = "other"
    with pytest.raises(ValueError, match="read-only"):
        explanation.values[0] = 1.0


def test_the_frame_and_the_list_carry_every_unit(explanation):
    frame = explanation.to_frame()
    assert list(frame["unit"]) == [unit.text for unit in explanation.units]
    assert np.array_equal(frame["importance"], explanation.importances)
    assert np.array_equal(frame["removal_se"], explanation.standard_errors["removal"])
    assert explanation.as_list() == list(
        zip(frame["unit"], explanation.scores(DEFAULT_SCORE), strict=True)
    )


def test_predict_refuses_rows_of_the_wrong_shape(explanation):
    n = len(explanation)
    for keep in (np.ones(n), np.ones((2, n + 1)), np.full((1, n), np.nan), np.full((1, n), -1.0)):
        with pytest.raises(InputError, match="keep has"):
            explanation.predict(keep)


def test_shapley_values_add_up_to_the_surrogates_own_prediction(explanation):
    total = explanation.predict(np.ones((1, len(explanation))))[0] - explanation.base_value
    assert explanation.scores("shapley").sum() == pytest.approx(total, abs=1e-6)


def test_the_trust_sentence_quotes_the_fidelity(explanation):
    sentence, fidelity = explanation.trust, explanation.fidelity
    assert f"reproduce {percent(fidelity.any.r2)} of what removing words does" in sentence
    assert f"({percent(fidelity.few.r2)} when only a few go)" in sentence
    best = max(fidelity.linear.any.r2, fidelity.one_score.any.r2)
    assert f"One score per word reproduces {percent(best)}." in sentence


def test_the_old_names_of_the_fidelity_work(explanation):
    assert explanation.fidelity.local is explanation.fidelity.few
    assert explanation.fidelity.wide is explanation.fidelity.any


def test_the_predicted_class_is_explained_by_default(explanation):
    predicted = "good" if explanation.prediction > 0 else "bad"
    assert Explainer(*MODEL, budget=300)(TEXT) == explanation.for_target(predicted)


def test_settings_of_the_papers_estimators_are_checked():
    with pytest.raises(InputError, match="unknown solver 'adam': choose one of gauss-newton, sgd"):
        SlalomEff(solver="adam")
    with pytest.raises(InputError, match="length is 1"):
        SlalomEff(length=1)
    with pytest.raises(InputError, match="deletions is 0"):
        SlalomFidel(deletions=0)
    with pytest.raises(InputError, match="empty text, which this model does not accept"):
        explain(
            "good plain words for a test",
            lambda texts: [[0.4, 0.6]] * len(texts),
            method=SlalomExact(sink=True),
        )


def test_exact_recovery_of_a_model_that_is_no_slalom_says_so():
    found = Explainer(*tiny("gpt2"), method="slalom-exact")(TEXT)
    assert "ill-determined importances" in found.notes[0]
    assert Explanation.from_dict(found.to_dict()).notes == found.notes


def test_exact_recovery_with_a_sink():
    found = Explainer(*tiny("modernbert"), method=SlalomExact(sink=True))(TEXT)
    assert found.calls_fit == 2 * len({unit.token_ids for unit in found.units}) + 1
    assert found.sink is not None
    assert np.isfinite(found.values).all()


@every_asking_method
@pytest.mark.parametrize("text", ["good " * 12 + "bad", "a " * 20 + "b", "b " + "a " * 19])
def test_texts_of_few_distinct_words_fit_before_they_report(text, method):
    found = explain(
        text,
        lambda texts: [[0.3 + 0.01 * t.count("a"), 0.7 - 0.01 * t.count("a")] for t in texts],
        method=method,
    )
    assert np.isfinite(found.values).all()
    if method in ("slalom", "linear") and found.fidelity is not None:
        assert found.calls_fit >= len(found)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e4])
def test_the_scale_of_the_output_does_not_matter(scale):
    def function(texts):
        odds = scale * np.array([np.mean([len(word) - 3.0 for word in t.split()]) for t in texts])
        return np.stack([-odds / 2, odds / 2], axis=1)

    found = explain("one three eleven a seventeen it four to nineteen", function, output="logits")
    assert found.fidelity.wide.r2 > 0.99
    assert found.values == pytest.approx(
        [scale * (len(unit.text) - 3.0) for unit in found.units], rel=1e-2, abs=1e-2 * scale
    )


def test_deletions_that_all_do_the_same_are_not_called_no_change():
    found = explain(
        TEXT, lambda texts: [[0.0, 50.0 if t == TEXT else 0.0] for t in texts], output="logits"
    )
    assert "reproduce none" in found.trust


@pytest.mark.parametrize("random_state", [-1, "x", None, 1.5])
def test_a_seed_that_is_none_is_refused(random_state):
    with pytest.raises(InputError, match="random_state is"):
        Explainer(*MODEL, random_state=random_state)


def test_half_a_character_is_refused():
    with pytest.raises(InputError, match="lone surrogate"):
        Explainer(*MODEL)("good \ud800 film")


def test_a_function_that_fails_is_named_and_what_was_finished_kept():
    def function(texts):
        if any("poison" in text for text in texts):
            raise ConnectionError("service down")
        return [[0.2, 0.8]] * len(texts)

    with pytest.raises(
        ModelError, match=r"failed on .*poison.*ConnectionError: service down"
    ) as caught:
        Explainer(function)(["fine words here", "a poison pill"])
    assert len(caught.value.finished) == 1


def test_labels_of_the_same_name_need_an_index():
    with pytest.raises(InputError, match="name of 2 labels: give an index"):
        Outputs("multiclass", ("x", "y", "x")).index("x")
