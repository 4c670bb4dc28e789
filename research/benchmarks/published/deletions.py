"""``slalom`` beside the published SLALOM-fidel: errors on few and on many deletions.

    python -m research.benchmarks.published.deletions --data reviews.jsonl.gz --texts 5 --calls 5000

Both have the same number of calls.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from research.benchmarks.published.compare import error_of_change
from research.benchmarks.published.package import published
from research.benchmarks.published.texts import LOCAL, Array, Text, read_texts
from slalom_xai import Explainer
from slalom_xai.models.reading import AnyReading

ROWS = 1000  # fresh deletions of either kind


def main() -> None:
    """Prints a line per text, and the ratios of the mean errors."""
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
        (local, local_published), (wide, wide_published) = errors = measured(
            explainer, reading, number, given.calls
        )
        totals += np.array(errors)
        print(
            f"text {number}, {len(reading.codes)} tokens: "
            f"local {local:.4f} against {local_published:.4f}, "
            f"wide {wide:.3f} against {wide_published:.3f}",
            flush=True,
        )
    local_ratio, wide_ratio = totals[:, 0] / totals[:, 1]
    print(f"ratio of mean errors: local {local_ratio:.3f}, wide {wide_ratio:.4f}")


def measured(
    explainer: Explainer, reading: AnyReading, number: int, calls: int
) -> list[tuple[float, float]]:
    """Errors of ours and of the published code, with few deletions and with any number."""
    text, rng = Text(explainer.model, reading), np.random.default_rng(number)
    theirs, _ = published(text, "fidel", calls, seed=0)
    explanation = explainer(reading.text)
    errors = []
    for most in (LOCAL, len(text.codes) - 1):
        masks = text.deletion_masks(ROWS, rng, most)
        rows = text.answered(masks)
        own = _error_of_change(explanation.predict(masks), rows.log_odds)
        errors.append((own, error_of_change(theirs, rows)))
    return errors


def _error_of_change(predicted: Array, log_odds: Array) -> float:
    changes = (predicted - predicted[0]) - (log_odds - log_odds[0])
    return float(np.mean(changes[1:] ** 2))


if __name__ == "__main__":
    main()
