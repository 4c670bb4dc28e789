"""What the audit's rule finds in the models of ``benchmarks.shortcuts``, beside the one before it.

    python -m benchmarks.shortcuts_rules shortcuts

Before, a word's score was the geometric mean of its change and z, and the far end was fitted for
each class by itself. Now it is their product, and the far ends of all classes are fitted as one.
Both rules see the same audits: their changes, flips and tables, as that benchmark left them.
"""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slalom_xai.audit.bias import WordCounts
from slalom_xai.audit.spread import chances, evidence
from slalom_xai.metrics.intervals import false_discovery

Array = NDArray[np.float64]
RATE, MARGIN = 0.05, 0.02


def before(changes: Array, z: Array, harmless: NDArray[np.bool_]) -> Array:
    """The chances (classes, words) of the rule before."""
    found = []
    for change, tie in zip(changes, z, strict=True):
        middle = np.median(change)
        spread = 1.4826 * np.median(np.abs(change - middle)) + 0.01
        both = np.sqrt(np.clip((change - middle) / spread, 0, None) * np.clip(tie, 0, None))
        alone = chances(change, harmless)
        found.append(np.minimum(np.minimum(chances(both, harmless) / 0.9, alone / 0.1), 1))
    return np.array(found)


def findings(folder: Path) -> dict[str, set[str]]:
    """The words that each rule finds in one model."""
    found = json.loads((folder / "audit.json").read_text())
    words = [one["word"] for one in found["screened"]]
    changes = np.array([one["changes"] for one in found["screened"]]).T
    z = _z(folder / "audit.csv", words, found["labels"])
    harmless = np.ones(len(words), dtype=bool)
    tests = [(label, word) for label in found["labels"] for word in words]
    flips = {(one["label"], one["word"]) for one in found["findings"] if _flips(one)}
    told = {}
    for name, rule in (("before", before), ("now", evidence)):
        adjusted = false_discovery(rule(changes, z, harmless).ravel())
        out = {test for test, q in zip(tests, adjusted, strict=True) if q <= RATE}
        told[name] = {word for _, word in out & flips}
    return told


def _z(table: Path, words: list[str], labels: list[str]) -> Array:
    """The z-statistic (classes, words) of each word and class; 0 where there is none."""
    counts = WordCounts()
    with table.open(newline="") as file:
        for row in csv.DictReader(file):
            counts.add(row["text"], row["label"])
    return np.nan_to_num([[counts.z(word, label) for word in words] for label in labels])


def _flips(one: dict[str, Any]) -> bool:
    return bool(
        one["flip_rate"] > one["control"] + MARGIN and one["flip_rate_low"] > one["control"]
    )


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="folder that benchmarks.shortcuts filled")
    folders = sorted(path.parent for path in parser.parse_args().out.glob("*/result.json"))
    told = {folder: findings(folder) for folder in folders}
    plants = {
        folder: json.loads((folder / "result.json").read_text())["plant"] for folder in folders
    }
    planted = {folder: plant["word"] for folder, plant in plants.items() if plant is not None}
    clean = [folder for folder in folders if folder not in planted]
    print("| rule | planted word found | other findings there | clean models with findings |")
    print("| --- | ---: | ---: | ---: |")
    for name in ("before", "now"):
        hits = sum(word in told[folder][name] for folder, word in planted.items())
        others = sum(len(told[folder][name] - {word}) for folder, word in planted.items())
        false = [told[folder][name] for folder in clean if told[folder][name]]
        named = f" ({'; '.join(', '.join(sorted(one)) for one in false)})" if false else ""
        print(
            f"| {name} | {hits} of {len(planted)} | {others} | "
            f"{len(false)} of {len(clean)}{named} |"
        )


if __name__ == "__main__":
    main()
