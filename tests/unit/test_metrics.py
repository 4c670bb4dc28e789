import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from fakes import Averaging
from hypothesis import assume, given
from hypothesis import strategies as st

from slalom_xai import Explainer, Explanation
from slalom_xai.errors import InputError
from slalom_xai.methods.additive import AdditiveSurrogate
from slalom_xai.methods.paper.formula import SlalomSurrogate
from slalom_xai.metrics import (
    AgreementWithOthers,
    Aopc,
    Case,
    Deletion,
    FidelityLocal,
    Insertion,
    Measured,
    Metric,
    Need,
    Number,
    Simulatability,
    against_best,
    align,
    asker,
    base,
    bootstrap,
    catalogue,
    measure,
    metric,
    metrics,
    register,
    to_units,
)
from slalom_xai.metrics.perturbation import bin_sizes, curve_sizes
from slalom_xai.metrics.plausibility import runs, span_match
from slalom_xai.metrics.statistics import auroc, average_precision, spearman
from slalom_xai.models.outputs import Outputs
from slalom_xai.models.text import Unit, words

TEXT = "a slow start but a wonderful film with one dull scene"
PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def additive(
    scores,
    full=None,
    *,
    text=None,
    units=None,
    kind="binary",
    granularity="token",
    target=1,
    left_out="",
    random_state=0,
):
    """An explanation with known additive scores.

    full: the output on the whole text, by default the sum of the scores.
    """
    labels = {"binary": ("no", "yes"), "multiclass": ("a", "b", "c")}.get(kind, ("it",))
    column_scores = torch.as_tensor(np.asarray(scores, dtype=float).reshape(len(scores), -1))
    outputs = (
        column_scores.sum(dim=0)
        if full is None
        else torch.as_tensor(np.atleast_1d(np.asarray(full, dtype=float)))
    )
    text = text or " ".join(f"w{place}" for place in range(len(scores)))
    return Explanation(
        text=text,
        units=tuple(units or words(text)),
        method="known",
        model="known",
        granularity=granularity,
        removal="delete",
        outputs=Outputs(kind, labels),
        target_index=target if len(labels) > 1 else 0,
        full=tuple(outputs.tolist()),
        function=AdditiveSurrogate(column_scores, outputs),
        column_errors=({},) * len(outputs),
        column_fidelity=None,
        calls_fit=7,
        calls_check=3,
        left_out=left_out,
        random_state=random_state,
    )


def slalom(units=6, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shapes = ((1, units, 1), (1, units), (1, 1), (1,))
    function = SlalomSurrogate(
        *(torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in shapes)
    ).normalise()
    explanation = additive(np.zeros(units))
    return replace(
        explanation,
        function=function,
        full=tuple(function.predict(torch.ones(1, units))[0].tolist()),
    )


def sigmoid(number):
    return 1 / (1 + np.exp(-np.asarray(number, dtype=float)))


def measured(name, case):
    return (metric(name) if isinstance(name, str) else name).measure(case)


# The register


def test_every_metric_is_described():
    assert set(metrics()) == {
        "fidelity-local",
        "fidelity-wide",
        "deletion",
        "insertion",
        "aopc",
        "removal-rank",
        "meaning",
        "naive-bayes",
        "human",
        "human-distinct",
        "agreement",
        "stability",
        "simulatability",
        "cost",
    }
    for name, found in catalogue().items():
        assert metrics()[name] == found.summary
        assert found.name == name
        assert found.reference
        assert next(iter(found.gives.values())).direction in ("higher", "lower")
        assert all(number.low < number.high and number.says for number in found.gives.values())


def test_a_metric_is_one_class_and_one_registration():
    @register
    class Units(Metric):
        name = "units"
        summary = "how many units there are"
        reference = "none"
        gives = {"count": Number("lower", 0, math.inf, "units")}  # noqa: RUF012

        def measure(self, case):
            return Measured({"count": float(case.units)})

    try:
        assert measure(Case(additive([1, 2, 3])), ["units"])["units"]["count"] == 3
    finally:
        base._register.pop("units")


def test_without_what_they_need_metrics_answer_nan_and_say_so():
    for name, found in measure(Case(additive([1.0, -2.0, 0.5]))).items():
        assert set(found.values) == set(catalogue()[name].gives)
        assert found.reason.startswith("Needs ")
        assert any(math.isnan(number) for number in found.values.values())


@pytest.mark.parametrize("wanted", ["nonsense", Deletion, 3])
def test_an_unknown_metric_is_refused(wanted):
    with pytest.raises(InputError, match="deletion"):
        metric(wanted)


def test_an_explanation_is_not_taken_for_a_case():
    message = r"^expected a Case, got Explanation: give measure\(Case\(explanation\), "
    with pytest.raises(InputError, match=message):
        measure(additive([1, 2]))


def test_a_need_names_its_field_of_the_case():
    fields = Case.__dataclass_fields__
    for need in Need:
        assert re.search(r"\((\w+)\)$", need.value).group(1) in fields


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FidelityLocal(rows=0), "at least 1"),
        (lambda: Deletion(steps=0), "at least 1"),
        (lambda: Simulatability(edits=2), "at least 4"),
        (lambda: AgreementWithOthers(share=0), "above 0"),
        (lambda: Case(additive([1, 2]), score="volume"), "unknown score"),
    ],
)
def test_bad_settings(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_ranges_in_print():
    assert Number("lower", 0, math.inf, "").range == "[0, ∞)"
    assert Number("higher", -1, 1, "").range == "[−1, 1]"
    assert Number("higher", -math.inf, 1, "").range == "(−∞, 1]"


# Rankings


def test_spearman_by_hand():
    assert spearman(np.array([1.0, 2, 3, 4]), np.array([1.0, 3, 2, 4])) == pytest.approx(
        0.8
    )  # 1 - 6 * 2 / (4 * 15)
    assert math.isnan(spearman(np.ones(3), np.arange(3.0)))


def test_auroc_and_average_precision_by_hand():
    scores, marked = np.array([0.9, 0.8, 0.7, 0.1]), np.array([True, False, True, False])
    assert auroc(scores, marked) == 3 / 4
    assert average_precision(scores, marked) == pytest.approx((1 + 2 / 3) / 2)
    assert auroc(np.ones(4), marked) == average_precision(np.ones(4), marked) == 0.5


rankings = st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2, max_size=30)


