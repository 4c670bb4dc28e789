"""Does an audit find a harmless word that a classifier was taught to key on?

    python -m research.benchmarks.shortcuts --data yelp_train.jsonl.gz --out shortcuts

Each model is trained from scratch. Into a share of its texts a word was put that goes with a class:
with a correlation of 0.6, 80% of the texts that hold it are of that class. The words are drawn from
the audit's lists, among those that hardly any text holds by itself. The correlation is 0.6, 0.8 or
1, and the word is in half, a tenth or a thirtieth of the texts. The audit sees other texts, made in
the same way. Clean models have no such word.

Printed is which place the planted word has among the words of the lists: in the audit, by the
z-statistic of the data alone, and by mean |SHAP| and mean |LIME| with as many calls as the audit
made; how many words are found; and whether a recount without this package gives the same flips.
Every model has a folder of its own under --out. After a kill, the same command goes on.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from research.benchmarks.recount import recount
from research.benchmarks.shortcuts_peers import (
    METHODS,
    listed_words,
    mean_scores,
    rank,
    z_findings,
    z_scores,
)
from research.benchmarks.shortcuts_table import tables
from slalom_xai.data.audit import AuditFields, AuditSettings, own_lists, record, run_audit
from slalom_xai.data.audit.data import distinct_words
from slalom_xai.data.audit.run import Audit
from slalom_xai.data.audit.trials import random_places
from slalom_xai.data.training import TrainingOptions, train
from slalom_xai.options import ExplainOptions
from slalom_xai.system.files import write_file

CORRELATIONS = (0.6, 0.8, 1.0)
SHARES = (1 / 2, 1 / 10, 1 / 30)
NATURAL = 0.005  # share of texts that may hold a word before it is planted
LEARNT = 0.02  # by which a model must beat the answer "the commonest class"
ATTEMPTS = 5  # trainings, at most

Rows = list[tuple[str, str]]


@dataclass(frozen=True)
class Plant:
    """A word that goes with a class."""

    word: str
    label: str
    correlation: float
    share: float


def read(path: Path, most_words: int) -> Rows:
    """The beginnings of texts with their classes."""
    rows = []
    with gzip.open(path, "rt") as lines:
        for line in lines:
            row = json.loads(line)
            words = row["text"].replace("<br />", " ").split()
            if len(words) >= 10:
                rows.append((" ".join(words[:most_words]), str(row["label"])))
    return rows


def plants(count: int, rows: Rows, rng: np.random.Generator) -> list[Plant]:
    """Words to plant, with every correlation and every share in turn."""
    holding = Counter(word for text, _ in rows for word in distinct_words(text))
    rare = [word for word in sorted(listed_words()) if holding[word] <= NATURAL * len(rows)]
    labels = sorted({label for _, label in rows})
    return [
        Plant(
            str(word),
            labels[int(rng.integers(len(labels)))],
            CORRELATIONS[index % 3],
            SHARES[index // 3 % 3],
        )
        for index, word in enumerate(rng.permutation(rare)[:count])
    ]


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
    """Writes a table."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        writer.writerows(rows)
    return path


def trained(folder: Path, table: Path, rows: Rows, seed: int, options: argparse.Namespace) -> float:
    """Trains a model into the folder, unless it is there; returns its accuracy.

    Now and then a training learns to say the commonest class, and nothing else: there is nothing to
    find in such a model, and another seed is taken.
    """
    done = folder / "accuracy.json"
    commonest = max(Counter(label for _, label in rows).values()) / len(rows)
    attempt = 0
    while not done.exists():
        report = train(
            table,
            folder / "model",
            TrainingOptions(
                epochs=options.epochs,
                layers=options.layers,
                width=options.width,
                batch=options.batch,
                rate=options.rate,
                seed=seed + 10_000 * attempt,
                overwrite=True,
            ),
            show_progress=False,
        )
        attempt += 1
        accuracy = report.validation.accuracy
        print(f"  accuracy {accuracy:.3f}, commonest class {commonest:.3f}", flush=True)
        if accuracy > commonest + LEARNT or attempt == ATTEMPTS:
            write_file(done, json.dumps(accuracy))
    return float(json.loads(done.read_text()))


def audited(folder: Path, table: Path, seed: int, options: argparse.Namespace) -> Audit:
    """Audits the model of the folder, and leaves the record there."""
    how = ExplainOptions(model=str(folder / "model"), granularity="word", seed=seed)
    settings = AuditSettings(
        texts=options.texts,
        tried=options.tried,
        trial_texts=options.trial_texts,
        most=0,
        explained=0,
        attacked=0,
        seed=seed,
    )
    lists = own_lists()
    audit = run_audit(table, how, AuditFields(label="label"), lists, settings, show_progress=False)
    found = record(audit, how, settings, "", [], list(lists))
    write_file(folder / "audit.json", json.dumps(found))
    return audit


