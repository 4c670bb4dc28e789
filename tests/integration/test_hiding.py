"""Removed tokens can be hidden: they leave the attention, and the others keep their positions."""

import copy
import json

import numpy as np
import pytest
import torch
import transformers
from language_models import CONTEXT, QUESTION, language_model, words
from tiny import ARCHITECTURES, CORPUS, SIZE, TEXT, tiny, tokenizer

from slalom_xai import AnswerModel, Explainer, explain
from slalom_xai.errors import CannotHideError, InputError
from slalom_xai.explainer import read_for_removal
from slalom_xai.explanation import Explanation
from slalom_xai.models import prompt
from slalom_xai.models.load import text_model
from slalom_xai.models.rows import KeptTokens, TokenText
from slalom_xai.models.token_batch import TokenBatch
from slalom_xai.queries import Batches, Queries

WAYS = {
    "bert": "positions",
    "roberta": "positions",
    "distilbert": "positions",
    "modernbert": "positions",
    "electra": "positions",
    "albert": "positions",
    "deberta-v2": "holes",
    "xlnet": "holes",
    "gpt2": "positions",
    "llama": "positions",
    "qwen2": "positions",
    "bloom": None,  # its slopes are counted over the tokens that the mask leaves
    "t5": "holes",
    "bart": "holes",
    "mamba": None,  # no attention
}
HIDE = [name for name, way in WAYS.items() if way]
BOTH = [name for name, way in WAYS.items() if way == "positions"]
DECODERS = ["gpt2", "llama", "qwen2"]
TWICE = ("t5", "bart")  # the decoder reads the text once more
CLOSE = {"rtol": 1e-5, "atol": 1e-4}


def adapted(architecture):
    return text_model(*tiny(architecture))


def masks(pieces, count, seed=0):
    """Random masks (count, pieces) that keep at least one piece each."""
    rng = np.random.default_rng(seed)
    keep = rng.random((count, pieces)) < rng.uniform(0.2, 0.9, (count, 1))
    keep[keep.sum(axis=1) == 0, 0] = True
    return keep


def by_hand(architecture, reading, keep, others=None):
    """Logits for one row from the model itself, with zeros in the mask.

    Tokens behind the last one that is kept are cut off, for decoders answer from the last token.
    """
    model, _ = tiny(architecture)
    seen = np.ones(len(reading.tokens), dtype=bool)
    seen[reading.positions[~keep]] = False
    end = int(np.flatnonzero(seen)[-1]) + 1
    ids, *segments = (torch.tensor(stream[None, :end]) for stream in reading.tokens.streams)
    mask = torch.tensor(seen[None, :end].astype(int))
    if others is not None:
        ids = torch.where(mask.bool(), ids, others)
    inputs = {"input_ids": ids, "attention_mask": mask}
    if segments:
        inputs["token_type_ids"] = segments[0]
    if architecture in TWICE:
        start = torch.tensor([[model.config.decoder_start_token_id]])
        inputs["decoder_input_ids"] = torch.cat([start, ids[:, :-1]], dim=1)
        inputs["decoder_attention_mask"] = torch.cat([torch.ones_like(start), mask[:, :-1]], dim=1)
    config = model.config
    pad, config.pad_token_id = config.pad_token_id, config.pad_token_id or 300  # GPT-2 has none
    try:
        with torch.inference_mode():
            return model(**inputs).logits[0].double()
    finally:
        config.pad_token_id = pad


def _logits(model, reading, keep):
    """Logits (m, width) of rows that are asked together."""
    return model.answer_tokens(TokenBatch([reading.rows_keeping(keep)])).double()


def test_every_architecture_is_listed():
    assert set(WAYS) == set(ARCHITECTURES)


