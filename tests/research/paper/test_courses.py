"""What a course of training can be told beside what ``slalom train`` takes."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from research.paper.nets import FullyConnected
from research.paper.word_tokenizer import word_tokenizer
from slalom_xai.data.training.encoding import EncodedTexts, answers
from slalom_xai.data.training.loop import Course, Lesson, fit
from slalom_xai.data.training.saving import score

COURSE = Course(
    epochs=3, rate=0.01, rows=8, tokens=1000, decay=0.0, holes=0.0, patience=None, seed=0
)


def lesson(rows=64):
    """Rows of two tokens, whose class is the first of them."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(1, 3, (rows, 2), generator=generator)
    return Lesson(EncodedTexts(ids.tolist(), None, 0, torch.device("cpu"), ()), ids[:, 0] - 1)


def trained(course, taught=None):
    torch.manual_seed(0)
    model = FullyConnected(3, places=2, width=4, hidden=8, pad=0, labels=("a", "b"))
    return model, fit(model, taught or lesson(), lesson(), course, tell=lambda line: None)


OPTIMIZERS = (None, partial(torch.optim.Adam, lr=0.01), partial(torch.optim.RMSprop, lr=0.01))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_every_optimizer_learns(optimizer):
    _, found = trained(replace(COURSE, optimizer=optimizer, epochs=8))
    assert found.history[-1].training_loss < found.history[0].training_loss / 2


def test_a_given_optimizer_takes_the_steps_at_a_constant_rate():
    """Without weight decay AdamW is Adam, so that the two differ by the schedule alone."""
    weights = [trained(replace(COURSE, optimizer=one))[0].inner.weight for one in OPTIMIZERS]
    assert not torch.allclose(weights[0], weights[1])
    assert not torch.allclose(weights[1], weights[2])


def test_the_last_epoch_is_kept_where_that_is_asked():
    """Wrong classes make each epoch worse than the one before, so that the first is the best."""
    right = lesson()
    wrong = Lesson(right.encoded, 1 - right.labels)
    for keep, epoch in (("best", 1), ("last", 3)):
        model, found = trained(replace(COURSE, keep=keep), wrong)
        assert found.best.epoch == 1
        reached = score(answers(model, right.encoded, side="right"), right.labels)
        assert reached.loss == pytest.approx(found.history[epoch - 1].validation_loss, rel=1e-4)


def test_a_tokenizer_of_words():
    words = word_tokenizer(("the", "good"), limit=8, family="bert", framed=True, unknown="the")
    tokens = words.convert_ids_to_tokens(words("good the what")["input_ids"])
    assert tokens == ["[CLS]", "good", "the", "the", "[SEP]"]
    assert words.unk_token == "the"
    bare = word_tokenizer(("the", "good"), limit=8, family="gpt2", framed=False)
    assert bare.convert_ids_to_tokens(bare("good what")["input_ids"]) == ["good", "[UNK]"]
    assert set(bare("good")) == {"input_ids", "attention_mask"}