@given(rankings)
def test_reversed_scores_reverse_auroc(pairs):
    scores, marked = (
        np.array([score for score, _ in pairs], dtype=float),
        np.array([mark for _, mark in pairs]),
    )
    assume(marked.any() and not marked.all())
    assert auroc(-scores, marked) == pytest.approx(1 - auroc(scores, marked))


@given(rankings)
def test_the_same_as_scikit_learn(pairs):
    learn = pytest.importorskip("sklearn.metrics")
    scores, marked = (
        np.array([score for score, _ in pairs], dtype=float),
        np.array([mark for _, mark in pairs]),
    )
    assume(marked.any() and not marked.all())
    assert auroc(scores, marked) == pytest.approx(learn.roc_auc_score(marked, scores))
    assert average_precision(scores, marked) == pytest.approx(
        learn.average_precision_score(marked, scores)
    )


# Fidelity


@given(st.integers(2, 25), st.integers(0, 99))
def test_the_truth_has_no_error(units, seed):
    explanation = slalom(units, seed)
    found = measure(
        Case(explanation, explanation.predict, seed=seed), ["fidelity-local", "fidelity-wide"]
    )
    for one in found.values():
        assert one["mse"] < 1e-28
        assert one["r2"] == pytest.approx(1) or units < 4


def test_fidelity_of_a_known_error():
    truth, guess = additive([1.0, -1, 2, 4]), additive([1.0, -1, 2, 4.5])
    masks = []
    found = measured(
        FidelityLocal(rows=10),
        Case(guess, lambda rows: masks.extend(rows[1:]) or truth.predict(rows)),
    )
    rows = np.array(masks)
    assert found["rows"] == len(rows) == 10
    assert found["mse"] == pytest.approx(
        0.25 * (~rows[:, 3]).mean()
    )  # half a point wherever the last unit is gone
    changes = ~rows @ np.array([-1.0, 1, -2, -4])
    assert found["r2"] == pytest.approx(1 - found["mse"] / changes.var())


def test_local_rows_delete_at_most_ten_and_are_distinct():
    explanation, asked = additive(np.linspace(-1, 1, 40)), []
    measured(
        "fidelity-local",
        Case(explanation, lambda rows: asked.extend(rows) or explanation.predict(rows)),
    )
    deleted = (~np.array(asked)).sum(axis=1)
    assert (deleted[0], deleted[1:].min(), deleted[1:].max()) == (0, 1, 10)
    assert len({row.tobytes() for row in asked}) == 201


def test_seen_rows_are_not_used_again():
    explanation = additive([1.0, 2, 3])
    seen = np.array([[1, 1, 0], [1, 0, 0], [0, 1, 1], [1, 0, 1]], dtype=bool)
    asked = []
    case = Case(
        explanation,
        lambda rows: asked.extend(rows) or explanation.predict(rows),
        seen=seen,
    )
    assert measured("fidelity-wide", case)["rows"] == 2
    assert {tuple(row.tolist()) for row in asked[1:]} == {
        (False, True, False),
        (False, False, True),
    }
    with pytest.raises(InputError, match=r"expected masks \(rows, 3\)"):
        measured("fidelity-wide", replace(case, seen=seen[:, :2]))


def test_a_constant_model_has_an_error_and_no_r2():
    found = measured(
        "fidelity-wide", Case(additive([1.0, 2, 3]), lambda rows: np.full(len(rows), 6.0))
    )
    assert found["mse"] > 0
    assert math.isnan(found["r2"])
    assert "No deletion changes" in found.reason


def test_rows_depend_on_the_seed_and_not_on_what_ran_before():
    truth, guess = slalom(12, 1), slalom(12, 2)
    case = Case(guess, truth.predict, seed=4)
    assert measure(case)["fidelity-wide"] == measured("fidelity-wide", case)
    assert measured("fidelity-wide", replace(case, seed=5)) != measured("fidelity-wide", case)


# Deletion and insertion


