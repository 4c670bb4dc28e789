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

from slalom_xai.methods.additive import RIDGE_REGRESSION, fit_additive
from slalom_xai.methods.paper import distinct_units as errors
from slalom_xai.methods.paper import fit
from slalom_xai.methods.paper.shapley import FOR_VALUES, shapley_values

NOT_SEEN = 0.01  # of the outputs' spread: well below what noise and misfit leave
CONSTANTS = [field.name for field in fields(fit.FitSettings)]
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
    return fit.fit_slalom(counts, outputs, **settings).surrogate.predict(counts) / outputs.std()


def scaled(settings, factor, *names):
    """The settings with some of their numbers so many times as large."""
    numbers = {}
    for name in names:
        old = getattr(settings, name)
        alone = not isinstance(old, tuple)
        numbers[name] = type(old)(factor * old) if alone else tuple(factor * one for one in old)
    return replace(settings, **numbers)


def farthest(one, other):
    return float((one - other).abs().max())


@twice_and_half
@pytest.mark.parametrize("name", CONSTANTS)
def test_the_search_ends_in_the_same_place(data, name, factor, monkeypatch):
    before = predictions(data)
    changed = factor * getattr(fit.FIT, name)
    monkeypatch.setattr(fit, "FIT", replace(fit.FIT, **{name: changed}))
    assert farthest(predictions(data), before) < NOT_SEEN


@twice_and_half
def test_the_tolerance_does_not_show(data, factor):
    assert farthest(predictions(data, tolerance=factor * 1e-7), predictions(data)) < NOT_SEEN


@twice_and_half
@pytest.mark.parametrize("name", ["ridges", "step", "groups"])
def test_constants_of_the_errors_hardly_show(data, name, factor, monkeypatch):
    """Groups of rows sum up what single rows tell, so their number shows a little."""
    counts, outputs = data
    fitted = fit.fit_slalom(counts, outputs)
    before = errors.standard_errors(fitted.surrogate, errors.moves_of(fitted), 0)["value"]
    changed = {
        "ridges": tuple(factor * ridge for ridge in errors.ERRORS.ridges),
        "step": factor * errors.ERRORS.step,
        "groups": int(factor * 100),
    }
    monkeypatch.setattr(errors, "ERRORS", replace(errors.ERRORS, **{name: changed[name]}))
    after = errors.standard_errors(fitted.surrogate, errors.moves_of(fitted), 0)["value"]
    ratio = after / before
    assert abs(float(ratio.median()) - 1) < (0.2 if name == "groups" else 1e-3)


@twice_and_half
def test_nodes_of_the_quadrature_do_not_show_in_shapley_values(factor):
    known = surrogate(12, seed=2)
    changed = scaled(FOR_VALUES, factor, "chances", "density", "fewest")
    assert farthest(shapley_values(known, changed), shapley_values(known)) < 1e-6


@twice_and_half
def test_the_grid_of_ridges_hardly_shows_in_a_linear_fit(data, factor):
    counts, outputs = data
    before, after = (
        fit_additive(counts, outputs, outputs[0], settings=settings).surrogate.predict(counts)
        for settings in (RIDGE_REGRESSION, scaled(RIDGE_REGRESSION, factor, "ridges"))
    )
    assert farthest(after, before) < 0.1 * float(outputs.std())
