"""The paper's solvers: the step for the weights finds the least of Eq. 77 under its conditions."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from slalom_xai.methods.paper.fits import fit_alternating, nonnegative_scale
from slalom_xai.methods.paper.formula import SlalomSurrogate


def drawn(rows, units, seed):
    """Residuals (rows, units); the offset decides how many weights end at the floor."""
    generator = torch.Generator().manual_seed(seed)
    offset = torch.randn(1, generator=generator, dtype=torch.float64)
    return torch.randn(rows, units, generator=generator, dtype=torch.float64) + offset


def least_over_all_sets(residuals, floor):
    """The least of |E s|², by trying every set of weights at the floor."""
    units = residuals.shape[1]
    matrix, best = residuals.T @ residuals, float("inf")
    for size in range(units):
        for held in itertools.combinations(range(units), size):
            free = [unit for unit in range(units) if unit not in held]
            # The least over the free weights with their sum given: M s = mu there.
            system = torch.zeros(len(free) + 1, len(free) + 1, dtype=torch.float64)
            system[:-1, :-1] = matrix[free][:, free]
            system[:-1, -1], system[-1, :-1] = -1, 1
            target = torch.zeros(len(free) + 1, dtype=torch.float64)
            target[:-1] = -floor * matrix[free][:, list(held)].sum(dim=1)
            target[-1] = units - floor * size
            scale = torch.full((units,), floor, dtype=torch.float64)
            scale[free] = torch.linalg.solve(system, target)[:-1]
            if float(scale.min()) >= floor - 1e-12:
                best = min(best, float((residuals @ scale).square().sum()))
    return best


@given(st.integers(0, 10_000), st.integers(2, 6), st.sampled_from([1e-9, 1e-4, 0.2]))
@settings(max_examples=40, deadline=None)
def test_the_weights_are_the_best_of_all_sets_at_the_floor(seed, units, floor):
    residuals = drawn(units + 3, units, seed)
    scale = nonnegative_scale(residuals, floor)
    assert float(scale.min()) >= floor
    assert float(scale.mean()) == pytest.approx(1)
    found = float((residuals @ scale).square().sum())
    assert found == pytest.approx(least_over_all_sets(residuals, floor), rel=1e-6, abs=1e-9)


@given(st.integers(0, 10_000), st.integers(2, 80), st.integers(1, 200))
@settings(max_examples=40, deadline=None)
def test_no_weight_would_rather_move(seed, units, rows):
    """Free weights have one slope, and those at the floor a larger one; also with few rows."""
    floor = 1e-4
    residuals = drawn(rows, units, seed)
    scale = nonnegative_scale(residuals, floor)
    slope = residuals.T @ (residuals @ scale)
    slope = slope / (residuals.square().sum(dim=0).mean())
    free = scale > floor * (1 + 1e-6)
    assert float(slope[free].max() - slope[free].min()) < 1e-6
    assert float(slope.min()) > float(slope[free].min()) - 1e-6


def test_units_that_no_row_tells_apart_weigh_the_same():
    equal = nonnegative_scale(torch.zeros(3, 4).double()).tolist()
    assert equal == pytest.approx([1.0] * 4, rel=1e-3)
    column = drawn(6, 1, 0)
    twins = torch.cat([column, column, drawn(6, 2, 1)], dim=1)
    first, second, *_ = nonnegative_scale(twins).tolist()
    assert first == pytest.approx(second, rel=1e-3)


def test_the_true_weights_are_found_at_the_true_values():
    """With exact answers Eq. 77 is zero at the true weights, and nowhere else."""
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(1, 8, 1, generator=generator, dtype=torch.float64)
    importances = torch.randn(1, 8, generator=generator, dtype=torch.float64)
    known = SlalomSurrogate(values, importances).normalise()
    rows = (torch.rand(60, 8, generator=generator) < 0.6).double()
    rows = rows[rows.sum(dim=1) > 0]
    outputs = known.predict(rows)
    scale = nonnegative_scale(rows * (known.values[0, :, 0] - outputs))
    truth = known.importances[0].exp()
    assert scale.tolist() == pytest.approx((truth / truth.mean()).tolist(), rel=1e-5)
    fitted = fit_alternating(rows, outputs)
    before = (outputs - outputs.mean()).square().mean()
    assert (fitted.predict(rows) - outputs).square().mean() < 1e-3 * before
