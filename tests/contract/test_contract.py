"""What every registered method promises, on every architecture."""

import functools

import numpy as np
import pytest
import torch
from marks import long_except
from tiny import ARCHITECTURES, BY_NAME, INSIDE, TEXT, deletions, log_odds, shortened, tiny

from slalom_xai import Explainer
from slalom_xai.errors import InputError
from slalom_xai.methods import Slalom

BUDGET = 400
# What the tests below compare with themselves: tokens deleted, one and the same class.
OPTIONS = {"granularity": "token", "removal": "delete", "target": "good"}
OWN = (
    "slalom",
    "one-score",
    "linear",
    "slalom-eff",
    "slalom-fidel",
    "slalom-exact",
)  # the package's own, on every architecture
FEW = ("bert", "gpt2", "xlnet", "t5")  # where methods run that only ask, and take long
TWO = ("bert", "gpt2")  # where all methods are explained anew, which takes long
CHANCELESS = (
    "slalom-exact",
    "occlusion",
    "zero",
    "partition-shap",
    "anchors",
    "gradient",
    "integrated-gradients",
    "attn-lrp",
)
CHANCELESS += ("attention-mean", "attention-max", "attention-rollout")
THOROUGH = (
    "kernel-shap",
    "permutation-shap",
    "anchors",
)  # which may ask every row of a short text, and leave none to test
SLOW = ("pairs", "gp")  # which only ask: a few architectures show all there is to see
REFUSED = [
    ("mamba", method)
    for method in ("attention-max", "attention-mean", "attention-rollout", "attn-lrp")
]  # no attention
EVERY = [
    (a, m)
    for a in ARCHITECTURES
    for m in BY_NAME
    if (a, m) not in REFUSED and (m not in SLOW or a in FEW)
]
# To a method that only asks, one architecture is like another: those of others run on a few.
AT_ONCE = [(a, m) for a, m in EVERY if m in OWN or m in INSIDE or a in FEW]
pairs = pytest.mark.parametrize(
    ("architecture", "method"),
    [case if case in AT_ONCE else pytest.param(*case, marks=pytest.mark.long) for case in EVERY],
)
own_pairs = pytest.mark.parametrize(
    ("architecture", "method"), [(a, m) for a, m in EVERY if m in OWN or a in FEW]
)
# Every method somewhere, and one that asks and fits on every architecture.
dear_pairs = pytest.mark.parametrize(
    ("architecture", "method"), [(a, m) for a, m in EVERY if m == "slalom" or a in TWO]
)
architectures = pytest.mark.parametrize("architecture", ARCHITECTURES)


def fresh(architecture, method, **options):
    model, tokenizer = tiny(architecture)
    return Explainer(model, tokenizer, method=method, budget=BUDGET, **OPTIONS, **options)(TEXT)


explain = functools.cache(fresh)  # explanations are frozen, so that tests may share them


def wide_rows(units, count, seed=99):
    generator = np.random.default_rng(seed)
    rows = np.zeros((count, units), dtype=bool)
    for row in rows:
        row[generator.choice(units, units - generator.integers(1, units), replace=False)] = True
    return rows


def asked_directly(architecture, rows):
    """The model's own answers to rows, one at a time and without the package."""
    model, tokenizer = tiny(architecture)
    return np.array([log_odds(model, *row) for row in shortened(tokenizer, rows)])


@functools.cache
def fresh_rows(architecture, units):
    """Rows that keep any number of units, and the model's own answers to them."""
    rows = wide_rows(units, 100)
    return rows, asked_directly(architecture, rows)


def by_hand_with_pairs(explanation, rows):
    """What units and pairs of them take away, one by one, for masks (m, n)."""
    function, missing = explanation.function, ~rows
    found = np.full(len(rows), explanation.for_target("good").prediction)
    for unit, scores in enumerate(function.mains.numpy()):
        found -= missing[:, unit] * scores[0]
    for (first, second), scores in zip(function.pairs.long(), function.joints.numpy(), strict=True):
        found -= missing[:, first] * missing[:, second] * scores[0]
    return found


def by_hand_of_process(explanation, rows):
    """What a process predicts for masks (m, n)."""
    return process_by_hand(explanation.function, rows)


