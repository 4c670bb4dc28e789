"""The paper's claims: each with a test that fails if the claim is false, and the printed formula that fails where it is wrong."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from slalom_xai.surrogates.exact_shapley import shapley_values
from slalom_xai.surrogates.formula import SlalomSurrogate
from slalom_xai.surrogates.recover import recover_with_sink
from slalom_xai.surrogates.scores import slalom_score
from slalom_xai.theory import Settings, reproductions
from slalom_xai.theory.paper.embedded import embedded_log_odds
from slalom_xai.theory.paper.gam_table import lasso
from slalom_xai.theory.paper.recovery_steps import Counted, Signs, follow_the_proof
from slalom_xai.theory.paper.repeats import additive_bound, spread_over_repeats
from slalom_xai.theory.paper.shapley import brute_force, two_kinds
from slalom_xai.theory.paper.sinks import sink_curve
from slalom_xai.theory.paper.synthetic import (
    WEIGHTS,
    WORDS,
    Shape,
    SmallTransformer,
    linear_log_odds,
    sample_rows,
    trained,
)
from slalom_xai.theory.paper.transformer import (
    answers,
    planted,
    printed,
    random_rows,
    random_slalom,
    row_counts,
)

SAME = 1e-9  # two answers in float64 that should be equal

UNTRAINED = [
    "planted-slalom",
    "recovery",
    "soft-removal",
    "shapley",
    "many-classes",
    "alternating",
    "naive-bayes",
]
PAPER = [
    "repeated-token",
    "repeated-token-sink",
    *UNTRAINED,
    "concatenation",
    "counterexample",
    "gam-table",
]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", UNTRAINED)
def test_claims_that_need_no_training_hold(name, seed):
    outcome = reproductions()[name].run(Settings(seed=seed))
    assert [check for check in outcome.checks if not check.holds] == []


@pytest.mark.bench
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", [name for name in PAPER if name not in UNTRAINED])
def test_claims_about_trained_models_hold(name, seed):
    outcome = reproductions()[name].run(Settings(seed=seed))
    assert [check for check in outcome.checks if not check.holds] == []


# Proposition 4.1 and its corollaries


@pytest.mark.parametrize("family", ["encoder", "decoder"])
@pytest.mark.parametrize("layers", [1, 3])
def test_repeats_change_nothing_without_positions_and_special_tokens(family, layers):
    model = SmallTransformer(Shape(family, layers), seed=layers, spread=0.3)
    assert spread_over_repeats(model.log_odds) < SAME
    assert (
        model.log_odds([[word] for word in range(len(WORDS))]).std() > 0.05
    )  # the tokens are told apart, so the test can fail


@pytest.mark.parametrize("family", ["encoder", "decoder"])
def test_repeats_change_nothing_after_training_and_no_sum_comes_near(family):
    model = trained(Shape(family, 1), seed=0, steps=60)
    assert spread_over_repeats(model.log_odds) < SAME
    truth, found = linear_log_odds(sample_rows(300, 5)), model.log_odds(sample_rows(300, 5))
    assert np.corrcoef(truth, found)[0, 1] > 0.8  # it has learnt
    best, worst = WORDS.index("perfect"), WORDS.index("worst")
    assert additive_bound(model.log_odds, worst, best) > 0.1


@pytest.mark.parametrize("extra", [{"special": True}, {"positions": True}])
@pytest.mark.parametrize("family", ["encoder", "decoder"])
def test_a_special_token_or_positions_let_repeats_count(family, extra):
    model = SmallTransformer(Shape(family, 2, **extra), seed=1, spread=0.3)
    assert spread_over_repeats(model.log_odds) > 1e-3


def test_a_sum_is_seen_as_one():
    """The control: what is additive changes with repeats, and its bound is zero."""
    assert spread_over_repeats(linear_log_odds) == pytest.approx(1.5 * 29)
    weight = torch.randn(10, 30, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def placed(rows):
        return torch.stack([weight[list(row), torch.arange(len(row))].sum() + 0.7 for row in rows])

    for first, second in itertools.permutations(range(10), 2):
        assert additive_bound(placed, first, second) < 1e-12


@given(st.floats(-5, 5), st.floats(-5, 5), st.floats(-4, 3))
@settings(max_examples=15, deadline=None)
def test_a_sink_curve_is_found_again(value, rest, log_weight):
    known = SlalomSurrogate(
        *(torch.tensor(one).double() for one in ([[[value]]], [[0.0]], [[rest]], [-log_weight]))
    )
    times = torch.arange(30).double()
    found = known.predict(times[:, None])[:, 0]
    off = (sink_curve(times, found).predict(times[:, None])[:, 0] - found).abs().max()
    assert off <= 0.01 * abs(value - rest) + 1e-9  # the grid of weights is 0.025 wide


# Proposition 5.1

scores = st.floats(-5, 5)


@given(
    st.lists(st.tuples(scores, scores), min_size=1, max_size=8),
    st.booleans(),
    st.integers(1, 3),
    st.integers(1, 3),
    st.data(),
)
@settings(max_examples=40, deadline=None)
def test_the_planted_transformer_is_the_slalom(both, causal, layers, heads, data):
    drawn = torch.tensor(both, dtype=torch.float64)
    known = SlalomSurrogate(drawn[None, :, :1], drawn[None, :, 1])
    row = data.draw(st.lists(st.integers(0, len(both) - 1), min_size=1, max_size=12))
    model = planted(
        known, layers=layers, heads=heads, at=data.draw(st.integers(0, layers - 1)), causal=causal
    )
    assert float(answers(model, [row])) == pytest.approx(
        float(known.predict(row_counts([row], len(both)))), abs=1e-6
    )


def test_the_printed_transformer_is_not():
    known, rows = random_slalom(8, seed=0), random_rows(50, 8, 10, 0)
    truth = known.predict(row_counts(rows, 8))
    assert torch.equal(answers(printed(known), rows), torch.zeros(50, 1).double())
    assert (answers(printed(known, move_values=True), rows) - truth).abs().max() > 0.5
    assert (answers(planted(known), rows) - truth).abs().max() < 1e-6


def test_ordinary_attention_sees_the_same():
    """The plain transformer against torch's own attention, with random weights."""
    generator = torch.Generator().manual_seed(0)
    model = planted(random_slalom(6, heads=2, seed=0), layers=1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(
                torch.randn(parameter.shape, generator=generator, dtype=torch.float64) / 3
            )
    ids = torch.randint(6, (4, 7), generator=generator)
    hidden = model.embedding[ids]
    for causal in (False, True):
        model.causal = causal
        parts = []
        for head in range(2):
            query, key, value = (
                hidden @ weight[0, head].T + bias[0, head]
                for weight, bias in (
                    (model.query, model.query_bias),
                    (model.key, model.key_bias),
                    (model.value, model.value_bias),
                )
            )
            mixed = torch.nn.functional.scaled_dot_product_attention(
                query, key, value, is_causal=causal
            )
            parts.append(mixed @ model.project[0, head].T)
        after = hidden + sum(parts)
        after = after + torch.relu(after @ model.inner[0].T) @ model.outer[0].T
        expected = after[:, -1 if causal else 0] @ model.classifier.T
        assert torch.allclose(model(ids), expected, atol=1e-10)


# Proposition 5.2


@given(st.integers(0, 10_000), st.integers(2, 12), st.booleans())
@settings(max_examples=30, deadline=None)
def test_recovery_with_the_fewest_calls(seed, units, tied):
    known = random_slalom(units, seed=seed)
    if tied and units > 2:
        known.values[0, 2] = known.values[0, 0]
    model = Counted(planted(known))
    values, importances = follow_the_proof(model, units)
    assert model.calls == 2 * units - 1
    assert (values - known.values[0, :, 0]).abs().max() < 1e-9
    gap = (known.values[0, :, 0] - known.values[0, 0]).abs()
    if gap[gap > 0].min() > 1e-2:  # two values that hardly differ leave the importance to rounding
        assert (importances - known.importances[0]).abs().max() < 1e-6


@pytest.mark.parametrize("wrong", ["difference", "chain", "constant"])
def test_each_printed_sign_breaks_the_recovery(wrong):
    known = random_slalom(10, seed=3)
    known.values[0, 2] = known.values[0, 0]
    known.importances[0, 0] = 4.0
    known = known.normalised()
    _, right = follow_the_proof(Counted(planted(known)), 10)
    _, found = follow_the_proof(Counted(planted(known)), 10, Signs(**{wrong: True}))
    assert (right - known.importances[0]).abs().max() < 1e-9
    assert (found - known.importances[0]).abs().max() > 0.1


@given(st.integers(0, 10_000), st.integers(1, 10))
@settings(max_examples=30, deadline=None)
def test_recovery_with_a_sink(seed, units):
    truth = random_slalom(units + 1, seed=seed)
    model = Counted(planted(truth), front=[units])
    found = model.ask(
        [[], *([token] for token in range(units)), *([token, token] for token in range(units))]
    )
    assert model.calls == 2 * units + 1
    fitted, doubtful = recover_with_sink(found[0], found[1 : units + 1], found[units + 1 :])
    rows = random_rows(20, units, 6, seed)
    sure = [row for row in rows if not set(row) & set(doubtful)]
    if sure:
        off = fitted.predict(row_counts(sure, units)) - answers(
            planted(truth), [[units, *row] for row in sure]
        )
        assert off.abs().max() < 1e-6


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
        explain(text, method="zero").prediction, abs=1e-3
    )