def test_bins_round_up_and_leave_a_unit():
    assert bin_sizes(200).tolist() == [2, 10, 20, 40, 100]
    assert bin_sizes(30).tolist() == [1, 2, 3, 6, 15]
    assert bin_sizes(2).tolist() == [1, 1, 1, 1, 1]
    assert curve_sizes(5, 100).tolist() == [1, 2, 3, 4]
    assert curve_sizes(101, 3).tolist() == [1, 50, 100]  # numpy rounds 50.5 to even


def test_areas_of_an_additive_game():
    explanation = additive(
        [1.0, 4, 2, 3]
    )  # in order: 4, 3, 2, 1; the bins take 1, 1, 1, 1 and 2 units
    found = measure(Case(explanation, explanation.predict), ["deletion", "insertion"])
    assert found["deletion"]["comprehensiveness_log_odds"] == pytest.approx((4 * 4 + 7) / 5)
    assert found["deletion"]["area_log_odds"] == pytest.approx((4 + 7 + 9) / 3)
    assert found["insertion"]["sufficiency_log_odds"] == pytest.approx((4 * 6 + 3) / 5)
    assert found["insertion"]["area_log_odds"] == pytest.approx((6 + 3 + 1) / 3)
    whole = sigmoid(10)
    assert found["deletion"]["comprehensiveness"] == pytest.approx(
        (4 * (whole - sigmoid(6)) + whole - sigmoid(3)) / 5
    )
    assert found["deletion"]["area"] == pytest.approx(np.mean(whole - sigmoid([6, 3, 1])))
    assert found["insertion"]["sufficiency"] == pytest.approx(
        (4 * (whole - sigmoid(4)) + whole - sigmoid(7)) / 5
    )
    assert found["insertion"]["area"] == pytest.approx(np.mean(whole - sigmoid([4, 7, 9])))


@pytest.mark.parametrize("name", ["deletion", "insertion"])
def test_the_models_answer_counts_whichever_class_is_explained(name):
    explanation = additive([-2.0, 1, -3, 0.5])  # the answer is "no"
    other = explanation.for_target("no")
    mine, theirs = (
        measured(name, Case(explanation, explanation.predict)),
        measured(name, Case(other, other.predict)),
    )
    assert mine.values == pytest.approx(theirs.values)
    assert measured("deletion", Case(other, other.predict))["comprehensiveness"] > 0


def test_a_regression_has_no_probabilities():
    explanation = additive([-1.0, -2, 5, 1], kind="regression")
    found = measured("deletion", Case(explanation, explanation.predict))
    assert math.isnan(found["comprehensiveness"])
    assert math.isnan(found["area"])
    assert found["comprehensiveness_log_odds"] == pytest.approx((5 * 4 + 6) / 5)
    assert "no probability" in found.reason


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=12), st.randoms(use_true_random=False))
def test_no_order_beats_that_of_an_additive_truth(scores, random):
    truth = additive(scores)
    shuffled = list(scores)
    random.shuffle(shuffled)
    other = replace(truth, function=additive(shuffled).function)
    for name, better in (("deletion", 1), ("insertion", -1)):
        best, any_order = (
            measured(name, Case(explanation, truth.predict)) for explanation in (truth, other)
        )
        assert better * (best["area_log_odds"] - any_order["area_log_odds"]) >= -1e-9


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=12), st.randoms(use_true_random=False))
def test_deletion_and_insertion_of_opposite_orders_are_the_same_rows(scores, random):
    truth = additive(scores, full=20.0)
    order = list(range(len(scores)))
    random.shuffle(order)
    one, other = (
        replace(truth, function=additive(ranking).function)
        for ranking in (order, [-place for place in order])
    )
    deletion = measured("deletion", Case(one, truth.predict))["area_log_odds"]
    insertion = measured("insertion", Case(other, truth.predict))["area_log_odds"]
    assert deletion == pytest.approx(insertion)


def test_a_text_of_one_unit():
    explanation = additive([2.0])
    for name, found in measure(Case(explanation, explanation.predict)).items():
        if name != "cost":
            assert all(math.isnan(number) for number in found.values.values())
            assert found.reason


def test_removal_rank():
    truth = slalom(8, 3)
    case = Case(truth, truth.predict, score="removal")
    assert measured("removal-rank", case)["spearman"] == pytest.approx(1)
    signed = additive([3.0, -4, 1, 2])
    assert measured("removal-rank", Case(additive([3.0, 1, -4, 2]), signed.predict))[
        "spearman"
    ] == pytest.approx(0.8)  # ranks 4123 and 4213
    loud = Case(truth, truth.predict, score="importance")
    removed = np.abs(truth.scores("removal"))
    assert measured("removal-rank", loud)["spearman"] == pytest.approx(
        spearman(truth.importances, removed)
    )
    equal = measured("removal-rank", Case(truth, lambda rows: np.zeros(len(rows))))
    assert math.isnan(equal["spearman"])
    assert "no ranking" in equal.reason


# People and Naive Bayes