def process_by_hand(function, rows):
    """The kernel with each asked row times its weight, for masks (m, n)."""
    found = np.full(len(rows), function.full[0].item())
    reaches, slopes = function.reaches.numpy(), function.slopes.numpy()
    for asked, weights in zip(function.rows.numpy() > 0, function.weights.numpy(), strict=True):
        apart = np.log((rows.sum(axis=1) + 1) / (asked.sum() + 1))
        alike = float(function.level) * np.exp(-((rows != asked) @ reaches))
        alike += float(function.length_level) * np.exp(
            -float(function.length_reach) * np.abs(apart)
        )
        found += (alike + (~rows & ~asked) @ slopes) * weights[0]
    return found


def averaged(counts, values, importances, sink, missing):
    """Values under the weights exp(importances), with a sink so many times, for counts (m, n)."""
    weights = np.exp(importances)
    above, below = counts @ (weights * values), counts @ weights
    if sink is not None:
        weight = missing * np.exp(sink[1])
        above, below = above + weight * sink[0], below + weight
    return above / below


def by_hand(explanation, counts):
    """The paper's formula for the explained target, for rows of counts (m, n)."""
    function = explanation.function
    target = explanation.outputs.target(explanation.target_index, explanation.full)
    assert len(function.values) == 1
    sink = None
    if function.sink_values is not None:
        sink = function.sink_values[0, target.column].item(), function.sink_importances[0].item()
    values = function.values[0, :, target.column].numpy()
    return target.sign * averaged(counts, values, function.importances[0].numpy(), sink, 1)


def by_hand_from_print(explanation, keep):
    """The bounded formula from nothing but what a reader sees, for masks (m, n).

    Printed values are inside the range; the average is over what they were before the bound.
    """
    low, high = explanation.range or (-np.inf, np.inf)
    centre, half = (low + high) / 2, (high - low) / 2

    def unbound(value):
        return value if explanation.range is None else half * np.arctanh((value - centre) / half)

    units = len(explanation)
    log_occurrences = np.log(explanation.occurrences or [1] * units)
    pairs = explanation.interactions
    together = [keep[:, one.units[0]] & keep[:, one.units[1]] for one in pairs]
    present = np.column_stack([keep, *together])
    values = np.array([*explanation.values, *(one.value for one in pairs)])
    # The printed importance of a token that stands several times is that of one of them.
    heard = explanation.importances + log_occurrences - log_occurrences.mean()
    of_pairs = (one.importance - log_occurrences.mean() for one in pairs)
    importances = np.array([*heard, *of_pairs])
    value, importance = explanation.sink
    sink = unbound(value), importance - log_occurrences.mean()
    found = averaged(present, unbound(values), importances, sink, (~keep).sum(axis=1))
    return found if explanation.range is None else centre + half * np.tanh(found / half)


@architectures
def test_deletions_move_the_tiny_models(architecture):
    model, tokenizer = tiny(architecture)
    answers = [log_odds(model, *row) for row in deletions(tokenizer, 100, seed=5)]
    assert max(answers) - min(answers) >= 1


@pytest.mark.parametrize(("architecture", "method"), REFUSED)
def test_a_method_that_a_model_has_no_parts_for_says_so(architecture, method):
    with pytest.raises(InputError, match=r"MambaClassifier|attn-lrp"):
        fresh(architecture, method)


@pairs
def test_scores_are_finite_and_one_per_token(architecture, method):
    _, tokenizer = tiny(architecture)
    explanation = explain(architecture, method)
    content = tokenizer(TEXT, add_special_tokens=False)["input_ids"]
    assert list(explanation.token_ids) == content  # and so no special token among the units
    for name in explanation.score_names:
        scores = explanation.scores(name)
        assert scores.shape == (len(content),)
        assert np.isfinite(scores).all()
    if explanation.importances is not None:
        assert explanation.importances.sum() == pytest.approx(0, abs=1e-9)
    assert all(np.isfinite(errors).all() for errors in explanation.standard_errors.values())


@pairs
def test_the_budget_is_kept_and_every_call_counted(architecture, method):
    explanation = explain(architecture, method)
    assert explanation.calls == explanation.calls_fit + explanation.calls_check
    assert explanation.calls <= BUDGET
    reported = explanation.fidelity.local.rows + explanation.fidelity.wide.rows
    assert explanation.calls_check - reported in (
        0,
        1,
    )  # the whole text, where it was only looked at