# The language and the tools


def test_the_language_is_that_of_table_3():
    rows = sample_rows(4000, 0)
    lengths = np.array([len(row) for row in rows])
    assert lengths.mean() == pytest.approx(15, abs=0.2)
    assert lengths.var() == pytest.approx(7.5, abs=0.6)
    assert float(linear_log_odds([[WORDS.index("perfect"), WORDS.index("ok")]])) == pytest.approx(
        1.5 - 0.6
    )
    share = np.mean([word == WORDS.index("good") for row in rows for word in row])
    assert share == pytest.approx(1 / 15, abs=0.005)
    assert sum(WEIGHTS) == pytest.approx(0)
    even = np.array([len(row) for row in sample_rows(4000, 0, even=True)])
    assert (even.min(), even.max()) == (1, 30)


def test_the_lasso_is_scikit_learns():
    linear_model = pytest.importorskip("sklearn.linear_model")
    generator = torch.Generator().manual_seed(0)
    features = (torch.rand(300, 20, generator=generator) < 0.3).double()
    outputs = features @ torch.randn(20, 1, generator=generator).double() + 0.4
    theirs = linear_model.Lasso(alpha=0.01, tol=1e-10, max_iter=10_000).fit(
        features.numpy(), outputs[:, 0].numpy()
    )
    found = lasso(features, outputs, 0.01)[:, 0]
    assert found.tolist() == pytest.approx(
        [*theirs.coef_.tolist(), float(theirs.intercept_)], abs=1e-5
    )


def test_the_rows_of_one_seed_are_the_same():
    assert sample_rows(5, 3) == sample_rows(5, 3)
    assert sample_rows(5, 3) != sample_rows(5, 4)
    assert math.isfinite(float(SmallTransformer(Shape("encoder", 1), 0).log_odds([[0]])))
