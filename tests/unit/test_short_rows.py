"""Short sequences give what the tables of their counts give."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from slalom_xai.methods import counts as count_tables
from slalom_xai.methods.additive import RIDGE_REGRESSION, fit_additive
from slalom_xai.methods.counts import CountTableSettings, DenseRows, Sequences, ShortRows, rows_of
from slalom_xai.methods.paper.distinct_units import moves_of, standard_errors
from slalom_xai.methods.paper.fit import fit_slalom
from slalom_xai.methods.paper.formula import SlalomSurrogate
from slalom_xai.methods.paper.shapley import shapley_derivatives, shapley_values

UNITS = 30  # of which rows of up to five are kept by their places
RIDGES = RIDGE_REGRESSION.ridges


def drawn(rows, length, units, seed=0, classes=1):
    """Sequences, and what a SLALOM with noise answers."""
    generator = torch.Generator().manual_seed(seed)
    indices = torch.randint(units, (rows, length), generator=generator)
    values, importances = (
        torch.randn(1, units, *more, dtype=torch.float64, generator=generator)
        for more in ((classes,), ())
    )
    counts = Sequences(indices, units)
    noise = 0.2 * torch.randn(rows, classes, dtype=torch.float64, generator=generator)
    return counts, SlalomSurrogate(values, importances).predict(counts.table()) + noise


def with_a_last_slot(table, times):
    return torch.cat([table, torch.full((len(table), 1), times).double()], dim=1)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    length=st.integers(1, 5),
    rows=st.integers(2, 12),
    lacking=st.booleans(),
)
def test_sums_and_products_are_those_of_the_table(seed, length, rows, lacking):
    generator = torch.Generator().manual_seed(seed)
    counts = Sequences(torch.randint(UNITS, (rows, length), generator=generator), UNITS)
    table = counts.table()
    if lacking:
        counts = table = 3 - table
        table[0] = 3.0
    short, dense = rows_of(counts, [1.0]), DenseRows(with_a_last_slot(table, 1.0)[None])
    assert isinstance(short, ShortRows)
    weights, of_slots, of_rows = (
        torch.randn(1, *shape, dtype=torch.float64, generator=generator)
        for shape in ((2, rows), (UNITS + 1, 3), (rows, 2))
    )
    groups = torch.randint(4, (rows,), generator=generator)
    assert short.shape == dense.shape
    for one, other in (
        (short.matmul(of_slots), dense.matmul(of_slots)),
        (short.transposed_matmul(of_rows), dense.transposed_matmul(of_rows)),
        (short.gram(weights), dense.gram(weights)),
        (short.group_sums(groups, 4, weights[0]), dense.group_sums(groups, 4, weights[0])),
    ):
        torch.testing.assert_close(one, other)


def test_rows_that_differ_much_are_a_table():
    table = torch.eye(20).double()
    table[0] = 1.0
    assert isinstance(rows_of(table), DenseRows)
    assert isinstance(rows_of(Sequences(torch.arange(18).reshape(2, 9), UNITS)), DenseRows)


@pytest.mark.parametrize("classes", [1, 3])
@pytest.mark.parametrize("sink", [False, True])
@pytest.mark.parametrize("length", [2, 3])
def test_a_fit_and_its_errors_are_those_of_the_table(classes, sink, length, monkeypatch):
    counts, outputs = drawn(200, length, UNITS, classes=classes)
    found = []
    for given_counts in (counts, counts.table()):
        fit = fit_slalom(given_counts, outputs, sink=sink, tolerance=1e-9)
        found.append((fit, standard_errors(fit.surrogate, moves_of(fit), classes - 1)))
        monkeypatch.setattr(count_tables, "COUNT_TABLES", CountTableSettings(short=1000))
    (short, errors), (dense, same) = found
    torch.testing.assert_close(short.residuals, dense.residuals, rtol=0, atol=1e-5)
    for name, error in errors.items():
        torch.testing.assert_close(error, same[name], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("kept", [4, 8, 9, 10], ids=lambda kept: f"{10 - kept} units never kept")
def test_linear_fit_is_the_ridge_regression_that_folds_choose(kept):
    counts, outputs = drawn(100, 2, kept, classes=2)
    counts, full = Sequences(counts.indices, 10), outputs.mean(dim=0)
    removed, changes = 1 - counts.table(), full - outputs

    def ridge(rows, penalty):
        gram = removed[rows].T @ removed[rows]
        return torch.linalg.solve(
            gram + penalty * gram.diagonal().mean() * torch.eye(10), removed[rows].T @ changes[rows]
        )

    fold = torch.arange(100) % 5
    errors = [
        sum(
            float(((changes - removed @ ridge(fold != k, r))[fold == k] ** 2).sum())
            for k in range(5)
        )
        for r in RIDGES
    ]
    for given_counts in (counts, counts.table()):
        fit = fit_additive(given_counts, outputs, full)
        assert fit.ridge == RIDGES[errors.index(min(errors))]
        torch.testing.assert_close(
            fit.surrogate.unit_scores, ridge(fold >= 0, fit.ridge), rtol=1e-5, atol=1e-7
        )
        assert fit.standard_errors.isfinite().all()


@pytest.mark.parametrize("sink", [False, True])
def test_equal_units_have_the_shapley_values_and_derivatives_of_nearly_equal_ones(sink):
    generator = torch.Generator().manual_seed(3)
    kind = torch.tensor([0, 1, 0, 2, 1, 0, 3])
    values, importances = (
        torch.randn(1, 4, *more, dtype=torch.float64, generator=generator)[:, kind]
        for more in ((2,), ())
    )
    rest = (
        (torch.tensor([[0.3, -0.2]], dtype=torch.float64), torch.tensor([0.5], dtype=torch.float64))
        if sink
        else ()
    )
    apart = 1e-9 * torch.arange(7)
    equal, unequal = (
        SlalomSurrogate(values, importances + shift, *rest) for shift in (0 * apart, apart)
    )
    torch.testing.assert_close(shapley_values(equal), shapley_values(unequal), rtol=1e-6, atol=1e-8)
    for one, other in zip(
        shapley_derivatives(equal, 1), shapley_derivatives(unequal, 1), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-8)
