"""The metric ``meaning`` on models whose scores are known."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from games import surrogate

from slalom_xai import Explainer
from slalom_xai.errors import InputError
from slalom_xai.methods.paper.shapley import shapley_values
from slalom_xai.metrics import Case, Meaning, asker
from slalom_xai.metrics.meaning import EXACT, predicted_contests, shapley_of_model
from slalom_xai.queries.repeats import contest_rows, doubled_rows, filled_rows

TEXT = "a slow start but one wonderful warm film"
WORDS = TEXT.split()
VALUES = dict(zip(WORDS, (0.5, -4, -1, 2, 0.3, 5, 3, -0.5), strict=True))
IMPORTANCES = dict(zip(WORDS, (-1, 1, -0.5, 0.2, -0.8, 1.2, 0.4, -0.5), strict=True))
REMOVED = ("removal", "alone", "slope", "doubled", "shapley")  # of which removals tell
CELLS = ("value", "importance", *REMOVED)


def average(texts):
    """A SLALOM with the scores above, as log odds."""
    answers = []
    for text in texts:
        weights = np.exp([IMPORTANCES[word] for word in text.split()])
        values = np.array([VALUES[word] for word in text.split()])
        answers.append([0, (weights * values).sum() / weights.sum()])
    return np.array(answers)


def total(texts):
    """An additive model."""
    return np.array([[0, sum(VALUES[word] for word in text.split())] for text in texts])


def meaning_of(explainer, explanation, **settings):
    case = Case(explanation, asker(explainer, explanation))
    return Meaning(**settings).measure(case)


@pytest.fixture(scope="module")
def planted():
    """As the paper's method explains it."""
    explainer = Explainer(average, output="logits", method="slalom-fidel", budget=1000, target=1)
    return explainer, explainer(TEXT)


def test_the_main_method_is_compared_with_removals_and_copies():
    explainer = Explainer(average, output="logits")
    found = meaning_of(explainer, explainer(TEXT))
    for cell in ("removal", "shapley"):
        assert found[f"{cell}_r2"] > 0.999, cell
    assert found["alone_r2"] > 0.98  # where nearly everything is missing, the fit is least sure
    for cell in ("slope", "doubled"):  # the fit saw no copies
        assert found[f"{cell}_r2"] > 0.95, cell
    for cell in REMOVED:
        assert found[f"{cell}_rank"] > 0.97, cell
    for cell in ("value", "importance"):  # they make no claim about filled texts
        assert math.isnan(found[f"{cell}_r2"])
    assert "no such score" in found.reason


def test_every_score_of_a_planted_slalom_is_what_it_is_said_to_be(planted):
    found = meaning_of(*planted)
    for cell in CELLS:
        if cell != "slope":  # of a little more, where the model is sent a whole copy
            assert found[f"{cell}_r2"] == pytest.approx(1, abs=1e-4), cell
        assert found[f"{cell}_rank"] == 1, cell
    assert found["slope_r2"] > 0.9
    assert found["rank"] == 1
    assert found["doubled_sign"] == 1
    assert found["shapley_error"] == 0
    assert found["importance_gain"] > 0.1
    assert not found.reason


def test_shuffled_scores_are_not(planted):
    explainer, explanation = planted
    order = [3, 0, 5, 1, 7, 2, 4, 6]
    function, tensor = explanation.function, torch.tensor(order)
    shuffled = replace(
        explanation,
        function=replace(
            function,
            values=function.values[:, tensor],
            importances=function.importances[:, tensor],
        ),
        column_measured=tuple(
            {name: scores[order] for name, scores in column.items()}
            for column in explanation.column_measured
        ),
    )
    found = meaning_of(explainer, shuffled)
    for cell in CELLS:
        assert found[f"{cell}_r2"] < 0.5, cell
        assert found[f"{cell}_rank"] < 0.8, cell
    assert found["doubled_sign"] < 1


def test_scores_are_not_rescaled():
    explainer = Explainer(average, output="logits")
    explanation = explainer(TEXT)
    column = explanation.column_measured[0]
    doubled = replace(explanation, column_measured=({**column, "removal": 2 * column["removal"]},))
    found = meaning_of(explainer, doubled)
    assert found["removal_rank"] == 1
    assert found["removal_r2"] < 0.5


def test_nothing_is_taken_from_the_explanation(planted):
    _, explanation = planted
    asked = []

    def listening(texts):
        asked.extend(texts)
        return average(texts)

    other = Explainer(listening, output="logits")
    meaning_of(other, explanation)
    for word in WORDS:
        assert " ".join([word] * len(WORDS)) in asked
        assert word in asked
    assert "slow slow slow slow warm warm warm warm" in asked
    assert "warm warm warm warm slow slow slow slow" in asked
    assert "a slow slow start but one wonderful warm film" in asked
    assert len(asked) == len(set(asked)) == 1 + 8 + 8 + 56 + 2**8 - 2


