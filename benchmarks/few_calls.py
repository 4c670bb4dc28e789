r"""Errors of explanations from few and from many calls, beside what else the calls could teach.

    python -m benchmarks.few_calls --model FOLDER --data reviews.jsonl.gz --out few.jsonl \
        [--texts 20] [--seed 1] [--offset 100] [--without seen.jsonl.gz] [--race 20] [--seconds 200]
    python -m benchmarks.few_calls --tables few.jsonl [more.jsonl ...]

Texts are the beginnings of those in a table, cut at the end of a sentence: short ones of 15 to 40
tokens and long ones of 50 to 130. ``--seed`` chooses them. ``--offset`` leaves out the beginning of
the table, and ``--without`` the texts of other tables, where these have been used before.

Each text is asked about by 500 local (1 to 10 units deleted) and 500 wide deletions (1 to all but
one). No fit sees them: where ``slalom`` happens to ask one, it does not count for anybody at this
budget. On as many calls as ``slalom`` has, all fitted, the yardsticks are

    linear    ridge regressions with a cross-validated penalty: one on local deletions for the local
              error, one on wide deletions for the wide error
    gp        a Gaussian process on the rows of the method ``gp``, less those it tests itself with
    gp, all   the same on all its rows
    places    the same as ``gp``, but it knows how far units have moved up, as ``slalom`` does

A budget is left out where a text has fewer than four times as many distinct rows. ``--race`` times
``slalom``, ``slalom-few`` and ``lime`` on the first texts of both groups, one text after another:
which is the smallest budget at which the wide error is that of LIME at 5,000 calls?

A line of the output is one text at one budget. A second run goes on where the first stopped.
``--seconds`` stops between two of them.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.few_calls_ground import Ground, Keys, Predict, Watched
from benchmarks.few_calls_tables import print_tables
from slalom_xai import Explainer, Explanation
from slalom_xai.errors import SlalomError
from slalom_xai.models import TextModel, prompt
from slalom_xai.queries import Batches
from slalom_xai.tables import read_table
from slalom_xai.text.sentence_splitting import sentence_starts

GROUPS = {"short": (15, 40), "long": (50, 130)}  # tokens
BUDGETS = "300,500,1000,5000"
RACERS = {"slalom": (150, 200, 300, 500, 1000), "slalom-few": (64, 100, 150, 200, 300, 500)}
LIME_CALLS = 5000
KEY = ("model", "seed", "group", "text", "kind", "budget")  # of a line
Key = tuple[Any, ...]


@dataclass(frozen=True)
class Item:
    """A text to explain.

    Attributes:
        group: of texts.
        number: in it.
        text: itself.
    """

    group: str
    number: int
    text: str


def choose_texts(
    model: TextModel, texts: Sequence[str], wanted: int, seed: int
) -> dict[str, list[Item]]:
    """Beginnings of texts, so many in each group; no text is in two of them.

    Args:
        model: says how many tokens there are.
        texts: to choose from.
        wanted: in a group.
        seed: chooses.
    """
    rng = np.random.default_rng(seed)
    shuffled = iter(rng.permutation(len(texts)).tolist())
    chosen: dict[str, list[Item]] = {}
    for group, (least, most) in GROUPS.items():
        items: list[Item] = []
        while len(items) < wanted and (index := next(shuffled, None)) is not None:
            aim = int(rng.integers(least, most + 1))
            begun = beginning(model, texts[index], least, aim)
            if begun is not None:
                items.append(Item(group, len(items), begun))
        chosen[group] = items
    return chosen


def beginning(model: TextModel, text: str, least: int, most: int) -> str | None:
    """The longest beginning up to the end of a sentence that has so many tokens, if there is one.

    Args:
        model: reads it.
        text: whole.
        least: tokens.
        most: tokens.
    """
    longest = None
    for end in [*sentence_starts(text)[1:], len(text)]:
        part = text[:end].strip()
        if not part:
            continue
        tokens = len(prompt(model.read(part, truncation=True), "token").units)
        if tokens > most:
            break
        if tokens >= least:
            longest = part
    return longest


class Run:
    """Measures one model.

    Args:
        given: the options.
    """

    def __init__(self, given: argparse.Namespace) -> None:
        self._given = given
        self._end: float = time.monotonic() + given.seconds
        loaded = Explainer(given.model, dtype="float32", device=given.device, show_progress=False)
        self._model = loaded.model
        self._name = Path(given.model).name if given.model else "embedded"
        self._batches = Batches(self._model)
        self._explainers: dict[tuple[str, int], Watched] = {}
        self._budgets = [int(budget) for budget in given.budgets.split(",")]
        self._done = self._read_done()

    def measure_all(self) -> None:
        """Works through the texts, short and long ones by turns."""
        given, began = self._given, time.monotonic()
        chosen = choose_texts(self._model, self._texts(), given.texts, given.seed)
        first = next(items[0] for items in chosen.values() if items)
        Explainer(self._model, budget=self._budgets[0], show_progress=False)(first.text)  # warms up
        for start in range(0, given.texts, given.at_once):
            for items in chosen.values():
                self._measure(items[start : start + given.at_once])
        counts = ", ".join(
            f"{sum(map(self._is_done, items))} of {len(items)} {group} texts"
            for group, items in chosen.items()
        )
        print(f"{self._name}: {counts}, {time.monotonic() - began:.0f} s")

    def _texts(self) -> list[str]:
        """Those that may be used."""
        given = self._given
        used = {str(text) for path in given.without for text in read_table(path).cells("text")}
        texts = [str(text) for text in read_table(given.data).cells("text")][given.offset :]
        return [text for text in texts if text not in used]

    def _measure(self, items: Sequence[Item]) -> None:
        """A few texts at all budgets, and then the race of those that take part in it."""
        left = [item for item in items if not self._is_done(item)]
        racing = [item for item in items if item.number < self._given.race // len(GROUPS)]
        racing = [item for item in racing if self._key(item, "race", LIME_CALLS) not in self._done]
        grounds: dict[Item, Ground] = {}
        for item in dict.fromkeys([*left, *racing]):
            if self._late:
                return
            grounds[item] = self._ground(item)
        for budget in self._budgets:
            if self._late:
                return
            some = [item for item in left if self._key(item, "errors", budget) not in self._done]
            self._compare({item: grounds[item] for item in some}, budget)
        for item in racing:
            if self._late:
                return
            self._race(item, grounds[item])

    def _compare(self, grounds: dict[Item, Ground], budget: int) -> None:
        """Errors of a few texts at one budget: those of a list share batches and fits."""
        able = [item for item, ground in grounds.items() if budget in ground.budgets]
        for item in [item for item in grounds if item not in able]:
            self._write(item, "errors", budget, {"failed": "too few distinct rows"})
        if not able:
            return
        explainer = self._explainer("slalom", budget)
        start = time.perf_counter()
        try:
            explanations = explainer([item.text for item in able])
        except SlalomError as error:
            for item in able:
                self._write(item, "errors", budget, {"failed": str(error)})
            return
        seconds = (time.perf_counter() - start) / len(able)
        for item, explanation in zip(able, explanations, strict=True):
            asked = explainer.asked[item.text]
            try:
                found = compared(grounds[item], explanation, budget, asked)
            except RuntimeError as error:  # torch's, of a matrix that has no factor
                found = {"failed": str(error)}
            self._write(item, "errors", budget, {"seconds": seconds, **found})

    def _race(self, item: Item, ground: Ground) -> None:
        """One text by LIME with many calls and by our methods with few, each by itself."""
        ours = [(name, calls) for name, budgets in RACERS.items() for calls in budgets]
        for method, budget in [*ours, ("lime", LIME_CALLS)]:
            explainer = self._explainer(method, budget)
            try:
                if not explainer.asked:
                    explainer(item.text)  # warms up
                start = time.perf_counter()
                explanation = explainer(item.text)
                seconds = time.perf_counter() - start
            except SlalomError as error:
                found: dict[str, Any] = {"failed": str(error)}
            else:
                predict = on_device(explanation.function.predict, ground.full.device)
                found = {"seconds": seconds, **ground.errors(predict, explainer.asked[item.text])}
            self._write(item, "race", budget, {"method": method, **found})

    def _explainer(self, method: str, budget: int) -> Watched:
        """One for each method and budget, which keeps what it learnt of the model."""
        if (method, budget) not in self._explainers:
            self._explainers[method, budget] = Watched(self._model, method, budget)
        return self._explainers[method, budget]

    def _ground(self, item: Item) -> Ground:
        rng = np.random.default_rng([self._given.seed, list(GROUPS).index(item.group), item.number])
        question = prompt(self._model.read(item.text), "token")
        return Ground(self._batches, question, self._budgets, rng)

    @property
    def _late(self) -> bool:
        return time.monotonic() > self._end

    def _is_done(self, item: Item) -> bool:
        return all(self._key(item, "errors", budget) in self._done for budget in self._budgets)

    def _key(self, item: Item, kind: str, budget: int) -> Key:
        return self._name, self._given.seed, item.group, item.number, kind, budget

    def _read_done(self) -> set[Key]:
        """What an earlier run has measured."""
        if not self._given.out.is_file():
            return set()
        lines = map(json.loads, self._given.out.read_text().splitlines())
        return {tuple(line[name] for name in KEY) for line in lines}

    def _write(self, item: Item, kind: str, budget: int, found: dict[str, Any]) -> None:
        """Adds a line."""
        key = self._key(item, kind, budget)
        with self._given.out.open("a") as file:
            file.write(json.dumps({**dict(zip(KEY, key, strict=True)), **found}) + "\n")
        self._done.add(key)


def compared(ground: Ground, explanation: Explanation, budget: int, asked: Keys) -> dict[str, Any]:
    """Errors of an explanation and of the yardsticks on the same rows."""
    device = ground.full.device
    function = explanation.function
    two_scores = getattr(function, "two_scores", None)  # none of a linear function
    found: dict[str, Any] = {
        "units": ground.units,
        "calls": explanation.calls,
        "variance": ground.variances(asked),
        "slalom": ground.errors(on_device(function.predict, device), asked),
        "linear": ground.linear_errors(budget, asked),
        "gp": ground.process_errors(budget, asked),
        "gp_all": ground.process_errors(budget, asked, all_calls=True),
        "places": ground.process_errors(budget, asked, places=True),
    }
    if two_scores is not None:
        found["two_scores"] = ground.errors(on_device(two_scores.predict, device), asked)
    return found


def on_device(predict: Predict, device: torch.device) -> Predict:
    """A function of explanations, which are on the CPU, for rows that are elsewhere."""

    def predicted(counts: Tensor) -> Tensor:
        return predict(counts.cpu()).to(device)

    return predicted


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures, or prints tables of earlier measurements; by default as the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", help="folder of a classifier; the embedded one by default")
    parser.add_argument("--data", type=Path, help="table with a field text")
    parser.add_argument("--out", type=Path, default=Path("few_calls.jsonl"))
    parser.add_argument("--texts", type=int, default=20, help="in each group")
    parser.add_argument("--seed", type=int, default=0, help="chooses the texts")
    parser.add_argument("--offset", type=int, default=0, help="texts to leave out at the beginning")
    parser.add_argument("--without", type=Path, nargs="*", default=[], help="tables of used texts")
    parser.add_argument("--budgets", default=BUDGETS)
    parser.add_argument("--race", type=int, default=0, help="texts of the race with LIME, in all")
    parser.add_argument("--at-once", type=int, default=5, help="texts that are explained together")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so many")
    parser.add_argument("--device")
    parser.add_argument("--tables", type=Path, nargs="+", help="print tables of earlier results")
    given = parser.parse_args(arguments)
    if given.tables:
        print_tables(given.tables)
    elif given.data is None:
        parser.error("give --data, or --tables with earlier results")
    else:
        with torch.no_grad():
            Run(given).measure_all()
        if given.out.is_file():
            print_tables([given.out])


if __name__ == "__main__":
    main()
