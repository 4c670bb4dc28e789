"""Odd texts and answers.

Tokens that are unknown or already stand for a removed one; answers that are huge or rounded.
"""

from __future__ import annotations

import contextlib
import random
import warnings
import zlib

import numpy as np
import pytest
import torch

from slalom_xai import Explainer
from slalom_xai.errors import BudgetError, InputError, ModelError
from slalom_xai.models.text import ALL_UNKNOWN

TEXT = "a slow start but one wonderful warm film"
WORDS = ["a", "slow", "start", "but", "wonderful", "warm", "film", "not", "good", ".", "the"]
MARKS = {"unk": "[UNK]", "mask": "[MASK]", "delete": "[UNK]"}


@pytest.fixture(scope="module")
def embedded():
    return Explainer().model


@pytest.mark.parametrize(
    ("removal", "granularity", "method", "text"),
    [
        ("unk", "token", "slalom", "[UNK] . [UNK] warm [UNK] [UNK] but slow a [UNK] [UNK] warm"),
        (
            "mask",
            "word",
            "slalom",
            ", terrible [MASK] [MASK] terrible film [MASK] [MASK] [MASK] . "
            "[MASK] [MASK] [MASK] slow the",
        ),
        ("mask", "word", "linear", ", start [MASK] [MASK] [MASK] [MASK] a the"),
        ("mask", "word", "linear", "warm [MASK] good [MASK] [MASK] the"),
        ("unk", "type", "slalom", "[UNK] warm [UNK]"),
        ("unk", "sentence", "slalom", "[UNK] [UNK]. Warm film. [UNK]"),
    ],
)
def test_a_text_may_hold_the_token_that_stands_for_a_removed_one(
    embedded, removal, granularity, method, text
):
    explanation = Explainer(embedded, method=method, removal=removal, granularity=granularity)(text)
    assert np.isfinite(explanation.values).all()
    assert any(
        "are already the token that replaces a removed one" in note for note in explanation.notes
    )


@pytest.mark.parametrize(
    "method",
    [
        "slalom",
        "linear",
        "slalom-fidel",
        "slalom-eff",
        "gam",
        "kernel-shap",
        "anchors",
        "occlusion",
    ],
)
def test_no_text_with_such_tokens_fails(embedded, method):
    rng = random.Random(zlib.crc32(method.encode()))
    explainers = {}
    for _ in range(25):
        removal = rng.choice(["unk", "mask", "delete"])
        granularity = rng.choice(["token", "type", "word", "phrase", "sentence"])
        share = rng.choice([0.3, 0.6, 0.9])
        text = " ".join(
            MARKS[removal] if rng.random() < share else rng.choice(WORDS)
            for _ in range(rng.randint(1, 14))
        )
        key = (removal, granularity)
        explainer = explainers.setdefault(
            key,
            Explainer(
                embedded,
                method=method,
                removal=removal,
                granularity=granularity,
                budget=rng.choice([None, 80]),
            ),
        )
        with contextlib.suppress(BudgetError):
            explanation = explainer(text)
            assert np.isfinite(explanation.scores("removal")).all(), (key, text)
            assert explanation.trust


def test_only_such_tokens_are_one_kind(embedded):
    explanation = Explainer(embedded, removal="unk", granularity="sentence")("[UNK]. [UNK] [UNK]")
    assert np.isfinite(explanation.values).all()


def test_a_text_of_unknown_tokens_is_called_that():
    explanation = Explainer(budget=60)("这部电影非常好看")
    assert ALL_UNKNOWN in explanation.notes
    assert "every token of the text is unknown" in explanation.trust
    assert "repeats of one" not in explanation.trust


def test_a_third_of_unknown_tokens_is_noted():
    explainer = Explainer(budget=60)
    many = explainer("这部 warm film good")
    assert any("tokens are unknown to the model's tokenizer" in note for note in many.notes)
    few = explainer("这 warm film good and not slow")
    assert not any("unknown" in note for note in few.notes)


def scaled(scale):
    def classify(texts):
        means = [
            np.mean(
                [zlib.crc32(word.encode()) % 1000 / 1000 - 0.5 for word in text.split()] or [0.0]
            )
            for text in texts
        ]
        return np.array([[0.0, scale * mean] for mean in means])

    return classify


