"""How much of what removals do the printed scores reproduce: tables of ``two_scores_on_gpu.sh``.

    python -m research.benchmarks.two_scores results
    python -m research.benchmarks.two_scores --choose imdb_test.jsonl.gz texts.jsonl

The first prints medians over texts of R² on fresh removals, 1 to 10 words / any number, and in how
many cells ``slalom`` is ahead. The second writes the texts to measure on: those of 25 to 110 words
with an odd number in the table; ``--design`` takes the others, which methods are designed on.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pandas as pd

KINDS = {"fidelity-local": "few", "fidelity-wide": "any"}
WORDS = (25, 110)


def read_results(folder: Path) -> pd.DataFrame:
    """R² by cell, method, kind of removal and text, of all logs below a folder."""
    rows = []
    for file in sorted(folder.glob("*/log*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            one = json.loads(line)
            if one.get("metric") in KINDS and "values" in one:
                found = {"kind": KINDS[one["metric"]], "r2": one["values"]["r2"]}
                rows.append(
                    {
                        "cell": file.parent.name,
                        "text": one["text"],
                        "method": one["method"],
                        **found,
                    }
                )
    return pd.DataFrame(rows, columns=["cell", "text", "method", "kind", "r2"])


def print_tables(found: pd.DataFrame) -> None:
    """Medians by cell, and the number of texts."""
    medians = found.groupby(["cell", "method", "kind"])["r2"].median()
    methods = sorted(set(found["method"]), key=lambda name: (name != "slalom", name))
    print("| cell | texts | " + " | ".join(methods) + " |")
    print("| --- | --- |" + " --- |" * len(methods))
    for cell, part in found.groupby("cell"):
        shown = []
        for method in methods:
            both = [medians.get((cell, method, kind)) for kind in ("few", "any")]
            shown.append(" / ".join("" if one is None else f"{one:.2f}" for one in both))
        print(f"| {cell} | {part['text'].nunique()} | " + " | ".join(shown) + " |")


def choose_texts(table: Path, out: Path, design: bool) -> None:
    """Writes the texts of a table that are measured on, or those to design on."""
    rows = pd.read_json(table, lines=True)
    least, most = WORDS
    with out.open("w", encoding="utf-8") as file:
        for number, text in enumerate(rows["text"]):
            if number % 2 != design and least <= len(str(text).split()) <= most:
                file.write(json.dumps({"text": str(text)}) + "\n")


def main() -> None:
    """Runs what the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", type=Path, nargs="+")
    parser.add_argument("--choose", action="store_true")
    parser.add_argument("--design", action="store_true")
    given = parser.parse_args()
    if given.choose:
        table, out = given.paths
        choose_texts(table, out, given.design)
    else:
        print_tables(read_results(given.paths[0]))


if __name__ == "__main__":
    main()
