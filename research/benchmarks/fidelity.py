r"""How well explanations predict deletions, beside linear fits made for one regime alone.

    python -m research.benchmarks.fidelity --model FOLDER --data reviews.jsonl.gz --texts 30 \
        --out results.jsonl [--budgets 500,2000,5000] [--shard 1/3] [--ceiling]
    python -m research.benchmarks.fidelity --tables results.jsonl [more.jsonl ...] \
        [--over old.jsonl ...]

Each text is asked about by 2,000 local (1 to 10 units deleted) and 2,000 wide deletions (1 to all
but one) that no method sees. The yardsticks are ridge regressions with a cross-validated penalty on
5,000 local and on 5,000 wide deletions. A line of the output is one method at one budget on one
text; a second run goes on where the first stopped. ``--ceiling`` also fits a Gaussian process
(``gp``) to as many calls: what can be learnt from them, readable or not. The tables then say what
share of the variance that it explains each method explains, too. ``--over`` divides by the errors
that another version of the package left on the same texts (run this file with its ``src`` in
PYTHONPATH).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from research.benchmarks.results_file import read, shard
from slalom_xai import Explainer
from slalom_xai.data.tables import read_table
from slalom_xai.errors import SlalomError
from slalom_xai.methods.additive import fit_additive
from slalom_xai.methods.evidence import ask_masks
from slalom_xai.models import prompt
from slalom_xai.queries import Batches, Queries
from slalom_xai.slalom.rows import RowPool, uniform_counts
from slalom_xai.system.files import append_line
from slalom_xai.system.result_folder import read_lines
from slalom_xai.system.shards import SHARD_HELP

TEST = 2000  # held-out rows of either regime
YARDSTICK = 5000  # rows that the linear fits are made from
REGIMES = ("local", "wide")
CEILING = "gp"
METHODS = "slalom,slalom-fidel,linear"
BOOTSTRAPS = 2000  # draws of texts, for the intervals


class Ground:
    """The truth about one text: held-out rows, and what linear fits for one regime reach there."""

    def __init__(self, explainer: Explainer, text: str, seed: int) -> None:
        model = explainer.model
        question = prompt(model.read(text), "token")
        self.units = len(question.units)
        queries = Queries(Batches(model), question, budget=2**60)
        rng = np.random.default_rng([seed, 77])
        pool = RowPool(question.interchangeable, question.keys)
        counts = {
            "local": uniform_counts(1, min(10, self.units - 1), rng),
            "wide": uniform_counts(1, self.units - 1, rng),
        }
        self.test = {
            name: ask_masks(queries, pool.draw(TEST, deleted, rng, quota=True), "check")
            for name, deleted in counts.items()
        }
        # Of the changes, which all methods are to explain.
        self.variance = {
            name: float(rows.outputs.var(dim=0, unbiased=False).mean())
            for name, rows in self.test.items()
        }
        self.full = queries.ask(np.ones((1, self.units), dtype=bool))[0]
        self.yardstick = {}
        for name, deleted in counts.items():
            rows = ask_masks(queries, pool.draw(YARDSTICK, deleted, rng), "check")
            linear = fit_additive(rows.table, rows.outputs, self.full).surrogate
            self.yardstick[name] = self.error(linear.predict, name)

    def error(self, predict: Callable[[torch.Tensor], torch.Tensor], regime: str) -> float:
        """Mean squared error of predicted changes."""
        rows = self.test[regime]
        whole = predict(torch.ones_like(rows.table[:1]))
        predicted, true = predict(rows.table) - whole, rows.outputs - self.full
        return float((predicted - true).pow(2).mean())


def measured(
    explainer: Explainer, text: str, ground: Ground, method: str, budget: int
) -> dict[str, Any]:
    """One method at one budget on one text."""
    explanation = Explainer(explainer.model, method=method, budget=budget, show_progress=False)(
        text
    )
    function = explanation.function
    device = ground.full.device

    def predict(counts: torch.Tensor) -> torch.Tensor:
        return function.predict(counts.cpu()).to(device)

    return {
        "local": ground.error(predict, "local"),
        "wide": ground.error(predict, "wide"),
        "calls": explanation.calls,
        "surrogate": explanation.surrogate,
    }


def run(given: argparse.Namespace) -> None:
    """Works through the texts of one shard."""
    explainer = Explainer(given.model, dtype="float32", device=given.device, show_progress=False)
    texts = [str(text) for text in read_table(given.data).cells("text")][: given.texts]
    done = _done(given.out)
    jobs = _jobs(given)
    for number in filter(given.shard.has, range(len(texts))):
        left = [job for job in jobs if (number, *job) not in done]
        if not left:
            continue
        ground = Ground(explainer, texts[number], number)
        for method, budget in left:
            try:
                result = measured(explainer, texts[number], ground, method, budget)
            except SlalomError as error:
                result = {"failed": str(error)}
            record = {
                "model": Path(given.model).name,
                "text": number,
                "units": ground.units,
                "method": method,
                "budget": budget,
                **result,
                **{f"linear_{name}": error for name, error in ground.yardstick.items()},
                **{f"variance_{name}": each for name, each in ground.variance.items()},
            }
            append_line(given.out, json.dumps(record))


def _done(path: Path) -> set[tuple[int, str, int]]:
    """Texts, methods and budgets that an earlier run has measured."""
    return {(one["text"], one["method"], one["budget"]) for one in read_lines(path)}


def _jobs(given: argparse.Namespace) -> list[tuple[str, int]]:
    """Methods and budgets."""
    budgets = [int(budget) for budget in given.budgets.split(",")]
    methods = given.methods.split(",")
    if given.ceiling and CEILING not in methods:
        methods.append(CEILING)
    jobs = [(method, budget) for budget in budgets for method in methods]
    jobs += [(method, YARDSTICK) for method in given.also.split(",") if method]
    return jobs


def tables(paths: list[Path]) -> None:
    """Ratios of mean errors and geometric means over texts, with 95% bootstrap intervals."""
    rows = _read(paths)
    rng = np.random.default_rng(0)
    print(
        "| model | texts | method | calls | local / linear | geometric | wide / linear | "
        "geometric | linear chosen |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for (model, method, budget), group in rows.groupby(["model", "method", "budget"], sort=False):
        cells = []
        for regime in REGIMES:
            cells += _ratio_cells(group, regime, rng)
        chosen = ""
        if method == "slalom":
            chosen = f"{(group['surrogate'] == 'linear').sum()}"
        start = f"| {model} | {len(group)} | `{method}` | {budget} |"
        print(f"{start} {' | '.join(cells)} | {chosen} |")
    _print_shares(rows, rng)
    _print_worst(rows)


def _print_shares(rows: pd.DataFrame, rng: np.random.Generator) -> None:
    """What methods explain of what the ceiling explains on as many calls, where it was fitted.

    Of variances summed over texts, with 95% bootstrap intervals.
    """
    if CEILING not in set(rows["method"]) or "variance_local" not in rows:
        return
    print(f"\nShare of the variance that `{CEILING}` explains on as many calls:\n")
    print("| model | texts | method | calls | local | wide |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in REGIMES:
        rows = rows.assign(**{f"explained_{name}": rows[f"variance_{name}"] - rows[name]})
    key = ["model", "text", "budget"]
    ceiling = rows[rows["method"] == CEILING].set_index(key)
    others = rows[rows["method"] != CEILING].set_index(key)
    both = others.join(ceiling.add_suffix("_ceiling"), how="inner").reset_index()
    for (model, method, budget), group in both.groupby(["model", "method", "budget"], sort=False):
        cells = []
        for name in REGIMES:
            own = group[f"explained_{name}"].to_numpy()
            most = group[f"explained_{name}_ceiling"].to_numpy()
            drawn = rng.integers(len(own), size=(BOOTSTRAPS, len(own)))
            low, high = np.quantile(own[drawn].mean(1) / most[drawn].mean(1), [0.025, 0.975])
            cells.append(f"{own.mean() / most.mean():.1%} [{low:.1%}, {high:.1%}]")
        print(f"| {model} | {len(group)} | `{method}` | {budget} | {' | '.join(cells)} |")


def tables_over(paths: list[Path], before: list[Path]) -> None:
    """Geometric means over texts of errors over those of another version, with 95% intervals."""
    key = ["model", "text", "method", "budget"]
    new, old = (_read(some).set_index(key) for some in (paths, before))
    both = new.join(old, rsuffix="_old", how="inner")
    rng = np.random.default_rng(0)
    print("| model | texts | method | calls | local, new over old | wide, new over old |")
    print("| --- | --- | --- | --- | --- | --- |")
    for (model, method, budget), group in both.groupby(["model", "method", "budget"], sort=False):
        cells = []
        for regime in REGIMES:
            logs = np.log((group[regime] / group[f"{regime}_old"]).to_numpy())
            drawn = rng.integers(len(logs), size=(BOOTSTRAPS, len(logs)))
            low, high = np.exp(np.quantile(logs[drawn].mean(1), [0.025, 0.975]))
            cells.append(f"{np.exp(logs.mean()):.2f} [{low:.2f}, {high:.2f}]")
        print(f"| {model} | {len(group)} | `{method}` | {budget} | {' | '.join(cells)} |")


def _read(paths: list[Path]) -> pd.DataFrame:
    """All lines of some files that hold a result."""
    rows = pd.DataFrame(read(paths))
    if "failed" in rows:
        print(f"{rows['failed'].notna().sum()} failures\n")
        rows = rows[rows["failed"].isna()]
    return rows


def _ratio_cells(group: pd.DataFrame, regime: str, rng: np.random.Generator) -> list[str]:
    """The ratio of mean errors with its interval, and the geometric mean of ratios."""
    own, linear = group[regime].to_numpy(), group[f"linear_{regime}"].to_numpy()
    drawn = rng.integers(len(own), size=(BOOTSTRAPS, len(own)))
    low, high = np.quantile(own[drawn].mean(1) / linear[drawn].mean(1), [0.025, 0.975])
    geometric = np.exp(np.log(own / linear).mean())
    return [f"{own.mean() / linear.mean():.2f} [{low:.2f}, {high:.2f}]", f"{geometric:.2f}"]


def _print_worst(rows: pd.DataFrame) -> None:
    """Where ``slalom`` is worst beside ``linear`` on as many calls, by model."""
    both = rows[rows["budget"] == YARDSTICK].pivot_table(
        index=["model", "text"], columns="method", values=list(REGIMES)
    )
    if ("local", "linear") not in both or ("local", "slalom") not in both:
        return
    for regime in REGIMES:
        worst = (both[(regime, "slalom")] / both[(regime, "linear")]).groupby("model").max()
        print(
            f"\nlargest {regime} error of one text over that of `linear` on as many calls: "
            f"{worst.round(2).to_dict()}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", help="folder of a classifier")
    parser.add_argument("--data", type=Path, help="table with a field text")
    parser.add_argument("--out", type=Path, default=Path("fidelity.jsonl"))
    parser.add_argument("--texts", type=int, default=30)
    parser.add_argument("--budgets", default="500,2000,5000")
    parser.add_argument("--methods", default=METHODS)
    parser.add_argument(
        "--also", default="", help="methods at 5,000 calls only, such as lime,kernel-shap"
    )
    parser.add_argument(
        "--ceiling", action="store_true", help="also what a Gaussian process learns from the calls"
    )
    parser.add_argument("--device")
    parser.add_argument("--shard", type=shard, default="1/1", help=SHARD_HELP)
    parser.add_argument("--tables", type=Path, nargs="+", help="print tables of earlier results")
    parser.add_argument("--over", type=Path, nargs="+", help="divide by another version's results")
    given = parser.parse_args()
    if given.tables and given.over:
        tables_over(given.tables, given.over)
    elif given.tables:
        tables(given.tables)
    elif given.model is None or given.data is None:
        parser.error("give --model and --data, or --tables with earlier results")
    else:
        torch.set_grad_enabled(False)
        run(given)


if __name__ == "__main__":
    main()
