"""Endpoints that return the scores of classes as JSON, in the shapes that servers use."""

from __future__ import annotations

import math

import httpx
import numpy as np
import pytest
from api_servers import planted_log_odds
from fakes import word_scores
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from slalom_xai import Explainer
from slalom_xai.errors import InputError, ModelError
from slalom_xai.models.remote import Connection, JsonClassifier, Waiting

pytestmark = pytest.mark.usefixtures("own_cache")

TEXT = "a slow start and then a warm film"
NAMES = ["bad", "good"]


class Endpoint:
    """Answers with what ``respond`` makes of a body; keeps the bodies."""

    def __init__(self, respond) -> None:
        self.bodies = []

        async def serve(request):
            self.bodies.append(await request.json())
            return JSONResponse(respond(self.bodies[-1]))

        app = Starlette(routes=[Route("/predict", serve, methods=["POST"])])
        self.transport = httpx.ASGITransport(app)

    def classifier(self, request, labels=NAMES, response="", **options) -> JsonClassifier:
        return JsonClassifier(
            "http://localhost/predict",
            request,
            labels,
            response,
            connection=Connection(waiting=Waiting(0.001, 0.002, 0.001), retries=1),
            transport=self.transport,
            **options,
        )


def probabilities(text: str) -> list[float]:
    good = 1 / (1 + math.exp(-planted_log_odds(text)))
    return [1 - good, good]


def named(text: str) -> list[dict]:
    """As text-classification servers of Hugging Face answer: the likeliest class first."""
    scores = zip(("NEG", "POS"), probabilities(text), strict=True)
    pairs = [{"label": label, "score": score} for label, score in scores]
    return sorted(pairs, key=lambda pair: -pair["score"])


def kserve(body: dict) -> dict:
    """As Triton and KServe answer, in version 2 of their protocol."""
    (text,) = body["inputs"][0]["data"]
    return {"outputs": [{"name": "scores", "shape": [1, 2], "data": probabilities(text)}]}


SHAPES = {
    "hugging-face": (
        lambda body: [named(body["inputs"])],
        {"inputs": "{text}", "parameters": {"top_k": None}},
        {"bad": "NEG", "good": "POS"},
        "0",
        {},
    ),
    "hugging-face-lists": (
        lambda body: [named(text) for text in body["inputs"]],
        {"inputs": "{texts}"},
        {"bad": "NEG", "good": "POS"},
        "",
        {"batch": 4},
    ),
    "kserve": (
        kserve,
        {"inputs": [{"name": "text", "shape": [1], "datatype": "BYTES", "data": ["{text}"]}]},
        NAMES,
        "outputs.0.data",
        {},
    ),
    "instances": (
        lambda body: {"predictions": [probabilities(text) for text in body["instances"]]},
        {"instances": "{texts}"},
        NAMES,
        "predictions",
        {"batch": 16},
    ),
    "one-list": (
        lambda body: {"data": [each for text in body["texts"] for each in probabilities(text)]},
        {"texts": "{texts}"},
        NAMES,
        "data",
        {"batch": 3},
    ),
    "logits": (
        lambda body: [-planted_log_odds(body["q"][2:]) / 2, planted_log_odds(body["q"][2:]) / 2],
        {"q": "q:{text}"},
        NAMES,
        "",
        {"output": "logits"},
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_scores_are_found_in_the_shapes_that_servers_use(shape):
    respond, request, labels, response, options = SHAPES[shape]
    endpoint = Endpoint(respond)
    model = endpoint.classifier(request, labels, response, **options)
    rows = ["warm", "slow", "warm film", "slow film", "a start"]
    answers = model.answer(rows)
    odds = (answers[:, 1] - answers[:, 0]).tolist()
    assert odds == pytest.approx([planted_log_odds(row) for row in rows])
    batch = options.get("batch", 1)
    assert len(endpoint.bodies) == -(-len(rows) // batch)
    assert model.outputs.labels == ("bad", "good")


def test_an_endpoint_is_explained():
    respond, request, labels, response, options = SHAPES["instances"]
    model = Endpoint(respond).classifier(request, labels, response, **options)
    explanation = Explainer(model, budget=60)(TEXT)
    values = [word_scores(word)[0] for word in TEXT.split()]
    np.testing.assert_allclose(explanation.values, values, atol=0.01)
    assert explanation.model == "classifier at localhost"


@pytest.mark.parametrize(
    ("answer", "response", "message"),
    [
        ({"scores": [0.1, 0.9]}, "results.0", "'results' of the path 'results.0' cannot be found"),
        ([0.1, 0.2, 0.7], "", "2 scores cannot be found"),
        ([{"label": "bad", "score": 0.2}], "", "a score of the label 'good' cannot be found"),
        ("good", "", "2 scores cannot be found"),
        ([0.4, 0.9], "", "which are not probabilities that sum to 1"),
        ([0.0, 1.0], "", "a probability of exactly 0 or 1"),
    ],
)
def test_an_answer_that_cannot_be_used_is_one_clear_line(answer, response, message):
    model = Endpoint(lambda _body: answer).classifier({"inputs": "{text}"}, NAMES, response)
    with pytest.raises(ModelError, match="classifier at localhost returned") as caught:
        model.answer([TEXT])
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("request_body", "options", "message"),
    [
        ({"inputs": "text"}, {}, r"put \{text\} there, or \{texts\}"),
        ({"inputs": "{text}"}, {"batch": 2}, r"the request takes one text: put \{texts\} there"),
        ({"inputs": "{text}"}, {"output": "odds"}, "unknown output 'odds'"),
        ({"inputs": "{text}"}, {"labels": ["good", "good"]}, "more than once"),
    ],
)
def test_wrong_options_are_refused(request_body, options, message):
    with pytest.raises(InputError, match=message):
        Endpoint(lambda _body: []).classifier(request_body, **options)
