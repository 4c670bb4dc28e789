"""Many texts at once: the same explanations, asked in common batches."""

import pytest
from alike import difference
from fakes import Averaging
from tiny import TEXT, tiny

from slalom_xai import Explainer
from slalom_xai.errors import ModelError

TEXTS = [
    "a warm and funny film with a fine cast",
    "the plot is thin, the jokes are old and the end is long",
    "good",
    "not bad at all, I liked it more than the first one",
    "w7 is a word that spoils what it stands in and everything around it",
    "one more, and then another, and then there was nothing left to say",
]


@pytest.mark.parametrize(
    "method",
    [
        "slalom",
        "slalom-few",
        "slalom-eff",
        "slalom-fidel",
        "slalom-exact",
        "linear",
        "gam",
        "occlusion",
        "lime",
    ],
)
def test_a_list_is_explained_as_its_texts_are_one_by_one(method):
    explainer = Explainer(Averaging(), method=method, budget=150)
    together, single = explainer(TEXTS), [explainer(text) for text in TEXTS]
    for one, other in zip(together, single, strict=True):
        assert one.text == other.text
        assert (one.calls_fit, one.calls_check) == (other.calls_fit, other.calls_check)
        assert one.prediction == pytest.approx(other.prediction, rel=1e-9, abs=1e-9)
        assert difference(one, other) < 1e-2


@pytest.mark.parametrize("architecture", ["bert", "gpt2"])
def test_rows_of_several_texts_share_batches(architecture):
    model, words = tiny(architecture)
    explainer = Explainer(model, words, method="linear", budget=100, granularity="token")
    seen = []
    model.register_forward_pre_hook(
        lambda module, args, inputs: seen.append(tuple(inputs["input_ids"].shape)), with_kwargs=True
    )
    single = [explainer(text) for text in [TEXT, *TEXTS]]
    alone, seen[:] = list(seen), []
    together = explainer([TEXT, *TEXTS])
    assert len(seen) < 0.6 * len(alone)
    for one, other in zip(together, single, strict=True):
        assert difference(one, other) < 0.1


def test_a_text_that_fails_takes_no_other_with_it_and_what_was_finished_is_kept():
    explainer = Explainer(Averaging(spoil=("w7", float("nan"))), budget=150)
    with pytest.raises(ModelError, match="finite") as caught:
        explainer(TEXTS)
    assert [found.text for found in caught.value.finished] == [
        text for text in TEXTS if "w7" not in text
    ]


def test_padding_is_small_on_a_long_text_and_over_many_short_ones():
    model, words = tiny("bert")
    explainer = Explainer(model, words, method="linear", budget=1000)
    tokens = {"read": 0, "filled": 0}

    def count(module, args, inputs):
        mask = inputs.get("attention_mask")
        tokens["filled"] += inputs["input_ids"].numel()
        tokens["read"] += inputs["input_ids"].numel() if mask is None else int(mask.sum())

    model.register_forward_pre_hook(count, with_kwargs=True)
    explainer(" ".join([TEXT] * 5))
    assert tokens["filled"] <= 1.05 * tokens["read"]
    tokens.update(read=0, filled=0)
    explainer([*TEXTS] * 4)
    assert tokens["filled"] <= 1.05 * tokens["read"]
