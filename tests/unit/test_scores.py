import itertools
import math

import pytest
import torch
from games import from_slots, surrogate

from slalom_xai.surrogates.exact_shapley import shapley_derivatives, shapley_values
from slalom_xai.surrogates.formula import SlalomSurrogate
from slalom_xai.surrogates.influence import Covariance
from slalom_xai.surrogates.scores import SCORES, slalom_score, slalom_standard_errors


def brute_force(known):
    """Shapley values by the definition, F(empty) = 0 without a sink."""
    n = known.units
    rows = torch.tensor(list(itertools.product([0.0, 1.0], repeat=n))).double()
    outcome = torch.cat([known.empty()[None], known.predict(rows[1:])])
    size = rows.sum(dim=1).long()
    powers = 2 ** torch.arange(n - 1, -1, -1)
    index = (rows.long() * powers).sum(dim=1)
    assert torch.equal(index, torch.arange(2**n))
    phi = []
    for i in range(n):
        without = torch.nonzero(rows[:, i] == 0)[:, 0]
        weight = torch.tensor(
            [1 / (n * math.comb(n - 1, int(k))) for k in size[without]], dtype=torch.float64
        )
        phi.append(weight @ (outcome[without + powers[i]] - outcome[without]))
    return torch.stack(phi)


@pytest.mark.parametrize("sink", [False, True])
@pytest.mark.parametrize("units", [1, 2, 5, 12])
def test_shapley_values_equal_brute_force(units, sink):
    known = surrogate(units, classes=2, sink=sink, seed=units)
    assert (shapley_values(known) - brute_force(known)).abs().max() < 1e-8


def test_shapley_values_of_wide_importances_and_several_heads():
    known = surrogate(8, heads=2, seed=1)
    wide = SlalomSurrogate(
        known.values, 6 * known.importances, known.sink_values, 6 * known.sink_importances
    )
    assert (shapley_values(wide) - brute_force(wide)).abs().max() < 1e-8


@pytest.mark.parametrize("sink", [False, True])
@pytest.mark.parametrize("units", [40, 512, 900])
def test_shapley_values_add_up(units, sink):
    known = surrogate(units, sink=sink)
    total = known.predict(torch.ones(1, units))[0] - known.empty()
    assert (shapley_values(known).sum(dim=0) - total).abs().max() < 1e-6


@pytest.mark.parametrize("sink", [False, True])
def test_shapley_derivatives_equal_differences(sink):
    known = surrogate(6, sink=sink, seed=2)
    by_values, by_importances = shapley_derivatives(known, 0)
    values, importances = known.slot_values(), known.slot_importances()
    step = 1e-5
    for j in range(importances.shape[1]):
        nudge = torch.zeros_like(importances)
        nudge[0, j] = step
        up, down = (
            shapley_values(from_slots(values + s * nudge[..., None], importances, sink))
            for s in (1, -1)
        )
        assert torch.allclose((up - down)[:, 0] / (2 * step), by_values[:, j], atol=1e-4)
        up, down = (
            shapley_values(from_slots(values, importances + s * nudge, sink)) for s in (1, -1)
        )
        assert torch.allclose((up - down)[:, 0] / (2 * step), by_importances[:, j], atol=1e-4)


@pytest.mark.parametrize("sink", [False, True])
def test_scores_say_what_they_promise(sink):
    known = surrogate(7, sink=sink, seed=4)
    everything = torch.ones(1, 7).double()
    full = known.predict(everything)
    without = known.predict(1 - torch.eye(7).double())
    assert torch.allclose(slalom_score(known, "removal", 0), (full - without)[:, 0])
    assert torch.allclose(
        slalom_score(known, "alone", 0), known.predict(torch.eye(7).double())[:, 0]
    )
    softer = known.predict(everything - 1e-6 * torch.eye(7).double())
    assert torch.allclose(slalom_score(known, "slope", 0), (full - softer)[:, 0] / 1e-6, atol=1e-4)
    assert torch.allclose(
        slalom_score(known, "linearized", 0), known.values[0, :, 0] * known.importances[0].exp()
    )
    assert slalom_score(known, "importance", 0).sum().abs() < 1e-9


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize(("heads", "sink"), [(1, False), (1, True), (2, True)])
def test_standard_errors_are_those_of_the_delta_method(name, heads, sink):
    """Against a covariance of parameters drawn at random and derivatives by differences."""
    known = surrogate(5, heads=heads, classes=2, sink=sink, seed=3)
    values, importances = known.slot_values()[..., 1], known.slot_importances()
    size, step = values.numel(), 1e-5
    draws = torch.randn(
        40, 2, heads, values.shape[1], generator=torch.Generator().manual_seed(0)
    ).double()
    draws[:, 1] -= draws[:, 1, :, :5].mean(dim=2, keepdim=True)
    draws = draws.reshape(40, 2 * size)
    joint = draws.T @ draws

    def score(moved):
        both = known.slot_values().clone()
        both[..., 1] += moved[:size].reshape(values.shape)
        nudged = from_slots(both, importances + moved[size:].reshape(values.shape), sink)
        return slalom_score(nudged, name, 1)

    slopes = torch.stack(
        [score(step * unit) - score(-step * unit) for unit in torch.eye(2 * size).double()], dim=1
    ) / (2 * step)
    expected = ((slopes @ joint) * slopes).sum(dim=1).sqrt()
    found = slalom_standard_errors(
        known, Covariance(torch.stack([0 * joint, joint])), 1, names=(name,)
    )[name]
    assert torch.allclose(found, expected, rtol=1e-3)
