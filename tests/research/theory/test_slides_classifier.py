"""The classifier with one attention layer: padding, the adapter, its gradient in closed form."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from research.theory.slides.averages import word_averages
from research.theory.slides.classifier import AttentionClassifier, wave_positions, word_tokenizer
from research.theory.slides.gradients import (
    GRADIENT_REDUCTIONS,
    closed_gradient,
    differentiated,
    reduced,
)
from slalom_xai import Explainer
from slalom_xai.errors import InputError
from slalom_xai.methods.gradients import Gradient

WORDS = [f"word{number}" for number in range(20)]
TEXT = "word3 word1 word4 word1 word5 word9 word2 word6"


def build(heads: int = 2, length: int = 12, **options: float) -> tuple[AttentionClassifier, object]:
    words = word_tokenizer(WORDS, length)
    return AttentionClassifier(
        len(words), words.unk_token_id, length=length, heads=heads, seed=3, **options
    ).double().eval(), words


def ids_of(words, text: str = TEXT) -> torch.Tensor:
    return torch.tensor(words(text)["input_ids"])


def test_padding_is_unknown_words_in_their_places():
    model, words = build()
    row = ids_of(words)
    filled = torch.cat([row, torch.full((12 - len(row),), words.unk_token_id)])
    padded = torch.cat([row, torch.full((3,), words.pad_token_id)])
    mask = torch.cat([torch.ones(len(row)), torch.zeros(3)])
    plain = model(row[None])
    assert torch.equal(plain, model(filled[None]))
    assert torch.equal(plain, model(padded[None], mask[None]))
    assert not torch.allclose(
        plain, model(padded[None])
    )  # without a mask [PAD] is a word like any other


def test_the_formula_by_hand_for_one_head():
    model, words = build(heads=1)
    e = model.embed(ids_of(words)[None])[0].detach().numpy()
    query, key, value, head = (
        part.detach().numpy()[0] for part in (model.query, model.key, model.value, model.head)
    )
    rated = np.exp((e @ key.T) @ (query @ e[0]) / np.sqrt(model.key_width))
    expected = (rated / rated.sum()) @ (e @ value.T) @ head
    assert model(ids_of(words)[None]).item() == pytest.approx(expected, abs=1e-12)


def test_positions_are_waves_from_one_to_the_length():
    waves = wave_positions(50, 8).numpy()
    t = np.arange(50)
    for pair in range(4):
        rate = 50 ** (-2 * (pair + 1) / 8)
        assert waves[:, 2 * pair] == pytest.approx(np.sin(t * rate), abs=1e-6)
        assert waves[:, 2 * pair + 1] == pytest.approx(np.cos(t * rate), abs=1e-6)


def test_too_long_a_row_is_said_in_one_line():
    model, words = build(length=5)
    with pytest.raises(InputError, match="a row has 9 tokens, but this model reads 5"):
        model(ids_of(words)[None])


@pytest.mark.parametrize("method", ["slalom", "occlusion", "attention-mean", "attention-max"])
def test_the_ordinary_explainer_takes_it(method):
    model, words = build()
    explanation = Explainer(model, words, removal="unk", method=method, show_progress=False)(TEXT)
    assert explanation.prediction == pytest.approx(model(ids_of(words)[None]).item(), abs=1e-9)
    assert [unit.text for unit in explanation.units] == TEXT.split()
    if method == "slalom":
        assert explanation.fidelity.any.r2 > 0.9
        assert len(explanation.importances) == len(explanation.values) == 8
    elif method != "occlusion":
        weights = model.attention(model.embed(ids_of(words)[None]))[0].detach()
        weights = weights.mean(dim=0) if method == "attention-mean" else weights.amax(dim=0)
        assert explanation.scores("value") == pytest.approx(weights[1:9].numpy(), abs=1e-6)


def test_removing_a_type_is_what_the_averages_say():
    model, words = build()
    averages, kinds = word_averages(model, ids_of(words))
    explanation = Explainer(
        model, words, removal="unk", method="occlusion", granularity="type", show_progress=False
    )(TEXT)
    assert [unit.token_ids[0] for unit in explanation.units] == kinds.tolist()
    rows = np.concatenate([np.ones((1, 7)), 1 - np.eye(7)])
    outputs = averages.output(rows)
    assert explanation.scores("value") == pytest.approx(outputs[0] - outputs[1:], abs=1e-9)


@pytest.mark.parametrize("heads", [1, 2, 5])
def test_the_closed_gradient_is_the_gradient(heads):
    model, words = build(heads)
    embedded = model.embed(ids_of(words)[None])[0].detach()
    true, found = differentiated(model, embedded), closed_gradient(model, embedded)
    assert found.numpy() == pytest.approx(true.numpy(), abs=1e-12)
    for reduction in GRADIENT_REDUCTIONS:
        assert reduced(found, embedded, reduction).numpy() == pytest.approx(
            reduced(true, embedded, reduction).numpy(), abs=1e-12
        )
    as_given = closed_gradient(model, embedded, asking=False)
    assert as_given[1:].numpy() == pytest.approx(
        true[1:].numpy(), abs=1e-12
    )  # the slides' form, for every place but [CLS]
    assert not torch.allclose(as_given[0], true[0], rtol=1e-2)


@pytest.mark.parametrize("reduction", GRADIENT_REDUCTIONS)
def test_the_gradient_methods_give_the_closed_form(reduction):
    pytest.importorskip("captum")
    model, words = build()
    embedded = model.embed(ids_of(words)[None])[0].detach()
    # The method multiplies with what is looked up, which has no place in it.
    looked_up = model.tokens(ids_of(words)).detach() if reduction == "times-input" else embedded[:9]
    expected = reduced(closed_gradient(model, embedded)[:9], looked_up, reduction)[1:]
    explanation = Explainer(
        model, words, removal="unk", method=Gradient(reduction=reduction), show_progress=False
    )(TEXT)
    assert explanation.scores("value") == pytest.approx(expected.numpy(), abs=1e-9)
