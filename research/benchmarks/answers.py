r"""Which sources made an answer: our scores beside those of others, with 16 to 128 calls.

    python scripts/gguf_to_folder.py SmolLM2-135M-Instruct.Q4_1.gguf smollm2
    python -m research.benchmarks.answers --model smollm2 --data FOLDER --rows rows.npz \
        --out answers.jsonl [--prompts 100] [--methods slalom] [--calls 16,32,64,128] \
        [--seconds 500] [--shard 1/3]
    python -m research.benchmarks.answers --tables answers.jsonl [answers-2.jsonl ...]
    python -m research.benchmarks.answers --refit rows.npz --out refitted.jsonl \
        [--calls 16,32,64,128]

The prompts have 20 to 60 sources (``answers_prompts``). Explained is the logit of the model's own
answer of up to 32 tokens. For each prompt the rows of ``answers_rows`` are asked and kept in
``--rows``. Then every method is fitted with each number of calls, all of them counted:
``answers_fits`` to these rows, and ``--methods`` of the package through ``Explainer``, which asks
its own. A method that needs more calls than it has is left out. Measured are

    half, size   on 64 rows each that no method was fitted to, which keep half of the sources or any
                 number of them: the rank correlation with the prediction, and R²
                 (in tables a prompt's R² counts as -1 at least: where rows hardly differ, any
                 prediction that is a bit off has one far below, which would decide the mean)
    drop         by how much the answer's log probability falls without the 1, 3 and 5 sources of
                 the largest score; of the package's methods that is ``shapley``

A line of the output is one prompt. ``--refit`` fits again to stored rows, without the model: there
is no drop then, and nothing from the package. ``--tables`` prints means over prompts with 95%
intervals (bootstrap), and each method's difference from ``contextcite``, prompt by prompt.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from research.benchmarks.answers_fits import FITS, Fitted
from research.benchmarks.answers_prompts import Prompt, Sizes, make_prompts
from research.benchmarks.answers_rows import Array, Masks, Rows, draw_rows, load_rows, save_rows
from research.benchmarks.answers_tables import print_tables
from research.benchmarks.results_file import shard
from slalom_xai import AnswerModel, Explainer
from slalom_xai.errors import BudgetError, SlalomError
from slalom_xai.models import prompt as grouped
from slalom_xai.models.answer_spans import log_probabilities
from slalom_xai.queries import Batches
from slalom_xai.system.shards import SHARD_HELP

TOP = (1, 3, 5)


class Asked:
    """One prompt, put to the language model: the rows that were asked, and more on demand.

    Args:
        model: the language model, explained token by token.
        prompt: the question with its sources.
        rng: draws the rows.
    """

    def __init__(self, model: AnswerModel, prompt: Prompt, rng: np.random.Generator) -> None:
        self._model = model.asking(prompt.sources, prompt.question)
        self._question = grouped(self._model.read(self._model.context), "passage")
        self._batches = Batches(self._model)
        masks, kinds = draw_rows(len(prompt.sources), rng)
        logits = self._ask(masks)
        tokens = log_probabilities(logits[:, 1:]).float().cpu().numpy()
        whole = logits[:, 0].cpu().numpy()
        self.rows = Rows(prompt, self._model.reply, masks, kinds, tokens, whole)

    def _ask(self, masks: Masks) -> Tensor:
        """Logits (rows, 1 + tokens), each distinct row asked once."""
        distinct, back = np.unique(masks, axis=0, return_inverse=True)
        answers = self._batches.columns([self._question.rows(distinct)])[0]
        return answers[torch.as_tensor(back.reshape(-1), device=answers.device)]

    def chances(self, masks: Masks) -> Array:
        """The log probability of the answer, (rows,)."""
        return np.asarray(log_probabilities(self._ask(masks)[:, 0]).cpu().numpy())


def explained(model: AnswerModel, method: str, rows: Rows, calls: int) -> Fitted | None:
    """What a method of the package finds; None where it needs more calls."""
    try:
        explainer = Explainer(model, method=method, budget=calls, show_progress=False)
        explanation = explainer(sources=rows.prompt.sources, question=rows.prompt.question)
    except BudgetError:
        return None
    return Fitted(explanation.scores("shapley"), explanation.predict)


def fits(
    rows: Rows, budgets: list[int], model: AnswerModel | None, methods: list[str]
) -> Iterator[tuple[str, int, Fitted]]:
    """Every method with every number of calls, where it can do with them."""
    for calls in budgets:
        for name, fit in FITS.items():
            fitted = fit(rows, calls)
            if fitted is not None:
                yield name, calls, fitted
        for method in methods if model is not None else []:
            fitted = explained(model, method, rows, calls) if model is not None else None
            if fitted is not None:
                yield method, calls, fitted


def measured(rows: Rows, fitted: Fitted) -> dict[str, float]:
    """Rank correlation and R² on the rows that were held out."""
    from scipy.stats import spearmanr

    numbers = {}
    for kind in ("half", "size"):
        masks, logits = rows.of(f"held-{kind}")
        predicted = fitted.predict(masks)
        constant = np.ptp(predicted) == 0  # ranks nothing
        numbers[f"{kind} rank"] = 0.0 if constant else float(spearmanr(predicted, logits)[0])
        error = float(np.square(predicted - logits).mean())
        numbers[f"{kind} r2"] = 1 - error / float(logits.var())
    return numbers


def drops(asked: Asked, scores: dict[str, Array]) -> dict[str, dict[str, float]]:
    """By how much the answer's log probability falls without the top sources, for each fit."""
    units = asked.rows.masks.shape[1]
    rows = [np.ones(units, dtype=bool)]
    for found in scores.values():
        order = np.argsort(-found, kind="stable")
        for top in TOP:
            kept = np.ones(units, dtype=bool)
            kept[order[:top]] = False
            rows.append(kept)
    chances = asked.chances(np.array(rows))
    lost = (chances[0] - chances[1:]).reshape(len(scores), len(TOP))
    names = [f"drop {top}" for top in TOP]
    return {
        name: dict(zip(names, map(float, numbers), strict=True))
        for name, numbers in zip(scores, lost, strict=True)
    }


