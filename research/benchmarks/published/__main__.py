"""Compares ``slalom-eff`` and ``slalom-fidel`` with the paper's published implementation.

Both sides explain the same texts and the same model with the same number of calls: for the
published package ``n_samples``, which it rounds up to a multiple of 16 and adds two calls to;
for ours ``budget``, a tenth of which (at most 400) is spent on the report and not on the fit.

* ``slalom-eff``, here with rows of three tokens because the published code uses three whatever
  ``seq_len`` says: rank correlation of its values and importances with the published ones over
  the distinct tokens of a text, and the mean squared error of both on fresh random rows of three
  tokens and on deletions. Beside it stand two yardsticks: the published code against itself with
  another seed, and against our solver on the published code's own rows when it trains for
  ``--steps`` gradient steps, because its 60 epochs end long before its objective stops falling.
* ``slalom-fidel``: the mean squared error of the predicted change in log odds when 1 to 10
  tokens are deleted.

The rows that measure are drawn apart from those that fit and are the same for both sides; a row
that deletes one token can hardly be new to either.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

from research.benchmarks.published.compare import TextComparison, compare
from research.benchmarks.published.report import save, table, verdicts
from research.benchmarks.published.texts import read_texts
from slalom_xai import Explainer


def main() -> None:
    """Compares text after text and prints the table and the targets."""
    options = _options()
    if options.threads:
        torch.set_num_threads(options.threads)
    model = Explainer(options.model, device=options.device).model
    if len(model.outputs.labels) != 2:
        raise SystemExit(
            f"the model has {len(model.outputs.labels)} classes: the comparison is written for two"
        )
    comparisons: list[TextComparison] = []
    for number, reading in enumerate(read_texts(options.data, model, options.texts), start=1):
        comparison = compare(
            model, number, reading, options.calls, options.seed, options.rows, options.steps
        )
        comparisons.append(comparison)
        if options.out:
            save(comparisons, options.out)
        said = f"text {number} of {options.texts}: {len(reading.pieces)} tokens done"
        print(said, file=sys.stderr, flush=True)
    print(table(comparisons), *verdicts(comparisons), sep="\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m research.benchmarks.published", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument(
        "--data", type=Path, required=True, help="JSON lines with a field text, gzipped or not"
    )
    parser.add_argument("--model", help="a folder or hub id; the embedded model by default")
    parser.add_argument("--texts", type=int, default=10, help="how many texts (10)")
    parser.add_argument(
        "--calls", type=int, default=2000, help="model calls per text and method (2000)"
    )
    parser.add_argument(
        "--rows", type=int, default=500, help="fresh rows of either kind to measure on (500)"
    )
    parser.add_argument(
        "--steps",
        type=int,
        default=16000,
        help="of the long training of the published eff (16000); 0 leaves it out",
    )
    parser.add_argument("--seed", type=int, default=0, help="of all draws (0)")
    parser.add_argument("--threads", type=int, help="of torch; its own choice by default")
    parser.add_argument("--device", help="where the model runs; a GPU by default if there is one")
    parser.add_argument("--out", type=Path, help="a CSV file for the table")
    return parser.parse_args()


if __name__ == "__main__":
    main()
