"""The model's own answers, and finished explanations in other forms."""

import json
import subprocess
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest
import torch

from slalom_xai import Explainer, Explanation
from slalom_xai.models import prompt
from slalom_xai.models.load import text_model
from slalom_xai.serve.work.questions import edit_row

TEXT = "A slow start, but a wonderful film."


@pytest.fixture(scope="module")
def job(server):
    server.ready()
    return server.explained(TEXT, granularity="word", budget=60)


@pytest.fixture(scope="module")
def explanation():
    return Explainer(granularity="word", budget=60)(TEXT)


def predicted(server, **body):
    server.ready()
    reply = server.post("/api/predict", {"model": "embedded", "text": TEXT, **body})
    assert reply.status == 200, reply.body
    return reply.json


def test_a_prediction_is_what_an_explanation_says_to_the_last_bit(server, job, explanation):
    found = predicted(server)
    assert found["labels"] == ["negative", "positive"]
    assert found["answers"][0]["full"] == list(explanation.full)
    odds = explanation.full[0]
    assert found["answers"][0]["probabilities"][1] == pytest.approx(1 / (1 + np.exp(-odds)))
    assert found["answers"][0]["label"] == ("positive" if odds > 0 else "negative")
    assert job["prediction"] == explanation.prediction == abs(odds)  # of the predicted class


def test_an_edited_text_is_what_the_model_says_to_it(server, explanation):
    """Without its fourth word: the model's own answer to the text without this word."""
    counts = [1] * len(explanation.units)
    counts[3] = 0
    model = text_model(None)
    reading = model.read(TEXT)
    asked = prompt(reading, "word")
    row = edit_row(asked, np.array(counts))
    with torch.no_grad():
        logits = model.answer([row.row(0)])[0]
    both = [[1] * len(counts), counts]
    found = predicted(server, granularity="word", counts=both, removal="delete")
    assert found["answers"][0]["full"] == list(explanation.full)
    odds = float(logits[1] - logits[0])
    assert found["answers"][1]["full"][0] == pytest.approx(odds, abs=1e-5)  # another batch
    assert found["answers"][1]["full"] != found["answers"][0]["full"]


def test_an_edited_text_is_asked_as_the_explanation_left_words_out(server, explanation):
    counts = [1] * len(explanation.units)
    counts[3] = 0
    model = text_model(None)
    for removal, used in (("auto", "hide"), ("hide", "hide"), ("delete", "delete")):
        reading = model.read(TEXT, removal=used)
        row = prompt(reading, "word", used).row(np.array(counts, dtype=bool))
        with torch.no_grad():
            logits = model.answer([row])[0]
        found = predicted(server, granularity="word", counts=[counts], removal=removal)
        assert found["removal"] == used
        assert not found["as_new_text"]
        odds = float(logits[1] - logits[0])
        assert found["answers"][0]["full"][0] == pytest.approx(odds, abs=1e-5)
    by_paper = predicted(server, granularity="word", counts=[counts], method="slalom-eff")
    assert by_paper["removal"] == "delete"
    assert explanation.removal == "hide"


def test_an_edited_text_can_be_asked_as_a_new_one(server):
    counts = [1, 0, 1, 1, 1, 1, 2, 1, 1]
    found = predicted(server, granularity="word", counts=[counts], as_new_text=True)
    text = found["answers"][0]["text"]
    assert found["as_new_text"]
    assert text == "A start, but a wonderful wonderful film."
    assert found["answers"][0]["full"] == pytest.approx(
        predicted(server, text=text)["answers"][0]["full"], abs=1e-6
    )


