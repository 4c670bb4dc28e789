"""Does ``slalom diff`` find words whose meaning was changed, and nothing where nothing changed?

Sentences of made-up words are classified by the sum of what their words are worth. A classifier is
trained on them. Then some words get the opposite worth, and a copy of it is fine-tuned on sentences
that are labelled anew. The diff should name these words. Against its own copy, and against a model
that was fine-tuned on sentences with the old labels, it should name none.

    python -m research.benchmarks.diff --seeds 3 --out diff-benchmark
"""

from __future__ import annotations

import argparse
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slalom_xai.data.corpus import ExplainOptions
from slalom_xai.data.diff import Diff, diff_models
from slalom_xai.data.diff.run import BEFORE
from slalom_xai.data.training import TrainingOptions, train


@dataclass(frozen=True)
class Language:
    """Made-up sentences.

    Attributes:
        words: how many there are.
        relabelled: of these.
        sentences: to train on.
        tested: sentences that are explained.
        epochs: of the first training.
        more_epochs: of the fine-tuning.
        width: of the model.
        layers: of the model.
    """

    words: int = 120
    relabelled: int = 10
    sentences: int = 6000
    tested: int = 150
    epochs: int = 6
    more_epochs: int = 3
    width: int = 32
    layers: int = 2


def worth(language: Language, rng: np.random.Generator) -> np.ndarray:
    """What each word is worth: a third is for, a third against, the others say nothing."""
    kinds = np.resize([2.0, -2.0, 0.0], language.words)
    return rng.permutation(kinds * rng.uniform(0.6, 1.4, language.words))


def write_sentences(path: Path, worths: np.ndarray, count: int, rng: np.random.Generator) -> Path:
    """A table of random sentences with their labels."""
    with path.open("w") as file:
        for _ in range(count):
            words = rng.integers(0, len(worths), rng.integers(6, 13))
            good = worths[words].sum() + rng.normal(0, 0.5) > 0
            text = " ".join(name(word) for word in words)
            file.write(json.dumps({"text": text, "label": "good" if good else "bad"}) + "\n")
    return path


def name(word: int) -> str:
    """A made-up word: two syllables."""
    syllables = [first + second for first in "bdfgklmnprstvz" for second in "aeiou"]
    return syllables[word // 20 + 7] + syllables[word % 20 + 30]


def plant(folder: Path, language: Language, seed: int) -> list[str]:
    """Trains ``old``, ``new`` (words relabelled) and ``same`` (fine-tuned, nothing relabelled).

    Returns:
        The words that were relabelled.
    """
    rng = np.random.default_rng(seed)
    worths = worth(language, rng)
    changed = rng.choice(np.flatnonzero(worths), language.relabelled, replace=False)
    turned = worths.copy()
    turned[changed] *= -1
    tables = {
        "old": write_sentences(folder / "old.jsonl", worths, language.sentences, rng),
        "same": write_sentences(folder / "same.jsonl", worths, language.sentences, rng),
        "new": write_sentences(folder / "new.jsonl", turned, language.sentences, rng),
    }
    write_sentences(folder / "texts.jsonl", worths, language.tested, rng)
    start = TrainingOptions(
        layers=language.layers, width=language.width, vocabulary=400, rate=2e-3,
        epochs=language.epochs, labels=("bad", "good"), seed=seed,
    )  # fmt: skip
    train(tables["old"], folder / "old", start, tell=_nothing)
    shutil.copytree(folder / "old", folder / "copy")
    again = TrainingOptions(
        init=str(folder / "old"), epochs=language.more_epochs, rate=1e-3,
        labels=("bad", "good"), seed=seed,
    )  # fmt: skip
    for kind in ("same", "new"):
        train(tables[kind], folder / kind, again, tell=_nothing)
    return [name(int(word)) for word in changed]


def _nothing(line: str) -> None:
    """Takes what training says."""


def difference(folder: Path, other: str, budget: int, rate: float = 0.05) -> Diff:
    """The diff of the first model and another; the first explains the texts once for all diffs."""
    options = ExplainOptions(model=str(folder / "old"), granularity="word", budget=budget)
    known, out = folder / "explained-by-old", folder / f"diff-{other}"
    if known.is_dir():
        shutil.copytree(known, out / BEFORE)
    found = diff_models(
        options,
        options.replace(model=str(folder / other)),
        folder / "texts.jsonl",
        out,
        rate=rate,
        show_progress=False,
    )
    if not known.is_dir():
        shutil.copytree(out / BEFORE, known)
    return found


def main() -> None:
    """Prints what was found, for each seed and in all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--budget", type=int, default=60)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    print("| seed | against | words called changed | relabelled found | other scores | texts |")
    print("| ---: | --- | ---: | ---: | ---: | ---: |")
    for seed in range(given.first, given.first + given.seeds):
        folder = given.out / f"seed-{seed}"
        folder.mkdir(parents=True)
        relabelled = plant(folder, Language(), seed)
        for other in ("copy", "same", "new"):
            found = difference(folder, other, given.budget)
            called = {word.word for word in found.changed}
            hits = len(called & set(relabelled))
            wanted = f"{hits} of {len(relabelled)}" if other == "new" else "–"
            moved = sum(word.moved for word in found.words)
            print(
                f"| {seed} | {other} | {len(called)} of {len(found.words)} | {wanted} | "
                f"{moved} | {len(found.texts)} of {found.compared} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
