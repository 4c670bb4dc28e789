import numpy as np
import pytest
import torch
from games import surrogate
from hypothesis import given, settings
from hypothesis import strategies as st

from slalom_xai.surrogates.assembly import make_problem
from slalom_xai.surrogates.count_tables import DenseRows, ShortRows, rows_of
from slalom_xai.surrogates.curvature import curvature_of
from slalom_xai.surrogates.fit import fit_many, fit_slalom
from slalom_xai.surrogates.formula import SlalomSurrogate
from slalom_xai.surrogates.problem import Extras, FitRequest
from slalom_xai.surrogates.projection import project


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
@given(
    shapes,
    st.integers(1, 2),
    st.booleans(),
    st.sampled_from(
        [
            Extras(),
            Extras(anchored=True),
            Extras(anchored=True, length_penalty=0.01),
            Extras(anchored=True, additive=True),
        ]
    ),
)
def test_fitted_together_is_fitted_alone(sizes, classes, sink, extras):
    """Whatever else is in the batch, and however much it has to be padded."""
    extras = extras if sink else Extras(anchored=extras.anchored)
    requests = [
        request(*size, classes=classes, sink=sink, prior=1e-2, extras=extras, tolerance=1e-7)
        for size in sizes
    ]
    for alone, together in zip(
        [fit_many([r])[0] for r in requests], fit_many(requests), strict=True
    ):
        scale = float(alone.residuals.abs().max()) + 1e-3
        assert torch.allclose(together.residuals, alone.residuals, atol=1e-3 * scale)
        counts = torch.ones(1, alone.surrogate.units)
        assert torch.allclose(
            together.surrogate.predict(counts), alone.surrogate.predict(counts), atol=1e-3
        )
        assert torch.allclose(
            together.surrogate.importances, alone.surrogate.importances, atol=2e-2
        )
        assert together.row_weights.shape == alone.row_weights.shape


def test_one_step_of_a_batch_equals_steps_alone_to_rounding():
    requests = [
        request(units, 80, units, sink=True, extras=Extras(True, False, 0.02))
        for units in (4, 9, 13)
    ]
    together = fit_many([FitRequest(**{**vars(r), "max_iterations": 2}) for r in requests])
    for r, fit in zip(requests, together, strict=True):
        alone = fit_many([FitRequest(**{**vars(r), "max_iterations": 2})])[0]
        assert torch.allclose(fit.surrogate.values, alone.surrogate.values, atol=1e-8)
        assert torch.allclose(fit.surrogate.importances, alone.surrogate.importances, atol=1e-8)
        assert fit.iterations == alone.iterations


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
    assert [fit.prior for fit in fits] == [r.prior for r in requests]


@pytest.mark.parametrize("spread", [0.5, 1.0, 2.0])
@pytest.mark.parametrize(("units", "rows"), [(8, 120), (40, 400), (100, 700)])
def test_giving_up_early_never_loses_an_exact_slalom(units, rows, spread):
    known = surrogate(units, sink=False, seed=units)
    known = SlalomSurrogate(known.values, spread * known.importances)
    counts = planned(units, rows, 0)
    outputs = known.predict(counts)
    fit = fit_slalom(counts, outputs, sink=False, prior=1e-6, tolerance=1e-4, give_up_above=0.05)
    assert float(fit.residuals.pow(2).mean() / outputs.var()) < 1e-4


def test_giving_up_early_saves_steps_where_no_slalom_fits():
    counts = planned(20, 300, 0)
    outputs = torch.randn(len(counts), 1, generator=torch.Generator().manual_seed(0)).double()
    patient, hasty = (
        fit_slalom(counts, outputs, sink=False, prior=1e-6, tolerance=1e-6, give_up_above=h)
        for h in (None, 0.05)
    )
    assert hasty.iterations < patient.iterations


@pytest.mark.parametrize("sink", [False, True])
@pytest.mark.parametrize(
    "extras", [Extras(), Extras(anchored=True), Extras(anchored=True, length_penalty=0.02)]
)
def test_slope_and_values_equal_autograd(sink, extras):
    """At the best values their slope is zero, and the other slope is the objective's derivative."""
    r = request(7, 60, 0, classes=2, sink=sink, extras=extras)
    problem = make_problem([r])
    penalties = problem.penalties
    importances = penalties.importance_centre + 0.3
    importances[..., ::2] -= 0.5
    values = penalties.value_centre
    state = project(problem, importances, values)

    def objective(s, v):
        counts = problem.rows.matmul(torch.eye(s.shape[2], dtype=s.dtype)[None])
        raw = counts[:, :, None] * torch.exp(s)[:, None]
        predicted = torch.einsum("bmkp,bkpc->bmc", raw / raw.sum(dim=3, keepdim=True), v)
        missed = problem.from_anchor(predicted - problem.targets.outputs)
        loss = (problem.row_weights[..., None] * missed * problem.beyond_length(missed)).sum()
        held = penalties.importance * ((s - penalties.importance_centre) ** 2).sum()
        of_values = penalties.value[..., None] * (v - penalties.value_centre) ** 2
        return (loss + held + of_values.sum()).sum()

    by_importances, by_values = torch.autograd.functional.jacobian(
        objective, (importances, state.values)
    )
    assert torch.allclose(objective(importances, state.values), state.objective[0])
    assert by_values.abs().max() < 1e-9
    assert torch.allclose(
        by_importances[0].flatten() / 2, curvature_of(problem, state).slope[0], atol=1e-9
    )


def test_short_rows_are_the_same_rows():
    generator = torch.Generator().manual_seed(0)
    indices = torch.randint(0, 12, (2, 30, 2), generator=generator)
    counts = torch.zeros(2, 30, 12).double().scatter_add_(2, indices, torch.ones(2, 30, 2).double())
    short, dense = rows_of(counts), DenseRows(counts)
    assert isinstance(short, ShortRows)
    assert short.shape == dense.shape
    weights, of_slots, of_rows = (
        torch.randn(*shape, generator=generator).double()
        for shape in ((2, 30), (2, 12, 3), (2, 30, 3))
    )
    groups = torch.randint(0, 4, (2, 30), generator=generator)
    assert torch.allclose(short.first(), dense.first())
    assert torch.allclose(short.matmul(of_slots), dense.matmul(of_slots))
    assert torch.allclose(short.transposed_matmul(of_rows), dense.transposed_matmul(of_rows))
    assert torch.allclose(short.gram(weights), dense.gram(weights))
    sums = short.group_sums(groups, 4, weights)
    assert torch.allclose(sums, dense.group_sums(groups, 4, weights))
