"""Answers of language models behind an API, on a server whose answer has a known probability."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest
from api_servers import Fault, ScoringServer, planted_answer, sentences
from fakes import word_scores

from slalom_xai import Explainer, Explanation
from slalom_xai.errors import BudgetError, InputError, ModelError, ServiceError
from slalom_xai.models.base import TakesQuestions
from slalom_xai.models.remote import Connection, RemoteAnswerModel, Spending, Waiting

pytestmark = pytest.mark.usefixtures("own_cache")

CONTEXT = (
    "The plot is thin. The actors are warm. I laughed a lot. The end is weak. Nobody slept. "
    "The music helps."
)
QUESTION = "How was the film?"
ANSWER = "It was good."
QUICK = Connection(waiting=Waiting(first=0.001, longest=0.002, jitter=0.001), retries=40)


def remote(server: ScoringServer, **options) -> RemoteAnswerModel:
    options.setdefault("connection", QUICK)
    return RemoteAnswerModel(
        "http://localhost/v1", "planted", transport=server.transport, **options
    )


def explained(server: ScoringServer, answer: str | None = ANSWER, **options) -> Explanation:
    explainer = Explainer(remote(server, **options), granularity="sentence", budget=60)
    return explainer(CONTEXT, question=QUESTION, answer=answer)


def same(one: Explanation, other: Explanation) -> bool:
    return one.values.tolist() == other.values.tolist() and (
        one.importances.tolist() == other.importances.tolist()
    )


@pytest.fixture(scope="module")
def undisturbed() -> Explanation:
    return explained(ScoringServer())


def test_a_planted_answer_is_explained_by_its_own_values_and_importances(undisturbed):
    values, weights = zip(*map(word_scores, sentences(CONTEXT)), strict=True)
    logs = np.log(weights)
    np.testing.assert_allclose(undisturbed.values, values, atol=0.01)
    np.testing.assert_allclose(undisturbed.importances, logs - logs.mean(), atol=0.01)
    assert undisturbed.prediction == pytest.approx(planted_answer(CONTEXT))
    assert [unit.text for unit in undisturbed.units] == sentences(CONTEXT)
    assert (undisturbed.question, undisturbed.reply) == (QUESTION, ANSWER)
    assert undisturbed.model == "planted at localhost"
    assert not [note for note in undisturbed.notes if "budget" not in note]


def test_a_request_repeats_the_prompt_and_writes_one_token():
    server = ScoringServer()
    assert isinstance(remote(server), TakesQuestions)
    asked = remote(server, options={"seed": 1}).asking(CONTEXT, QUESTION, answer=ANSWER)
    assert asked.answer([CONTEXT])[0].tolist() == pytest.approx([planted_answer(CONTEXT)])
    prompt = f"Context:\n{{}}\n\nQuestion: {QUESTION}\nAnswer: {ANSWER}"
    assert sorted(server.requests, key=lambda body: len(body["prompt"])) == [
        {
            "model": "planted",
            "prompt": prompt.format(context),
            "max_tokens": 1,
            "temperature": 0,
            "logprobs": 1,
            "echo": True,
            "seed": 1,
        }
        for context in ("", CONTEXT)
    ]


def test_the_own_answer_is_asked_for_once_and_kept(undisturbed):
    server = ScoringServer(own=(f" {ANSWER}\n", "stop"))
    own = explained(server, answer=None)
    assert same(own, undisturbed)
    assert own.reply == ANSWER
    assert server.requests[0]["max_tokens"] == 32
    assert len([body for body in server.requests if not body.get("echo")]) == 1
    paid = len(server.requests)
    assert same(explained(server, answer=None), own)  # another model object, from the cache
    assert len(server.requests) == paid


def test_an_own_answer_that_was_cut_says_so():
    asked = remote(ScoringServer(own=(" It was", "length")), max_new_tokens=2).asking(
        CONTEXT, QUESTION
    )
    assert asked.notes == ("The answer was cut after 2 tokens (max_new_tokens=2).",)


def test_two_questions_share_a_store_and_no_answers():
    server = ScoringServer()
    model = remote(server)
    one = model.asking(CONTEXT, QUESTION, answer="good")
    # The same prompt, cut elsewhere: another answer.
    two = model.asking(CONTEXT, f"{QUESTION}\nAnswer: very", answer="good")
    three = model.asking(CONTEXT, QUESTION, answer="very good")
    assert len({one.question_key, two.question_key, three.question_key}) == 3
    assert len(server.requests) == 6


@pytest.mark.parametrize(
    "options",
    [
        {"first": "<s>"},
        {"spelled": lambda token: token.replace(" ", "\u2581")},
        {"spelled": lambda token: token.replace(" ", "\u0120"), "first": "<|begin|>"},
        {"spelled": str.strip},
        {"written": None},
        {"written": None, "usage": False},
        {"written": "</s>"},
        {"written": ""},
        {"tokens": lambda prompt: [*prompt]},
        {"tokens": lambda prompt: [prompt[:-20], prompt[-20:-13], prompt[-13:]]},
    ],
    ids=[
        *("first", "sentencepiece", "bytes", "stripped", "none", "nothing-said", "end", "empty"),
        *("letters", "few"),
    ],
)
def test_tokens_of_an_answer_are_found_however_they_are_written(options, undisturbed):
    found = explained(ScoringServer(**options))
    np.testing.assert_allclose(found.values, undisturbed.values, atol=1e-6)
    assert found.notes == undisturbed.notes


def test_a_token_that_reaches_into_the_answer_is_scored_with_it_and_a_note_says_so():
    cut = {"tokens": lambda prompt: [prompt[:-18], prompt[-18:-5], prompt[-5:]]}
    asked = remote(ScoringServer(**cut)).asking(CONTEXT, QUESTION, answer=ANSWER)
    assert asked.answer([CONTEXT])[0].tolist() == pytest.approx([planted_answer(CONTEXT)])
    (note,) = asked.notes
    assert "begins with 'swer:', which stands before it in the prompt" in note


@pytest.mark.parametrize("part", ["\ufffd", "bytes:\\xe2", ""])
@pytest.mark.parametrize(
    "answer", ["\u2665", "\u00e9\u2665", "\u2665 ok", "\u2665 \u263a", "ok \u2665."]
)
def test_parts_of_characters_belong_to_the_answer(answer, part):
    """Some characters are three tokens, of a byte each, which servers list in their own ways."""
    odd = "\u2665\u263a"

    def cut(prompt: str) -> list[str]:
        head, given = prompt.rsplit(":", 1)
        return [head, ":", *itertools.chain(*([c] * (3 if c in odd else 1) for c in given))]

    server = ScoringServer(tokens=cut, spelled=lambda token: part if token in odd else token)
    asked = remote(server, spans="tokens").asking(CONTEXT, QUESTION, answer=answer)
    tokens = sum(3 if letter in odd else 1 for letter in f" {answer}")
    assert asked.spans[0].stop == tokens


def test_parts_of_an_answer_come_from_the_same_rows():
    server = ScoringServer()
    model = remote(server, spans=["was good"])
    asked = model.asking(CONTEXT, QUESTION, answer=ANSWER)
    assert asked.outputs.labels == ("answer", "was good")
    log = -math.log1p(math.exp(-planted_answer(CONTEXT)))
    part = math.exp(log / 2)  # two of four tokens, with a quarter of it each
    whole, two = asked.answer([CONTEXT])[0].tolist()
    assert whole == pytest.approx(planted_answer(CONTEXT))
    assert two == pytest.approx(math.log(part / (1 - part)))
    labels = remote(server, spans="tokens").asking(CONTEXT, QUESTION, answer=ANSWER).outputs.labels
    assert labels == ("answer", "It", "was", "good", ".")
    with pytest.raises(InputError, match="is not in the answer"):
        remote(server, spans=["bad"]).asking(CONTEXT, QUESTION, answer=ANSWER)


def test_parts_are_found_where_a_row_has_other_tokens():
    def cut(prompt: str) -> list[str]:
        head, answer = prompt.rsplit(":", 1)
        pieces = [" It", " was", " good."] if "plot" in head else [" It", " w", "as", " good", "."]
        assert "".join(pieces) == answer
        return [head, ":", *pieces]

    asked = remote(ScoringServer(tokens=cut), spans=["was"]).asking(
        CONTEXT, QUESTION, answer=ANSWER
    )
    row = "I laughed a lot."
    log = -math.log1p(math.exp(-planted_answer(row)))
    part = math.exp(log * 2 / 5)
    expected = [planted_answer(row), math.log(part / (1 - part))]
    assert asked.answer([row])[0].tolist() == pytest.approx(expected)


def test_sources_are_units_whatever_they_hold():
    sources = ["The plot is thin. The end is weak.", "I laughed a lot.\n\nNobody slept."]
    server = ScoringServer()
    explainer = Explainer(remote(server), method="slalom-few", budget=8)
    found = explainer(sources=sources, question=QUESTION, answer=ANSWER)
    assert [unit.text for unit in found.units] == sources
    assert {text.strip() for text in server.texts} >= {"", *sources}


@pytest.mark.parametrize(
    "fault",
    [Fault(drop=True), Fault(429), Fault(500), Fault(body='{"choices": [{"te')],
    ids=["drop", "429", "500", "cut-off"],
)
def test_an_explanation_survives_what_goes_wrong_on_the_way(fault, undisturbed):
    server = ScoringServer(faults=itertools.cycle([None, fault]))
    assert same(explained(server), undisturbed)


def test_caps_are_never_passed_and_what_was_paid_is_kept(undisturbed):
    server = ScoringServer(faults=itertools.cycle([None, None, Fault(500)]))
    with pytest.raises(BudgetError, match="max_calls=25 allows no further call"):
        explained(server, spending=Spending(max_calls=25))
    assert server.billed == 25
    paid = {*server.texts}
    later = ScoringServer()
    assert same(explained(later), undisturbed)
    asked_again = [text for text in later.texts if text in paid]
    assert len(asked_again) < 25 / 3 + 2  # what failed, and the text that is asked twice for noise


@pytest.mark.parametrize(
    "server",
    [
        ScoringServer(repeats=False),
        ScoringServer(repeats=False, own=(ANSWER, "length")),  # and writes the answer once more
        ScoringServer(repeats=False, logprobs=False),
        ScoringServer(faults=[Fault(400, body='{"error": "Only no echo is supported"}')]),
        ScoringServer(faults=[Fault(500, body='{"error": "Only no echo is supported"}')]),
    ],
    ids=["ignores", "repeats-itself", "no-logprobs", "refuses", "refuses-500"],
)
def test_a_server_that_does_not_score_given_text_is_refused(server):
    with pytest.raises(ServiceError, match="does not score given text") as caught:
        explained(server)
    assert "llama.cpp's server does not" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(server.requests) <= 2


@pytest.mark.parametrize(
    ("server", "message"),
    [
        (ScoringServer(faults=[Fault(body="[1]")]), 'has no "choices"'),
        (ScoringServer(log_odds=lambda _text: -9999.0), "as the log-probability of a token"),
        (ScoringServer(spelled=str.upper), "it cannot be said which of them are the answer's"),
        (ScoringServer(own=(" \n", "stop")), "gives no answer"),
        (
            ScoringServer(faults=[Fault(400, body='{"message": "context length is 9"}')]),
            "does not read so long a text",
        ),
    ],
    ids=["json", "number", "tokens", "silent", "long"],
)
def test_what_cannot_be_used_is_one_line(server, message):
    with pytest.raises(ModelError, match=message) as caught:
        explained(server, answer=None if "no answer" in message else "good")
    assert "\n" not in str(caught.value)


def test_a_server_that_does_not_know_its_own_answer_again_is_refused():
    """One whose numbers are off by a place, for example."""
    server = ScoringServer(ahead=3.0)
    with pytest.raises(ServiceError, match=r"only 0 of the 4 tokens of its own answer 'It was"):
        explained(server, answer=None)
    assert explained(server, answer=ANSWER).reply == ANSWER  # of others nothing is known


def test_white_space_between_words_may_be_a_token_of_its_own():
    server = ScoringServer(tokens=lambda prompt: re.findall(r"\w+|\s|[^\w\s]", prompt))
    asked = remote(server, spans="tokens").asking(CONTEXT, QUESTION, answer="It\n\nwas.")
    assert asked.outputs.labels == ("answer", "' '", "It", "'\\n'", "'\\n'", "was", ".")


def test_an_answer_that_does_not_depend_on_the_context_says_so():
    asked = remote(ScoringServer(log_odds=lambda _text: 1.0)).asking(
        CONTEXT, QUESTION, answer=ANSWER
    )
    (note,) = asked.notes
    assert "does not depend on the context" in note


def test_a_probability_that_is_rounded_to_one_is_a_bound_and_the_result_says_so():
    sure = explained(ScoringServer(log_odds=lambda text: 50.0 if "actors" in text else 1.0))
    assert 10 < sure.prediction < 20
    (note,) = [note for note in sure.notes if "bounds" in note]
    assert f"of {sure.calls} answers" in note


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"context": " ", "question": QUESTION}, "the context is"),
        ({"context": CONTEXT, "question": " "}, "the question is"),
        ({"context": [], "question": QUESTION}, "no sources"),
        ({"context": CONTEXT, "question": QUESTION, "answer": ""}, "the answer is"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_anything_is_sent(arguments, message):
    server = ScoringServer()
    with pytest.raises(InputError, match=message):
        remote(server).asking(**arguments)
    assert server.requests == []


def test_options_that_cannot_be_are_refused():
    server = ScoringServer()
    for options, message in (
        ({"template": "{question} {context}"}, "the context first"),
        ({"spans": "words"}, "spans is 'words'"),
        ({"max_new_tokens": 0}, "max_new_tokens is 0"),
    ):
        with pytest.raises(InputError, match=message):
            remote(server, **options)
    with pytest.raises(InputError, match="the address ends in /chat/completions"):
        RemoteAnswerModel("http://localhost/v1/chat/completions", "planted")
    with pytest.raises(InputError, match="pass question="):
        Explainer(remote(server))(CONTEXT)


def test_a_space_at_the_end_of_a_template_goes_to_the_answer():
    server = ScoringServer()
    template = "Context:\n{context}\n\nQuestion: {question}\nAnswer: "
    asked = remote(server, template=template).asking(CONTEXT, QUESTION, answer=ANSWER)
    assert asked.prompt_of("") == f"Context:\n\n\nQuestion: {QUESTION}\nAnswer: {ANSWER}"
    assert asked.notes == ()
