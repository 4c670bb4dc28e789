"""How little results depend on the tuned numbers: each is halved and doubled.

What an explanation predicts is compared, relative to how much it varies. Settings of designs choose
other rows, as another seed does; a model that is a SLALOM is found all the same.
"""

import functools
import sys
from dataclasses import replace

import numpy as np
import pytest
from alike import difference
from fakes import Averaging, word_scores
from slalom_xai.estimators.slalom.settings import SLALOM
from word_games import Game

from slalom_xai import Explainer
from slalom_xai.designs import DESIGN
from slalom_xai.estimators import Slalom
from slalom_xai.estimators.evidence import EVIDENCE
from slalom_xai.estimators.exactness import EXACTNESS

TEXT = "a quiet film that grows on you though it is far too long"
SHORT = "a quiet film"


def average(left, sink=0.0):
    values, weights = zip((0.0, sink), *map(word_scores, left), strict=True)
    return float(np.average(values, weights=weights))


def curved(left):
    """No SLALOM: an average, bent, and with something for every word."""
    level = average(left, sink=5.0)
    return level + 0.3 * np.sin(3 * level) + 0.02 * len(left)


MODELS = {
    "averaging": Averaging(),  # a SLALOM with a sink
    "planted": Game(average, start=""),  # a SLALOM without one
    "curved": Game(curved),
}


def explain(model, text=TEXT, settings=SLALOM):
    explainer = Explainer(
        MODELS[model], method=Slalom(settings=settings), budget=180, show_progress=False
    )
    return explainer(text)


usual = functools.cache(explain)


SAME = 1e-8  # rounding
ALIKE = 0.05  # of how much predictions vary


def changed(settings, name, factor):
    old = getattr(settings, name)
    if isinstance(old, tuple):
        return replace(settings, **{name: tuple(factor * number for number in old)})
    return replace(settings, **{name: type(old)(factor * old)})


def patch(monkeypatch, default, new):
    """Has every module of the package use other settings."""
    for module in list(sys.modules.values()):
        if module.__name__.startswith("slalom_xai."):
            for name, value in list(vars(module).items()):
                if value is default:
                    monkeypatch.setattr(module, name, new)


@pytest.mark.parametrize(
    ("model", "name", "most"),
    [
        ("averaging", "no_prior", SAME),
        ("averaging", "weaker_priors", SAME),
        ("averaging", "nearly", SAME),
        ("averaging", "tolerance", SAME),
        ("planted", "no_prior", SAME),
        ("planted", "first_prior", SAME),
        ("planted", "bare_tolerance", SAME),
        ("curved", "indifference", ALIKE),
        ("curved", "additive_rows", 0.2),  # as the next one
        ("curved", "additive_head_rows", 0.2),  # decides whether another candidate is tried
        ("curved", "tolerance", ALIKE),
        ("curved", "first_tolerance", ALIKE),
        ("curved", "most_steps", ALIKE),
    ],
)
@pytest.mark.parametrize("factor", [0.5, 2])
def test_predictions_hardly_depend_on_the_settings_of_slalom(model, name, most, factor):
    found = explain(model, settings=changed(SLALOM, name, factor))
    assert difference(usual(model), found) < most


@pytest.mark.parametrize("factor", [0.5, 2])
def test_the_steady_prior_hardly_matters_where_no_rows_are_left_to_choose_by(factor):
    found = explain("curved", SHORT, changed(SLALOM, "steady_prior", factor))
    assert difference(usual("curved", SHORT), found) < ALIKE


@pytest.mark.parametrize(
    ("settings", "name", "model", "most"),
    [
        (EXACTNESS, "exact", "averaging", SAME),
        (EXACTNESS, "left_open", "averaging", SAME),
        (EVIDENCE, "margin", "curved", ALIKE),
        (DESIGN, "most_local", "planted", SAME),
        (DESIGN, "enough_held_out", "planted", SAME),
        (DESIGN, "quota_part", "planted", SAME),
        (DESIGN, "short_share", "planted", SAME),
        (DESIGN, "local_share", "planted", SAME),
        (DESIGN, "wide_share", "planted", SAME),
    ],
)
@pytest.mark.parametrize("factor", [0.5, 2])
def test_predictions_hardly_depend_on_rows_and_thresholds(
    settings, name, model, most, factor, monkeypatch
):
    before = usual(model)
    patch(monkeypatch, settings, changed(settings, name, factor))
    assert difference(before, explain(model)) < most
