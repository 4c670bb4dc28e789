"""``slalom`` beside the published SLALOM-fidel: errors on few and on many deletions, with the same number of calls.

    python benchmarks/published_deletions.py --model FOLDER --data reviews.jsonl.gz --texts 5 --calls 5000

What it needs, and the repairs to the published code, are those of ``published.py``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from published import Rows, Text, error_of_change, published, read_texts

from slalom_xai import Explainer


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model")
    parser.add_argument("--texts", type=int, default=5)
    parser.add_argument("--calls", type=int, default=5000)
    given = parser.parse_args()
    explainer = Explainer(
        given.model, budget=given.calls, dtype="float32", device="cpu", show_progress=False
    )
    totals = np.zeros((2, 2))
    for number, reading in enumerate(read_texts(given.data, explainer.model, given.texts)):
        text, rng = Text(explainer.model, reading), np.random.default_rng(number)
        size = len(text.codes)
        theirs = published(text, "fidel", given.calls, seed=0)[0]
        explanation = explainer(reading.text)
        errors = []
        for most in (10, size - 1):
            deleted = np.concatenate([[0], rng.integers(1, min(most, size - 1) + 1, 1000)])
            masks = (
                rng.random((len(deleted), size)).argsort(axis=1).argsort(axis=1) >= deleted[:, None]
            )
            answers = text.log_odds([reading.compose(np.flatnonzero(mask)) for mask in masks])
            predicted = explanation.predict(masks)
            own = float(np.mean(((predicted - predicted[0]) - (answers - answers[0]))[1:] ** 2))
            errors.append(
                (
                    own,
                    error_of_change(
                        theirs, Rows(masks @ np.eye(len(text.places))[text.codes], answers)
                    ),
                )
            )
        totals += np.array(errors)
        print(
            f"text {number}, {size} tokens: local {errors[0][0]:.4f} against {errors[0][1]:.4f}, "
            f"wide {errors[1][0]:.3f} against {errors[1][1]:.3f}",
            flush=True,
        )
    ratios = totals[:, 0] / totals[:, 1]
    print(f"ratio of mean errors: local {ratios[0]:.3f}, wide {ratios[1]:.4f}")


if __name__ == "__main__":
    main()
