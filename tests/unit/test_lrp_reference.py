"""AttnLRP against the authors' own package, lxt: scripts/reference_lrp.py makes the fixtures.

The rules are the same, and so are the relevances, up to rounding: linear layers keep the plain
gradient, biases take what is theirs, attention halves at both of its products, softmax keeps its
plain gradient (lxt's efficient form, the Taylor rule), LayerNorm's deviation is a constant, and
GELU and the pooler's tanh pass relevance one to one. lxt adds 1e-10 to the input of an activation
before it divides by it, which is far below the tolerance.
"""

import json
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification

from slalom_xai import Explainer
from slalom_xai.methods.lrp import relevance_rules
from slalom_xai.models.internals import eager_attention

FIXTURES = Path(__file__).parents[1] / "fixtures" / "lrp"
NAMES = ["bert", "gpt2"]
TOLERANCE = 1e-4  # of the largest relevance


def references(name):
    return json.loads((FIXTURES / name / "reference.json").read_text(encoding="utf-8"))["texts"]


def deviation(found, reference):
    expected = np.array(reference)
    return np.abs(np.asarray(found) - expected).max() / np.abs(expected).max()


def input_times_gradient(model, ids, around):
    """Logits, and embedding × gradient of logit 1 − logit 0, summed over the width.

    Both are computed with ``around`` in force.
    """
    embeddings = model.get_input_embeddings()(torch.tensor([ids])).detach().requires_grad_()
    with eager_attention(model), around(model):
        logits = model(
            inputs_embeds=embeddings, attention_mask=torch.ones(1, len(ids), dtype=torch.long)
        ).logits[0]
    (gradient,) = torch.autograd.grad(logits[1] - logits[0], embeddings)
    return logits.tolist(), (gradient * embeddings).sum(dim=-1)[0].tolist()


@pytest.mark.parametrize("precision", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", NAMES)
def test_relevances_of_all_tokens_are_those_of_lxt(name, precision):
    model = AutoModelForSequenceClassification.from_pretrained(FIXTURES / name).to(precision).eval()
    for reference in references(name):
        logits, found = input_times_gradient(model, reference["ids"], relevance_rules)
        assert logits == pytest.approx(
            reference["logits"], abs=1e-5
        )  # the same model, by another version of transformers
        assert deviation(found, reference["relevance"]) < (
            TOLERANCE if precision == torch.float32 else 1e-6
        )


@pytest.mark.parametrize("name", NAMES)
def test_the_explainer_gives_them_to_the_text(name):
    explainer = Explainer(str(FIXTURES / name), method="attn-lrp", target="good", device="cpu")
    for reference in references(name)[1:]:  # a text of one unit is not explained by a method
        around = 1 if name == "bert" else 0  # [CLS] and [SEP]
        expected = reference["relevance"][around : len(reference["ids"]) - around]
        assert deviation(explainer(reference["text"]).scores("value"), expected) < TOLERANCE


@pytest.mark.parametrize("name", NAMES)
def test_without_the_rules_they_are_far_off(name):
    model = AutoModelForSequenceClassification.from_pretrained(FIXTURES / name).eval()
    for reference in references(name):
        _, plain = input_times_gradient(model, reference["ids"], lambda _: nullcontext())
        assert deviation(plain, reference["relevance"]) > 0.3