def test_token_and_span_scores_by_hand():
    marks = [0, 1, 1, 0, 0, 1, 0, 0]
    scores = [
        0.1,
        -5,
        4,
        3,
        0,
        0.2,
        0,
        0,
    ]  # the top three by size are units 1, 2, 3; one run against the runs 1-2 and 5
    found = measured("human", Case(additive(scores), rationale=marks))
    assert found["token_f1"] == pytest.approx(2 / 3)
    assert found["iou_precision"] == 1  # 2 of 3 shared
    assert found["iou_recall"] == 1 / 2
    assert found["iou_f1"] == pytest.approx(2 / 3)
    assert found["auroc"] == pytest.approx((5 + 5 + 4) / 15)
    assert found["auprc"] == pytest.approx((1 + 1 + 3 / 4) / 3)


def test_spans_match_from_half_of_the_union_on():
    assert runs(np.array([True, True, False, True])) == [(0, 2), (3, 4)]
    pair = [Unit("a", 0, 1), Unit("b", 0, 1, part=1)]
    assert runs(np.array([True, True]), pair) == [(0, 1), (1, 2)]
    assert span_match([(0, 1)], [(0, 2)]) == (1, 1, 1)
    assert span_match([(0, 1)], [(0, 3)]) == (0, 0, 0)
    assert span_match([(0, 2), (5, 6)], [(0, 2), (8, 9), (12, 15)]) == pytest.approx(
        (1 / 2, 1 / 3, 2 / 5)
    )


def test_types_have_no_spans():
    found = measured("human", Case(additive([3.0, 1, 2], granularity="type"), rationale=[1, 0, 0]))
    assert found["auroc"] == found["token_f1"] == 1
    assert math.isnan(found["iou_f1"])
    assert "no spans" in found.reason


@pytest.mark.parametrize("marks", [[0, 0, 0], [1, 1, 1]])
def test_all_or_nothing_marked_is_not_scored(marks):
    found = measured("human", Case(additive([3.0, 1, 2]), rationale=marks))
    assert all(math.isnan(number) for number in found.values.values())
    assert "nothing to tell apart" in found.reason


def test_distinct_words_by_hand():
    """The second "good" and the stops are left out, whatever their scores and marks."""
    text = "good film . good plot , bad end !"
    scores = [2.0, 1, 9, 0, -1.5, 8, -3, 0.5, 7]
    marks = [1, 0, 1, 1, 0, 0, 1, 0, 1]
    case = Case(additive(scores, text=text), rationale=marks)
    assert measured("human-distinct", case)["auroc"] == 1  # 2 and 3 against 1, 1.5 and 0.5
    other = Case(additive([1.2, *scores[1:]], text=text), rationale=marks)
    assert measured("human-distinct", other)["auroc"] == pytest.approx(5 / 6)
    assert measured("human", case)["auroc"] < 1


@pytest.mark.parametrize("marks", [[1, 0, 1, 1, 1], [0, 1, 0, 0, 1]])
def test_without_marked_and_other_distinct_words_there_is_no_number(marks):
    explanation = additive([3.0, 1, 2, 4, 5], text="a . film b a")
    found = measured("human-distinct", Case(explanation, rationale=marks))
    assert math.isnan(found["auroc"])
    assert "nothing to tell apart" in found.reason


@pytest.mark.parametrize(
    ("marks", "message"),
    [
        ([0, 1], r"shape \(2,\): expected \(3,\)"),
        ([0, 1, 2], "other than 0 and 1"),
        (["a", "b", "c"], "not numbers"),
        ([0, 1, math.nan], "finite"),
    ],
)
def test_bad_rationales(marks, message):
    with pytest.raises(InputError, match=message):
        measured("human", Case(additive([3.0, 1, 2]), rationale=marks))
    with pytest.raises(InputError, match=message):
        measured("human-distinct", Case(additive([3.0, 1, 2]), rationale=marks))


def test_naive_bayes():
    case = Case(additive([1.0, 2, 3, 4]), naive_bayes=[-1, 3, 2, 4])
    assert measured("naive-bayes", case)["spearman"] == pytest.approx(0.8)
    loud = Case(slalom(4), score="importance", naive_bayes=[-9, 1, 2, -3])
    assert measured("naive-bayes", loud)["spearman"] == pytest.approx(
        spearman(slalom(4).importances, np.array([9.0, 1, 2, 3]))
    )
    with pytest.raises(InputError, match="one number per unit"):
        measured("naive-bayes", Case(additive([1.0, 2, 3]), naive_bayes=[1, 2]))


# From words to units


def pieces(text, *spans):
    return [Unit(text[start:end], start, end) for start, end in spans]


def test_marks_reach_every_piece_of_a_word():
    text = "Wonderful film, isn't it?"
    units = pieces(
        text, (0, 6), (6, 9), (10, 14), (14, 15), (16, 18), (18, 19), (19, 21), (22, 24), (24, 25)
    )
    explanation = additive(np.zeros(9), text=text, units=units)
    found = to_units(explanation, [1, 0, 1, 0])
    assert found.marks.tolist() == [True, True, False, False, True, True, True, False, False]
    assert (found.words, found.cut, found.unread) == (4, 0, 0)
    split = to_units(
        explanation, [0, 1, 0, 0, 1, 0, 1], ["Wonderful", "film", ",", "is", "n't", "it", "?"]
    )
    assert split.marks.tolist() == [False, False, True, False, False, True, True, False, True]
    coarse = additive(np.zeros(2), text=text, units=pieces(text, (0, 15), (16, 25)))
    assert to_units(coarse, [0, 1, 0, 0]).marks.tolist() == [True, False]


