import math

import numpy as np
import pytest
import torch
from games import from_slots, surrogate
from made import explanation_with

from slalom_xai.errors import InputError
from slalom_xai.methods.paper.distinct_units import Moves, standard_errors
from slalom_xai.methods.paper.shapley import shapley_derivatives, shapley_values
from slalom_xai.methods.scores import SCORES, slalom_score

FROM_FORMULA = [name for name in SCORES if name != "filled"]


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


@pytest.mark.parametrize("name", FROM_FORMULA)
@pytest.mark.parametrize("sink", [False, True])
def test_standard_errors_are_those_of_the_delta_method(name, sink):
    """Against moves of parameters drawn at random and derivatives by differences."""
    known = surrogate(5, classes=2, sink=sink, seed=3)
    values, importances = known.slot_values(), known.slot_importances()
    size, step = values.shape[1], 1e-5
    draws = torch.randn(40, 2, size, generator=torch.Generator().manual_seed(0)).double()
    draws[:, 1] -= draws[:, 1, :5].mean(dim=1, keepdim=True)

    def score(moved):
        both = values.clone()
        both[0, :, 1] += moved[0]
        return slalom_score(from_slots(both, importances + moved[1], sink), name, 1)

    changes = [(score(step * draw) - score(-step * draw)) / (2 * step) for draw in draws]
    by_values = torch.stack([torch.zeros_like(draws[:, 0]), draws[:, 0]], dim=2)
    found = standard_errors(known, Moves(by_values, draws[:, 1]), 1)[name]
    assert torch.allclose(found, torch.stack(changes).norm(dim=0), rtol=1e-3)


def test_importances_sum_to_the_users_constant():
    known = surrogate(4, sink=True, seed=1)
    found = explanation_with(known, "a b c d")
    for gamma in (0.0, 1.0, -2.5):
        importances = found.scores("importance", gamma=gamma)
        assert importances.sum() == pytest.approx(gamma)
        assert np.ptp(importances - found.importances) == pytest.approx(0, abs=1e-12)
        linearized = found.scores("linearized", gamma=gamma)
        assert linearized == pytest.approx(found.values * np.exp(importances))
    for name in set(FROM_FORMULA) - {"importance", "linearized"}:
        assert found.scores(name, gamma=1.0).tolist() == found.scores(name).tolist()
    with pytest.raises(InputError, match="gamma is nan: give what importances sum to"):
        found.scores("importance", gamma=math.nan)
