"""How texts become rows: pairs, deleting or replacing, words in scripts without spaces."""

import io

import numpy as np
import pytest
import torch
from marks import long_except
from rich.console import Console
from tiny import BY_NAME, CORPUS, TEXT, log_odds, shortened, tiny, tokenizer
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from slalom_xai import Explainer, Explanation, explain
from slalom_xai.errors import InputError
from slalom_xai.reports.terminal import render

PAIR = "its last half hour is long , and i liked it"
PAIRED = (
    "bert",
    "roberta",
    "deberta-v2",
    "xlnet",
    "t5",
    "bart",
)  # whose tokenizers put something between two texts


@pytest.mark.parametrize("architecture", PAIRED)
def test_both_texts_of_a_pair_are_explained(architecture):
    model, own = tiny(architecture)
    explainer = Explainer(model, own, budget=600, granularity="token", target="good")
    explanation = explainer(TEXT, PAIR)
    sides = [own(text, add_special_tokens=False)["input_ids"] for text in (TEXT, PAIR)]
    assert list(explanation.token_ids) == sides[0] + sides[1]
    assert [unit.part for unit in explanation.units] == [0] * len(sides[0]) + [1] * len(sides[1])
    for unit in explanation.units:
        assert (TEXT, PAIR)[unit.part][unit.start : unit.end] == unit.text
    whole = np.ones((1, len(explanation)), dtype=bool)
    assert explanation.prediction == pytest.approx(
        log_odds(model, *shortened(own, whole, TEXT, PAIR)[0]), abs=1e-4
    )
    rows = np.random.default_rng(0).random((100, len(explanation))) < 0.5
    true = np.array([log_odds(model, *row) for row in shortened(own, rows, TEXT, PAIR)])
    assert ((explanation.predict(rows) - true) ** 2).mean() < true.var()


@pytest.mark.parametrize("method", BY_NAME)
@pytest.mark.parametrize(
    "granularity",
    long_except(["phrase", "sentence"], ["token", "type", "word", "phrase", "sentence"]),
)
def test_pairs_work_with_every_method_and_granularity(method, granularity):
    model, own = tiny("roberta")
    first, second = (
        "A long film. Loud, too! I liked it. Yes.",
        "I liked it. No: a long mess, long and loud. Yes.",
    )
    explanation = Explainer(model, own, method=method, granularity=granularity, budget=500)(
        first, second
    )
    assert {unit.part for unit in explanation.units} == {0, 1}
    assert all(
        (first, second)[unit.part][unit.start : unit.end] == unit.text for unit in explanation.units
    )
    assert np.isfinite(explanation.values).all()


def test_a_pair_is_saved_shown_and_tabulated(tmp_path):
    explanation = Explainer(*tiny("bert"), budget=300)(TEXT, PAIR)
    assert Explanation.load(explanation.save(tmp_path / "pair.json")) == explanation
    assert explanation.to_frame()["part"].tolist() == [unit.part for unit in explanation.units]
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(render(explanation))
    shown = console.export_text()
    assert TEXT in shown
    assert PAIR in shown
    page = explanation.to_html(tmp_path / "pair.html").read_text()
    assert "half" in page.split("</p>")[1]


def test_lists_of_pairs():
    explainer = Explainer(*tiny("bert"), budget=200)
    both = explainer([TEXT, PAIR], [PAIR, TEXT])
    assert both == [explainer(TEXT, PAIR), explainer(PAIR, TEXT)]
    with pytest.raises(InputError, match="2 texts were given with 1 second texts"):
        explainer([TEXT, PAIR], [PAIR])
    with pytest.raises(InputError, match="text_pair of type str"):
        explainer([TEXT, PAIR], PAIR)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("gpt2", "has a tokenizer that puts nothing between two texts"),
        ("llama", "has a tokenizer that puts nothing between two texts"),
        (None, "was trained on single texts"),
    ],
)
def test_a_pair_for_a_model_of_single_texts_is_refused(given, message):
    explainer = Explainer(*(tiny(given) if given else ()))
    with pytest.raises(
        InputError, match=f"a pair of texts was given, but the model {message}: give one text"
    ):
        explainer(TEXT, PAIR)


def test_other_pairs_that_cannot_be_read():
    model, own = tiny("bert")
    config = type(model.config).from_dict({**model.config.to_dict(), "type_vocab_size": 1})
    with pytest.raises(InputError, match="tells 1 segment apart, but the pair has 2"):
        explain(TEXT, type(model)(config), own, text_pair=PAIR)
    with pytest.raises(InputError, match="takes single texts: join the two"):
        explain(TEXT, lambda texts: [[0.5, 0.5]] * len(texts), text_pair=PAIR)
    with pytest.raises(InputError, match="text_pair: the text is empty"):
        explain(TEXT, model, own, text_pair="")
    with pytest.raises(InputError, match=r"text_pair: expected a text \(str\), got int"):
        Explainer(model, own)(TEXT, 3)


