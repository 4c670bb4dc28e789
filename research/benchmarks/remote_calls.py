r"""Errors of explanations by sentence through a server with few calls, beside LIME with many.

    python -m research.benchmarks.remote_calls reviews.jsonl.gz [--texts 24] [--calls 64] \
        [--lime-calls 500]

The server is in this process: OpenAI's protocol around the embedded classifier, whose log odds
become the log-probabilities of two tokens. ``slalom`` asks it through ``RemoteClassifier``; LIME
asks the classifier itself. Both explain the same sentences. Each text is then asked about by 200
wide deletions (1 to all but one sentence, subsets uniform), less those that ``slalom`` has asked,
and the error is the mean square of what the predicted change of the log odds is off. Texts have 10
to 16 sentences, so that distinct rows do not run out. Those that need more than ``--calls`` are
counted and left out.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Sequence
from typing import Any

import httpx
import numpy as np
import torch
from numpy.typing import NDArray
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from slalom_xai import Explainer, Explanation
from slalom_xai.data.tables import read_table
from slalom_xai.errors import BudgetError
from slalom_xai.models import TextModel, prompt
from slalom_xai.models.remote import RemoteClassifier
from slalom_xai.queries import Batches

FEWEST, MOST = 10, 16  # sentences
HELD_OUT = 200  # rows
START, END = "<<", ">>"
LABELS = {"negative": "0", "positive": "1"}


class EmbeddedServer:
    """The embedded classifier behind OpenAI's protocol."""

    def __init__(self, model: TextModel) -> None:
        self._batches = Batches(model)
        self._model = model
        self.asked: list[str] = []

    @property
    def transport(self) -> httpx.ASGITransport:
        """Takes the place of the network."""
        path = "/v1/chat/completions"
        return httpx.ASGITransport(Starlette(routes=[Route(path, self._serve, methods=["POST"])]))

    async def _serve(self, request: Request) -> JSONResponse:
        body = await request.json()
        text = body["messages"][-1]["content"].split(START)[1].split(END)[0]
        self.asked.append(text)
        odds = self.log_odds([text])[0]
        logs = [-math.log1p(math.exp(odds)), -math.log1p(math.exp(-odds))]
        entries = [{"token": str(index), "logprob": log} for index, log in enumerate(logs)]
        content = [{**entries[0], "top_logprobs": entries}]
        message = {"role": "assistant", "content": "1" if odds > 0 else "0"}
        answer: dict[str, Any] = {
            "choices": [{"message": message, "logprobs": {"content": content}}]
        }
        answer["usage"] = {"prompt_tokens": len(text) // 4, "completion_tokens": 1}
        return JSONResponse(answer)

    def log_odds(self, texts: Sequence[str]) -> list[float]:
        """Of the class "positive", for whole texts."""
        rows = [prompt(self._model.read(text, truncation=True), "token") for text in texts]
        wholes = [each.rows(each.whole) for each in rows]
        return [float(columns[0, 0]) for columns in self._batches.columns(wholes)]

    def probabilities(self, texts: list[str]) -> NDArray[np.float64]:
        """Of both classes, (texts, 2), as LIME's convention has them."""
        good = 1 / (1 + np.exp(-np.array(self.log_odds(texts))))
        return np.stack([1 - good, good], axis=1)


def wide_error(explanation: Explanation, server: EmbeddedServer, seed: int) -> float:
    """The mean squared error on wide deletions."""
    rng = np.random.default_rng([seed, 1])
    units = len(explanation.units)
    keep = np.ones((HELD_OUT, units), dtype=bool)
    for row in keep:
        row[rng.choice(units, size=rng.integers(1, units), replace=False)] = False
    keep = np.unique(keep, axis=0)
    question = prompt(Explainer(server.probabilities).model.read(explanation.text), "sentence")
    keep = keep[[str(question.row(row)) not in server.asked for row in keep]]
    rows = [str(question.row(row)) for row in keep]
    asked = np.array(server.log_odds([explanation.text, *rows]))
    predicted = explanation.predict(np.concatenate([np.ones((1, units), dtype=bool), keep]))
    wrong = (predicted[1:] - predicted[0]) - (asked[1:] - asked[0])
    return float((wrong**2).mean())


def chosen(path: str, wanted: int, seed: int) -> list[str]:
    """Texts with so many sentences as are looked for."""
    texts = [str(cell) for cell in read_table(path).cells("text")]
    random.Random(seed).shuffle(texts)
    reader = Explainer(lambda rows: np.full((len(rows), 2), 0.5)).model
    found: list[str] = []
    for text in texts:
        units = len(prompt(reader.read(text), "sentence").units)
        if FEWEST <= units <= MOST and len(found) < wanted:
            found.append(text)
    return found


def main() -> None:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", help="table with a column text")
    parser.add_argument("--texts", type=int, default=24)
    parser.add_argument("--calls", type=int, default=64)
    parser.add_argument("--lime-calls", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    embedded = Explainer(show_progress=False).model
    server = EmbeddedServer(embedded)
    lime = Explainer(
        server.probabilities, method="lime", granularity="sentence", budget=given.lime_calls
    )
    ours: list[float] = []
    theirs: list[float] = []
    too_few = 0
    print("| sentences | calls | `slalom` | `lime` |\n| --- | --- | --- | --- |", flush=True)
    for number, text in enumerate(chosen(given.data, given.texts, given.seed)):
        remote = RemoteClassifier(
            "http://localhost/v1",
            "embedded",
            LABELS,
            f"Good or bad? {START}{{text}}{END}",
            transport=server.transport,
        )
        server.asked.clear()
        try:
            few = Explainer(remote, granularity="sentence", budget=given.calls, cache=False)(text)
        except BudgetError:
            too_few += 1
            continue
        calls = len(server.asked)
        with torch.no_grad():
            ours.append(wide_error(few, server, number))
            theirs.append(wide_error(lime(text), server, number))
        line = f"| {len(few.units)} | {calls} | {ours[-1]:.4f} | {theirs[-1]:.4f} |"
        print(line, flush=True)
    wins = sum(a <= b for a, b in zip(ours, theirs, strict=True))
    print(
        f"\n{len(ours)} texts ({too_few} need more than {given.calls} calls). Wide error: "
        f"slalom with {given.calls} calls {np.mean(ours):.4f} (median {np.median(ours):.4f}), "
        f"LIME with {given.lime_calls} {np.mean(theirs):.4f} (median {np.median(theirs):.4f}); "
        f"ours is no larger on {wins}."
    )


if __name__ == "__main__":
    main()
