r"""Are scores as certain as they say? Other seeds, and many more calls, on real models.

    python -m research.benchmarks.seeds --model FOLDER --data reviews.jsonl.gz --texts 24 \
        --out seeds.jsonl [--budget 2000] [--seeds 10] [--many 40000] [--shard 1/3]
    python -m research.benchmarks.seeds --tables seeds.jsonl [more.jsonl ...]

Each text is explained with several seeds, which draw other rows. **Spread** is the standard
deviation of a score over seeds, over its stated standard error (root mean squares over units). If
the stated error holds, that is about 1. A measured score does not move, and its spread is 0.
**Cover** is the share of 90% intervals that hold what many more calls give. A line of the output is
one score of one text; a second run goes on where the first stopped.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from research.benchmarks.results_file import read, shard
from slalom_xai import Explainer, Explanation
from slalom_xai.data.tables import read_table
from slalom_xai.errors import SlalomError
from slalom_xai.system.files import append_line
from slalom_xai.system.result_folder import read_lines
from slalom_xai.system.shards import SHARD_HELP

SCORES = ("value", "importance", "removal", "alone", "slope", "shapley")
REFERENCE_SEED = 1000
NINETY = 1.645  # standard errors on either side of a 90% interval


def main() -> None:
    """Measures, or prints the table of earlier measurements."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", help="folder of a classifier")
    parser.add_argument("--data", type=Path, help="table with a field text")
    parser.add_argument("--out", type=Path, default=Path("seeds.jsonl"))
    parser.add_argument("--texts", type=int, default=24)
    parser.add_argument("--budget", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--many", type=int, default=40_000, help="calls of the reference")
    parser.add_argument("--device")
    parser.add_argument("--shard", type=shard, default="1/1", help=SHARD_HELP)
    parser.add_argument("--tables", type=Path, nargs="+", help="print tables of earlier results")
    given = parser.parse_args()
    if given.tables:
        tables(given.tables)
    elif given.model is None or given.data is None:
        parser.error("give --model and --data, or --tables with earlier results")
    else:
        torch.set_grad_enabled(False)
        run(given)


def run(given: argparse.Namespace) -> None:
    """Works through the texts of one shard."""
    first = Explainer(given.model, dtype="float32", device=given.device, show_progress=False)
    texts = [str(text) for text in read_table(given.data).cells("text")][: given.texts]
    done = _done(given.out)
    for number in filter(given.shard.has, range(len(texts))):
        if number in done:
            continue
        try:
            explained = [
                explain(first, texts[number], given.budget, seed) for seed in range(given.seeds)
            ]
            reference = explain(first, texts[number], given.many, REFERENCE_SEED)
        except SlalomError as error:
            records: list[dict[str, Any]] = [{"failed": str(error)}]
        else:
            records = list(compared(explained, reference))
        for record in records:
            named = {"model": Path(given.model).name, "text": number, **record}
            append_line(given.out, json.dumps(named))


def explain(explainer: Explainer, text: str, budget: int, seed: int) -> Explanation:
    """One explanation."""
    return Explainer(explainer.model, budget=budget, random_state=seed, show_progress=False)(text)


def compared(explained: list[Explanation], reference: Explanation) -> Iterator[dict[str, Any]]:
    """Spread and cover of each score."""
    for name in SCORES:
        scores = np.stack([one.scores(name) for one in explained])  # (seeds, n)
        errors = np.stack([one.standard_errors[name] for one in explained])
        spread = float(np.sqrt(scores.var(axis=0, ddof=1).mean()))
        stated = float(np.sqrt((errors**2).mean()))
        covered = np.abs(scores - reference.scores(name)) <= NINETY * errors + 1e-9
        yield {
            "score": name,
            "source": explained[0].source(name),
            "units": scores.shape[1],
            "spread": spread,
            "stated": stated,
            "covered": float(covered.mean()),
        }


def _done(path: Path) -> set[int]:
    """Texts that an earlier run has measured."""
    return {one["text"] for one in read_lines(path)}


def tables(paths: list[Path]) -> None:
    """One line per model and score: the median over texts of spread over error, and the cover."""
    rows = pd.DataFrame(read(paths))
    if "failed" in rows:
        print(f"{rows['failed'].notna().sum()} texts left out: {set(rows['failed'].dropna())}\n")
        rows = rows[rows["failed"].isna()]
    print("| model | texts | score | source | spread over stated error | 90% intervals cover |")
    print("| --- | --- | --- | --- | --- | --- |")
    for (model, score), group in rows.groupby(["model", "score"], sort=False):
        source = "/".join(sorted(set(group["source"])))
        ratio = (group["spread"] / group["stated"].where(group["stated"] > 0)).fillna(0.0)
        told = f"{ratio.median():.2f} (largest {ratio.max():.2f})"
        cover = "" if source == "measured" else f"{group['covered'].mean():.2f}"
        print(f"| {model} | {len(group)} | {score} | {source} | {told} | {cover} |")


if __name__ == "__main__":
    main()
