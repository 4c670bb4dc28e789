"""The paper's claims: what a transformer can be, and what its answers tell.

Each has a test that fails if the claim is false, and the printed formula fails where it is wrong.
"""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from research.theory.paper.gam_table import lasso
from research.theory.paper.recovery_steps import Counted, Signs, follow_the_proof
from research.theory.paper.repeats import additive_bound, spread_over_repeats
from research.theory.paper.sinks import sink_curve
from research.theory.paper.synthetic import (
    WEIGHTS,
    WORDS,
    Shape,
    SmallTransformer,
    linear_log_odds,
    sample_rows,
    trained,
)
from research.theory.paper.transformer import (
    answers,
    planted,
    printed,
    random_rows,
    random_slalom,
    row_counts,
)
from slalom_xai.methods.paper.exact import recover_with_sink
from slalom_xai.methods.paper.formula import SlalomSurrogate

SAME = 1e-9  # two answers in float64 that should be equal


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
    known = known.normalise()
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


@pytest.mark.parametrize("family", ["encoder", "decoder"])
def test_the_weights_of_one_seed_are_the_same(family):
    rows = sample_rows(20, 0)
    one, again, other = (
        SmallTransformer(Shape(family, 1), seed, spread=0.3).log_odds(rows) for seed in (0, 0, 1)
    )
    assert torch.equal(one, again)
    assert (one - other).abs().max() > 0.1


@pytest.mark.parametrize("family", ["encoder", "decoder"])
def test_rows_are_answered_alike_alone_and_together(family):
    """Nothing is padded, and the answers come back in the order of the rows."""
    model = SmallTransformer(Shape(family, 2, positions=True, special=True), 0, spread=0.3)
    rows = sample_rows(8, 1)
    alone = torch.cat([model.log_odds([row]) for row in rows])
    assert (model.log_odds(rows) - alone).abs().max() < SAME


def test_shapes_are_named_in_words():
    assert str(Shape("encoder", 1)) == "encoder, 1 layer"
    assert str(Shape("encoder", 2, special=True)) == "encoder, 2 layers, [CLS]"
    both = Shape("decoder", 2, positions=True, special=True)
    assert str(both) == "decoder, 2 layers, start token and positions"