def test_counts_of_annotators():
    explanation = additive(np.zeros(4), text="one two three four")
    found = to_units(explanation, [0, 1, 3, 2], at_least=2)
    assert found.counts.tolist() == [0, 1, 3, 2]
    assert found.marks.tolist() == [False, False, True, True]
    with pytest.raises(InputError, match="go up to 3: say what counts as marked"):
        to_units(explanation, [0, 1, 3, 2])
    with pytest.raises(InputError, match="above 0"):
        to_units(explanation, [0, 1, 3, 2], at_least=0)


def test_marks_of_each_annotator():
    explanation = additive(np.zeros(4), text="one two three four")
    marks = [[1, 1, 0, 1], [0, 1, 0, 1], [0, 1, 1, 0]]
    assert to_units(explanation, marks, at_least="all").marks.tolist() == [
        False,
        True,
        False,
        False,
    ]
    assert to_units(explanation, marks, at_least=2).marks.tolist() == [False, True, False, True]
    assert to_units(explanation, np.array(marks), at_least=1).counts.tolist() == [1, 3, 1, 2]
    assert to_units(explanation, marks[:1]).marks.tolist() == [True, True, False, True]
    with pytest.raises(InputError, match="go up to 3: say what counts as marked"):
        to_units(explanation, marks)
    with pytest.raises(InputError, match="do not say how many annotators there were"):
        to_units(explanation, marks[0], at_least="all")
    with pytest.raises(InputError, match="marks are for 3 and 4 words"):
        to_units(explanation, [[1, 0, 0], [1, 0, 0, 0]], at_least="all")
    with pytest.raises(InputError, match="an annotator's marks go up to 2"):
        to_units(explanation, [[1, 0, 2, 0]], at_least="all")


def test_empty_words_stand_nowhere():
    explanation = additive(np.zeros(3), text="one two three")
    found = to_units(explanation, [1, 0, 0, 1, 1], ["", "one", "two", "three", ""])
    assert found.marks.tolist() == [False, False, True]
    assert (found.words, found.unread) == (5, 2)


def test_words_behind_the_cut_are_counted_and_not_scored():
    text = "one two three four"
    explanation = additive(
        np.zeros(2), text=text, units=pieces(text, (0, 3), (4, 7)), left_out=" three four"
    )
    found = to_units(explanation, [0, 1, 1, 1])
    assert found.marks.tolist() == [False, True]
    assert (found.words, found.cut, found.unread) == (4, 2, 0)
    unread = to_units(additive(np.zeros(1), text=text, units=pieces(text, (14, 18))), [0, 1, 0, 1])
    assert (unread.marks.tolist(), unread.cut, unread.unread) == ([True], 0, 3)


@pytest.mark.parametrize(
    ("marks", "given_words", "message"),
    [
        ([0, 1], None, "2 marks, but the text has 3 words by white space"),
        ([0, 1, 0], ["a", "good"], "3 marks, but the text has 2 words by words"),
        ([0, 1, 0], ["a", "bad", "film"], "does not occur in the text"),
        ([0, 1, 0], "a good film", "a list of words"),
        ([0, -1, 0], None, "negative"),
        ([0, "yes", 0], None, "not numbers"),
        ([[[0, 1, 0]]], None, r"shape \(1, 3\)"),
    ],
)
def test_rationales_that_do_not_fit_the_words(marks, given_words, message):
    with pytest.raises(InputError, match=message):
        to_units(additive(np.zeros(3), text="a good film"), marks, given_words)


def test_rationales_need_places():
    with pytest.raises(InputError, match="granularity"):
        to_units(additive(np.zeros(3), text="a good film", granularity="type"), [0, 1, 0])
    with pytest.raises(InputError, match="pair"):
        to_units(replace(additive(np.zeros(3), text="a good film"), text_pair="it is"), [0, 1, 0])


# Agreement and stability


def test_agreement_by_hand():
    one, other = additive([5.0, 1, -2, 4, 0.5]), additive([3.0, 1, 2, 4, -0.5])
    found = measured(AgreementWithOthers(share=0.4), Case(one, others=(other,)))
    assert found["spearman"] == pytest.approx(1 - 6 * 8 / 120)  # ranks 53142 and 42351
    assert found["top_overlap"] == 1
    assert found["sign_agreement"] == 3 / 5
    assert found["compared"] == 1
    both = measured(AgreementWithOthers(share=0.4), Case(one, others=(other, one)))
    assert both["sign_agreement"] == pytest.approx(4 / 5)


@given(st.integers(2, 12), st.integers(0, 99))
def test_an_explanation_agrees_with_itself_and_opposes_its_negative(units, seed):
    explanation = slalom(units, seed)
    same = measured("agreement", Case(explanation, others=(explanation,)))
    assert list(same.values.values()) == pytest.approx([1, 1, 1, 1])
    negative = additive(-explanation.scores())
    assert measured("agreement", Case(explanation, others=(negative,)))[
        "spearman"
    ] == pytest.approx(-1)
    other_class = explanation.for_target("no")
    assert measured("agreement", Case(explanation, others=(other_class,)))[
        "spearman"
    ] == pytest.approx(1)