@pytest.mark.parametrize("architecture", HIDE)
def test_hidden_rows_are_answered_as_with_zeros_in_the_mask(architecture):
    model = adapted(architecture)
    reading = model.read(TEXT, removal="hide")
    keep = masks(len(reading.pieces), 12)
    if architecture in TWICE:
        keep[:, -1] = True  # else the decoder would read its output at a hidden token
    expected = torch.stack([by_hand(architecture, reading, row) for row in keep])
    torch.testing.assert_close(_logits(model, reading, keep), expected, **CLOSE)
    one_by_one = torch.cat([model.answer([reading.shorten(row)]) for row in keep]).double()
    torch.testing.assert_close(one_by_one, expected, **CLOSE)


@pytest.mark.parametrize("architecture", HIDE)
def test_a_hidden_token_might_as_well_be_another_one(architecture):
    keep = masks(len(adapted(architecture).read(TEXT).pieces), 6, seed=1)
    keep[:3, -1] = False
    other = " ".join(["loud"] * 60)
    model = adapted(architecture)
    reading = model.read(TEXT, removal="hide")
    first = _logits(model, reading, keep)
    ids = reading.tokens.streams[0].copy()
    loud = int(model.read(other).tokens.streams[0][model.read(other).positions[3]])
    for number, row in enumerate(keep):
        changed = ids.copy()
        changed[reading.positions[~row]] = loud
        text = TokenText((changed, *reading.tokens.streams[1:]), hiding=reading.tokens.hiding)
        seen = np.ones((1, len(ids)), dtype=bool)
        seen[0, reading.positions[~row]] = False
        again = model.answer_tokens(TokenBatch([KeptTokens(text, seen)])).double()
        torch.testing.assert_close(again[0], first[number], **CLOSE)


@pytest.mark.parametrize("architecture", HIDE)
def test_a_model_is_hidden_from_in_the_fastest_way_that_it_takes(architecture):
    model = adapted(architecture)
    before = model.probe_calls
    assert model.read(TEXT, removal="hide").tokens.hiding == WAYS[architecture]
    tried = model.probe_calls - before
    assert 8 <= tried <= 11
    model.read(TEXT + ", loud", removal="hide")
    assert model.probe_calls - before == tried  # once is enough


@pytest.mark.parametrize("architecture", BOTH)
def test_both_ways_of_hiding_agree(architecture):
    model = adapted(architecture)
    reading = model.read(TEXT, removal="hide")
    seen = np.ones((10, len(reading.tokens)), dtype=bool)
    seen[:, reading.positions] = masks(len(reading.pieces), 10, seed=2)
    answers = {}
    for way in ("positions", "holes"):
        rows = KeptTokens(TokenText(reading.tokens.streams, hiding=way), seen)
        answers[way] = model.answer_tokens(TokenBatch([rows]))
    torch.testing.assert_close(answers["positions"], answers["holes"], **CLOSE)
    deleted = model.answer_tokens(TokenBatch([KeptTokens(TokenText(reading.tokens.streams), seen)]))
    assert (deleted - answers["holes"]).abs().max() > 1e-4
    mixed = TokenBatch(
        [
            KeptTokens(TokenText(reading.tokens.streams, hiding="positions"), seen[:5]),
            KeptTokens(TokenText(reading.tokens.streams, hiding="holes"), seen[5:]),
        ]
    )
    torch.testing.assert_close(model.answer_tokens(mixed), answers["holes"], **CLOSE)


@pytest.mark.parametrize("architecture", ["bert", "roberta", "albert", "xlnet", "t5", "bart"])
def test_pairs_are_hidden_from_too(architecture):
    model = adapted(architecture)
    reading = model.read(TEXT, CORPUS[1], removal="hide")
    keep = masks(len(reading.pieces), 6, seed=3)
    keep[:, -1] = True
    expected = torch.stack([by_hand(architecture, reading, row) for row in keep])
    if architecture in TWICE:  # several ends of a text; the last one is read
        assert torch.isfinite(_logits(model, reading, keep)).all()
    torch.testing.assert_close(_logits(model, reading, keep), expected, **CLOSE)


