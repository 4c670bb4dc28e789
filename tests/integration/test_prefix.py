"""Rows that borrow the beginning of a text answer as rows read whole do, or nothing is lent."""

import numpy as np
import pytest
import torch
import transformers
from tiny import TEXT as SENTENCE
from tiny import tiny
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import DynamicCache

from slalom_xai import Explainer
from slalom_xai.errors import ModelError
from slalom_xai.models import prompt
from slalom_xai.models.prefix import PrefixCache
from slalom_xai.queries import Batches, Queries
from slalom_xai.slalom.rows import deletions

WORDS = 200
SIZE = {
    "vocab_size": WORDS,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
PLAIN = {**SIZE, "intermediate_size": 64}
GROUPED = {**PLAIN, "num_key_value_heads": 2}
HEADS = {**GROUPED, "head_dim": 16}
OLD = {
    "vocab_size": WORDS,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 128,
    "bos_token_id": 1,
    "eos_token_id": 1,
}
FALCON = {
    name: SIZE[name]
    for name in (
        "vocab_size",
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "pad_token_id",
    )
}
DECODERS = {
    "GPT2": OLD,  # no pad token
    "GPTJ": {**OLD, "rotary_dim": 8, "pad_token_id": 0},
    "Llama": GROUPED,
    "Mistral": {**GROUPED, "sliding_window": None},
    "Mixtral": {**GROUPED, "num_local_experts": 4},
    "Qwen2": GROUPED,
    "Qwen3": HEADS,
    "Gemma": HEADS,
    "Gemma2": HEADS,
    "OPT": {**SIZE, "ffn_dim": 64, "word_embed_proj_dim": 32},
    "GPTNeoX": PLAIN,
    "Bloom": {"vocab_size": WORDS, "hidden_size": 32, "n_layer": 2, "n_head": 4, "pad_token_id": 3},
    "Falcon": FALCON,
    "Falcon with slopes": {**FALCON, "alibi": True},
    "Phi": PLAIN,
    "Phi3": GROUPED,
}
BEFORE_5 = transformers.__version__.startswith("4.")
TEXT = torch.randint(4, WORDS, (60,), generator=torch.Generator().manual_seed(0)).tolist()


def decoder(name, **changes):
    kind = name.split()[0]
    config = getattr(transformers, f"{kind}Config", None)
    if config is None:
        pytest.skip(f"transformers {transformers.__version__} has no {kind}")
    torch.manual_seed(0)
    return getattr(transformers, f"{kind}ForSequenceClassification")(
        config(num_labels=3, **{**DECODERS[name], **changes})
    ).eval()


def rows_behind(shared, count=5, tokens=60):
    """Places that stay behind a common beginning, of unequal number."""
    chance = torch.rand(count, tokens, generator=torch.Generator().manual_seed(shared))
    return [
        [place for place in range(shared + 1, tokens) if chance[row, place] < 0.1 + 0.2 * row]
        or [tokens - 1]
        for row in range(count)
    ]


def asked(cache, shared, rests, text=TEXT, filling=7):
    width = max(map(len, rests))
    ids = torch.tensor(
        [[text[place] for place in rest] + [filling] * (width - len(rest)) for rest in rests]
    )
    return cache.answer(shared, ids, torch.tensor([len(rest) for rest in rests]))


def whole(model, shared, rests, text=TEXT):
    rows = [text[:shared] + [text[place] for place in rest] for rest in rests]
    with torch.no_grad():
        return torch.cat([model(input_ids=torch.tensor([row])).logits for row in rows])


def assert_alike(model, cache, text=TEXT):
    for shared in {0, 1, cache.kept // 2, cache.kept}:
        rests = rows_behind(shared, tokens=len(text))
        expected = whole(model, shared, rests, text)
        scale = float(whole(model, 0, rows_behind(0, tokens=len(text)), text).std())
        assert torch.allclose(
            asked(cache, shared, rests, text), expected, rtol=1e-4, atol=1e-4 * scale
        )


@pytest.mark.parametrize("name", DECODERS)
def test_rows_that_borrow_answer_as_rows_read_whole(name):
    model = decoder(name)
    cache = PrefixCache(model)
    kept = cache.keep(TEXT)
    if name == "Gemma2" and BEFORE_5 and not kept:
        assert cache.bytes == 0  # its cache was one of windows then
        return
    assert kept == len(TEXT) - 1
    assert cache.rows_asked == 6
    assert_alike(model, cache)
    assert cache.rows_asked == 6


@pytest.mark.parametrize("name", ["GPT2", "Llama", "Bloom"])
def test_whatever_computes_the_attention(name):
    model = decoder(name, attn_implementation="eager")
    cache = PrefixCache(model)
    assert cache.keep(TEXT)
    assert_alike(model, cache)


@pytest.mark.parametrize(
    "architecture",
    [
        "bert",
        "roberta",
        "distilbert",
        "modernbert",
        "electra",
        "albert",
        "deberta-v2",
        "xlnet",
        "t5",
        "bart",
        "mamba",
    ],
)
def test_models_that_look_ahead_or_keep_something_else_are_not_even_asked(architecture):
    model, _ = tiny(architecture)
    cache = PrefixCache(model)
    assert cache.keep(TEXT) == 0
    assert cache.rows_asked == 0


def test_a_model_that_looks_ahead_a_little_is_found_out():
    model = decoder("Llama")
    model.get_input_embeddings().register_forward_hook(
        lambda *call: call[2] + 0.01 * call[2].mean(dim=1, keepdim=True)
    )
    cache = PrefixCache(model)
    assert cache.keep(TEXT) == 0
    assert 0 < cache.rows_asked <= 6
    spent = cache.rows_asked
    assert cache.keep(TEXT) == 0
    assert cache.rows_asked == spent  # once is enough


def test_a_model_that_forgets_what_it_is_lent_is_found_out():
    class Forgetful(transformers.LlamaForSequenceClassification):
        def forward(self, input_ids=None, past_key_values=None, use_cache=None, **inputs):
            past = past_key_values if use_cache else None
            return super().forward(
                input_ids=input_ids, past_key_values=past, use_cache=use_cache, **inputs
            )

    model = Forgetful(transformers.LlamaConfig(**GROUPED)).eval()
    assert PrefixCache(model).keep(TEXT) == 0


def test_a_model_that_fails_when_lent_to_is_left_alone():
    class Failing(transformers.LlamaForSequenceClassification):
        def forward(self, input_ids=None, past_key_values=None, use_cache=None, **inputs):
            if isinstance(past_key_values, DynamicCache):
                raise RuntimeError("no caches here")
            return super().forward(input_ids=input_ids, **inputs)

    cache = PrefixCache(Failing(transformers.LlamaConfig(**GROUPED)).eval())
    assert cache.keep(TEXT) == 0
    with pytest.raises(ModelError, match="keep the text first"):
        asked(cache, 0, rows_behind(0))


def test_a_text_longer_than_a_window_is_read_whole():
    model = decoder("Mistral", sliding_window=16)
    cache = PrefixCache(model)
    assert cache.keep(TEXT) == 0
    assert cache.keep(TEXT[:16]) == 15
    assert_alike(model, cache, TEXT[:16])


def test_a_text_whose_length_turns_positions_is_read_whole():
    turned = {"rope_type": "dynamic", "factor": 2.0}
    model = decoder(
        "Llama",
        max_position_embeddings=32,
        **(
            {"rope_scaling": turned}
            if BEFORE_5
            else {"rope_parameters": {**turned, "rope_theta": 1e4}}
        ),
    )
    cache = PrefixCache(model)
    assert cache.keep(TEXT) == 0
    assert cache.keep(TEXT[:32]) == 31
    assert_alike(model, cache, TEXT[:32])


def test_a_model_with_states_beside_its_keys_keeps_nothing():
    model = transformers.JambaForSequenceClassification(
        transformers.JambaConfig(
            **GROUPED,
            mamba_d_state=4,
            num_experts=2,
            **({"use_mamba_kernels": False} if BEFORE_5 else {}),
        )
    ).eval()
    assert PrefixCache(model).keep(TEXT) == 0


@pytest.mark.parametrize("mode", [True, False])
def test_the_model_stays_as_it_was(mode):
    model = decoder("GPT2", resid_pdrop=0.5, embd_pdrop=0.5)
    expected = whole(model, 20, rows_behind(20))
    model.train(mode)
    cache = PrefixCache(model)
    assert cache.keep(TEXT)
    assert torch.allclose(asked(cache, 20, rows_behind(20)), expected, atol=1e-5)
    assert model.training is mode
    assert model.config.pad_token_id is None


def test_a_row_may_not_have_the_token_that_fills_rows():
    cache = PrefixCache(decoder("Llama"))
    assert cache.keep([*TEXT[:30], 0, *TEXT[30:]]) == 0
    assert cache.keep(TEXT, filler=0) == 0
    assert cache.keep(TEXT, filler=3) > 0


def test_every_text_takes_the_place_of_the_one_before_and_only_much_longer_ones_are_tried():
    model = decoder("Llama")
    cache = PrefixCache(model)
    assert cache.keep(TEXT[:20]) == 19
    assert cache.rows_asked == 6
    other = TEXT[5:40]
    assert cache.keep(other) == 34
    assert cache.rows_asked == 7
    assert_alike(model, cache, other)
    assert cache.keep(TEXT) == 59
    assert cache.rows_asked == 13


@pytest.mark.parametrize("count", range(8))
def test_very_short_texts_are_read_whole(count):
    cache = PrefixCache(decoder("Llama"))
    assert cache.keep(TEXT[:count]) == 0
    assert cache.rows_asked == 0


def test_memory_is_bounded_and_then_only_the_beginning_is_kept():
    model = decoder("Llama")
    each = 2 * 2 * 2 * 8 * 4  # keys and values, layers, heads, width, bytes
    cache = PrefixCache(model)
    cache.keep(TEXT)
    assert cache.bytes == each * 59
    little = PrefixCache(model, most_bytes=each * 25 + 1)
    assert little.keep(TEXT) == 25
    assert little.bytes == each * 25
    assert_alike(model, little)
    assert PrefixCache(model, most_bytes=each - 1).keep(TEXT) == 0


def test_segments_go_with_the_tokens():
    model = decoder("GPT2")
    segments = [0] * 30 + [1] * 30
    cache = PrefixCache(model)
    assert cache.keep(TEXT, segments)
    rests = rows_behind(24)
    width = max(map(len, rests))
    ids, types = (
        torch.tensor(
            [[stream[place] for place in rest] + [5] * (width - len(rest)) for rest in rests]
        )
        for stream in (TEXT, segments)
    )
    answers = cache.answer(24, ids, torch.tensor([len(rest) for rest in rests]), types)
    for answer, rest in zip(answers, rests, strict=True):
        row = [*range(24), *rest]
        inputs = {
            name: torch.tensor([[stream[place] for place in row]])
            for name, stream in (("input_ids", TEXT), ("token_type_ids", segments))
        }
        with torch.no_grad():
            assert torch.allclose(answer, model(**inputs).logits[0], atol=1e-5)
    with pytest.raises(ModelError, match="with segments"):
        asked(cache, 24, rests)


def test_more_than_is_kept_cannot_be_borrowed():
    cache = PrefixCache(decoder("Llama"))
    with pytest.raises(ModelError, match=r"share 3 tokens .* 0 are kept"):
        asked(cache, 3, rows_behind(3))
    cache.keep(TEXT)
    for shared in (-1, 60):
        with pytest.raises(ModelError, match=rf"share {shared} tokens .* 59 are kept"):
            asked(cache, shared, [[59]])


@pytest.mark.parametrize("name", ["GPT2", "Llama"])
def test_in_half_precision_borrowing_costs_no_more_digits_than_reading_does(name):
    exact = decoder(name)
    half = decoder(name).to(torch.float16)
    exact.load_state_dict(half.state_dict())
    cache = PrefixCache(half)
    assert cache.keep(TEXT)
    off, usual = [], []
    for shared in (5, 20, 40):
        rests = rows_behind(shared, 20)
        truth = whole(exact, shared, rests)
        answers = asked(cache, shared, rests)
        assert answers.dtype == torch.float32
        off.append((answers - truth).square().mean())
        usual.append((whole(half, shared, rests).float() - truth).square().mean())
    assert sum(off) <= 2 * sum(usual)


def test_not_a_number_means_that_nothing_is_lent():
    model = decoder("Llama")
    with torch.no_grad():
        model.score.weight.fill_(float("nan"))
    assert PrefixCache(model).keep(TEXT) == 0


class Waits(TorchDispatchMode):
    """Counts what makes the program wait for the device to tell it a number."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += any(
            name in str(function)
            for name in ("is_nonzero", "_local_scalar_dense", "aten.nonzero", "aten.equal")
        )
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    "name", ["Llama", "Bloom", "Phi", *([] if BEFORE_5 else ["GPT2", "OPT"])]
)  # those two wait of themselves there
def test_a_batch_that_borrows_does_not_wait_for_the_device(name):
    cache = PrefixCache(decoder(name))
    with Waits() as waits:
        assert cache.keep(TEXT)
    assert waits.count > 0  # trying waits, so that waiting is counted
    rests = rows_behind(20)
    with Waits() as waits:
        asked(cache, 20, rests)
    assert waits.count == 0


@pytest.mark.parametrize("architecture", ["gpt2", "llama"])
def test_rows_of_an_explainer_borrow_and_are_answered_as_if_read_whole(architecture):
    model = Explainer(*tiny(architecture)).model
    question = prompt(model.read(" ".join([SENTENCE] * 3)), "token")
    masks = deletions(len(question.units), np.full(200, 3), np.random.default_rng(0))
    read = []
    model._model.register_forward_pre_hook(
        lambda module, args, inputs: read.append(inputs["input_ids"].numel()), with_kwargs=True
    )
    found = Queries(Batches(model), question, budget=200).ask(masks)
    rows = question.rows(masks)
    assert sum(read) < 0.9 * rows.sizes.sum()  # the beginning was read once
    whole = model.outputs.columns(
        torch.cat([model.answer([rows.row(place)]) for place in range(0, 200, 20)]).double()
    )
    assert torch.allclose(found[::20], whole, atol=1e-4)
