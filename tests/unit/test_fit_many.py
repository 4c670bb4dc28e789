import numpy as np
import pytest
import torch
from games import surrogate
from hypothesis import given, settings
from hypothesis import strategies as st

from slalom_xai.methods.counts import Sequences, rows_of
from slalom_xai.methods.paper.fit import FitRequest, curvature_of, fit_many, make_problem, project


def planned(units, rows, seed):
    """The whole text and then deletions of every size."""
    rng = np.random.default_rng(seed)
    deleted = np.concatenate([[0], rng.integers(1, units, rows - 1)])
    return torch.tensor(
        rng.random((rows, units)).argsort(axis=1).argsort(axis=1) >= deleted[:, None]
    ).double()


def request(units, rows, seed, *, classes=1, noise=0.1, **settings):
    """A noisy SLALOM with a sink, to be fitted."""
    counts = planned(units, rows, seed)
    outputs = surrogate(units, classes=classes, seed=seed).predict(counts)
    outputs = outputs + noise * torch.randn(
        outputs.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    return FitRequest(counts, outputs, **settings)


shapes = st.lists(
    st.tuples(st.integers(3, 14), st.integers(40, 90), st.integers(0, 10_000)),
    min_size=2,
    max_size=4,
)


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(shapes, st.integers(1, 2), st.booleans())
def test_fitted_together_is_fitted_alone(sizes, classes, sink):
    """Whatever else is in the batch, and however much it has to be padded."""
    requests = [
        request(*size, classes=classes, sink=sink, prior=1e-2, tolerance=1e-7) for size in sizes
    ]
    for alone, together in zip(
        [fit_many([r])[0] for r in requests], fit_many(requests), strict=True
    ):
        scale = float(alone.residuals.abs().max()) + 1e-3
        assert torch.allclose(together.residuals, alone.residuals, atol=1e-3 * scale)
        assert torch.allclose(
            together.surrogate.importances, alone.surrogate.importances, atol=2e-2
        )


def test_kinds_of_fits_may_be_mixed_and_keep_their_order():
    requests = [
        request(5, 50, 1),
        request(12, 80, 2, sink=False),
        request(5, 50, 3, classes=3),
        request(6, 60, 4, prior=1.0),
    ]
    fits = fit_many(requests)
    assert [fit.surrogate.has_sink for fit in fits] == [True, False, True, True]
    assert [fit.surrogate.values.shape[1:] for fit in fits] == [(5, 1), (12, 1), (5, 3), (6, 1)]
    assert [fit.request for fit in fits] == requests


@pytest.mark.parametrize("sink", [False, True])
def test_slope_and_values_equal_autograd(sink):
    """At the best values their slope is zero, and the other slope is the objective's derivative."""
    r = request(7, 60, 0, classes=2, sink=sink)
    counts = rows_of(r.counts, [float(sink)])
    problem = make_problem([r], [counts])
    importances = problem.centre + 0.3
    importances[..., ::2] -= 0.5
    state = project(problem, importances, problem.mean.expand(-1, 8, -1))
    table = torch.cat([r.counts, torch.full((60, 1), float(sink)).double()], dim=1)

    def objective(s, v):
        raw = table * torch.exp(s)
        missed = (raw / raw.sum(dim=1, keepdim=True)) @ v[0] - r.outputs
        loss = (problem.row_weights[0][:, None] * missed**2).sum()
        held = problem.importance_ridge * ((s - problem.centre) ** 2).sum()
        return (loss + held + problem.value_ridge * ((v - problem.mean) ** 2).sum()).sum()

    by_importances, by_values = torch.autograd.functional.jacobian(
        objective, (importances, state.values)
    )
    assert torch.allclose(objective(importances, state.values), state.objective[0])
    assert by_values.abs().max() < 1e-9
    assert torch.allclose(by_importances / 2, curvature_of(problem, state).slope, atol=1e-9)


def test_texts_that_lack_few_words_are_fitted_together_as_alone():
    """Kept by what they lack, and padded."""
    requests = []
    for units, rows in ((30, 90), (36, 140), (33, 60)):
        counts = planned(units, rows, units)
        counts = torch.where(counts.cumsum(dim=1) < units - 4, 1.0, counts)
        outputs = surrogate(units, seed=units).predict(counts)
        requests.append(FitRequest(counts, outputs, prior=1e-3))
    for together, r in zip(fit_many(requests), requests, strict=True):
        alone = fit_many([r])[0]
        assert torch.allclose(together.residuals, alone.residuals, atol=1e-4)


def test_pairs_of_units_are_fitted_together_as_alone():
    generator = torch.Generator().manual_seed(0)
    requests = []
    for rows, units in ((90, 12), (140, 14), (60, 11)):
        counts = Sequences(torch.randint(units, (rows, 2), generator=generator), units)
        outputs = surrogate(units, sink=False, seed=units).predict(counts.table())
        requests.append(FitRequest(counts, outputs + 0.1, sink=False, prior=1e-2))
    for together, r in zip(fit_many(requests), requests, strict=True):
        alone = fit_many([r])[0]
        assert torch.allclose(together.residuals, alone.residuals, atol=1e-6)