def test_a_repeated_word_stands_beside_itself(server):
    twice = predicted(server, granularity="word", counts=[[1, 1, 1, 1, 1, 1, 2, 1, 1]])
    written = predicted(server, text="A slow start, but a wonderful wonderful film.")
    assert twice["answers"][0]["full"] == pytest.approx(written["answers"][0]["full"], abs=1e-6)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"counts": [[1, 1]]}, "2 counts were given, but the text has"),
        ({"counts": [[0] * 9]}, "were given|every unit was removed"),
        ({"counts": [[100] * 9]}, "at most 512|counts were given"),
        ({"counts": [[1]] * 65}, "give up to 64"),
        ({"text": "word " * 600}, "512"),
        ({"granularity": "word", "counts": [[0, 1, 1, 1, 1, 1, 2, 1, 1]]}, "ask with as_new_text"),
        ({"method": "none"}, "unknown method"),
        ({"text_pair": "another"}, "pair"),
        ({"text": "  "}, "empty"),
    ],
)
def test_questions_that_cannot_be_answered_are_told_so(server, body, said):
    server.ready()
    reply = server.post("/api/predict", {"model": "embedded", "text": TEXT, **body})
    assert reply.status == 400
    assert any(part in reply.error for part in said.split("|")), reply.error
    assert "\n" not in reply.error


def test_all_units_can_be_removed_but_one(server, explanation):
    server.ready()
    none = [0] * len(explanation.units)
    reply = server.post(
        "/api/predict", {"model": "embedded", "text": TEXT, "granularity": "word", "counts": [none]}
    )
    assert reply.status == 400
    assert "every unit was removed" in reply.error


def test_exports(server, job):
    key = job["key"]
    saved = server.get(f"/api/explanations/{key}?download=true")
    assert (
        saved.headers["content-disposition"] == f'attachment; filename="explanation-{key[:8]}.json"'
    )
    assert Explanation.from_dict(saved.json).text == TEXT
    picture = server.get(f"/api/explanations/{key}/figure.svg?kind=bars")
    assert picture.headers["content-type"] == "image/svg+xml"
    assert ET.fromstring(picture.body).tag.endswith("svg")
    photo = server.get(f"/api/explanations/{key}/figure.png")
    assert photo.body.startswith(b"\x89PNG")
    page = server.get(f"/api/report.html?keys={key}")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "sandbox" in page.headers["content-security-policy"]
    assert b"wonderful" in page.body
    two = server.explained("Dull and tired.", budget=40)["key"]
    both = server.get(f"/api/report.html?keys={key},{two}")
    assert both.status == 200
    assert b"tired" in both.body


def test_the_snippet_runs_and_repeats_the_result(server, tiny_folder, tmp_path):
    server.ready("tiny")
    settings = {"granularity": "word", "budget": 50, "seed": 5, "removal": "mask"}
    job = server.explained("a 'good' film", model="tiny", **settings)
    code = server.get(f"/api/explanations/{job['key']}/snippet").json["python"]
    assert repr(str(tiny_folder)) in code
    code += f"explanation.save({str(tmp_path / 'again.json')!r})\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    again = (tmp_path / "again.json").read_bytes()
    assert again == server.get(f"/api/explanations/{job['key']}").body


def test_the_snippet_of_the_usual_settings_is_short(server):
    server.ready()
    job = server.explained("A fine film, and short.")
    code = server.get(f"/api/explanations/{job['key']}/snippet").json["python"]
    assert code.splitlines()[2:4] == ["explainer = Explainer()", "text = 'A fine film, and short.'"]


def test_what_the_server_says_about_itself(server):
    server.ready()
    assert server.get("/healthz").json == {"status": "ok"}
    assert "slalom" in {method["name"] for method in server.get("/api/methods").json["methods"]}
    example = server.get("/api/example").json["text"]
    assert len(example.split()) > 50
    model = server.model("embedded")
    assert model["labels"] == ["negative", "positive"]
    assert model["limit"] == 512
    numbers = server.get("/metrics").body.decode()
    assert 'slalom_model_ready{model="embedded"} 1' in numbers
    assert 'slalom_model_ready{model="<script>alert(1)</script>"} 0' in numbers
    assert "# TYPE slalom_jobs gauge" in numbers
    paths = json.loads(server.get("/api/openapi.json").body)["paths"]
    assert {"/api/jobs", "/api/predict", "/api/data/rows", "/api/models"} <= set(paths)