def test_finer_units_are_added_up():
    text = "wonderful film, it is"
    fine = additive(
        [1.0, 2, 3, 50, 4, 5],
        text=text,
        units=pieces(text, (0, 6), (6, 9), (10, 14), (14, 15), (16, 18), (19, 21)),
    )
    coarse = additive(
        [10.0, 20, 30, 40], text=text, units=pieces(text, (0, 9), (10, 14), (16, 18), (19, 21))
    )
    one, other, compared = align(fine, coarse)
    assert (one.tolist(), other.tolist()) == ([3, 3, 4, 5], [10, 20, 30, 40])
    assert compared == 9 / 10  # the comma has no counterpart
    swapped = align(coarse, fine)
    assert (swapped[0].tolist(), swapped[1].tolist(), swapped[2]) == (
        other.tolist(),
        one.tolist(),
        compared,
    )


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (additive([1.0, 2, 3], text="another text altogether"), "different texts"),
        (
            additive(
                [1.0, 2, 3],
                units=pieces("w0 w1 w2 w3", (0, 4), (4, 7), (8, 11)),
                text="w0 w1 w2 w3",
            ),
            "without one holding the other",
        ),
        (
            additive([1.0], units=pieces("w0 w1 w2 w3", (0, 11)), text="w0 w1 w2 w3"),
            "fewer than two",
        ),
        (additive(np.ones((4, 3)), kind="multiclass"), "has only a, b, c"),
        (
            additive(
                [1.0, 2],
                units=pieces("w0 w1 w2 w3", (0, 5), (6, 11)),
                text="w0 w1 w2 w3",
                granularity="type",
            ),
            "several places",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused_with_the_reason(other, message):
    found = measured("agreement", Case(additive([1.0, 2, 3, 4]), others=(other,)))
    assert all(math.isnan(number) for number in found.values.values())
    assert message in found.reason


def test_importances_are_not_added_up():
    with pytest.raises(InputError, match="cannot be added up"):
        align(
            slalom(4),
            replace(
                slalom(2), text="w0 w1 w2 w3", units=tuple(pieces("w0 w1 w2 w3", (0, 5), (6, 11)))
            ),
            "importance",
        )


def test_stability_by_hand():
    one, other = additive([1.0, 2, 6]), additive([3.0, 2, 4])
    found = measured("stability", Case(one, others=(other,)))
    assert found["spearman"] == pytest.approx(0.5)
    noise = np.mean([math.sqrt(2), 0, math.sqrt(2)])
    assert found["relative_sd"] == pytest.approx(noise / np.std([2, 2, 5]))
    assert measured("stability", Case(one, others=(one, one)))["relative_sd"] == 0
    assert (
        "different texts or units"
        in measured("stability", Case(one, others=(additive([1.0, 2]),))).reason
    )
    assert (
        "same method"
        in measured("stability", Case(one, others=(replace(other, method="another"),))).reason
    )


# Simulatability and cost


def test_a_reader_of_the_truth_guesses_right():
    truth = additive([6.0, -5, 3, -4, 1, -1, 0.5, 0.2])
    found = measured("simulatability", Case(truth, truth.predict))
    assert found["accuracy"] > 0.95
    assert found["gain"] == pytest.approx(found["accuracy"] - found["majority"])
    blind = replace(truth, function=additive(np.zeros(8), full=0.7).function)
    assert measured("simulatability", Case(blind, truth.predict))["gain"] == pytest.approx(0)


def test_an_answer_that_never_changes_leaves_nothing_to_gain():
    truth = additive([1.0, 2, 3, 4], full=100.0)
    assert measured("simulatability", Case(truth, truth.predict)).values == {
        "gain": 0,
        "accuracy": 1,
        "majority": 1,
    }
    assert math.isnan(
        measured("simulatability", Case(additive([1.0, 2, 3], kind="regression"), truth.predict))[
            "gain"
        ]
    )


def test_cost():
    explanation = additive([1.0, 2])
    assert measured("cost", Case(explanation, seconds=1.5)).values == {
        "calls": 10,
        "seconds": 1.5,
    }
    assert measured(
        "cost", Case(explanation, seconds=np.float32(2), calls=np.int64(5000))
    ).values == {
        "calls": 5000,
        "seconds": 2,
    }
    with pytest.raises(InputError, match="of at least 0"):
        measured("cost", Case(explanation, seconds=-1))


# Asking the model


def test_the_asker_asks_each_distinct_row_once():
    model = Averaging()
    explainer = Explainer(model, method="linear", budget=200)
    explanation = explainer(TEXT)
    before = len(model.asked)
    ask = asker(explainer, explanation)
    rows = np.ones((4, len(explanation)), dtype=bool)
    rows[1:3, 0] = False
    rows[3, 4] = False  # the other "a": another row to the model, as the order differs
    answers = ask(rows)
    assert ask.calls == len(model.asked) - before == 3
    assert answers[0] == pytest.approx(explanation.prediction)
    assert answers[1] == answers[2]
    measure(Case(explanation, ask))
    assert ask.calls == len(model.asked) - before == len(set(model.asked[before:]))
    negated = asker(explainer, explanation.for_target("no"))
    assert negated(rows) == pytest.approx(-answers)
    assert Case(explanation, ask).probabilities(rows) == pytest.approx(sigmoid(answers))


def test_several_classes():
    weights = {"red": [2, 0, 0], "green": [0, 2, 0], "blue": [0, 0, 2], "so": [0.1, 0.2, 0.3]}

    def model(texts):
        logits = np.array(
            [
                np.sum([weights[word] for word in text.split()] or [[0, 0, 0]], axis=0)
                for text in texts
            ]
        )
        return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)

    explainer = Explainer(model, method="linear")
    explanation = explainer("so red green so blue red")
    case = Case(explanation, asker(explainer, explanation))
    everything = np.ones((1, 6), dtype=bool)
    assert case.probabilities(everything)[0] == pytest.approx(model([explanation.text])[0, 0])
    assert case.answered(
        np.array([[0, 0, 1, 0, 0, 0], [0, 1, 0, 0, 0, 0]], dtype=bool)
    ).tolist() == [False, True]
    found = measure(case, ["deletion", "simulatability", "fidelity-wide"])
    assert found["deletion"]["comprehensiveness"] > 0
    assert found["simulatability"]["gain"] >= 0
    assert found["fidelity-wide"]["r2"] > 0.999
    plain = measured("deletion", replace(case, ask=explanation.predict))
    assert math.isnan(plain["area"])
    assert plain["area_log_odds"] == pytest.approx(found["deletion"]["area_log_odds"], abs=1e-3)


