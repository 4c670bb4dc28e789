"""Every fast form of the formula gives what the reference, ``surrogates.formula``, gives.

Derivatives of the reference come from autograd.
"""

import itertools
import math

import pytest
import torch
from games import from_slots, surrogate

from slalom_xai.surrogates.assembly import make_problem
from slalom_xai.surrogates.count_tables import Sequences, ShortRows
from slalom_xai.surrogates.curvature import curvature_of
from slalom_xai.surrogates.exact_shapley import shapley_values
from slalom_xai.surrogates.fit import fit_slalom
from slalom_xai.surrogates.formula import SlalomSurrogate, averages, slots, weights
from slalom_xai.surrogates.influence import CovarianceRequest, covariance, covariances
from slalom_xai.surrogates.problem import Extras, FitRequest
from slalom_xai.surrogates.projection import project
from slalom_xai.surrogates.sandwich import Derivatives
from slalom_xai.surrogates.score_slopes import few_slopes, slopes
from slalom_xai.surrogates.scores import SCORES, slalom_score
from slalom_xai.surrogates.whole_text import WholeText

KINDS = [(heads, columns, sink) for heads in (1, 2) for columns in (1, 3) for sink in (True, False)]
kinds = pytest.mark.parametrize(("heads", "columns", "sink"), KINDS)


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


def state_at(known, counts, outputs, extras=Extras()):  # noqa: B008
    """The problem and the state of a fit at a known SLALOM, its values kept."""
    request = FitRequest(
        counts, outputs, sink=known.has_sink, heads=len(known.values), extras=extras
    )
    problem = make_problem([request])
    values, importances = known.slot_values()[None], known.slot_importances()[None]
    return problem, project(problem, importances, values, settled=True)


@kinds
def test_predictions_of_a_fit(heads, columns, sink):
    known = surrogate(6, heads=heads, classes=columns, sink=sink)
    counts, outputs = rows_and_outputs(6, columns)
    _, state = state_at(known, counts, outputs)
    expected = averages(weights(slots(counts, sink), known.slot_importances()), known.slot_values())
    torch.testing.assert_close(state.head_predictions[0], expected)
    torch.testing.assert_close(state.residuals[0], known.predict(counts) - outputs)


@pytest.mark.parametrize("sink", [True, False])
def test_predictions_for_short_rows(sink):
    known = surrogate(12, classes=2, sink=sink)
    indices = torch.randint(12, (30, 3), generator=torch.Generator().manual_seed(0))
    sequences = Sequences(indices, 12)
    outputs = torch.zeros(30, 2, dtype=torch.float64)
    problem, state = state_at(known, sequences, outputs)
    assert isinstance(problem.rows, ShortRows)
    torch.testing.assert_close(state.residuals[0], known.predict(sequences.table()))


@kinds
def test_the_curvature_is_that_of_gauss_and_newton(heads, columns, sink):
    """The Schur complement of the reference's derivatives, where no importance is shifted."""
    known = surrogate(5, heads=heads, classes=columns, sink=sink)
    counts, outputs = rows_and_outputs(5, columns)
    problem, state = state_at(known, counts, outputs)
    values, importances = known.slot_values(), known.slot_importances()
    by_values, by_importances = torch.autograd.functional.jacobian(
        reference(counts, sink), (values, importances)
    )
    q, size = problem.row_weights[0], importances.numel()
    own = problem.penalties.importance[0] * torch.eye(size, dtype=torch.float64)
    for c in range(columns):
        slope = by_importances[:, c].flatten(1)
        own = own + slope.T @ (q[:, None] * slope)
    ridge = problem.penalties.value[0].flatten()
    for c in range(columns):
        by_value = by_values[:, c, :, :, c].flatten(1)
        cross = by_importances[:, c].flatten(1).T @ (q[:, None] * by_value)
        inner = by_value.T @ (q[:, None] * by_value) + torch.diag(ridge)
        own = own - cross @ torch.linalg.solve(inner, cross.T)
    schur = curvature_of(problem, state).schur[0]
    shifts = torch.kron(
        torch.eye(heads, dtype=torch.float64),
        torch.ones(importances.shape[1], 1, dtype=torch.float64),
    )
    unshifted = torch.linalg.qr(shifts, mode="complete").Q[:, heads:]
    torch.testing.assert_close(
        unshifted.T @ schur @ unshifted, unshifted.T @ own @ unshifted, rtol=1e-6, atol=1e-9
    )


@pytest.mark.parametrize("anchored", [False, True])
@kinds
def test_derivatives_of_predictions(heads, columns, sink, anchored):
    known = surrogate(5, heads=heads, classes=columns, sink=sink)
    counts, outputs = rows_and_outputs(5, columns)
    problem, state = state_at(known, counts, outputs, Extras(anchored=anchored))
    by_values, by_importances = torch.autograd.functional.jacobian(
        reference(counts, sink), (known.slot_values(), known.slot_importances())
    )
    if anchored:
        by_values, by_importances = by_values - by_values[:1], by_importances - by_importances[:1]
    derivatives = Derivatives.of(problem, state, counts)
    for c in range(columns):
        torch.testing.assert_close(
            derivatives.by_values(), by_values[:, c, :, :, c].flatten(1), rtol=1e-9, atol=1e-12
        )
        torch.testing.assert_close(
            derivatives.by_importances(c), by_importances[:, c].flatten(1), rtol=1e-9, atol=1e-12
        )


