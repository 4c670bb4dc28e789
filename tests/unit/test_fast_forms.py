"""Every fast form of the formula gives what the reference, ``methods.paper.formula``, gives.

Derivatives of the reference come from autograd.
"""

import itertools
import math

import pytest
import torch
from games import surrogate

from slalom_xai.methods.counts import rows_of
from slalom_xai.methods.paper.distinct_units import moves_of
from slalom_xai.methods.paper.fit import FitRequest, curvature_of, fit_slalom, make_problem, project
from slalom_xai.methods.paper.formula import SlalomSurrogate, averages, slots, weights
from slalom_xai.methods.paper.shapley import shapley_values
from slalom_xai.methods.scores import slalom_score

kinds = pytest.mark.parametrize(
    ("columns", "sink"), [(columns, sink) for columns in (1, 3) for sink in (True, False)]
)


def rows_and_outputs(units, columns, rows=40, seed=0):
    """The whole text, other rows that keep something, and answers at random."""
    generator = torch.Generator().manual_seed(seed)
    counts = (torch.rand(rows, units, generator=generator) < 0.6).double()
    counts[0] = 1.0
    counts[counts.sum(dim=1) == 0, 0] = 1.0
    return counts, torch.randn(rows, columns, generator=generator, dtype=torch.float64)


def reference(counts, sink):
    """Predictions (m, C) by values (K, p, C) and importances (K, p), for autograd."""
    over_slots = slots(counts, sink)

    def predict(values, importances):
        return averages(weights(over_slots, importances), values).sum(dim=1)

    return predict


def problem_of(counts, outputs, sink):
    request = FitRequest(counts, outputs, sink=sink, prior=1e-2)
    return make_problem([request], [rows_of(counts, [float(sink)])])


@kinds
def test_the_curvature_is_that_of_gauss_and_newton(columns, sink):
    """The Schur complement of the reference's derivatives, where no importance is shifted."""
    known = surrogate(5, classes=columns, sink=sink)
    counts, outputs = rows_and_outputs(5, columns)
    problem, size = problem_of(counts, outputs, sink), 5 + sink
    importances = torch.zeros(1, 6).double()
    importances[0, :size] = known.slot_importances()[0]
    state = project(problem, importances, problem.mean.expand(-1, 6, -1))
    values = state.values[:, :size]
    expected = averages(weights(slots(counts, sink), importances[:, :size]), values)[:, 0]
    torch.testing.assert_close(state.predicted[0], expected)
    by_values, by_importances = torch.autograd.functional.jacobian(
        reference(counts, sink), (values, importances[:, :size])
    )
    q = problem.row_weights[0]
    own = problem.importance_ridge[0] * torch.eye(size, dtype=torch.float64)
    for c in range(columns):
        slope = by_importances[:, c].flatten(1)
        by_value = by_values[:, c, :, :, c].flatten(1)
        cross = slope.T @ (q[:, None] * by_value)
        inner = by_value.T @ (q[:, None] * by_value)
        inner = inner + problem.value_ridge[0] * torch.eye(size).double()
        own = own + slope.T @ (q[:, None] * slope)
        own = own - cross @ torch.linalg.solve(inner, cross.T)
    schur = curvature_of(problem, state).schur[0, :size, :size]
    unshifted = torch.linalg.qr(torch.ones(size, 1).double(), mode="complete").Q[:, 1:]
    torch.testing.assert_close(
        unshifted.T @ schur @ unshifted, unshifted.T @ own @ unshifted, rtol=1e-6, atol=1e-9
    )


@kinds
def test_rows_move_parameters_as_a_sandwich_of_the_references_derivatives_says(columns, sink):
    """With the whole curvature inverted at once; the factor for spent parameters aside."""
    truth = surrogate(4, classes=columns, sink=sink)
    counts, noise = rows_and_outputs(4, columns, rows=60)
    outputs = truth.predict(counts) + 0.1 * noise
    fit = fit_slalom(counts, outputs, sink=sink, prior=1e-2, tolerance=1e-12)
    known = fit.surrogate
    by_values, by_importances = torch.autograd.functional.jacobian(
        reference(counts, sink), (known.slot_values(), known.slot_importances())
    )
    size, problem = 4 + sink, problem_of(counts, outputs, sink)
    every = torch.cat([by_values.mT.flatten(2), by_importances.flatten(2)], dim=2)  # (m, C, all)
    of_values = problem.value_ridge.repeat(size * columns)
    ridge = torch.cat([of_values, problem.importance_ridge.repeat(size)])
    q = problem.row_weights[0]
    bread = torch.einsum("m,mca,mcb->ab", q, every, every) + torch.diag(ridge)
    parts = torch.einsum("m,mc,mca->ma", q, fit.residuals, every)
    expected = torch.linalg.solve(bread, parts.T).T  # (m, all)
    importances = expected[:, -size:]
    centred = importances - importances[:, :4].mean(dim=1, keepdim=True)
    moves = moves_of(fit)
    factor = moves.importances.norm() / centred.norm()
    assert 1 < float(factor) < 2
    limits = {"rtol": 1e-5, "atol": 1e-5 * float(moves.importances.abs().max())}
    torch.testing.assert_close(moves.importances, factor * centred, **limits)
    for c in range(columns):
        of_column = factor * expected[:, c * size : (c + 1) * size]
        torch.testing.assert_close(moves.values[..., c], of_column, **limits)


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
def test_scores_are_predictions_for_certain_rows(sink):
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
