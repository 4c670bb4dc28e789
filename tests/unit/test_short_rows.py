"""Short sequences give what the tables of their counts give."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from slalom_xai.surrogates.additive import RIDGE_REGRESSION, fit_additive
from slalom_xai.surrogates.batching import taken
from slalom_xai.surrogates.count_tables import (
    COUNT_TABLES,
    DenseRows,
    Sequences,
    counts_of,
    short_rows,
)
from slalom_xai.surrogates.exact_shapley import shapley_derivatives, shapley_values
from slalom_xai.surrogates.fit import fit_many, fit_slalom
from slalom_xai.surrogates.formula import SlalomSurrogate
from slalom_xai.surrogates.influence import Covariance, covariance
from slalom_xai.surrogates.problem import FitRequest

SHORT = COUNT_TABLES.short
UNITS = 2 * SHORT  # tables so narrow are used as they are
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


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    length=st.integers(1, SHORT),
    rows=st.integers(1, 12),
    batch=st.integers(1, 3),
)
def test_sums_and_products_are_those_of_the_table(seed, length, rows, batch):
    generator = torch.Generator().manual_seed(seed)
    indices = torch.randint(5, (batch, rows, length), generator=generator)
    table = torch.stack([Sequences(own, 5).table() for own in indices])
    short, dense = short_rows(indices, 5), DenseRows(table)
    weights, of_slots, of_rows = (
        torch.randn(batch, *shape, dtype=torch.float64, generator=generator)
        for shape in ((rows,), (5, 3), (rows, 2))
    )
    groups = torch.randint(4, (batch, rows), generator=generator)
    assert short.shape == dense.shape
    for one, other in (
        (short.first(), dense.first()),
        (short.matmul(of_slots), dense.matmul(of_slots)),
        (short.transposed_matmul(of_rows), dense.transposed_matmul(of_rows)),
        (short.gram(weights), dense.gram(weights)),
        (short.group_sums(groups, 4, weights), dense.group_sums(groups, 4, weights)),
        (taken(torch.tensor([batch - 1]), short).gram(weights[-1:]), dense.gram(weights)[-1:]),
    ):
        torch.testing.assert_close(one, other)


def test_long_sequences_become_a_table():
    indices = torch.zeros(2, SHORT + 1, dtype=torch.long)
    counts = counts_of(indices, 3)
    assert isinstance(counts, torch.Tensor)
    assert counts.tolist() == [[SHORT + 1, 0, 0]] * 2
    assert isinstance(counts_of(indices[:, :-1], 3), Sequences)


@pytest.mark.parametrize("classes", [1, 3])
@pytest.mark.parametrize("sink", [False, True])
@pytest.mark.parametrize("length", [2, 3])
def test_fit_and_covariance_are_those_of_the_table(classes, sink, length):
    counts, outputs = drawn(120, length, UNITS, classes=classes)
    fits = [fit_slalom(given, outputs, sink=sink) for given in (counts, counts.table())]
    assert fits[0].iterations == fits[1].iterations
    torch.testing.assert_close(
        fits[0].surrogate.slot_values(), fits[1].surrogate.slot_values(), rtol=1e-6, atol=1e-8
    )
    torch.testing.assert_close(
        fits[0].surrogate.slot_importances(),
        fits[1].surrogate.slot_importances(),
        rtol=1e-6,
        atol=1e-8,
    )
    short, dense = (covariance(given, outputs, fits[1]).joint for given in (counts, counts.table()))
    digits = (
        1e-6 if sink else 1e-10
    )  # equal lengths cannot show a sink: only its prior holds it, and that costs digits
    torch.testing.assert_close(short, dense, rtol=0, atol=digits * float(dense.abs().max()))


def test_sequences_of_different_texts_fit_together_as_alone():
    requests = [
        FitRequest(*drawn(rows, 2, units, seed=units), sink=False, prior=1e-2)
        for rows, units in ((90, 12), (140, 14), (60, 11))
    ]
    for together, request in zip(fit_many(requests), requests, strict=True):
        alone = fit_many([request])[0].surrogate
        torch.testing.assert_close(together.surrogate.values, alone.values, rtol=1e-6, atol=1e-8)
        torch.testing.assert_close(
            together.surrogate.importances, alone.importances, rtol=1e-6, atol=1e-8
        )


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


def test_variances_of_copied_parameters_are_those_of_a_covariance_written_out():
    generator = torch.Generator().manual_seed(4)
    root, by_values, by_importances = (
        torch.randn(*shape, dtype=torch.float64, generator=generator)
        for shape in ((6, 6), (5, 4), (5, 4))
    )
    copied, both = torch.tensor([2, 0, 0, 1]), torch.tensor([2, 0, 0, 1, 5, 3, 3, 4])
    joint = (root @ root.T)[None]
    spread, written = Covariance(joint).spread(copied), Covariance(joint[:, both][:, :, both])
    torch.testing.assert_close(
        spread.of(0, by_values, by_importances), written.of(0, by_values, by_importances)
    )
    indices, slopes = torch.tensor([[0, 5], [3, 7]]), by_values[:2, :2]
    torch.testing.assert_close(
        spread.of_few(0, indices, slopes), written.of_few(0, indices, slopes)
    )
    again = torch.tensor([3, 1])
    torch.testing.assert_close(
        spread.spread(again).of(0, by_values[:, :2], by_importances[:, :2]),
        Covariance(joint).spread(copied[again]).of(0, by_values[:, :2], by_importances[:, :2]),
    )
