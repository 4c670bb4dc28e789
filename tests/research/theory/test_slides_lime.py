"""LIME for the attention classifier: sampling, regression, limits, closed forms, lemmas."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from research.theory.slides.averages import random_averages, word_averages
from research.theory.slides.classifier import AttentionClassifier, word_tokenizer
from research.theory.slides.lemmas import mean_of_sum, ratio_bound, variance_of_sum
from research.theory.slides.lime import (
    all_rows,
    distances,
    exact_means,
    infinite_samples,
    lime,
    regress,
    row_weights,
    sample,
    wide_limit,
    wide_limit_printed,
)
from research.theory.slides.lime_forms import (
    relative_error,
    theorem_along,
    theorem_mended,
    theorem_printed,
    wide_means,
)
from slalom_xai.errors import InputError


def test_sampling_removes_a_uniform_number_and_any_words():
    keep = sample(4, 60_000, np.random.default_rng(0))
    counts = Counter(map(tuple, keep.tolist()))
    rows, chances = all_rows(4)
    assert chances.sum() == pytest.approx(1)
    assert (True,) * 4 not in counts
    for row, chance in zip(rows.tolist(), chances, strict=True):
        assert counts[tuple(row)] / 60_000 == pytest.approx(
            chance, abs=5 * np.sqrt(max(chance, 1e-9) / 60_000)
        )


def test_distance_is_the_cosine_distance_and_weights_follow():
    keep = np.array([[1, 1, 1, 1], [1, 0, 0, 0], [1, 1, 0, 0]], dtype=bool)
    ones = np.ones(4)
    expected = [1 - row @ ones / (np.linalg.norm(row) * 2) for row in keep.astype(float)]
    assert distances(keep) == pytest.approx(expected, abs=1e-12)
    assert row_weights(keep, 0.5) == pytest.approx(np.exp(-np.square(expected) / 0.5), abs=1e-12)
    assert distances(np.zeros((1, 4), dtype=bool)) == pytest.approx([1.0])


@given(
    words=st.integers(2, 7),
    seed=st.integers(0, 10_000),
    bandwidth=st.sampled_from([0.25, 0.5, 1.0, np.inf]),
)
@settings(max_examples=40)
def test_the_limit_of_many_samples_is_explicit(words, seed, bandwidth):
    keep, chances = all_rows(words)
    outputs = np.random.default_rng(seed).normal(size=len(keep))
    true = regress(keep, outputs, chances * row_weights(keep, bandwidth))
    assert infinite_samples(
        exact_means(outputs, words, bandwidth), words, bandwidth
    ) == pytest.approx(true, abs=1e-8)


@given(words=st.integers(2, 9), seed=st.integers(0, 10_000))
@settings(max_examples=40)
def test_the_wide_limit_holds_mended_and_not_as_printed(words, seed):
    keep, chances = all_rows(words)
    outputs = np.random.default_rng(seed).normal(size=len(keep)) + keep.sum(
        axis=1
    )  # more words, more output
    true = regress(keep, outputs, chances)
    means = exact_means(outputs, words)
    assert wide_limit(means, words) == pytest.approx(true, abs=1e-9)
    printed = wide_limit_printed(means, words)
    assert printed.sum() == pytest.approx(
        0, abs=1e-9
    )  # whatever the model does, which cannot be right
    assert relative_error(printed, true) > 0.1


def test_the_wide_limit_of_a_mean():
    means = exact_means(all_rows(10)[0].mean(axis=1), 10)
    assert wide_limit(means, 10) == pytest.approx(np.full(10, 0.1), abs=1e-12)
    assert wide_limit_printed(means, 10) == pytest.approx(np.zeros(10), abs=1e-12)


def test_lime_goes_to_its_limits_with_samples_and_with_bandwidth():
    text = random_averages(7, 3, np.random.default_rng(0))
    keep, chances = all_rows(7)
    outputs = text.output(keep)
    limit = wide_limit(exact_means(outputs, 7), 7)
    far = [
        relative_error(regress(keep, outputs, chances * row_weights(keep, width)), limit)
        for width in (1.0, 4.0, 16.0, 64.0)
    ]
    assert all(later < 0.08 * before for before, later in pairwise(far))  # like 1 / bandwidth²
    narrow = infinite_samples(exact_means(outputs, 7, 0.25), 7, 0.25)
    rng = np.random.default_rng(1)
    errors = [
        np.mean([relative_error(lime(text.output, 7, count, rng), narrow) for _ in range(8)])
        for count in (500, 5_000, 50_000)
    ]
    assert errors[1] < 0.5 * errors[0]
    assert errors[2] < 0.5 * errors[1]
    assert relative_error(limit, narrow) > 5 * errors[2]  # the two limits are not the same


@pytest.mark.parametrize("filling", [0, 5])
@pytest.mark.parametrize("heads", [1, 3])
def test_quadrature_gives_the_means_over_all_sets(filling, heads):
    text = random_averages(8, filling, np.random.default_rng(2), heads=heads, tilt=1.0)
    true, found = exact_means(text.output(all_rows(8)[0]), 8), wide_means(text)
    assert found.output == pytest.approx(true.output, abs=1e-8)
    assert found.kept == pytest.approx(true.kept, abs=1e-8)


def errors_of(words: int, filling: int) -> tuple[float, float, float]:
    text = random_averages(words, filling, np.random.default_rng(1), tilt=0.5)
    true = wide_limit(wide_means(text), words)
    return tuple(
        relative_error(form(text), true)
        for form in (theorem_printed, theorem_mended, theorem_along)
    )  # type: ignore[return-value]


def test_only_mended_forms_converge():
    filled = np.array([errors_of(words, words**2 - words) for words in (10, 40, 160)])
    bare = np.array([errors_of(words, 0) for words in (10, 40, 160)])
    assert filled[:, 0].min() > 0.3  # the printed form, whatever the length
    assert bare[:, 0].min() > 0.3
    assert (
        filled[1:, 1] < 0.5 * filled[:-1, 1]
    ).all()  # the mended one, where the theorem places itself
    assert filled[-1, 1] < 3e-3
    assert bare[-1, 1] > 0.03  # and not without filling
    assert (bare[1:, 2] < 0.5 * bare[:-1, 2]).all()  # the one along the way, also there
    assert bare[-1, 2] < 2e-3


def test_the_factor_and_the_centre_are_both_needed():
    text = random_averages(100, 9_900, np.random.default_rng(1), tilt=0.5)
    true = wide_limit(wide_means(text), 100)
    assert (
        relative_error(1.5 * theorem_mended(text), true) > 0.4
    )  # centred, with the printed factor
    assert relative_error(theorem_printed(text) / 1.5, true) > 0.1  # the right factor, not centred


@pytest.mark.parametrize("filling", [0, 14 * 13])
def test_the_integral_alone_is_less_exact_than_the_form_along_the_way(filling):
    text = random_averages(14, filling, np.random.default_rng(1), tilt=0.5)
    true = wide_limit(wide_means(text), 14)
    nodes, weights = np.polynomial.legendre.leggauss(60)
    share = (nodes + 1) / 2
    above, below = text.heads(np.repeat(share[:, None], 14, axis=1))
    spread = 6 * share * (1 - share) * weights / 2 / below  # (heads, shares)
    of_values = (text.kept_values - text.removed_values) * spread.sum(axis=1)[:, None]
    of_weights = (text.kept - text.removed) * (spread * above / below).sum(axis=1)[:, None]
    integral = (of_values - of_weights).mean(axis=0)
    assert relative_error(integral, true) < 0.05
    assert relative_error(theorem_along(text), true) < 0.3 * relative_error(integral, true)


def test_the_form_along_the_way_knows_the_bandwidth():
    text = random_averages(40, 0, np.random.default_rng(3), tilt=0.5)
    rng = np.random.default_rng(0)
    found = np.mean([lime(text.output, 40, 20_000, rng) for _ in range(3)], axis=0)
    assert relative_error(theorem_along(text, 0.25), found) < 0.03
    assert relative_error(theorem_along(text), found) > 0.04


def classifier(words: int, length: int) -> tuple[AttentionClassifier, object, str]:
    names = [f"word{number}" for number in range(words)]
    tokens = word_tokenizer(names, length)
    return (
        AttentionClassifier(
            len(tokens), tokens.unk_token_id, length=length, heads=2, seed=1
        ).double(),
        tokens,
        " ".join(names),
    )


def test_repeated_words_go_together():
    model, tokens, _ = classifier(4, 10)
    ids = torch.tensor(tokens("word0 word1 word0 word2 word0")["input_ids"])
    averages, kinds = word_averages(model, ids)
    assert tokens.convert_ids_to_tokens(kinds.tolist()) == ["word0", "word1", "word2"]
    keep = all_rows(3)[0]
    for row, output in zip(keep, averages.output(keep), strict=True):
        kept = kinds[torch.tensor(row)]
        text = torch.where(
            torch.isin(ids, kept) | (ids == tokens.cls_token_id), ids, tokens.unk_token_id
        )
        assert model(text[None]).item() == pytest.approx(output, abs=1e-12)


def test_the_package_lime_regresses_alike():
    base = pytest.importorskip("lime.lime_base")
    from sklearn.linear_model import Ridge

    text = random_averages(6, 2, np.random.default_rng(0))
    keep = sample(6, 400, np.random.default_rng(1))
    keep[0] = True  # the package wants the whole text first
    outputs = text.output(keep)
    theirs = base.LimeBase(lambda far: np.sqrt(np.exp(-(far**2) / 25**2)))
    ridge = Ridge(alpha=1.0, fit_intercept=True)
    found = dict(
        theirs.explain_instance_with_data(
            keep.astype(float), outputs[:, None], 100 * distances(keep), 0, 6, "none", ridge
        )[1]
    )
    ours = regress(keep, outputs, row_weights(keep, 0.25), ridge=1.0)
    assert np.array([found[word] for word in range(6)]) == pytest.approx(ours, abs=1e-10)


def test_the_package_lime_goes_to_the_limit():
    lime_text = pytest.importorskip("lime.lime_text")
    model, tokens, text = classifier(8, 9)

    def answer(texts: list[str]) -> np.ndarray:
        rows = [[tokens.cls_token_id, *tokens.convert_tokens_to_ids(one.split())] for one in texts]
        with torch.no_grad():
            output = model(torch.tensor(rows))[:, 0].numpy()
        return np.stack([-output, output], axis=1)

    # Words are replaced in place only where the package counts each position by itself, so every
    # word stands once.
    theirs = lime_text.LimeTextExplainer(
        split_expression=r"\s+", bow=False, mask_string="[UNK]", random_state=0
    )
    found = dict(
        theirs.explain_instance(text, answer, num_features=8, num_samples=8_000).as_map()[1]
    )
    averages, _ = word_averages(model, torch.tensor(tokens(text)["input_ids"]))
    limit = infinite_samples(exact_means(averages.output(all_rows(8)[0]), 8, 0.25), 8, 0.25)
    assert relative_error(np.array([found[word] for word in range(8)]), limit) < 0.03


def test_all_sets_of_many_words_are_refused():
    with pytest.raises(InputError, match="at most 16"):
        all_rows(17)


@pytest.mark.parametrize(
    "limit",
    [wide_limit, wide_limit_printed, lambda means, words: infinite_samples(means, words, 0.25)],
)
def test_one_word_has_no_limit(limit):
    with pytest.raises(InputError, match="at least two words"):
        limit(exact_means(np.ones(2), 1), 1)


@given(words=st.integers(3, 8), seed=st.integers(0, 1_000), data=st.data())
@settings(max_examples=40)
def test_sums_over_random_sets(words, seed, data):
    size, word = data.draw(st.integers(0, words - 1)), data.draw(st.integers(0, words - 1))
    kept, removed = np.random.default_rng(seed).normal(size=(2, words))
    keep, _ = all_rows(words)
    possible = keep[(keep.sum(axis=1) == words - size) & keep[:, word]]
    totals = np.where(possible, kept, removed).sum(axis=1)
    assert mean_of_sum(kept, removed, size, word) == pytest.approx(totals.mean(), abs=1e-9)
    assert variance_of_sum(kept, removed, size, word) == pytest.approx(totals.var(), abs=1e-9)


@given(seed=st.integers(0, 10_000), floor=st.floats(0.1, 2.0), spread=st.floats(0.0, 5.0))
@settings(max_examples=60)
def test_ratios_keep_to_their_bound(seed, floor, spread):
    rng = np.random.default_rng(seed)
    below = floor + spread * rng.random(20)
    above = rng.normal(size=20) + rng.choice([-1, 0, 1]) * below
    error = abs((above / below).mean() - above.mean() / below.mean())
    bound = ratio_bound(
        float(above.std() * below.std()),
        float(below.var()),
        float(above.mean()),
        float(below.min()),
    )
    assert error <= bound + 1e-12


def test_the_ratio_bound_falls_with_the_length():
    bounds = []
    for words in (20, 80, 320):
        text = random_averages(words, 0, np.random.default_rng(0), heads=1)
        top, bottom = (text.kept_values[0], text.removed_values[0]), (text.kept[0], text.removed[0])
        spread, size = variance_of_sum(*bottom, words // 2, 0), words // 2
        bounds.append(
            ratio_bound(
                float(np.sqrt(variance_of_sum(*top, size, 0) * spread)),
                spread,
                mean_of_sum(*top, size, 0),
                float(np.minimum(*bottom).sum()),
            )
        )
    assert bounds[1] < 0.35 * bounds[0]
    assert bounds[2] < 0.35 * bounds[1]