def test_the_model_must_read_the_same_units():
    explainer = Explainer(Averaging())
    with pytest.raises(
        InputError,
        match=r"2 units, but the model reads 3; "
        r"unit 0 is 'a good' in the explanation and 'a' in the model",
    ):
        asker(
            explainer,
            additive([1.0, 2], text="a good film", units=pieces("a good film", (0, 6), (7, 11))),
        )
    with pytest.raises(
        InputError, match=r"unit 2 is nothing in the explanation and 'film' in the model"
    ):
        asker(
            explainer,
            additive([1.0, 2], text="a good film", units=pieces("a good film", (0, 1), (2, 6))),
        )


def test_the_explanation_must_be_of_this_model_and_scale():
    explainer = Explainer(Averaging())
    with pytest.raises(InputError, match="same_scale=False"):
        asker(explainer, additive([10.0, 20, 30], text="a good film"))
    imported = Explanation.from_scores(
        "a good film", ["a", "good", "film"], [0.1, 0.2, 0.3], label="yes"
    )
    ask = asker(explainer, imported, same_scale=False)
    found = measured("deletion", Case(imported, ask))
    assert not math.isnan(found["comprehensiveness"])  # the model knows what its outputs mean
    with pytest.raises(
        InputError, match=r"unknown target 'maybe': choose one of no \(0\), yes \(1\)"
    ):
        asker(
            explainer,
            replace(imported, outputs=Outputs("regression", ("maybe",))),
            same_scale=False,
        )


# Intervals


def test_a_bootstrap_interval():
    numbers = np.random.default_rng(0).normal(2, 1, 400)
    found = bootstrap([*numbers, math.nan])
    assert (found.texts, found.left_out) == (400, 1)
    assert found.mean == pytest.approx(numbers.mean())
    error = numbers.std() / 20
    assert found.low == pytest.approx(numbers.mean() - 1.96 * error, abs=0.2 * error)
    assert found.high == pytest.approx(numbers.mean() + 1.96 * error, abs=0.2 * error)
    assert found == bootstrap([*numbers, math.nan])
    assert found != bootstrap([*numbers, math.nan], seed=1)


def test_intervals_of_few_texts():
    assert math.isnan(bootstrap([]).mean)
    assert (bootstrap([3.0]).mean, bootstrap([3.0]).texts) == (3, 1)
    assert math.isnan(bootstrap([3.0]).low)
    assert (bootstrap([3.0, 3.0]).low, bootstrap([3.0, 3.0]).high) == (3, 3)


def test_methods_against_the_best():
    rng = np.random.default_rng(1)
    level = rng.normal(0, 5, 60)  # texts differ far more than methods, which pairing takes out
    table = {
        "good": level + 1,
        "close": level + 1 + rng.normal(0, 0.5, 60) - 0.02,
        "poor": level + rng.normal(0, 0.5, 60),
        "same": level + 1,
    }
    found = against_best(table, "higher")
    assert found["poor"].p < 0.001
    assert found["poor"].difference.high < 0
    assert found["same"].difference.mean == pytest.approx(0)
    assert found["same"].p == 1
    best = found["poor"].best
    assert found[best].p == found[best].p_holm == 1
    assert all(one.p_holm >= one.p for one in found.values())
    assert against_best(table, "lower")["good"].best == "poor"
    table["poor"] = [math.nan, *table["poor"][1:]]
    assert {one.difference.texts for one in against_best(table, "higher").values()} == {59}