@pytest.mark.parametrize("architecture", DECODERS)
def test_a_decoder_answers_from_the_last_token_that_is_kept(architecture):
    model = adapted(architecture)
    reading = model.read(TEXT, removal="hide")
    keep = np.ones((1, len(reading.pieces)), dtype=bool)
    keep[0, -4:] = False
    beginning = model.read(TEXT).shorten(keep[0])
    torch.testing.assert_close(
        _logits(model, reading, keep), model.answer([beginning]).double(), **CLOSE
    )
    assert reading.shorten(keep[0]) == beginning  # nothing is missing before the end
    assert reading.rows_keeping(keep).keys == model.read(TEXT).rows_keeping(keep).keys


@pytest.mark.parametrize("architecture", DECODERS)
def test_borrowed_beginnings_change_nothing(architecture):
    model = adapted(architecture)
    reading = model.read(TEXT, removal="hide")
    keep = masks(len(reading.pieces), 200, seed=4)
    keep[:, :8] = True
    rows = reading.rows_keeping(keep)
    with model.lend_prefix(reading.tokens) as lent:
        assert lent > 8
        shared = int(min(rows.shared.min(), rows.sizes.min() - 1, lent))
        lends = model.answer_tokens(TokenBatch([rows], shared))
    torch.testing.assert_close(lends, model.answer_tokens(TokenBatch([rows])), **CLOSE)
    question = prompt(reading, "token", "hide")
    columns = Batches(model).columns([question.rows(keep)])[0]
    alone = torch.cat([model.answer([reading.shorten(row)]) for row in keep])
    torch.testing.assert_close(columns, model.outputs.columns(alone.double()), **CLOSE)


def test_equal_words_in_other_places_are_other_rows():
    model = adapted("bert")
    text = "loud loud film loud loud"
    hidden = read_for_removal(model, text, granularity="word", removal="hide")
    deleted = read_for_removal(model, text, granularity="word", removal="delete")
    without_one = ~np.eye(len(hidden.units), dtype=bool)
    words = [unit.text for unit in hidden.units]
    assert len(set(hidden.keys(without_one).tolist())) == len(words)
    assert len(set(deleted.keys(without_one).tolist())) < len(words)
    assert len(set(hidden.interchangeable.tolist())) == len(words)
    assert not hidden.moves
    queries = Queries(Batches(model), hidden, budget=100)
    queries.ask(without_one)
    assert queries.calls == len(words)
    queries.ask(hidden.whole)
    every = np.arange(len(words))[None]
    before = queries.calls
    natural = queries.ask_sequences(every)  # nothing is removed: it is the whole text
    assert queries.calls == before
    assert torch.equal(natural, queries.ask(hidden.whole))


def test_rows_that_are_written_out_say_where_their_tokens_stand():
    for architecture in ("bert", "gpt2"):
        model = adapted(architecture)
        reading = model.read(TEXT, removal="hide")
        keep = np.ones(len(reading.pieces), dtype=bool)
        assert reading.shorten(keep) == model.read(TEXT).shorten(keep)
        keep[3] = False
        row = reading.shorten(keep)
        assert len(row) == 3
        assert row[2] == tuple(n for n in range(len(reading.tokens)) if n != reading.positions[3])
        assert json.loads(json.dumps(row))


def test_a_row_of_a_list_has_the_key_that_it_has_alone():
    model = adapted("roberta")
    reading = model.read(TEXT, removal="hide")
    keep = masks(len(reading.pieces), 8, seed=5)
    rows = reading.rows_keeping(keep)
    batch = model._batch([rows.row(index) for index in range(len(rows))])
    assert np.array_equal(batch._parts[0].keys, rows.keys)
    assert np.array_equal(rows.take(np.array([2, 5])).keys, rows.keys[[2, 5]])


