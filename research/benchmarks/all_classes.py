"""How well one explanation per text predicts every class of a classifier, from the calls of one.

    slalom train ag_news_train.jsonl.gz --test ag_news_test.jsonl.gz --out ag
    python -m research.benchmarks.all_classes --model ag --data ag_news_test.jsonl.gz --texts 20

Each text is explained once; ``for_target`` then gives every class. The table holds the mean and the
median over texts of R2 per class (any number of words removed), beside that of a linear fit on the
same calls, and the number of calls with and without a target.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from typing import Any

import pandas as pd

from slalom_xai import Explainer, Explanation


def main() -> None:
    """Explains the texts and prints the table."""
    options = _options()
    texts = (
        pd.read_json(options.data, lines=True)["text"]
        .sample(options.texts, random_state=0)
        .tolist()
    )
    shared: dict[str, Any] = {
        "budget": options.budget,
        "truncation": True,
        "show_progress": False,
    }
    explainer = Explainer(options.model, **shared)
    explanations = []
    for number, text in enumerate(texts, start=1):
        explanations.append(explainer(text))
        print(f"\r{number}/{len(texts)} texts", end="", file=sys.stderr)
    print(file=sys.stderr)
    one = Explainer(options.model, target=0, **shared)(texts[0])
    print(
        f"calls for the first text: {explanations[0].calls} for all classes, {one.calls} for class "
        "0 alone\n"
    )
    print("| class | R2, mean | median | linear, mean | median |")
    print("| --- | --- | --- | --- | --- |")
    for index, label in enumerate(explanations[0].outputs.labels):
        print(f"| {label} | {' | '.join(_numbers(explanations, index))} |")


def _numbers(explanations: list[Explanation], index: int) -> list[str]:
    """Mean and median over texts of the R2 of a class, ours and the linear fit's."""
    every = [explanation.for_target(index).fidelity for explanation in explanations]
    known = [fidelity for fidelity in every if fidelity]
    ours = [fidelity.any.r2 for fidelity in known]
    linear = [fidelity.linear.any.r2 for fidelity in known if fidelity.linear]
    numbers = [
        statistics.mean(ours),
        statistics.median(ours),
        statistics.mean(linear),
        statistics.median(linear),
    ]
    return [f"{number:.2f}" for number in numbers]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--model", required=True, help="folder or hub id of a classifier with more than two classes"
    )
    parser.add_argument("--data", required=True, help="JSON lines with a field text")
    parser.add_argument("--texts", type=int, default=20, help="how many texts, drawn with seed 0")
    parser.add_argument(
        "--budget", type=int, help="model calls per text; by the text's length by default"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