def test_truncation_cuts_the_second_text_of_a_pair():
    model, own = tiny("bert")
    long = " ".join([PAIR] * 15)
    with pytest.raises(InputError, match=r"the two texts have \d+ tokens .* at most 128"):
        explain(TEXT, model, own, text_pair=long)
    options = {"truncation": True, "budget": 400, "granularity": "token"}
    explanation = explain(TEXT, model, own, text_pair=long, **options)
    assert len(explanation) == 128 - 3
    assert long.endswith(explanation.left_out)
    assert explanation.units[-1].end == len(long) - len(explanation.left_out)
    with pytest.raises(InputError, match="nothing would be left of the second text"):
        explain(long, model, own, text_pair=PAIR, truncation=True)


@pytest.mark.parametrize("removal", ["mask", "unk"])
@pytest.mark.parametrize("architecture", ["bert", "roberta", "xlnet"])
def test_removed_tokens_may_be_replaced_where_they_stand(architecture, removal):
    model, own = tiny(architecture)
    options = {"budget": 600, "granularity": "token", "target": "good"}
    explanation = Explainer(model, own, removal=removal, **options)(TEXT)
    assert explanation.removal == removal
    encoded = own(TEXT, return_special_tokens_mask=True)
    content = np.flatnonzero(~np.array(encoded["special_tokens_mask"], dtype=bool))
    rows = np.random.default_rng(0).random((100, len(explanation))) < 0.5
    true = []
    for row in rows:
        ids = np.array(encoded["input_ids"])
        ids[content[~row]] = getattr(own, f"{removal}_token_id")
        true.append(log_odds(model, ids.tolist(), encoded.get("token_type_ids")))
    assert ((explanation.predict(rows) - true) ** 2).mean() < 0.5 * np.var(true)


@pytest.mark.parametrize("method", BY_NAME)
@pytest.mark.parametrize("removal", ["mask", "unk"])
def test_every_method_takes_every_removal(method, removal):
    explanation = Explainer(*tiny("bert"), method=method, removal=removal, budget=400)(
        "long long loud film , long loud end"
    )
    assert np.isfinite(explanation.values).all()
    assert explanation.calls <= 400
    told = any("short sequences" in note for note in explanation.notes)
    assert told == (method in ("slalom-eff", "slalom-exact"))


def test_a_replaced_token_is_no_neighbour_less():
    """Rows keep their length, so a model that only counts tokens never changes its mind."""
    own = tokenizer({"pad_token": "<pad>", "mask_token": "<mask>"}, None)
    counted = set()

    def count(input_ids, attention_mask):
        counted.update(attention_mask.sum(dim=1).tolist())
        return attention_mask.sum(dim=1, keepdim=True).float() * torch.tensor([[0.0, 1.0]])

    explanation = explain(TEXT, count, own, method="linear", removal="mask", budget=200)
    assert counted == {len(explanation)}
    assert "nothing to explain" in explanation.trust


def test_functions_see_marks_in_place_of_words():
    asked = []

    def function(texts):
        asked.extend(texts)
        return [[0.4, 0.6]] * len(texts)

    explain("A fine, odd film.", function, removal="unk")
    assert "A fine, odd film." in asked
    assert any("[UNK]" in text for text in asked)
    assert all(
        len(text.replace(",", " ").replace(".", " ").split()) >= 4
        for text in asked
        if "[UNK]," in text
    )


@pytest.mark.parametrize(("removal", "architecture"), [("mask", "gpt2"), ("unk", "llama")])
def test_a_tokenizer_without_the_token_is_one_clear_line(removal, architecture):
    with pytest.raises(
        InputError, match=f'removal="{removal}" needs a tokenizer with a {removal} token'
    ):
        Explainer(*tiny(architecture), removal=removal)(TEXT)
    with pytest.raises(InputError, match="'drop': choose one of auto, hide, delete, mask, unk"):
        Explainer(*tiny(architecture), removal="drop")


CHINESE = "這部電影很好看。"  # "this film is very good."


def test_words_in_a_script_without_spaces_are_characters():
    explanation = Explainer(*tiny("gpt2"), granularity="word", budget=300)(f"long film {CHINESE}")
    assert [unit.text for unit in explanation.units] == ["long", "film", *CHINESE]
    assert len(explanation.units[2].token_ids) > 1  # one unit, whatever bytes it is made of
    assert explanation.notes == (
        "Parts of the text are written without spaces: there, every character counts as a word.",
    )
    assert Explainer(*tiny("gpt2"), granularity="word", budget=300)(TEXT).notes == ()


def test_words_in_a_script_without_spaces_are_the_tokenizers_where_it_has_some():
    split = pre_tokenizers.Sequence(
        [pre_tokenizers.Whitespace(), pre_tokenizers.Split("電影", "isolated")]
    )
    known = dict.fromkeys(["[UNK]", "這部", "電影", "很好看", "。", *" ".join(CORPUS).split()])
    backend = Tokenizer(
        models.WordLevel({word: number for number, word in enumerate(known)}, unk_token="[UNK]")
    )
    backend.pre_tokenizer = split
    own = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        unk_token="[UNK]",
        model_input_names=["input_ids", "attention_mask"],
    )
    model, _ = tiny("gpt2")
    explanation = Explainer(model, own, granularity="word", budget=100)(f"long {CHINESE}")
    assert [unit.text for unit in explanation.units] == ["long", "這部", "電影", "很好看", "。"]
    assert (
        "Parts of the text are written without spaces: there, the words are those of the tokenizer."
    ) in explanation.notes
