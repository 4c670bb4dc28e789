"""Pairs of units whose joint effect two scores miss: what they add, what they are, when found."""

import itertools
import json
import math
from dataclasses import replace

import pytest
import torch
from games import surrogate
from made import explanation_with

from benchmarks.interactions import found_in, negating, planted_slalom, reviews
from slalom_xai import Explainer
from slalom_xai.errors import InputError
from slalom_xai.estimators.slalom.method import Slalom
from slalom_xai.explanation import Explanation
from slalom_xai.reports.terminal import render
from slalom_xai.surrogates.exact_shapley import shapley_values
from slalom_xai.surrogates.interactions import Interactions
from slalom_xai.surrogates.mask_rows import MaskRows
from slalom_xai.surrogates.scores import slalom_score


def pairs(columns=1, fading=(0.3, 0.0)):
    """Two pairs of five units."""
    generator = torch.Generator().manual_seed(3)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    return Interactions(
        torch.tensor([[0.0, 2.0], [2.0, 3.0]], dtype=torch.float64),
        draw(2, columns),
        draw(2, columns).abs(),
        draw(2, columns),
        torch.tensor(fading, dtype=torch.float64),
        torch.full((columns,), 0.25, dtype=torch.float64),
    )


def with_pairs(columns=1, sink=True):
    return replace(surrogate(5, classes=columns, sink=sink), interactions=pairs(columns))


def every_row(units=5):
    rows = list(itertools.product((0.0, 1.0), repeat=units))
    return torch.tensor(rows, dtype=torch.float64)


def test_a_pair_adds_where_both_are_missing_and_fades_with_others():
    known = pairs()
    rows = torch.tensor([[1, 1, 1, 1, 1], [0, 1, 1, 0, 1], [0, 1, 0, 1, 1], [0, 0, 0, 1, 0]])
    first = float(known.corrections[0, 0])
    expected = [0.0, 0.0, first, first * math.exp(-0.6)]
    assert known.predict(rows)[:, 0].tolist() == pytest.approx(expected)


def test_repeats_of_a_unit_are_no_part_of_a_pair():
    rows = torch.tensor([[3, 1, 0, 1, 1], [1, 1, 1, 1, 4]])
    assert not pairs().predict(rows).any()


@pytest.mark.parametrize("columns", [1, 3])
def test_the_fast_form_predicts_the_same(columns):
    known, rows = with_pairs(columns), every_row()
    torch.testing.assert_close(MaskRows(rows).predict(known), known.predict(rows))
    assert not torch.allclose(known.predict(rows), replace(known, interactions=None).predict(rows))
    torch.testing.assert_close(known.empty(), known.predict(rows[:1])[0])
    for column in range(columns):
        alone = known.of_column(column).predict(rows)
        torch.testing.assert_close(alone[:, 0], known.predict(rows)[:, column])


def test_shapley_values_are_those_of_all_orders():
    known = with_pairs(2)
    units = known.units
    expected = torch.zeros(units, 2, dtype=torch.float64)
    for order in itertools.permutations(range(units)):
        rows = torch.zeros(units + 1, units, dtype=torch.float64)
        for position, unit in enumerate(order):
            rows[position + 1 :, unit] = 1
        expected[list(order)] += known.predict(rows).diff(dim=0) / math.factorial(units)
    torch.testing.assert_close(shapley_values(known), expected, atol=1e-7, rtol=1e-7)


@pytest.mark.parametrize("name", ["alone", "removal"])
def test_scores_are_what_is_predicted(name):
    known, only = with_pairs(), torch.eye(5, dtype=torch.float64)
    expected = known.predict(only)
    if name == "removal":
        expected = known.predict(torch.ones_like(only[:1])) - known.predict(1 - only)
    torch.testing.assert_close(slalom_score(known, name, 0), expected[:, 0])


def explained():
    return explanation_with(with_pairs(), "one two three four five")


def test_a_reader_gets_pairs_with_the_sign_of_the_target():
    explanation = explained()
    found = {pair.units: pair for pair in explanation.interactions}
    assert found[0, 2].texts == ("one", "three")
    assert found[0, 2].strength == pytest.approx(float(pairs().strengths[0, 0]))
    assert found[0, 2].error == pytest.approx(float(pairs().errors[0, 0]))
    other = {pair.units: pair for pair in explanation.for_target("no").interactions}
    assert other[0, 2].strength == -found[0, 2].strength
    assert explanation.interaction_share == 0.25
    strengths = [abs(pair.strength) for pair in explanation.interactions]
    assert strengths == sorted(strengths, reverse=True)
    assert explanation.to_frame().attrs["interactions"][0]["units"] in ((0, 2), (2, 3))


def test_files_hold_pairs_and_older_ones_have_none(tmp_path):
    explanation = explained()
    path = explanation.save(tmp_path / "one.json")
    assert Explanation.load(path) == explanation
    data = json.loads(path.read_text(encoding="utf-8"))
    assert data["interactions"][0]["texts"] == list(explanation.interactions[0].texts)
    del data["interactions"], data["function"]["interactions"]
    assert Explanation.from_dict(data).interactions == ()


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("pairs", [[0, 2], [3, 2]]),
        ("pairs", [[0, 2], [2, 5]]),
        ("fading", [-1.0, 0.0]),
        ("strengths", [[1.0]]),
        ("shares", [2.0]),
    ],
)
def test_damaged_pairs_are_refused(name, entry):
    data = explained().to_dict()
    data["function"]["interactions"][name] = entry
    with pytest.raises(InputError, match=r"function\.interactions"):
        Explanation.from_dict(data)


def test_the_terminal_names_the_strongest_pair(capsys):
    from rich.console import Console

    Console(width=120).print(render(explained()))
    printed = capsys.readouterr().out
    first = explained().interactions[0]
    assert " … ".join(first.texts) in printed
    assert f"{first.strength:+.2f}" in printed
    assert "They take 25% of the error that the two scores leave." in " ".join(printed.split())


@pytest.mark.parametrize("averages", [True, False])
def test_not_before_good_is_found(averages):
    found = []
    for review, _ in zip(reviews(("not",), seed=5), range(5), strict=False):
        explainer = Explainer(
            negating(review, averages),
            method=Slalom(process=False),
            output="logits",
            labels=["bad", "good"],
            budget=1000,
        )
        explanation = explainer(review.text).for_target("good")
        assert explanation.calls <= 1000
        found.append(found_in(explanation, review))
    assert sum(found) >= 4


@pytest.mark.parametrize("sink", [True, False])
def test_a_slalom_has_no_interactions(sink):
    for seed in range(3):
        text, answer = planted_slalom(15 + 4 * seed, sink, seed)
        assert Explainer(answer, output="logits", budget=500)(text).interactions == ()


def test_a_sum_has_no_interactions():
    def answer(texts):
        return [[0.0, sum(int(word[1:]) % 7 - 3.0 for word in text.split())] for text in texts]

    text = " ".join(f"w{number}" for number in range(20))
    assert Explainer(answer, output="logits", budget=500)(text).interactions == ()
