"""The paper's claims about scores and sums: derivatives, Shapley values, texts put together."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from research.theory.paper.embedded import embedded_log_odds
from research.theory.paper.shapley import brute_force, two_kinds
from research.theory.paper.transformer import answers, planted, random_rows, random_slalom
from slalom_xai.methods.paper.formula import SlalomSurrogate
from slalom_xai.methods.paper.shapley import shapley_values
from slalom_xai.methods.scores import slalom_score

# Appendix B.7


@given(st.integers(0, 10_000), st.integers(2, 8))
@settings(max_examples=30, deadline=None)
def test_the_derivative_is_eq_64_and_not_eq_65(seed, units):
    known = random_slalom(units, seed=seed)
    counts = torch.ones(1, units, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(known.predict(counts).sum(), counts)
    assert (gradient[0] - slalom_score(known, "slope", 0)).abs().max() < 1e-12
    linearized, output = (
        slalom_score(known, "linearized", 0),
        float(known.predict(torch.ones(1, units))),
    )
    ratio = gradient[0] / linearized
    if abs(output) > 0.1:
        assert ratio.max() - ratio.min() > 1e-6  # no common factor


@given(st.integers(0, 10_000), st.integers(3, 8), st.booleans())
@settings(max_examples=20, deadline=None)
def test_shapley_values_are_exact_and_the_printed_weights_are_not(seed, units, sink):
    drawn = random_slalom(units + 1, seed=seed)
    extra = (drawn.values[:, units], drawn.importances[:, units]) if sink else (None, None)
    known = SlalomSurrogate(drawn.values[:, :units], drawn.importances[:, :units], *extra)
    truth = brute_force(known)
    assert (shapley_values(known)[:, 0] - truth).abs().max() < 1e-8
    assert float(truth.sum()) == pytest.approx(
        float(known.predict(torch.ones(1, units)) - known.empty()), abs=1e-10
    )
    wrong = brute_force(known, as_printed=True)
    assert (wrong - truth).abs().max() > 1e-3


def test_shapley_values_by_orders_of_joining():
    """The definition itself for three tokens: the mean over all six orders."""
    known = random_slalom(3, seed=1)
    total = torch.zeros(3, dtype=torch.float64)
    for order in itertools.permutations(range(3)):
        kept, before = torch.zeros(1, 3), 0.0
        for token in order:
            kept[0, token] = 1
            after = float(known.predict(kept))
            total[token] += after - before
            before = after
    assert torch.allclose(total / 6, brute_force(known), atol=1e-12)


def test_the_sum_over_two_kinds_is_the_sum_over_sets():
    pattern = [0, 0, 0, 1, 1, 1]
    values, log_weights = (2.0, -1.0), (0.4, -0.3)
    known = SlalomSurrogate(
        torch.tensor([values[kind] for kind in pattern]).double()[None, :, None],
        torch.tensor([log_weights[kind] for kind in pattern]).double()[None],
    )
    found = two_kinds(values, log_weights, 3)
    assert brute_force(known).tolist() == pytest.approx([found[kind] for kind in pattern], abs=1e-6)


# Fig. 1


@given(st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_two_texts_together_lie_between(seed):
    model = planted(random_slalom(6, seed=seed))
    left, right = random_rows(2, 6, 6, seed)
    one, other, both = answers(model, [left, right, left + right])[:, 0].tolist()
    assert min(one, other) - 1e-12 <= both <= max(one, other) + 1e-12


def test_the_embedded_model_answers_as_explained():
    from slalom_xai import explain

    text = "A dull and pointless sequel."
    assert float(embedded_log_odds([text])) == pytest.approx(
        explain(text, method="zero", target="positive").prediction, abs=1e-3
    )