def test_holm_corrects_for_the_methods_that_are_compared():
    noise = np.random.default_rng(0).normal(size=60)
    noise -= noise.mean()
    table = {
        "best": np.zeros(60),
        "worse": noise - 0.3,
        "as bad": noise[::-1] - 0.3,  # a p close to the one before, whose corrected p is its floor
        "near": noise - 0.1,
    }
    found = against_best(table, "higher")
    assert {one.best for one in found.values()} == {"best"}
    p, corrected = np.array(
        sorted((one.p, one.p_holm) for name, one in found.items() if name != "best")
    ).T
    assert p[0] < 0.05 < p[2] < 0.5
    assert 2 * p[1] < 3 * p[0]
    assert corrected == pytest.approx([3 * p[0], 3 * p[0], p[2]])
    assert against_best(dict(list(table.items())[:2]), "higher")["worse"].p_holm == (
        found["worse"].p
    )


def test_the_test_is_calibrated():
    rng = np.random.default_rng(2)
    found = [
        against_best(
            {"a": rng.normal(size=50), "b": rng.normal(size=50)}, "higher", draws=400, seed=seed
        )
        for seed in range(300)
    ]
    rejected = np.mean([min(one.p for one in pair.values()) < 0.1 for pair in found])
    assert 0.05 < rejected < 0.18


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (({"a": [1, 2], "b": [1]}, "higher"), "different texts"),
        (({"a": [1, 2]}, "up"), "unknown direction"),
        (({}, "higher"), "no methods"),
        (({"a": [math.nan, 1], "b": [1, math.nan]}, "higher"), "no text has a number"),
        (({"a": ["x"]}, "higher"), "not numbers"),
        (({"a": [math.inf]}, "higher"), "infinite"),
    ],
)
def test_tables_that_cannot_be_compared(arguments, message):
    with pytest.raises(InputError, match=message):
        against_best(*arguments)


def test_bad_levels():
    with pytest.raises(InputError, match="between 0 and 1"):
        bootstrap([1, 2], level=95)


# AOPC


def chance(log_odds):
    return 1 / (1 + math.exp(-log_odds))


@pytest.mark.parametrize(
    ("label", "inserted", "left"),
    [
        ("yes", (4, 3), (-3, -2)),  # the best two of the five units, the best four; the worst
        ("no", (3, 2), (-4, -3)),  # the same turned round
        (None, (4, 3), (-3, -2)),  # the model says yes
    ],
)
def test_aopc_of_a_case_worked_out_by_hand(label, inserted, left):
    truth = additive([3, 1, 0, -1, -2])
    case = Case(truth, truth.predict, label=label)
    found = measured(Aopc(step=2), replace(case, ask=lambda rows: rows @ truth.values))
    assert found["insertion"] == pytest.approx(1 - sum(map(chance, inserted)) / 2)
    assert found["deletion"] == pytest.approx(1 - sum(map(chance, left)) / 2)


def test_aopc_has_no_number_for_short_texts_and_labels_that_are_not_explained():
    short = additive([1, 2, 3, 4, 5])
    assert "has no curve" in Aopc().measure(Case(short, short.predict)).reason
    other = additive([[1.0, 0, 0]] * 7, kind="multiclass", target=0)
    case = Case(other, other.predict, label="b")
    assert Aopc().measure(case).reason == "The explained label is not the true one."
    unknown = replace(case, label="z")
    assert Aopc().measure(unknown).reason == "The true label 'z' is none of the model's."
    assert Aopc().measure(Case(short)).reason
    with pytest.raises(InputError, match="step is 0"):
        Aopc(step=0)


# The page


def test_the_page_lists_every_number():
    page = PAGE.read_text(encoding="utf-8")
    for name, found in catalogue().items():
        assert f"`{name}`" in page
        assert found.reference in page
        for number, described in found.gives.items():
            assert (
                f"| `{name}` | `{number}` | {described.direction or '–'} | {described.range} |"
                in page
            )


def test_the_page_names_what_every_metric_needs():
    fields = {
        Need.ANSWERS: "`ask`",
        Need.RATIONALE: "`rationale`",
        Need.OTHER_METHODS: "`others`",
        Need.OTHER_SEEDS: "`others` by the same method",
        Need.NAIVE_BAYES: "`naive_bayes`",
        Need.SECONDS: "`seconds`",
    }
    rows = re.findall(r"^\| `([\w-]+)` \| [^|]+ \| ([^|]+) \| [^|]+ \|$", PAGE.read_text(), re.M)
    assert dict(rows) == {
        name: ", ".join(fields[need] for need in found.needs) for name, found in catalogue().items()
    }


def test_the_examples_on_the_page_run():
    scope = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        exec(block, scope)
    assert scope["found"]["deletion"]["comprehensiveness"] > 0
    assert scope["case"].ask.calls <= 2000


def test_insertion_and_deletion_steps_bound_the_calls():
    truth, asked = additive(np.linspace(-1, 2, 300)), []
    case = Case(truth, lambda rows: asked.append(len(rows)) or truth.predict(rows))
    measured(Insertion(steps=20), case)
    assert max(asked) == 1 + 5 + 20
