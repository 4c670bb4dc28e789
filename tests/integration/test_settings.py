"""How little results depend on the tuned numbers: each is halved and doubled.

What an explanation predicts is compared, relative to how much it varies. Settings of designs choose
other rows, as another seed does; a model that is a SLALOM is found all the same.
"""

import functools
from dataclasses import replace

import numpy as np
import pytest
from alike import difference
from fakes import Averaging, word_scores
from word_games import Game

from slalom_xai import Explainer
from slalom_xai.methods import Slalom
from slalom_xai.methods.slalom import SLALOM
from slalom_xai.slalom.settings import CALLS, FIT

TEXT = "a quiet film that grows on you though it is far too long"


def average(left, sink=0.0):
    values, weights = zip((0.0, sink), *map(word_scores, left), strict=True)
    return float(np.average(values, weights=weights))


def curved(left):
    """Not the formula: an average, bent, and with something for every word."""
    level = average(left, sink=5.0)
    return level + 0.3 * np.sin(3 * level) + 0.02 * len(left)


MODELS = {
    "averaging": Averaging(),  # a SLALOM with a sink
    "planted": Game(average, start=""),  # a SLALOM without one
    "curved": Game(curved),
}


def explain(model, text=TEXT, settings=SLALOM):
    method = Slalom(settings=settings)
    return Explainer(MODELS[model], method=method, budget=180, target=1, show_progress=False)(text)


usual = functools.cache(explain)


SAME = 0.01  # of how much predictions vary: priors hardly matter where the model is the formula
WORSE = 0.02  # of the variance of the outputs, where it is not


def miss(explanation):
    """The share of the variance of ``curved`` that an explanation does not predict."""
    keep = np.random.default_rng(0).random((200, len(explanation))) < 0.6
    words = np.array([unit.text for unit in explanation.units])
    true = np.array([curved(list(words[row])) for row in keep])
    return ((explanation.predict(keep) - true) ** 2).mean() / true.var()


def changed(settings, name, factor):
    old = getattr(settings, name)
    if isinstance(old, tuple):
        return replace(settings, **{name: tuple(factor * number for number in old)})
    return replace(settings, **{name: type(old)(factor * old)})


@pytest.mark.parametrize("factor", [0.5, 2])
def test_shapley_values_hardly_depend_on_the_number_of_orders(factor):
    found = explain("curved", settings=changed(SLALOM, "orders", factor))
    before = usual("curved")
    assert difference(before, found) == 0
    scale = np.abs(before.scores("shapley")).max()
    assert found.scores("shapley") == pytest.approx(before.scores("shapley"), abs=0.02 * scale)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "name",
    [
        "strengths",
        "value_cost",
        "pair_gain",
        "tight_gain",
        "saturated_gain",
        "unbounded_gain",
        "sink_share",
        "first_prior",
        "rounds",
        "steps",
        "bound_steps",
        "last_steps",
        "settled",
        "whole_weight",
        "steepest",
        "widest",
    ],
)
@pytest.mark.parametrize("factor", [0.5, 2])
def test_predictions_hardly_depend_on_the_tuned_numbers(name, model, factor):
    before = usual(model)
    found = explain(model, settings=replace(SLALOM, fit=changed(FIT, name, factor)))
    if model == "curved":
        assert miss(found) < miss(before) + WORSE
    else:
        assert difference(before, found) < SAME


@pytest.mark.parametrize(
    "name",
    [
        "scarce",
        "single",
    ],
)
@pytest.mark.parametrize("model", ["averaging", "planted"])
@pytest.mark.parametrize("factor", [0.5, 2])
def test_other_perturbed_texts_tell_the_same_of_a_model_that_is_the_formula(name, model, factor):
    found = explain(model, settings=replace(SLALOM, calls=changed(CALLS, name, factor)))
    assert difference(usual(model), found) < SAME
