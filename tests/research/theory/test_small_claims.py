"""The parts of smaller claims that have answers by hand; ``test_claims`` runs them whole."""

import math

import numpy as np
import pytest
import torch

from research.theory.paper.near_sums import with_cls, with_positions
from research.theory.paper.shapley_steps import last_step
from research.theory.paper.transformer import answers
from research.theory.paper.unnormalised import OneLayer
from research.theory.slides.averages import WordAverages
from research.theory.slides.show_anchors import AllRows
from slalom_xai.methods.paper.formula import SlalomSurrogate

WEIGHTS = torch.tensor([1.0, -2.0, 4.0], dtype=torch.float64)


def test_with_cls_a_text_gets_its_sum_over_one_plus_its_length_times_epsilon():
    answered = answers(with_cls(WEIGHTS, 0.5), [[3, 0], [3, 0, 2, 2], [3]])[:, 0]
    assert answered.tolist() == pytest.approx([1 / 1.5, 9 / 2.5, 0.0])


def test_with_positions_the_first_word_stands_outside_the_average():
    answered = answers(with_positions(WEIGHTS, 0.5), [[3 + 1], [3 + 0, 2, 2], [3 + 2, 1]])[:, 0]
    assert answered.tolist() == pytest.approx([-2.0, 1 + 8 / 2, 4 - 2 / 1.5])


def test_eq_69_is_what_the_text_loses():
    """Weights 1 and 3, values 2 and −2: F = −1 and, without the first, −2."""
    slalom = SlalomSurrogate(
        torch.tensor([2.0, -2.0], dtype=torch.float64)[None, :, None],
        torch.tensor([[0.0, math.log(3)]], dtype=torch.float64),
    )
    assert last_step(slalom).tolist() == pytest.approx([-1 + 2, -1 - 2])


def test_padding_changes_nothing_in_either_attention():
    for kind in ("softmax", "unnormalised"):
        model = OneLayer(kind, special=True, seed=0)
        alone = torch.cat([model.log_odds([row]) for row in ([1], [2, 3, 4])])
        assert torch.allclose(model.log_odds([[1], [2, 3, 4]]), alone, atol=1e-5)


def test_precision_is_counted_over_all_rows():
    """The class is the sign of 3 a + b - 2 c - 0.5, where a, b, c are 1 where kept."""
    change = np.array([[3.0, 1.0, -2.0]])
    averages = WordAverages(
        kept=np.ones((1, 3)),
        kept_values=change,
        removed=np.ones((1, 3)),
        removed_values=np.zeros((1, 3)),
        always=np.ones(1),
        always_values=np.array([-0.5]),
    )
    rows = AllRows.of(averages)
    assert rows.coefficients.tolist() == [3.0, 1.0, -2.0]
    assert rows.precision(()) == 5 / 8  # all four with a, and b alone
    assert rows.precision((0,)) == 1.0
    assert rows.precision((1,)) == 3 / 4
    assert rows.precision((2,)) == 2 / 4
    assert rows.largest(2) == (0, 1)
    assert rows.best(1) == 1.0
    assert rows.smallest_anchor() == 1