def _mpnet():
    words = tokenizer(
        {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>"}, "<s> $A </s>"
    )
    config = transformers.MPNetConfig(
        vocab_size=len(words),
        max_position_embeddings=130,
        pad_token_id=words.pad_token_id,
        bos_token_id=words.bos_token_id,
        eos_token_id=words.eos_token_id,
        **SIZE,
    )
    return transformers.MPNetForSequenceClassification(config), words


def _mpt():
    words = tokenizer({"eos_token": "</s>", "pad_token": "<pad>"}, None)
    config = transformers.MptConfig(
        vocab_size=len(words), d_model=32, n_layers=2, n_heads=2, pad_token_id=words.pad_token_id
    )
    return transformers.MptForSequenceClassification(config), words


def _convbert():
    words = tiny("bert")[1]
    config = transformers.ConvBertConfig(
        vocab_size=len(words), embedding_size=32, max_position_embeddings=128, **SIZE
    )
    return transformers.ConvBertForSequenceClassification(config), words


def _shaken(model):
    """Weights of a size at which every part of a model has a say."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.eval()


@pytest.mark.parametrize("build", [_mpnet, _mpt])
def test_distances_within_the_row_need_holes(build):
    model, words = build()
    adapter = text_model(_shaken(model), words)
    assert adapter.read(TEXT, removal="hide").tokens.hiding == "holes"


def test_a_window_of_the_attention_needs_holes_where_a_text_is_longer():
    model, words = tiny("modernbert")
    config = transformers.ModernBertConfig(**{**model.config.to_dict(), "local_attention": 16})
    adapter = text_model(_shaken(transformers.ModernBertForSequenceClassification(config)), words)
    assert adapter.read(TEXT, removal="hide").tokens.hiding == "holes"


def test_a_convolution_reads_what_is_hidden():
    model, words = _convbert()
    adapter = text_model(_shaken(model), words)
    with pytest.raises(CannotHideError, match="reads tokens where its attention mask is 0: use"):
        adapter.read(TEXT, removal="hide")
    found = explain(TEXT, adapter, method="occlusion", budget=40, show_progress=False)
    assert found.removal == "delete"
    assert any("deleted and not hidden: ConvBert" in note for note in found.notes)


@pytest.mark.parametrize("architecture", ["bert", "xlnet"])
def test_a_constant_model_can_be_hidden_from(architecture):
    model, words = copy.deepcopy(tiny(architecture))
    with torch.no_grad():
        for part in model.modules():
            if isinstance(part, torch.nn.Linear) and part.out_features == 2:
                part.weight.zero_()
    found = explain(TEXT, model, words, method="occlusion", removal="hide", show_progress=False)
    assert np.allclose(found.scores("value"), 0)


@pytest.mark.parametrize("architecture", ["bert", "roberta", "gpt2", "t5"])
def test_half_precision_is_tried_with_its_own_rounding(architecture):
    model, words = copy.deepcopy(tiny(architecture))
    adapter = text_model(model.to(torch.bfloat16), words)
    assert adapter.read(TEXT, removal="hide").tokens.hiding == WAYS[architecture]


class Bag(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(400, 2)

    def forward(self, input_ids, attention_mask):
        return (self.table(input_ids) * attention_mask[..., None]).sum(dim=1)


def _probabilities(texts):
    good = np.array([0.1 + len(text) % 7 / 10 for text in texts])
    return np.stack([1 - good, good], axis=1)


def _cannot():
    words = tiny("bert")[1]
    return {
        "function": (_probabilities, None, "not a model of the transformers library"),
        "module": (Bag(), words, "not a model of the transformers library"),
        "mamba": (*tiny("mamba"), "not a model of the transformers library"),
        "bloom": (*tiny("bloom"), "hiding is deleting"),
    }


@pytest.mark.parametrize("name", ["function", "module", "mamba", "bloom"])
def test_hide_of_a_model_that_cannot_is_one_line(name):
    model, words, reason = _cannot()[name]
    options = {"method": "occlusion", "budget": 60, "show_progress": False}
    with pytest.raises(InputError, match=reason) as caught:
        Explainer(model, words, removal="hide", **options)(TEXT)
    assert "\n" not in str(caught.value)
    assert 'use removal="delete"' in str(caught.value)
    with pytest.raises(InputError) as in_a_list:
        Explainer(model, words, removal="hide", **options)([TEXT])
    assert str(in_a_list.value) == f"text 0: {caught.value}"
    assert Explainer(model, words, **options)(TEXT).removal == "delete"


def test_an_unknown_removal_names_the_known_ones():
    with pytest.raises(InputError, match="auto, hide, delete, mask, unk"):
        Explainer(*tiny("bert"), removal="vanish")


@pytest.mark.parametrize("method", ["slalom-eff", "slalom-fidel", "slalom-exact"])
def test_the_methods_of_the_paper_delete_unless_they_are_told_otherwise(method):
    model, words = tiny("bert")
    found = explain("a quiet film", model, words, method=method, show_progress=False)
    assert found.removal == "delete"
    told = explain("a quiet film", model, words, method=method, removal="hide", show_progress=False)
    assert told.removal == "hide"


@pytest.mark.parametrize("architecture", HIDE)
def test_auto_hides_where_a_model_allows_it(architecture, tmp_path):
    model, words = tiny(architecture)
    explainer = Explainer(model, words, method="occlusion", budget=60, show_progress=False)
    first, second = explainer([TEXT, CORPUS[1]])
    assert first.removal == second.removal == "hide"
    again = Explainer(
        model, words, method="occlusion", removal="hide", budget=60, show_progress=False
    )(CORPUS[1])
    np.testing.assert_allclose(second.scores("value"), again.scores("value"), atol=1e-4)
    first.save(tmp_path / "first.json")
    assert Explanation.load(tmp_path / "first.json").removal == "hide"
    assert explainer.probe_calls >= 8
    assert first.calls <= 60


def test_occlusion_measures_what_hiding_one_word_does():
    architecture = "bert"
    model = adapted(architecture)
    explainer = Explainer(
        model, method="occlusion", granularity="token", target=1, show_progress=False
    )
    found = explainer(TEXT)
    reading = model.read(TEXT)
    every = np.ones(len(reading.pieces), dtype=bool)
    whole = by_hand(architecture, reading, every)
    for unit in range(len(every)):
        row = every.copy()
        row[unit] = False
        change = whole - by_hand(architecture, reading, row)
        assert found.scores("value")[unit] == pytest.approx(float(change[1] - change[0]), abs=1e-3)


def test_the_answers_of_language_models_are_explained_by_deleting():
    made = words()
    model = AnswerModel(language_model("llama", made), made, max_new_tokens=6)
    options = {"method": "occlusion", "granularity": "word", "show_progress": False}
    found = Explainer(model, **options)(CONTEXT, question=QUESTION)
    assert found.removal == "delete"
    hidden = Explainer(model, removal="hide", **options)(CONTEXT, question=QUESTION)
    assert hidden.removal == "hide"
    assert not np.allclose(hidden.scores("value"), found.scores("value"))


@pytest.mark.parametrize("architecture", ["bert", "gpt2", "t5"])
@pytest.mark.parametrize("text", ["film", "quiet film"])
def test_texts_of_one_or_two_words_can_be_hidden_from(architecture, text):
    found = explain(text, *tiny(architecture), granularity="word", show_progress=False)
    assert found.removal == "hide"
    assert np.isfinite(found.scores("removal")).all()


def test_a_model_for_which_hiding_is_another_thing_than_deleting_is_told_of():
    """Positions decide nearly everything here: deleting moves all later words up."""
    model, words = tiny("bert")
    shifted = copy.deepcopy(model)
    weights = shifted.bert.embeddings.position_embeddings.weight
    with torch.no_grad():
        weights.copy_(3 * torch.randn(weights.shape, generator=torch.Generator().manual_seed(0)))
    told = [
        explain(TEXT, one, words, method="occlusion", show_progress=False)
        for one in (shifted, model)
    ]
    assert [any("another way than deleting" in note for note in one.notes) for one in told] == [
        True,
        False,
    ]
    deleted = explain(
        TEXT, shifted, words, method="occlusion", removal="delete", show_progress=False
    )
    assert not any("another way" in note for note in deleted.notes)
