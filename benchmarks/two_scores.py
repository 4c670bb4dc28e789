"""How much of what removals do the printed scores reproduce: the tables of ``two_scores_on_gpu.sh``.

    python -m benchmarks.two_scores results
    python -m benchmarks.two_scores --choose imdb_test.jsonl.gz texts.jsonl

The first prints medians over texts of R² on fresh removals, 1 to 10 words / any number, and in how
many cells ``slalom`` is ahead. The second writes the texts to measure on: those of 25 to 110 words
with an odd number in the table, so that the others are left for design.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pandas as pd

from slalom_xai.tables import read_table

KINDS = {"fidelity-local": "few", "fidelity-wide": "any"}
WORDS = (25, 110)


def read_results(folder: Path) -> pd.DataFrame:
    """R² by cell, method, kind of removal and text, of all results below a folder."""
    parts = []
    for file in sorted(folder.glob("*/results.csv")):
        found = pd.read_csv(file)
        found = found[(found["number"] == "r2") & found["metric"].isin(KINDS)]
        parts.append(found.assign(cell=file.parent.name, kind=found["metric"].map(KINDS)))
    return pd.concat(parts) if parts else pd.DataFrame()


def print_tables(found: pd.DataFrame) -> None:
    """Medians by cell, and the number of texts."""
    medians = found.pivot_table(
        index="cell", columns=["method", "kind"], values="value", aggfunc="median"
    )
    counts = found[found["method"] == "slalom"].groupby("cell")["text"].nunique()
    methods = sorted({method for method, _ in medians.columns}, key=lambda name: name != "slalom")
    print("| cell | texts | " + " | ".join(methods) + " |")
    print("| --- | --- |" + " --- |" * len(methods))
    for cell, row in medians.iterrows():
        shown = [f"{row.get((one, 'few')):.2f} / {row.get((one, 'any')):.2f}" for one in methods]
        print(f"| {cell} | {counts.get(cell, 0)} | " + " | ".join(shown) + " |")


def choose_texts(table: Path, out: Path) -> None:
    """Writes the texts of a table that are measured on."""
    rows = read_table(table)
    least, most = WORDS
    with out.open("w", encoding="utf-8") as file:
        for number, text in enumerate(rows["text"]):
            if number % 2 and least <= len(str(text).split()) <= most:
                file.write(json.dumps({"text": str(text)}) + "\n")


def main() -> None:
    """Runs what the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", type=Path, nargs="+")
    parser.add_argument("--choose", action="store_true")
    given = parser.parse_args()
    if given.choose:
        choose_texts(*given.paths)
    else:
        print_tables(read_results(given.paths[0]))


if __name__ == "__main__":
    main()