@pytest.mark.parametrize(
    ("method", "stated", "other"),
    [
        ("occlusion", "removal", "shapley"),
        ("linear", "removal", "shapley"),
        pytest.param("permutation-shap", "shapley", "removal", marks=pytest.mark.long),
    ],
)
def test_additive_methods_are_compared_with_what_they_estimate(method, stated, other):
    explainer = Explainer(total, output="logits", method=method)
    found = meaning_of(explainer, explainer(TEXT))
    assert found[f"{stated}_r2"] == pytest.approx(1, abs=1e-4)
    assert found[f"{stated}_rank"] == pytest.approx(1)
    assert found["alone_rank"] == found["doubled_rank"] == pytest.approx(1)
    for cell in (other, "value", "importance", "slope"):
        assert math.isnan(found[f"{cell}_r2"])
    assert "no such score" in found.reason


def test_types_have_no_place_for_a_copy():
    options = {"output": "logits", "granularity": "type", "target": 1}
    explainer = Explainer(average, method="slalom-fidel", budget=1000, **options)
    found = meaning_of(explainer, explainer(f"{TEXT} but slow but warm"))
    for cell in ("value", "importance", "removal", "alone"):
        assert found[f"{cell}_r2"] == pytest.approx(1, abs=1e-4), cell
    assert math.isnan(found["slope_r2"])
    assert "several places" in found.reason


def test_a_model_that_refuses_repeats():
    def distinct(texts):
        if any(len(set(text.split())) < len(text.split()) for text in texts):
            raise ValueError("a word stands twice")
        return average(texts)

    explainer = Explainer(distinct, output="logits")
    found = meaning_of(explainer, explainer(TEXT))
    assert found["removal_r2"] == pytest.approx(1, abs=1e-4)
    assert math.isnan(found["value_r2"])
    assert "a word stands twice" in found.reason


def test_what_cannot_be_asked_is_said(planted):
    _, explanation = planted
    found = Meaning().measure(Case(explanation, explanation.predict))
    assert math.isnan(found["rank"])
    assert "asker()" in found.reason
    explainer = Explainer(average, output="logits")
    found = meaning_of(explainer, explainer("warm"))
    assert "one unit" in found.reason
    with pytest.raises(InputError, match="at least 2 of each"):
        Meaning(contests=1)


def test_contests_of_two_units_by_hand(planted):
    _, explanation = planted
    pairs = np.array([[WORDS.index("slow"), WORDS.index("warm")]])
    slow, warm = math.exp(1), math.exp(0.4)
    expected = (-4 * slow + 3 * warm) / (slow + warm)
    assert predicted_contests(explanation, pairs) == pytest.approx(expected, abs=1e-3)


def test_rows_of_copies_by_hand():
    copies = np.array([4, 4, 3])
    assert filled_rows(np.array([0, 2]), copies[[0, 2]]).tolist() == [[0, 0, 0, 0], [2, 2, 2, -1]]
    rows = contest_rows(np.array([[0, 1], [1, 2]]), copies)
    assert rows.tolist() == [[0, 0, 1, 1], [1, 2, -1, -1]]
    assert doubled_rows(3).tolist() == [[0, 0, 1, 2], [0, 1, 1, 2], [0, 1, 2, 2]]


def test_all_subsets_give_exact_shapley_values():
    game = surrogate(units=6)
    found = shapley_of_model(
        lambda masks: game.predict(torch.as_tensor(masks))[:, 0].numpy(),
        float(game.empty()[0]),
        6,
        orders=2,
        rng=np.random.default_rng(0),
    )
    assert found.values == pytest.approx(shapley_values(game)[:, 0].numpy())
    assert found.error == 0


def test_orders_there_and_back_are_exact_for_pairs_and_say_their_error_otherwise():
    units = EXACT + 2
    rng = np.random.default_rng(1)
    worth, pairs = rng.normal(size=units), np.triu(rng.normal(size=(units, units)), k=1)

    def of_pairs(masks):
        kept = masks.astype(float)
        return kept @ worth + np.einsum("mi,ij,mj->m", kept, pairs, kept)

    expected = worth + (pairs.sum(axis=0) + pairs.sum(axis=1)) / 2
    found = shapley_of_model(of_pairs, 0.0, units, orders=2, rng=rng)
    assert found.values == pytest.approx(expected)
    assert found.error == pytest.approx(0, abs=1e-12)
    game = surrogate(units=units)
    truth = shapley_values(game)[:, 0].numpy()
    found = shapley_of_model(
        lambda masks: game.predict(torch.as_tensor(masks))[:, 0].numpy(),
        float(game.empty()[0]),
        units,
        orders=10,
        rng=rng,
    )
    missed = ((found.values - truth) ** 2).mean() / found.values.var()
    assert 0 < found.error < 0.5
    assert missed < 10 * found.error
