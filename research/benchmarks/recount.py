"""Counts the flips of an audit again, without this package: transformers alone ask the model.

    python -m research.benchmarks.recount audit/audit.json reviews.csv --model ./my-classifier

An audit writes down where it put words: rows of the table and places in their texts. This script
puts the first words of its report there by itself, and says how many texts the model then takes for
the class, beside what the audit says. It reads CSV and JSON lines.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

BATCH = 64  # texts at once, if the tokenizer can fill up shorter ones


def texts_of(path: Path, field: str) -> list[str]:
    """The texts of a table in its order."""
    with path.open(encoding="utf-8", newline="") as file:
        if path.suffix == ".csv":
            return [row[field] for row in csv.DictReader(file)]
        return [json.loads(line)[field] for line in file]


def with_word(text: str, at: int, word: str) -> str:
    """A text with a word before the character ``at``, and spaces around it."""
    parts = [text[:at], word, text[at:]]
    if parts[0] and not parts[0][-1].isspace():
        parts[0] += " "
    if parts[2]:
        parts[2] = " " + parts[2].lstrip()
    return "".join(parts)


def chosen_classes(model: Any, tokenizer: Any, texts: list[str]) -> list[str]:
    """The class that the model chooses for each text."""
    chosen = []
    fills = tokenizer.pad_token is not None
    at_once = BATCH if fills else 1
    for start in range(0, len(texts), at_once):
        batch = tokenizer(texts[start : start + at_once], padding=fills, return_tensors="pt")
        with torch.inference_mode():
            best = model(**batch).logits.argmax(dim=1)
        chosen += [model.config.id2label[int(index)] for index in best]
    return chosen


def recount(audit: Path, table: Path, field: str, model: str, words: int) -> list[dict[str, Any]]:
    """What the audit and this script say of the first words of the report."""
    found = json.loads(audit.read_text(encoding="utf-8"))
    texts = texts_of(table, field)
    tokenizer = AutoTokenizer.from_pretrained(model)
    classifier = AutoModelForSequenceClassification.from_pretrained(model).eval()
    counted = []
    for one in found["findings"][:words]:
        places = found["places"][one["label"]]
        edited = [with_word(texts[each["row"] - 1], each["at"], one["word"]) for each in places]
        chosen = chosen_classes(classifier, tokenizer, edited)
        counted.append(
            {
                "word": one["word"],
                "label": one["label"],
                "texts": len(edited),
                "audit": one["flips"],
                "recount": sum(label == one["label"] for label in chosen),
            }
        )
    return counted


def agreement(counted: Iterable[dict[str, Any]]) -> str:
    """How far two counts agree, in words."""
    gaps = [abs(one["audit"] - one["recount"]) for one in counted]
    if not gaps:
        return "the audit has no words to count"
    return f"equal for {gaps.count(0)} of {len(gaps)} words; at most {max(gaps)} texts differ"


def main() -> None:
    """Prints both counts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("audit", type=Path, help="audit.json of an audit")
    parser.add_argument("table", type=Path, help="the table that was audited")
    parser.add_argument("--text", default="text", help="column of the texts")
    parser.add_argument("--model", required=True, help="folder or hub id of the classifier")
    parser.add_argument("--words", type=int, default=20, help="first words of the report")
    given = parser.parse_args()
    counted = recount(given.audit, given.table, given.text, given.model, given.words)
    print("| word | towards | texts | flips in the audit | flips counted here |")
    print("| --- | --- | ---: | ---: | ---: |")
    for one in counted:
        cells = [one["word"], one["label"], one["texts"], one["audit"], one["recount"]]
        print("| " + " | ".join(map(str, cells)) + " |")
    print(agreement(counted))


if __name__ == "__main__":
    main()