@pytest.mark.parametrize("scale", [1e160, 1e300, 1e110])
@pytest.mark.parametrize("method", ["slalom", "linear", "slalom-exact", "kernel-shap", "occlusion"])
def test_answers_too_large_to_square_are_refused(scale, method):
    with pytest.raises(ModelError, match=r"expected finite numbers below 1e\+100") as caught:
        Explainer(scaled(scale), output="logits", method=method, budget=120)(TEXT)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("scale", [1e90, 1e-90])
@pytest.mark.parametrize("method", ["slalom", "linear", "slalom-eff", "kernel-shap"])
def test_large_and_small_answers_are_explained(scale, method):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        explanation = Explainer(scaled(scale), output="logits", method=method, budget=120)(TEXT)
    assert np.isfinite(explanation.scores("removal")).all()


def probabilities(dtype, shift=0.0):
    def classify(texts):
        logits = torch.tensor(
            [[0.0, len(text) / 20, zlib.crc32(text.encode()) % 7 / 7] for text in texts]
        )
        return (torch.softmax(logits, dim=1) + shift).to(dtype)

    return classify


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_probabilities_may_be_rounded_as_their_precision_is(dtype):
    assert Explainer(probabilities(dtype), budget=60)(TEXT).prediction


def test_rounded_probabilities_of_unknown_precision_get_the_right_advice():
    def classify(texts):
        return [[0.3, 0.696] for _ in texts]

    with pytest.raises(
        ModelError,
        match=r"sum to 0\.9960 and not to 1: compute them in float32, or divide them by their sum",
    ):
        Explainer(classify)(TEXT)
    with pytest.raises(ModelError, match="if they are logits"):
        Explainer(lambda texts: [[0.3, 2.0] for _ in texts])(TEXT)
    with pytest.raises(ModelError, match="if they are logits"):
        Explainer(probabilities(torch.bfloat16, 0.2))(TEXT)


def two(texts):
    return [[0.4, 0.6] if len(text) % 2 else [0.7, 0.3] for text in texts]


def test_a_function_gets_the_names_of_its_classes():
    explainer = Explainer(two, labels=["negative", "positive"], budget=60, target="negative")
    assert explainer(TEXT).target == "negative"
    assert explainer(TEXT).outputs.labels == ("negative", "positive")
    one_column = Explainer(
        lambda texts: [row[1] for row in two(texts)], labels=("no", "yes"), budget=60
    )
    found = one_column(TEXT)
    assert found.outputs.labels == ("no", "yes")
    assert found.target == ("yes" if len(TEXT) % 2 else "no")


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (["a", "b", "c"], r"labels has 3 names \(a, b, c\), but two has 2 outputs"),
        (["a"], r"labels has 1 name \(a\), but two has 2 outputs"),
        (["a", "a"], "labels holds 'a' more than once"),
        ("ab", "give a list with one name per class"),
        ({"a": 0}, "give a list with one name per class"),
        (3, "give a list with one name per class"),
        ([0, 1], "give a name for every class"),
        (["a", " "], "give a name for every class"),
        ([], "give a name for every class"),
    ],
)
def test_labels_that_name_no_classes_are_refused(labels, said):
    with pytest.raises(InputError, match=said):
        Explainer(two, labels=labels)(TEXT)


def test_labels_of_models_that_name_their_own():
    pytest.importorskip("sklearn")
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    texts = ["good film", "bad film", "good start", "bad start"]
    numbered = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts, [1, 0, 1, 0])
    assert (
        Explainer(numbered, labels=["bad", "good"], budget=60)("good start film").target == "good"
    )
    named = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(
        texts, ["up", "down", "up", "down"]
    )
    with pytest.raises(InputError, match="names its own classes"):
        Explainer(named, labels=["bad", "good"])
    with pytest.raises(InputError, match="names its own classes"):
        Explainer(labels=["bad", "good"])
    with pytest.raises(InputError, match="names its own classes"):
        Explainer(Explainer().model, labels=["bad", "good"])