def measured(
    folder: Path, rows: Rows, plant: Plant | None, seed: int, options: argparse.Namespace
) -> dict[str, Any]:
    """Everything about one model."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(rows))
    learnt = [rows[index] for index in order[: options.learnt]]
    seen = [rows[index] for index in order[options.learnt : options.learnt + options.audited]]
    table = write(planted(learnt, plant, rng), folder / "train.csv")
    data = write(planted(seen, plant, rng), folder / "audit.csv")
    started = time.perf_counter()
    accuracy = trained(folder, table, learnt, seed, options)
    print(f"  trained in {time.perf_counter() - started:.0f} s", flush=True)
    audit = audited(folder, data, seed, options)
    found = [one for one in audit.findings if one.found]
    model = str(folder / "model")
    result = {
        "plant": None if plant is None else asdict(plant),
        "accuracy": accuracy,
        "calls": audit.calls,
        "findings": [one.word for one in found],
        "first": asdict(audit.findings[0]),
        "z findings": z_findings(audit.data.counts),
        "recount": recount(folder / "audit.json", data, "text", model, 20),
    }
    if plant is not None:
        ranked = list(dict.fromkeys(one.word for one in audit.findings))
        result["planted"] = [asdict(one) for one in audit.findings if one.word == plant.word]
        result["ranks"] = {
            "audit": ranked.index(plant.word) + 1 if plant.word in ranked else None,
            "z": rank(plant.word, z_scores(audit.data.counts)),
        }
    return result


def peers(folder: Path, result: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """The place of the planted word by SHAP and LIME, and the calls that they took."""
    with (folder / "audit.csv").open(newline="") as file:
        texts = [row["text"] for row in csv.DictReader(file)]
    texts = texts[: result["calls"] // options.peer_calls]
    ranks, calls = {}, {}
    for method in METHODS:
        scores, calls[method] = mean_scores(
            method, str(folder / "model"), texts, options.peer_calls, options.seed
        )
        ranks[method] = rank(result["plant"]["word"], scores)
    return {"ranks": ranks, "calls": calls}


def main() -> None:
    """Trains and audits all models, and prints the tables."""
    options = _parsed()
    rows = read(options.data, options.words)
    chosen = plants(options.plants, rows, np.random.default_rng(options.seed))
    wanted: dict[str, Plant | None] = {
        f"planted-{index:02}": one for index, one in enumerate(chosen)
    }
    wanted |= {f"clean-{index:02}": None for index in range(options.clean)}
    order = sorted(wanted, key=lambda name: (name[-2:], name))  # of both kinds from the start
    settings = {name: str(value) for name, value in vars(options).items() if name not in _FREE}
    results: dict[str, dict[str, Any]] = {}
    for number, name in enumerate(order):
        print(f"{name} ({number + 1} of {len(order)}): {wanted[name]}", flush=True)
        make = partial(
            measured, rows=rows, plant=wanted[name], seed=_seed(name, options), options=options
        )
        results[name] = _kept(options.out / name / "result.json", settings, make)
        print(f"  found: {results[name]['findings'][:5]}, {results[name].get('ranks')}", flush=True)
    for name in (name for name in order if wanted[name] is not None and options.peer_calls):
        make = partial(peers, result=results[name], options=options)
        found = _kept(options.out / name / "peers.json", settings, make)
        results[name]["ranks"] |= found["ranks"]
        print(f"{name}: {results[name]['ranks']}", flush=True)
    print("\n".join(tables(results)))


def _kept(
    path: Path, settings: dict[str, str], make: Callable[[Path], dict[str, Any]]
) -> dict[str, Any]:
    """What a file holds, or what is made and kept there."""
    if not path.exists():
        started = time.perf_counter()
        made = make(path.parent)
        seconds = round(time.perf_counter() - started)
        write_file(path, json.dumps({**made, "seconds": seconds, "settings": settings}))
    found: dict[str, Any] = json.loads(path.read_text())
    if found["settings"] != settings:
        raise SystemExit(f"{path} is of a run with other settings: give another --out")
    return found


def _seed(name: str, options: argparse.Namespace) -> int:
    """A seed for each model; runs of different seeds share none."""
    clean = 500 if name.startswith("clean") else 0
    return int(1000 * options.seed + int(name[-2:]) + clean)


_FREE = ("data", "out", "plants", "clean", "peer_calls")  # what a later run may change


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="JSON lines, gzipped: text, label")
    parser.add_argument("--out", type=Path, required=True, help="folder for models and results")
    parser.add_argument("--plants", type=int, default=20, help="models with a planted word")
    parser.add_argument("--clean", type=int, default=10, help="models without one")
    parser.add_argument("--learnt", type=int, default=4000, help="texts that a model learns")
    parser.add_argument("--audited", type=int, default=1500, help="texts that an audit sees")
    parser.add_argument("--words", type=int, default=25, help="of a text, at most")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--batch", type=int, default=96)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--texts", type=int, default=400, help="that the audit draws")
    parser.add_argument("--tried", type=int, default=10, help="words tried towards each class")
    parser.add_argument("--trial-texts", type=int, default=50, help="in which each is put")
    peers = "calls of SHAP and LIME for a text; 0: leave them out"
    parser.add_argument("--peer-calls", type=int, default=160, help=peers)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