def measure_prompt(
    rows: Rows,
    budgets: list[int],
    asked: Asked | None = None,
    model: AnswerModel | None = None,
    methods: tuple[str, ...] = (),
) -> dict[str, Any]:
    """A line of the output."""
    numbers: dict[str, dict[str, float]] = {}
    scores: dict[str, Array] = {}
    for method, calls, fitted in fits(rows, budgets, model, list(methods)):
        name = f"{method} {calls}"
        numbers[name] = measured(rows, fitted)
        scores[name] = fitted.scores
    if asked is not None:
        for name, lost in drops(asked, scores).items():
            numbers[name] |= lost
    about = {"kind": rows.prompt.kind, "sources": len(rows.prompt.sources), "answer": rows.answer}
    return {**about, "whole": rows.whole, "empty": rows.empty, "numbers": numbers}


def ask_all(given: argparse.Namespace, budgets: list[int]) -> None:
    """Asks the model about all prompts, and measures the methods."""
    end = time.monotonic() + given.seconds
    options = {"device": given.device, "dtype": given.dtype}
    tokens = AnswerModel(given.model, spans="tokens", **options)
    model = AnswerModel(tokens.lm, tokens.tokenizer)
    methods = tuple(name for name in given.methods.split(",") if name)
    fewest, most = (int(number) for number in given.sources.split(","))
    sizes = Sizes(fewest, most, given.words)
    prompts = make_prompts(given.data, given.prompts, given.seed, sizes)
    every: list[Rows] = []
    with given.out.open("w", encoding="utf-8") as out:
        for number in filter(given.shard.has, range(len(prompts))):
            if time.monotonic() > end:
                break
            prompt = prompts[number]
            began = time.monotonic()
            try:
                asked = Asked(tokens, prompt, np.random.default_rng([given.seed, number]))
            except SlalomError as error:  # said, and not counted
                print(f"prompt {number} ({prompt.kind}) left out: {error}", file=sys.stderr)
                continue
            every.append(asked.rows)
            if given.rows:
                save_rows(given.rows, every)
            line = measure_prompt(asked.rows, budgets, asked, model, methods)
            seconds = round(time.monotonic() - began, 1)
            out.write(json.dumps({"prompt": number, "seconds": seconds, **line}) + "\n")
            out.flush()
            print(f"{number + 1} of {len(prompts)}: {prompt.kind}, {seconds} s", flush=True)


def main() -> None:
    """Asks, fits again, or prints tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", help="folder or hub id of a causal language model")
    parser.add_argument("--data", type=Path, help="folder of ag_news_test, yelp_train, imdb_test")
    parser.add_argument("--rows", type=Path, help="where rows and answers are kept (.npz)")
    parser.add_argument("--out", type=Path, help="results, one line per prompt")
    parser.add_argument("--refit", type=Path, metavar="ROWS", help="fit to stored rows")
    parser.add_argument(
        "--tables", type=Path, metavar="RESULTS", nargs="+", help="print tables and stop"
    )
    parser.add_argument("--prompts", type=int, default=100)
    parser.add_argument("--shard", type=shard, default="1/1", help=SHARD_HELP)
    parser.add_argument("--sources", default="20,60", help="in a prompt: fewest and most")
    parser.add_argument("--words", type=int, default=35, help="of a source at most")
    parser.add_argument("--methods", default="slalom", help="of the package, by commas")
    parser.add_argument("--calls", default="16,32,64,128")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop between two prompts")
    parser.add_argument("--device", default=None)
    parser.add_argument("--dtype", default=None)
    given = parser.parse_args()
    budgets = [int(calls) for calls in given.calls.split(",")]
    if given.tables:
        print_tables(given.tables)
    elif given.refit and given.out:
        lines = [json.dumps(measure_prompt(rows, budgets)) for rows in load_rows(given.refit)]
        given.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
        print_tables([given.out])
    elif given.model and given.data and given.out:
        ask_all(given, budgets)
        print_tables([given.out])
    else:
        parser.error("give --model, --data and --out; or --refit and --out; or --tables")


if __name__ == "__main__":
    main()
