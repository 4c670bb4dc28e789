"""Pairs of units whose joint effect two scores miss: what they are, and when they are found."""

import json
from dataclasses import replace

import pytest
import torch
from games import surrogate
from made import explanation_with

from benchmarks.interactions import found_in, negating, planted_slalom, reviews
from slalom_xai import Explainer
from slalom_xai.errors import InputError
from slalom_xai.explanation import Explanation
from slalom_xai.reports.terminal import render
from slalom_xai.surrogates.interactions import Interactions


def pairs(columns=1):
    """Two pairs of five units."""
    generator = torch.Generator().manual_seed(3)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    return Interactions(
        torch.tensor([[0.0, 2.0], [2.0, 3.0]], dtype=torch.float64),
        draw(2, columns),
        draw(2, columns).abs(),
        torch.full((columns,), 0.25, dtype=torch.float64),
    )


def with_pairs(columns=1):
    return replace(surrogate(5, classes=columns, sink=True), interactions=pairs(columns))


def test_one_column_has_its_own_pairs():
    known = pairs(3)
    one = with_pairs(3).of_column(1).interactions
    torch.testing.assert_close(one.strengths[:, 0], known.strengths[:, 1])
    torch.testing.assert_close(one.errors[:, 0], known.errors[:, 1])


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
        ("errors", [[-1.0], [0.0]]),
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
    for review, _ in zip(reviews(("not",), seed=5), range(4), strict=False):
        explainer = Explainer(
            negating(review, averages),
            output="logits",
            labels=["bad", "good"],
            budget=500,
        )
        explanation = explainer(review.text).for_target("good")
        assert explanation.calls <= 500
        found.append(found_in(explanation, review))
    assert sum(found) >= 3


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


def test_a_process_sees_each_row_once_that_was_asked_about_pairs():
    review = next(reviews(("not",), seed=5))
    explainer = Explainer(negating(review, averages=True), output="logits", budget=500)
    explanation = explainer(review.text)
    assert explanation.interactions
    seen = explanation.function.correction.process.rows
    assert len(torch.unique(seen, dim=0)) == len(seen)