@dear_pairs
def test_the_same_seed_gives_the_same_explanation(architecture, method):
    assert fresh(architecture, method) == explain(architecture, method)
    other = explain(architecture, method, random_state=1)
    if method not in CHANCELESS:
        same = explain(architecture, method)
        assert not np.array_equal(other.scores("shapley"), same.scores("shapley"))
        if same.source("removal") == "measured":  # what is measured depends on no seed
            assert np.allclose(other.scores("removal"), same.scores("removal"), atol=1e-5)


@dear_pairs
def test_the_batch_size_does_not_matter(architecture, method):
    small, large = fresh(architecture, method, batch_tokens=64), explain(architecture, method)
    assert small.calls == large.calls
    everything = wide_rows(len(large), 50)
    first, second = small.predict(everything), large.predict(everything)
    assert np.allclose(
        first, second, atol=0.02 * (1 + second.std())
    )  # a fit amplifies how batches round


# Those that ask wide rows; the others promise something else.
WIDE_METHODS = ("slalom", "one-score", "linear", "pairs", "gp")


@pytest.mark.parametrize(
    ("architecture", "method"), [(a, m) for a, m in EVERY if m in WIDE_METHODS]
)
def test_predictions_beat_the_mean_on_fresh_wide_rows_or_are_not_to_be_trusted(
    architecture, method
):
    explanation = explain(architecture, method)
    rows, true = fresh_rows(architecture, len(explanation))
    better = ((explanation.predict(rows) - true) ** 2).mean() < true.var()
    assert better or (method == "one-score" and explanation.fidelity.doubtful)


@pairs
def test_the_prediction_is_the_models_own(architecture, method):
    explanation = explain(architecture, method)
    whole = asked_directly(architecture, np.ones((1, len(explanation)), dtype=bool))[0]
    assert explanation.prediction == pytest.approx(whole, abs=1e-4)
    assert explanation.target == "good"
    assert explanation.for_target("bad").prediction == -explanation.prediction


@pairs
def test_additive_methods_predict_by_subtraction_and_others_by_their_formula(architecture, method):
    explanation = explain(architecture, method)
    rows = wide_rows(len(explanation), 20)
    if explanation.surrogate == "linear":
        assert np.allclose(
            explanation.predict(rows), explanation.prediction - (~rows) @ explanation.values
        )
        return
    written = {
        "bounded": by_hand_from_print,
        "slalom": by_hand,
        "pairs": by_hand_with_pairs,
        "process": by_hand_of_process,
    }
    assert explanation.target == "good"  # the column is that of the target
    assert np.allclose(explanation.predict(rows), written[explanation.surrogate](explanation, rows))


@own_pairs
def test_only_methods_of_two_scores_have_importances(architecture, method):
    explanation = explain(architecture, method)
    assert explanation.has_importances == (explanation.surrogate in ("bounded", "slalom"))
    assert explanation.has_importances == (explanation.importances is not None)
    if method == "one-score":
        assert explanation.importances == pytest.approx(0, abs=1e-6)


@architectures
def test_scores_and_predictions_lie_inside_the_range(architecture):
    explanation = explain(architecture, "slalom")
    rows, _ = fresh_rows(architecture, len(explanation))
    low, high = explanation.range or (-np.inf, np.inf)
    shown = [*explanation.values, explanation.sink[0], *explanation.predict(rows)]
    assert low <= min(shown)
    assert max(shown) <= high
    assert low <= explanation.prediction <= high


@architectures
def test_shapley_values_add_up(architecture):
    explanation = explain(architecture, "slalom")
    ends = np.array([np.ones(len(explanation)), np.zeros(len(explanation))])
    whole, empty = explanation.predict(ends)
    assert explanation.base_value == pytest.approx(empty)
    assert explanation.scores("shapley").sum() == pytest.approx(whole - empty)


