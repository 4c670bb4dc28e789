"""Draws short texts from a table, for benchmarks on a CPU.

    python -m research.benchmarks.short_reviews imdb_test.jsonl.gz short.jsonl --texts 24

A text has 30 to 130 words. The same seed draws the same texts.
"""

from __future__ import annotations

import argparse
import json
import random

from slalom_xai.data.tables import read_table
from slalom_xai.system.files import write_file

FEWEST, MOST = 30, 130  # words


def main() -> None:
    """Writes the texts as JSON lines."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", help="table with a column text")
    parser.add_argument("out", help="JSON lines to write")
    parser.add_argument("--texts", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    texts = [str(cell) for cell in read_table(given.data).cells("text")]
    short = [text for text in texts if FEWEST <= len(text.split()) <= MOST]
    drawn = random.Random(given.seed).sample(short, given.texts)
    write_file(given.out, "".join(json.dumps({"text": text}) + "\n" for text in drawn))


if __name__ == "__main__":
    main()
