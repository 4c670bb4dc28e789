"""Methods of the package shapiq: what they find, and what is said where the package is missing."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from pair_games import MAINS, TOGETHER, WORDS, game
from tiny import SHAPIQ

from slalom_xai import Explainer
from slalom_xai.errors import InputError
from slalom_xai.methods import LeverageShap, ProxySpex, RegressionMsr
from slalom_xai.methods.shapiq_methods import from_interactions

MISSING = sys.version_info < (3, 12) or find_spec("shapiq") is None
needs_shapiq = pytest.mark.skipif(MISSING, reason="needs shapiq 1.8, on Python 3.12 or later")


def test_interactions_become_a_function_that_meets_the_whole_text():
    columns = [{(): 7.0, (0,): 1.0, (2,): 3.0, (0, 1): 5.0, (2, 1): -2.0}, {(1,): 4.0}]
    full = torch.tensor([10.0, 20.0]).double()
    found = from_interactions(columns, 3, full)
    masks = torch.tensor([[a, b, c] for a in (0, 1) for b in (0, 1) for c in (0, 1)]).double()
    first = masks @ torch.tensor([1.0, 0, 3.0]).double()
    first += 5 * masks[:, 0] * masks[:, 1] - 2 * masks[:, 1] * masks[:, 2]
    second = 4 * masks[:, 1]
    assert torch.allclose(found.predict(masks)[:, 0], first - first[-1] + 10)
    assert torch.allclose(found.predict(masks)[:, 1], second - second[-1] + 20)


@pytest.mark.skipif(not MISSING, reason="shapiq is there")
@pytest.mark.parametrize("method", SHAPIQ)
def test_without_the_package_one_line_says_what_to_install(method):
    with pytest.raises(InputError, match=r"needs the package shapiq.*pip install") as caught:
        Explainer(game, output="logits", method=method)("one two three")
    assert "\n" not in str(caught.value)


@needs_shapiq
@pytest.mark.parametrize(
    ("method", "tolerance"),
    [(LeverageShap(), 0.3), (RegressionMsr(), 0.5), (ProxySpex(tuned=False), 1.0)],
)
def test_shapley_values_of_a_planted_game_are_near(method, tolerance):
    places = {word: place for place, word in enumerate(WORDS)}
    shapley = np.zeros(len(WORDS))
    for word, worth in MAINS.items():
        shapley[places[word]] += worth
    for pair, worth in TOGETHER.items():
        shapley[[places[word] for word in pair]] += worth / 2
    explainer = Explainer(game, output="logits", method=method, budget=600)
    found = explainer(" ".join(WORDS))
    assert np.abs(found.values - shapley).max() < tolerance
    assert found.calls <= 600
    assert found == explainer(" ".join(WORDS))
    assert found.surrogate == ("pairs" if isinstance(method, ProxySpex) else "linear")


@needs_shapiq
def test_several_columns_share_the_calls():
    def three(texts):
        return [[0.0, 2 * first, -first] for _, first in game(texts)]

    found = Explainer(three, output="logits", method="leverage-shap", budget=400)(" ".join(WORDS))
    assert found.calls <= 400
    assert len(found.full) == 3