@architectures
def test_measured_scores_are_the_models_own_outputs(architecture):
    """Each perturbed text is sent by itself and without the package."""
    model, tokenizer = tiny(architecture)
    explanation = explain(architecture, Slalom(filled=True))
    names = explanation.score_names
    measured = {name for name in names if explanation.source(name) == "measured"}
    assert measured == {"removal", "filled"}
    units = len(explanation)
    whole = np.ones((1, units), dtype=bool)
    one = np.eye(units, dtype=bool)
    full, without = asked_directly(architecture, whole)[0], asked_directly(architecture, ~one)
    assert explanation.scores("removal") == pytest.approx(full - without, abs=1e-3)
    text = shortened(tokenizer, whole)[0]
    singles = shortened(tokenizer, one)
    for unit in range(0, units, 5):
        filled = asked_with_copies(model, text, singles[unit], unit, units)
        assert explanation.scores("filled")[unit] == pytest.approx(filled, abs=1e-3)
    for name in measured:
        assert not explanation.standard_errors[name].any()  # a steady model has no noise


def asked_with_copies(model, text, single, unit, copies):
    """The model's output for a text of copies of one unit.

    Args:
        model: a tiny one.
        text: the whole text, as ids and perhaps segments.
        single: the same of the unit alone.
        unit: its index among the units.
        copies: how many.
    """
    # Special tokens before the text: where the unit alone and the whole text begin alike.
    special = len(single[0]) - 1
    units = len(text[0]) - special
    for before in range(special + 1):
        rest = text[0][before + units :]
        if text[0][:before] == single[0][:before] and rest == single[0][before + 1 :]:
            break
    place = before + unit
    rows = []
    for stream in text:
        copy = [stream[place]] * copies
        rows.append([*stream[:before], *copy, *stream[before + units :]])
    return log_odds(model, *rows)


@architectures
def test_a_model_is_left_as_it_was(architecture):
    model, tokenizer = tiny(architecture)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    pad = model.config.pad_token_id
    model.train()
    model.base_model.eval()
    modes = [module.training for module in model.modules()]
    try:
        Explainer(model, tokenizer, budget=100)(TEXT)
        assert [module.training for module in model.modules()] == modes
    finally:
        model.eval()
    assert model.config.pad_token_id == pad
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize(
    "granularity", long_except(("type", "sentence"), ["type", "word", "phrase", "sentence"])
)
@pytest.mark.parametrize(
    ("architecture", "method"),
    [*(("bert", method) for method in BY_NAME), *(("gpt2", one) for one in OWN)],
)
def test_units_of_every_granularity_are_fitted_and_checked(architecture, method, granularity):
    text = (
        "A slow film, a long film; yet I liked the end! It moved me. A good end, a good film. "
        "Would I go again? I would. Yes."
    )
    model, tokenizer = tiny(architecture)
    explanation = Explainer(model, tokenizer, method=method, granularity=granularity, budget=300)(
        text
    )
    tokens = tokenizer(text, add_special_tokens=False)["input_ids"]
    if granularity == "type":
        assert sorted(explanation.token_ids) == sorted(set(tokens))
        assert sum(explanation.occurrences) == len(tokens)
    else:
        assert list(explanation.token_ids) == tokens
        assert all(text[unit.start : unit.end] == unit.text for unit in explanation.units)
    assert np.isfinite(explanation.values).all()
    assert explanation.fidelity is not None or method in THOROUGH
    whole = np.ones((1, len(explanation)))
    without = whole - np.eye(len(explanation))
    if explanation.source("removal") == "fitted":
        removed = explanation.predict(whole)[0] - explanation.predict(without)
        assert np.allclose(removed, explanation.scores("removal"))
    if explanation.surrogate == "bounded":
        predicted = by_hand_from_print(explanation, whole.astype(bool))
        assert explanation.predict(whole) == pytest.approx(predicted)
    if explanation.surrogate == "slalom":
        assert explanation.predict(whole) == pytest.approx(by_hand(explanation, whole))
        if explanation.source("value") == "fitted":
            counts = np.array(explanation.occurrences or [1] * len(explanation))
            weights = counts * np.exp(explanation.importances)
            value, weight = (
                (0.0, 0.0)
                if explanation.sink is None
                else (explanation.sink[0], np.exp(explanation.sink[1]))
            )
            formula = (weights @ explanation.values + weight * value) / (weights.sum() + weight)
            assert explanation.predict(whole)[0] == pytest.approx(formula)
