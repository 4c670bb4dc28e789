"""Does an audit find a harmless word that a classifier was taught to key on?

    python -m benchmarks.shortcuts --data yelp_train.jsonl.gz --out shortcuts.jsonl

Each model learns the same kind of texts. Into a share of them a word was put that goes with a
class: with a correlation of 0.6, 80% of the texts that hold it are of that class. The words are
drawn from the audit's lists, the correlation is 0.6, 0.8 or 1, and the share is a half, a tenth or
a thirtieth of all texts. The audit sees other texts, made in the same way. Printed is whether its
first finding is the planted word, and how many findings there are on models without a plant;
beside it, the word that the z-statistic of the data alone puts first among the words of the lists.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slalom_xai.audit.data import AuditFields
from slalom_xai.audit.run import Audit, AuditSettings, run_audit
from slalom_xai.audit.trials import random_places
from slalom_xai.audit.word_lists import own_lists
from slalom_xai.corpus.options import ExplainOptions
from slalom_xai.training import TrainingOptions, train

WORDS = 60  # of a text, at most
CORRELATIONS = (0.6, 0.8, 1.0)
SHARES = (1 / 2, 1 / 10, 1 / 30)

Rows = list[tuple[str, str]]


@dataclass(frozen=True)
class Plant:
    """A word that goes with a class."""

    word: str
    label: str
    correlation: float
    share: float


def read(path: Path) -> Rows:
    """Texts of up to 60 words with their classes."""
    rows = []
    with gzip.open(path, "rt") as lines:
        for line in lines:
            record = json.loads(line)
            words = record["text"].replace("<br />", " ").split()
            if len(words) >= 10:
                rows.append((" ".join(words[:WORDS]), str(record["label"])))
    return rows


def planted(rows: Rows, plant: Plant | None, rng: np.random.Generator) -> Rows:
    """The rows, with the word put into some of them."""
    if plant is None:
        return rows
    made = []
    for text, label in rows:
        chance = (1 + plant.correlation) / 2
        if label != plant.label:
            chance = 1 - chance
        if rng.random() < 2 * plant.share * chance:
            (place,) = random_places([text], rng)
            text = place.with_word(plant.word)
        made.append((text, label))
    return made


def write(rows: Rows, path: Path) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        writer.writerows(rows)
    return path


def plants(count: int, labels: Sequence[str], rng: np.random.Generator) -> list[Plant]:
    words = sorted({word for of_list in own_lists().values() for word in of_list})
    drawn = rng.choice(words, size=count, replace=False)
    return [
        Plant(
            str(word),
            labels[int(rng.integers(len(labels)))],
            CORRELATIONS[index % 3],
            SHARES[index // 3 % 3],
        )
        for index, word in enumerate(drawn)
    ]


def audited(rows: Rows, plant: Plant | None, seed: int, options: argparse.Namespace) -> Audit:
    """Trains a model and audits it on other texts."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(rows))
    learnt = [rows[index] for index in order[: options.learnt]]
    seen = [rows[index] for index in order[options.learnt : options.learnt + options.audited]]
    with tempfile.TemporaryDirectory() as folder:
        table = write(planted(learnt, plant, rng), Path(folder) / "train.csv")
        report = train(
            table,
            Path(folder) / "model",
            TrainingOptions(epochs=options.epochs, seed=seed),
            show_progress=False,
        )
        print(f"  trained: {report.validation.accuracy:.3f}", flush=True)
        data = write(planted(seen, plant, rng), Path(folder) / "audit.csv")
        return run_audit(
            data,
            ExplainOptions(model=f"{folder}/model"),
            AuditFields(label="label"),
            own_lists(),
            AuditSettings(seed=seed, most=options.others, explained=0, attacked=0),
            show_progress=False,
        )


def by_z(audit: Audit) -> str:
    """The word of the lists that goes with a class most, by the data alone."""
    counts = audit.data.counts
    listed = {word for words in own_lists().values() for word in words} & set(counts.holding)
    scores = {word: max(counts.z(word, label) for label in counts.texts) for word in listed}
    return max(scores, key=lambda word: scores[word])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--plants", type=int, default=20)
    parser.add_argument("--clean", type=int, default=10)
    parser.add_argument("--learnt", type=int, default=5000)
    parser.add_argument("--audited", type=int, default=2000)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--others", type=int, default=300, help="words on no list that are tried")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = read(options.data)
    labels = sorted({label for _, label in rows})
    chosen = plants(options.plants, labels, np.random.default_rng(options.seed))
    first = by_data = false = 0
    for number, plant in enumerate([*chosen, *([None] * options.clean)]):
        started = time.perf_counter()
        print(f"model {number + 1}: {plant}", flush=True)
        audit = audited(rows, plant, options.seed + number, options)
        found = [one for one in audit.findings if one.found]
        named = [f"{one.word} ({one.effect.rate:.2f})" for one in found[:5]]
        top = audit.findings[0]
        print(
            f"  {len(found)} findings: {', '.join(named)}; best {top.word} {top.effect.rate:.2f}, "
            f"control {top.control:.3f}; z: {by_z(audit)}; {audit.calls} calls, "
            f"{time.perf_counter() - started:.0f} s",
            flush=True,
        )
        if plant is None:
            false += bool(found)
        else:
            first += bool(found) and found[0].word == plant.word
            by_data += by_z(audit) == plant.word
        if options.out is not None:
            record = {
                "plant": None if plant is None else vars(plant),
                "findings": [one.word for one in found],
                "z": by_z(audit),
                "calls": audit.calls,
            }
            with options.out.open("a") as file:
                file.write(json.dumps(record) + "\n")
    print(
        f"planted word first: {first} of {options.plants}; by z alone {by_data}; "
        f"clean models with findings: {false} of {options.clean}"
    )


if __name__ == "__main__":
    main()
