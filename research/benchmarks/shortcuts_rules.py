"""What the audit's rule says of the models of ``shortcuts``, beside one that was tried.

    python -m research.benchmarks.shortcuts_rules shortcuts

The rule takes the geometric mean of a word's change and z, and fits the far end for each class by
itself. The other one takes their product, whose far end falls as the fitted law does if both are
normal, and fits the far ends of all classes as one. Both see the same audits: their changes, flips
and tables, as that benchmark left them.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import false_discovery_control as false_discovery

from slalom_xai.data.audit.data import WordCounts
from slalom_xai.data.audit.trials import chances, evidence

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
RATE, MARGIN = 0.05, 0.02


def by_class(changes: Array, z: Array, harmless: Mask) -> Array:
    """The chances (classes, words) of the audit's rule."""
    pairs = zip(changes, z, strict=True)
    return np.array([evidence(change, tie, harmless) for change, tie in pairs])


def product(changes: Array, z: Array, harmless: Mask) -> Array:
    """The chances (classes, words) of the rule that was tried."""
    middle = np.median(changes, axis=1, keepdims=True)
    spread = 1.4826 * np.median(np.abs(changes - middle), axis=1, keepdims=True) + 0.01
    standard = (changes - middle) / spread
    both = np.clip(standard, 0, None) * np.clip(z, 0, None)
    every = np.tile(harmless, len(changes))
    found = np.minimum(
        chances(both.ravel(), every) / 0.9,
        chances(standard.ravel(), every) / 0.1,
    )
    return np.minimum(found, 1).reshape(changes.shape)


RULES: dict[str, Callable[[Array, Array, Mask], Array]] = {
    "the audit's": by_class,
    "product, classes as one": product,
}


@dataclass(frozen=True)
class Said:
    """What a rule says of one model: its words, the likeliest shortcut first, and findings."""

    order: list[str]
    findings: set[str]


def said(folder: Path) -> dict[str, Said]:
    """What each rule says of one model."""
    found = json.loads((folder / "audit.json").read_text())
    words = [one["word"] for one in found["screened"]]
    changes = np.array([one["changes"] for one in found["screened"]]).T
    z = _z(folder / "audit.csv", words, found["labels"])
    harmless = np.ones(len(words), dtype=bool)
    tests = [(label, word) for label in found["labels"] for word in words]
    flips = {(one["label"], one["word"]) for one in found["findings"] if _flips(one)}
    told = {}
    for name, rule in RULES.items():
        p = rule(changes, z, harmless)
        adjusted = false_discovery(p.ravel())
        out = {test for test, q in zip(tests, adjusted, strict=True) if q <= RATE}
        order = [words[index] for index in np.argsort(p.min(axis=0), kind="stable")]
        told[name] = Said(order, {word for _, word in out & flips})
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
    told = {folder: said(folder) for folder in folders}
    plants = {
        folder: json.loads((folder / "result.json").read_text())["plant"] for folder in folders
    }
    planted = {folder: plant["word"] for folder, plant in plants.items() if plant is not None}
    clean = [folder for folder in folders if folder not in planted]
    print("| rule | planted word first | a finding | other findings | clean models with findings |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name in RULES:
        first = sum(told[folder][name].order[0] == word for folder, word in planted.items())
        hits = sum(word in told[folder][name].findings for folder, word in planted.items())
        others = sum(len(told[folder][name].findings - {word}) for folder, word in planted.items())
        false = [told[folder][name].findings for folder in clean if told[folder][name].findings]
        named = f" ({'; '.join(', '.join(sorted(one)) for one in false)})" if false else ""
        print(
            f"| {name} | {first} of {len(planted)} | {hits} of {len(planted)} | {others} | "
            f"{len(false)} of {len(clean)}{named} |"
        )


if __name__ == "__main__":
    main()
