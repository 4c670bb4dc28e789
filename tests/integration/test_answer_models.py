"""Answers of language models: which parts of a text they come from."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from language_models import CONTEXT, QUESTION, Planted, language_model, words
from tiny import SIZE

from slalom_xai import AnswerModel, Explainer, Explanation
from slalom_xai.errors import InputError, ModelError
from slalom_xai.models import prompt
from slalom_xai.models.answer_spans import Span, log_probabilities, span_logits
from slalom_xai.queries import AnswerCache, Batches

KINDS = ["llama", "gpt2"]


def asked(kind, chat=True, **options):
    made = words(chat)
    model = AnswerModel(language_model(kind, made), made, max_new_tokens=6, **options)
    return model.asking(CONTEXT, QUESTION)


def by_hand(model, row):
    """The log probability of each token of the answer, by one plain pass over one row."""
    lm, count = model._model.lm, model.spans[0].stop
    ids = torch.tensor([row[0]])
    with torch.no_grad():
        chances = lm(input_ids=ids).logits[0].double().log_softmax(dim=1)
    places = range(ids.shape[1] - count, ids.shape[1])
    return [float(chances[place - 1, ids[0, place]]) for place in places]


@pytest.mark.parametrize("chat", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_batches_answer_as_single_rows_and_plain_passes_do(kind, chat):
    model = asked(kind, chat, spans="tokens")
    question = prompt(model.read(CONTEXT), "sentence")
    rng = np.random.default_rng(0)
    masks = rng.random((80, len(question.units))) < rng.random((80, 1))  # enough to borrow
    rows = question.rows(masks)
    together = Batches(model).columns([rows])[0]
    for index in range(0, 80, 9):
        row = rows.row(index)
        alone = model.answer([row])[0]
        torch.testing.assert_close(together[index], alone.double(), rtol=1e-4, atol=1e-4)
        expected = torch.tensor(by_hand(model, row), dtype=torch.float64)
        found = log_probabilities(alone)
        torch.testing.assert_close(found[1:], expected, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(found[0], expected.sum(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_borrow_their_beginning(kind):
    model = asked(kind)
    question = prompt(model.read(CONTEXT), "sentence")
    text = question.rows(question.whole).text
    with model.lend_prefix(text) as lent:
        assert lent == len(text) - model.spans[0].stop - 1


def test_a_row_is_the_prompt_without_what_is_left_out_and_then_the_answer():
    model = asked("llama")
    reading = model.read(CONTEXT)
    question = prompt(reading, "sentence")
    keep = np.ones(len(question.units), dtype=bool)
    keep[1] = False
    row = question.row(keep)
    spelled = words().decode(list(row[0]))
    assert "warm and funny" not in spelled
    assert spelled.startswith("<s>user\nContext:\na quiet film. the story is a mess.")
    assert spelled.endswith(f"Question: {QUESTION}</s>\n<s>assistant\n{model.reply}") or (
        spelled.rstrip().endswith(model.reply)
    )


def test_the_own_answer_is_the_likeliest_token_at_each_step():
    made = words()
    lm = language_model("llama", made)
    lm.generation_config.eos_token_id = made.eos_token_id
    model = AnswerModel(lm, made, max_new_tokens=8).asking(CONTEXT, QUESTION)
    reading = model.read(CONTEXT)
    row = reading.shorten(np.ones(len(reading.pieces), dtype=bool))[0]
    count = model.spans[0].stop
    before = torch.tensor([row[:-count]])
    said = lm.generate(
        before,
        attention_mask=torch.ones_like(before),
        do_sample=False,
        max_new_tokens=8,
        pad_token_id=0,
    )
    assert tuple(said[0, -count:].tolist()) == row[-count:]


def test_logits_keep_their_digits_next_to_certainty():
    gaps = torch.tensor([[-60.0, -50.0], [3.0, 80.0], [-1.0, 0.5]], dtype=torch.float64)
    spans = (Span("answer", 0, 2), Span("one", 0, 1), Span("two", 1, 2))
    found = span_logits(gaps, spans)
    torch.testing.assert_close(found[:, 1:], -gaps)  # the logit of one token is minus its gap
    lost = [math.log1p(math.exp(gap)) for gap in (-60.0, -50.0)]
    assert found[0, 0].item() == pytest.approx(-math.log(math.expm1(sum(lost))))
    assert found[1, 0].item() == pytest.approx(-(math.log1p(math.exp(3)) + 80))
    chance = 1 / (1 + math.exp(-1)) / (1 + math.exp(0.5))
    assert found[2, 0].item() == pytest.approx(math.log(chance / (1 - chance)))


def planted(values, weights):
    made = words(chat=False)
    said = made.convert_tokens_to_ids("Ġgood")
    tokens = {word: made.convert_tokens_to_ids(word) for word in values}
    assert made.unk_token_id not in tokens.values()
    return AnswerModel(
        Planted(
            made,
            said,
            {tokens[word]: value for word, value in values.items()},
            {tokens[word]: weight for word, weight in weights.items()},
        ),
        made,
    )


SOURCES = ["a film .", "the story .", "the actors .", "an end .", "a mess .", "is long ."]


def test_the_one_source_that_makes_the_answer_is_found():
    model = planted({"Ġfilm": 0.0, "Ġmess": 6.0}, {"Ġfilm": 1.0, "Ġmess": 1.0})
    explanation = Explainer(model, show_progress=False)(
        sources=SOURCES, question="how is it?", answer="good"
    )
    assert explanation.granularity == "passage"
    assert [unit.text for unit in explanation.units] == SOURCES
    removal = explanation.scores("removal")
    assert int(np.argmax(removal)) == SOURCES.index("a mess .")
    assert removal[SOURCES.index("a mess .")] == pytest.approx(3.0, abs=1e-4)
    others = [SOURCES.index(name) for name in ("the story .", "the actors .", "an end .")]
    assert np.abs(removal[others]).max() < 1e-4


def test_an_average_of_sources_is_found_to_be_one():
    names = ["Ġfilm", "Ġstory", "Ġactors", "Ġend", "Ġmess", "Ġlong"]
    values = dict(zip(names, [2.0, -1.0, 0.5, 3.0, -2.0, 1.0], strict=True))
    weights = dict(zip(names, [1.0, 2.0, 0.5, 1.5, 3.0, 0.8], strict=True))
    model = planted(values, weights)
    explanation = Explainer(model, show_progress=False)(
        sources=SOURCES, question="how is it?", answer="good"
    )
    base = explanation.prediction - np.average(
        list(values.values()), weights=list(weights.values())
    )
    np.testing.assert_allclose(explanation.values - base, list(values.values()), atol=0.05)
    logs = np.log(list(weights.values()))
    np.testing.assert_allclose(explanation.importances, logs - logs.mean(), atol=0.05)
    keep = np.array([[1, 0, 1, 1, 0, 1], [0, 1, 0, 0, 1, 0]])
    inside = keep * np.array(list(weights.values()))
    expected = base + inside @ np.array(list(values.values())) / inside.sum(axis=1)
    np.testing.assert_allclose(explanation.predict(keep), expected, atol=0.05)


@pytest.fixture(scope="module")
def explanation():
    made = words()
    model = AnswerModel(language_model("llama", made), made, max_new_tokens=6, spans="tokens")
    explainer = Explainer(model, granularity="sentence", budget=100, show_progress=False)
    return explainer(CONTEXT, question=QUESTION)


def test_sentences_are_scored_for_the_answer_and_each_of_its_tokens(explanation):
    assert [unit.text for unit in explanation.units][:2] == [
        "a quiet film.",
        "the actors are warm and funny.",
    ]
    assert explanation.question == QUESTION
    assert explanation.target == "answer"
    assert explanation.outputs.kind == "answers"
    assert explanation.outputs.width == 7
    assert explanation.calls <= 100
    whole = log_probabilities(torch.tensor(explanation.full))
    assert float(whole[0]) == pytest.approx(float(whole[1:].sum()))
    one = explanation.for_target(3)
    assert not np.allclose(one.scores("removal"), explanation.scores("removal"))


def test_results_are_saved_loaded_and_shown(explanation, tmp_path):
    explanation.save(tmp_path / "result.json")
    loaded = Explanation.load(tmp_path / "result.json")
    assert loaded == explanation
    assert (loaded.question, loaded.reply) == (explanation.question, explanation.reply)
    keep = np.eye(len(explanation.units), dtype=bool)
    np.testing.assert_allclose(loaded.predict(keep), explanation.predict(keep))
    page = explanation.to_html(tmp_path / "result.html").read_text(encoding="utf-8")
    assert QUESTION in page


def test_spans_are_found_in_the_answer():
    model = asked("llama")
    part = model.reply[2:6]
    made = words()
    spans = AnswerModel(model._model.lm, made, max_new_tokens=6, spans=[part])
    two = spans.asking(CONTEXT, QUESTION)
    assert two.outputs.labels == ("answer", part.strip())
    with pytest.raises(InputError, match="is not in the answer"):
        AnswerModel(model._model.lm, made, spans=["zebra"]).asking(CONTEXT, QUESTION)


def test_an_answer_that_does_not_depend_on_the_context_says_so():
    model = planted({"Ġfilm": 1.0}, {"Ġfilm": 1.0})
    told = model.asking("the story . the end .", "film ?", answer="good").notes
    assert len(told) == 1
    assert "does not depend on the context" in told[0]
    assert model.asking("a film . the end .", "how ?", answer="good").notes == ()


def test_examples_in_a_prompt_are_sources_with_a_template_of_their_own():
    made = words(chat=False)
    model = AnswerModel(
        language_model("gpt2", made), made, template="{context}\n\nreview: {question}\nlabel:"
    )
    examples = ["review: warm\nlabel: good", "review: dull\nlabel: bad", "review: mess\nlabel: bad"]
    found = model.asking(examples, "funny", answer="good")
    reading = found.read(found.context)
    assert [unit.text for unit in prompt(reading, "passage").units] == examples
    row = reading.shorten(np.ones(len(reading.pieces), dtype=bool))
    assert made.decode(list(row[0])).endswith("\n\nreview: funny\nlabel: good")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"text": CONTEXT}, "pass question="),
        ({"text": CONTEXT, "question": " "}, "the question is"),
        ({"text": "  ", "question": QUESTION}, "the context is"),
        ({"text": CONTEXT, "sources": ["a"], "question": QUESTION}, "one context"),
        ({"text": [CONTEXT], "question": QUESTION}, "asked about a list"),
        ({"sources": [], "question": QUESTION}, "no sources"),
        ({"sources": ["a", " "], "question": QUESTION}, "source 1 is"),
        ({"sources": "a", "question": QUESTION}, "give a list of texts"),
        ({"sources": ["a", "b"]}, "no question"),
        ({"text": CONTEXT, "question": QUESTION, "answer": ""}, "the answer is"),
        ({"text": CONTEXT * 30, "question": QUESTION}, "the model reads at most 512"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_one_line(arguments, message):
    made = words()
    explainer = Explainer(AnswerModel(language_model("llama", made), made))
    with pytest.raises(InputError, match=message) as error:
        explainer(**arguments)
    assert "\n" not in str(error.value)


def test_other_models_are_not_asked_questions():
    with pytest.raises(InputError, match="is no language model"):
        Explainer()("a warm film", question="why?")


@pytest.mark.parametrize("named", [False, True])
def test_a_cache_that_would_keep_nothing_is_refused(tmp_path, named):
    made = words()
    cache = AnswerCache(tmp_path).opened_for("mine") if named else tmp_path
    with pytest.raises(InputError, match="are not kept in one: leave the cache out"):
        Explainer(AnswerModel(language_model("llama", made), made), cache=cache)


def test_models_that_are_no_causal_language_models_are_refused():
    made = words()
    config = transformers.BertConfig(vocab_size=len(made), max_position_embeddings=128, **SIZE)
    with pytest.raises(InputError, match="does not predict the next word"):
        AnswerModel(transformers.BertModel(config), made)
    looking = AnswerModel(transformers.BertForMaskedLM(config).eval(), made)
    with pytest.raises(InputError, match="sees the words behind"):
        looking.asking("a film.", QUESTION)
    with pytest.raises(InputError, match="needs its tokenizer"):
        AnswerModel(language_model("llama", made))
    with pytest.raises(InputError, match="no causal language model"):
        AnswerModel(lambda texts: texts, made)


def test_a_model_that_ends_at_once_is_told():
    made = words()
    lm = language_model("llama", made)
    model = AnswerModel(lm, made)
    first = model.asking(CONTEXT, QUESTION)
    reading = first.read(CONTEXT)
    row = reading.shorten(np.ones(len(reading.pieces), dtype=bool))[0]
    lm.generation_config.eos_token_id = [row[-first.spans[0].stop], made.eos_token_id]
    with pytest.raises(ModelError, match="gives no answer"):
        model.asking(CONTEXT, QUESTION)


@pytest.mark.parametrize("template", ["{context}", "{question} {context}", "{context} {context}"])
def test_a_template_has_one_place_for_each(template):
    made = words()
    with pytest.raises(InputError, match="give each once, the context first"):
        AnswerModel(language_model("llama", made), made, template=template)


def test_a_model_keeps_its_configuration_mode_and_hooks():
    made = words()
    lm = language_model("llama", made).train()
    before = lm.config.to_dict()
    AnswerModel(lm, made, max_new_tokens=4).asking(CONTEXT, QUESTION)
    assert lm.config.to_dict() == before
    assert lm.training
    assert not lm.get_output_embeddings()._forward_pre_hooks


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("lm")
    made = words()
    language_model("llama", made).save_pretrained(where)
    made.save_pretrained(where)
    return where


def cite(capfd, *arguments):
    from slalom_xai.cli import app

    app(["cite", *map(str, arguments)], standalone_mode=False)
    return capfd.readouterr().out


def test_cite_prints_the_answer_and_its_sources_and_saves_them(folder, tmp_path, capfd):
    context = tmp_path / "context.txt"
    context.write_text(CONTEXT, encoding="utf-8")
    out, page = tmp_path / "cite.json", tmp_path / "cite.html"
    asked_for = ("--model", folder, "--question", QUESTION, "--max-new-tokens", 5, "--budget", 60)
    shown = cite(capfd, *asked_for, "--context", context, "--out", out, "--html", page)
    loaded = Explanation.load(out)
    assert f"Question: {QUESTION}" in shown
    assert "Answer: " in shown
    words = [word for unit in loaded.units for word in unit.text.split()]
    assert all(word in shown for word in words)  # tables break lines between them
    assert loaded.granularity == "sentence"
    assert loaded.calls <= 60
    assert QUESTION in page.read_text(encoding="utf-8")


def test_cite_takes_sources_from_a_table_and_a_given_answer(folder, tmp_path, capfd):
    table = tmp_path / "passages.jsonl"
    lines = [json.dumps({"text": text}) for text in CONTEXT.split(". ")]
    table.write_text("\n".join(lines), encoding="utf-8")
    one = tmp_path / "one.txt"
    one.write_text("the last half hour.\n\nfar too long.", encoding="utf-8")
    printed = cite(
        capfd,
        *("--model", folder, "--question", QUESTION, "--sources", table, "--sources", one),
        *("--answer", "more than i should", "--budget", 60, "--json"),
    )
    found = json.loads(printed)
    assert found["reply"] == "more than i should"
    assert len(found["units"]) == len(lines) + 1
    assert found["units"][-1]["text"] == "the last half hour.\n\nfar too long."


def test_cite_wants_a_context_or_sources(folder):
    from slalom_xai.cli import app

    arguments = ["cite", "--model", str(folder), "--question", QUESTION]
    with pytest.raises(InputError, match="give --context FILE or --sources FILE"):
        app(arguments, standalone_mode=False)


@pytest.mark.bench
def test_a_real_model_answers_from_the_sentence_that_says_it(pytestconfig):
    folder = Path(pytestconfig.rootpath) / "data" / "smollm2"
    if not folder.is_dir():
        pytest.skip("make data/smollm2 with scripts/gguf_to_folder.py first")
    context = (
        "Tom stayed in Berlin and plays the violin. Anna moved to Paris in 2010. "
        "Their mother lives in Madrid. The weather was nice yesterday. A baker earns little."
    )
    model = AnswerModel(folder, max_new_tokens=12, spans=["Paris"])
    explainer = Explainer(
        model, granularity="sentence", budget=31, method="occlusion", target="Paris"
    )
    explanation = explainer(context, question="In which city does Anna live?")
    assert "Paris" in explanation.reply
    assert int(np.argmax(explanation.scores("removal"))) == 1
