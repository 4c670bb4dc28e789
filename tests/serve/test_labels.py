"""Names for classes that a model only numbers, and the predicted class in what is listed."""

import math
import subprocess
import sys

import pytest
import torch
import transformers
from servers import serving
from tiny import SIZE, _bert

from slalom_xai import Explainer

TEXTS = ["good film", "a slow and dull film", "one two three"]
NAMES = ["awful", "fair", "great"]


@pytest.fixture(scope="module")
def numbered(tmp_path_factory):
    """A model with three classes, LABEL_0 to LABEL_2."""
    folder = tmp_path_factory.mktemp("models") / "numbered"
    torch.manual_seed(5)
    _, words = _bert()
    config = transformers.BertConfig(vocab_size=len(words), num_labels=3, **SIZE)
    model = transformers.BertForSequenceClassification(config)
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def named(tmp_path_factory, numbered):
    """One server with names for the classes of one of two models, which have the same weights."""
    models = [f"{name}={numbered}" for name in ("named", "plain")]
    options = [part for model in models for part in ("--model", model)]
    with serving(
        tmp_path_factory.mktemp("named"), *options, "--labels", "named=awful, fair,great"
    ) as server:
        yield server


def test_given_names_are_used_everywhere(named, numbered, tmp_path):
    assert named.ready("named")["labels"] == NAMES
    assert named.ready("plain")["labels"] == ["LABEL_0", "LABEL_1", "LABEL_2"]
    assert named.model("named")["fingerprint"] != named.model("plain")["fingerprint"]
    body = {"model": "named", "text": TEXTS[0]}
    assert named.post("/api/predict", body).json["answers"][0]["label"] in NAMES
    job = named.explained(TEXTS[0], model="named", budget=40, target="fair")
    code = named.get(f"/api/explanations/{job['key']}/snippet").json["python"]
    assert "labels=['awful', 'fair', 'great']," in code
    code += f"explanation.save({str(tmp_path / 'again.json')!r})\n"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    again = (tmp_path / "again.json").read_bytes()
    assert again == named.get(f"/api/explanations/{job['key']}").body


def test_the_same_text_under_other_names_is_another_question(named):
    named.ready("named")
    named.ready("plain")
    jobs = [named.explained(TEXTS[1], model=model, budget=40) for model in ("named", "plain")]
    assert jobs[0]["predicted"] in NAMES
    assert jobs[1]["predicted"] == f"LABEL_{NAMES.index(jobs[0]['predicted'])}"
    assert jobs[0]["probability"] == jobs[1]["probability"]


@pytest.mark.parametrize("target", [None, "awful", "great"])
def test_a_job_says_what_the_model_predicts_whatever_is_explained(named, numbered, target):
    named.ready("named")
    job = named.explained(TEXTS[2], model="named", budget=40, target=target)
    listed = named.get("/api/jobs?limit=1").json["jobs"][0]
    answer = named.post("/api/predict", {"model": "named", "text": TEXTS[2]}).json["answers"][0]
    for each in (job, listed):
        assert each["predicted"] == answer["label"]
        assert each["probability"] == pytest.approx(max(answer["probabilities"]))
    again = named.ask(TEXTS[2], model="named", budget=40, target=target)
    assert again["cached"]
    assert again["predicted"] == answer["label"]


def test_a_negative_review_is_listed_as_negative(server):
    server.ready()
    job = server.explained("Dull, tired and awful.", budget=40)
    explanation = Explainer(budget=40)("Dull, tired and awful.")
    assert explanation.target == "negative"
    assert job["prediction"] == explanation.prediction > 0
    assert job["predicted"] == "negative"
    assert job["probability"] == pytest.approx(1 / (1 + math.exp(-explanation.prediction)))


def test_names_that_do_not_fit_are_told_so(tmp_path, numbered):
    with serving(tmp_path, "--model", f"x={numbered}", "--labels", "bad,good") as server:
        model = server.ready("x")
    assert model["state"] == "failed"
    assert "labels has 2 names (bad, good), but x has 3 outputs" in model["message"]
