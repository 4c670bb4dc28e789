"""How well one explanation per text predicts every class of a classifier, from the calls of one.

    slalom train ag_news_train.jsonl.gz --test ag_news_test.jsonl.gz --out ag
    python benchmarks/all_classes.py --model ag --data ag_news_test.jsonl.gz --texts 20

Each text is explained once; ``for_target`` then gives every class. The table holds the mean and the
median over texts of the wide R2 per class, beside that of a linear fit on the same calls, and the
number of calls with and without a target.
"""

from __future__ import annotations

import argparse
import statistics
import sys

import pandas as pd

from slalom_xai import Explainer


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--model", required=True, help="folder or hub id of a classifier with more than two classes"
    )
    parser.add_argument("--data", required=True, help="JSON lines with a column text")
    parser.add_argument("--texts", type=int, default=20, help="how many texts, drawn with seed 0")
    parser.add_argument(
        "--budget", type=int, help="model calls per text; by the text's length by default"
    )
    options = parser.parse_args()
    texts = (
        pd.read_json(options.data, lines=True)["text"]
        .sample(options.texts, random_state=0)
        .tolist()
    )
    explainer = Explainer(
        options.model, budget=options.budget, truncation=True, show_progress=False
    )
    explanations = []
    for place, text in enumerate(texts):
        explanations.append(explainer(text))
        print(f"\r{place + 1}/{len(texts)} texts", end="", file=sys.stderr)
    print(file=sys.stderr)
    one = Explainer(
        options.model, budget=options.budget, truncation=True, target=0, show_progress=False
    )(texts[0])
    print(
        f"calls for the first text: {explanations[0].calls} for all classes, {one.calls} for "
        "class 0 alone\n"
    )
    print(
        "| class | wide R2, mean | median | linear, mean | median |\n| --- | --- | --- | --- | "
        "--- |"
    )
    for index, label in enumerate(explanations[0].outputs.labels):
        found = [explanation.for_target(index).fidelity for explanation in explanations]
        columns = [
            [one.r2 for one in side]
            for side in ([f.wide for f in found if f], [f.linear_wide for f in found if f])
        ]
        numbers = [
            f"{measure(column):.2f}"
            for column in columns
            for measure in (statistics.mean, statistics.median)
        ]
        print(f"| {label} | {' | '.join(numbers)} |")


if __name__ == "__main__":
    main()