@kinds
def test_slopes_of_the_whole_texts_prediction(heads, columns, sink):
    known = surrogate(5, heads=heads, classes=columns, sink=sink)
    counts, outputs = rows_and_outputs(5, columns)
    problem, _ = state_at(known, counts, outputs, Extras(anchored=True))
    by_values, by_importances = torch.autograd.functional.jacobian(
        reference(counts[:1], sink), (known.slot_values(), known.slot_importances())
    )
    whole = WholeText.of(problem, known).slopes
    for c in range(columns):
        expected = [by_values[0, c, :, :, c].flatten(), by_importances[0, c].flatten()]
        torch.testing.assert_close(whole[c], torch.cat(expected))


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("sink", [True, False])
def test_the_covariance_is_a_sandwich_of_the_references_derivatives(columns, sink):
    """With the whole curvature inverted at once; the factor for spent parameters aside."""
    truth = surrogate(4, classes=columns, sink=sink)
    counts, noise = rows_and_outputs(4, columns, rows=60)
    outputs = truth.predict(counts) + 0.1 * noise
    fit = fit_slalom(counts, outputs, sink=sink, prior=1e-2, tolerance=1e-12)
    known = fit.surrogate
    by_values, by_importances = torch.autograd.functional.jacobian(
        reference(counts, sink), (known.slot_values(), known.slot_importances())
    )
    _, state = state_at(known, counts, outputs)
    size = known.slot_importances().shape[1]
    every = torch.cat([by_values.mT.flatten(2), by_importances.flatten(2)], dim=2)  # (m, C, all)
    penalties = make_problem([FitRequest(counts, outputs, sink=sink, prior=1e-2)]).penalties
    of_values = penalties.value[0].flatten().repeat(columns)
    ridge = torch.cat([of_values, penalties.importance.repeat(size)])
    q = fit.row_weights
    bread = torch.einsum("m,mca,mcb->ab", q, every, every) + torch.diag(ridge)
    parts = torch.einsum("m,mc,mca->ma", q, state.residuals[0], every)
    moves = torch.linalg.solve(bread, parts.T).T  # (m, all)
    importances = moves[:, -size:]
    centred = importances - importances[:, :4].mean(dim=1, keepdim=True)
    joint = covariance(counts, outputs, fit).joint
    for c in range(columns):
        of_column = torch.cat([moves[:, c * size : (c + 1) * size], centred], dim=1)
        expected = of_column.T @ of_column
        factor = joint[c].diagonal().sum() / expected.diagonal().sum()
        assert 1 < float(factor) < 3
        torch.testing.assert_close(
            joint[c], factor * expected, rtol=1e-5, atol=1e-6 * float(joint[c].abs().max())
        )


def moved(known, column, values, importances):
    """A SLALOM whose values of one column and whose importances are given."""
    every = list(known.slot_values().unbind(dim=2))
    every[column] = values
    return from_slots(torch.stack(every, dim=2), importances, known.has_sink)


@pytest.mark.parametrize("name", [name for name in SCORES if name not in ("shapley", "filled")])
@pytest.mark.parametrize(("heads", "sink"), [(1, False), (1, True), (2, True)])
def test_slopes_of_scores(name, heads, sink):
    known = surrogate(5, heads=heads, classes=2, sink=sink, seed=3)
    values, importances = known.slot_values()[..., 1], known.slot_importances()

    def score(v, s):
        return slalom_score(moved(known, 1, v, s), name, 1)

    expected = torch.autograd.functional.jacobian(score, (values, importances))
    if name in ("slope", "removal"):
        ours = torch.stack(slopes(known, name, 1))
    else:
        indices, parts = few_slopes(known, name, 1)
        flat = torch.zeros(5, 2 * values.numel(), dtype=torch.float64)
        ours = flat.scatter_add_(1, indices, parts).reshape(5, 2, -1).transpose(0, 1)
    by_values, by_importances = (part.flatten(1) for part in expected)
    torch.testing.assert_close(ours[0], by_values)
    # A common shift of all importances is no change: covariances have none.
    free = torch.randn(values.shape, generator=torch.Generator().manual_seed(0)).double()
    free = (free - free[:, :5].mean(dim=1, keepdim=True)).flatten()
    torch.testing.assert_close(ours[1] @ free, by_importances @ free)


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


def test_covariances_of_several_fits_are_those_of_each():
    requests = []
    for seed, units in enumerate((6, 5, 6, 6)):
        counts, outputs = rows_and_outputs(units, 2, seed=seed)
        fit = fit_slalom(counts, outputs, extras=Extras(anchored=True))
        requests.append(CovarianceRequest(counts, outputs, fit))
    for request, found in zip(requests, covariances(requests), strict=True):
        alone = covariance(request.counts, request.outputs, request.fit)
        torch.testing.assert_close(found.joint, alone.joint)
