"""How little results depend on the constants of the solvers: each is halved and doubled.

What a fit predicts is compared, as a part of the spread of the outputs, on a planted SLALOM with
noise and on a tiny transformer, neither of which the surrogate can follow exactly.
"""

from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from games import surrogate
from tiny import TEXT, log_odds, shortened, tiny

from slalom_xai.surrogates import additive, assembly, curvature, exact_shapley, influence, search
from slalom_xai.surrogates.fit import fit_slalom
from slalom_xai.surrogates.influence import covariance
from slalom_xai.surrogates.problem import Extras

NOT_SEEN = 0.01  # of the outputs' spread: well below what noise and misfit leave
STEPS = [field.name for field in fields(search.SearchSettings)]
twice_and_half = pytest.mark.parametrize("factor", [0.5, 2.0])


def kept_rows(units, rows):
    """The whole text, and rows of every size."""
    rng = np.random.default_rng(0)
    deleted = np.concatenate([[0], rng.integers(1, units, rows - 1)])
    ranks = rng.random((rows, units)).argsort(axis=1).argsort(axis=1)
    return ranks >= deleted[:, None]


def planted():
    """Rows and noisy outputs of a SLALOM with two heads, of which one is fitted."""
    counts = torch.tensor(kept_rows(10, 150)).double()
    clean = surrogate(10, heads=2, seed=4).predict(counts)
    noise = torch.randn(clean.shape, generator=torch.Generator().manual_seed(0)).double()
    return counts, clean + 0.05 * noise


def transformer():
    """Rows and log odds of a tiny encoder."""
    model, tokenizer = tiny("bert")
    masks = kept_rows(len(tokenizer(TEXT, add_special_tokens=False)["input_ids"]), 150)
    outputs = [log_odds(model, *row) for row in shortened(tokenizer, masks)]
    return torch.tensor(masks).double(), torch.tensor(outputs).double()[:, None]


@pytest.fixture(scope="module", params=[planted, transformer], ids=["planted", "transformer"])
def data(request):
    return request.param()


def predictions(data, **settings):
    """What a fit predicts for its rows, (m, 1), in units of the outputs' spread."""
    counts, outputs = data
    settings = {"prior": 1e-3, "extras": Extras(anchored=True), **settings}
    return fit_slalom(counts, outputs, **settings).surrogate.predict(counts) / outputs.std()


def farthest(one, other):
    return float((one - other).abs().max())


@twice_and_half
@pytest.mark.parametrize("name", STEPS)
def test_the_search_ends_in_the_same_place(data, name, factor, monkeypatch):
    before = predictions(data)
    changed = replace(search.SEARCH, **{name: factor * getattr(search.SEARCH, name)})
    monkeypatch.setattr(search, "SEARCH", changed)
    assert farthest(predictions(data), before) < NOT_SEEN


@twice_and_half
def test_the_tolerance_and_the_least_curvature_do_not_show(data, factor, monkeypatch):
    before = predictions(data)
    assert farthest(predictions(data, tolerance=factor * 1e-7), before) < NOT_SEEN
    least = factor * curvature.CURVATURE.least_left
    monkeypatch.setattr(curvature, "CURVATURE", curvature.CurvatureSettings(least))
    assert farthest(predictions(data), before) < NOT_SEEN


@twice_and_half
@pytest.mark.parametrize("name", ["value_prior", "no_variance"])
def test_the_ridge_on_values_does_not_show(data, name, factor, monkeypatch):
    before = predictions(data)
    objective = assembly.OBJECTIVE
    changed = replace(objective, **{name: factor * getattr(objective, name)})
    monkeypatch.setattr(assembly, "OBJECTIVE", changed)
    assert farthest(predictions(data), before) < NOT_SEEN


@twice_and_half
def test_the_weight_of_the_additive_heads_sink_hardly_shows(data, factor, monkeypatch):
    """It decides how nearly linear that head is, so it is a choice of the model, if a mild one."""
    extras = Extras(anchored=True, additive=True)
    before = predictions(data, extras=extras)
    objective = assembly.OBJECTIVE
    changed = replace(objective, additive_sink=factor * objective.additive_sink)
    monkeypatch.setattr(assembly, "OBJECTIVE", changed)
    assert farthest(predictions(data, extras=extras), before) < 0.1


@twice_and_half
def test_ridges_that_make_a_curvature_definite_do_not_show_in_errors(data, factor, monkeypatch):
    counts, outputs = data
    fit = fit_slalom(counts, outputs, extras=Extras(anchored=True))
    before = covariance(counts, outputs, fit).joint[0].diagonal().sqrt()
    ridges = tuple(factor * ridge for ridge in influence.COVARIANCE.ridges)
    changed = replace(influence.COVARIANCE, ridges=ridges)
    monkeypatch.setattr(influence, "COVARIANCE", changed)
    after = covariance(counts, outputs, fit).joint[0].diagonal().sqrt()
    torch.testing.assert_close(after, before, rtol=1e-3, atol=0)


@twice_and_half
def test_nodes_of_the_quadrature_do_not_show_in_shapley_values(factor, monkeypatch):
    known = surrogate(12, seed=2)
    before = exact_shapley.shapley_values(known)
    settings = exact_shapley.FOR_VALUES
    changed = replace(
        settings,
        chances=int(factor * settings.chances),
        density=factor * settings.density,
        fewest=factor * settings.fewest,
    )
    monkeypatch.setattr(exact_shapley, "FOR_VALUES", changed)
    assert farthest(exact_shapley.shapley_values(known), before) < 1e-6


@twice_and_half
def test_the_grid_of_ridges_hardly_shows_in_a_linear_fit(data, factor, monkeypatch):
    counts, outputs = data
    before = additive.fit_additive(counts, outputs, outputs[0]).surrogate.predict(counts)
    regression = additive.RIDGE_REGRESSION
    changed = replace(regression, ridges=tuple(factor * ridge for ridge in regression.ridges))
    monkeypatch.setattr(additive, "RIDGE_REGRESSION", changed)
    after = additive.fit_additive(counts, outputs, outputs[0]).surrogate.predict(counts)
    assert farthest(after, before) < 0.1 * float(outputs.std())
