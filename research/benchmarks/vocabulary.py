"""Are the numbers of ``slalom vocabulary`` right, and do their errors cover?

Builds two vocabularies of the embedded model from different texts, with different seeds, and
compares the first with

- the model's answers to texts that an item fills, as long as texts that were not used (values),
- explanations of these texts one by one (values and importances),
- the second vocabulary (how often 90% intervals hold the difference).

``--planted`` fits made-up SLALOMs with noise instead, whose importances are known. ``--large``
builds one vocabulary of so many words and prints what it took; with ``--listed``, of the commonest
words as a list.

    python -m research.benchmarks.vocabulary --data reviews.jsonl --texts 300 --single 20
    python -m research.benchmarks.vocabulary --planted
    python -m research.benchmarks.vocabulary --large 50000 --data reviews.jsonl.gz news.jsonl.gz
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np

from slalom_xai import Explainer, Explanation
from slalom_xai.data.vocabulary import Vocabulary, VocabularyPlan, build_vocabulary
from slalom_xai.data.vocabulary.build import sample_texts
from slalom_xai.data.vocabulary.evidence import Evidence, draw_sequences, sequence_counts
from slalom_xai.data.vocabulary.fitting import SparseSlalom, fit_vocabulary
from slalom_xai.models.text import words

_LONGEST = 30  # characters of a word on a list
_NINETY = 1.645  # standard errors either way of a 90% interval


def r2(truth: np.ndarray, told: np.ndarray) -> float:
    """The share of the variance of ``truth`` that ``told`` has."""
    return 1 - float(((truth - told) ** 2).sum() / ((truth - truth.mean()) ** 2).sum())


def against_single_texts(vocabulary: Vocabulary, explanations: list[Explanation]) -> None:
    """Prints how well a vocabulary tells the scores of single texts."""
    numbers = {kind: index for index, kind in enumerate(vocabulary.token_ids)}
    values, told, errors, by_text = [], [], [], []
    for explanation in explanations:
        units = [numbers.get(unit.token_ids, -1) for unit in explanation.units]
        known = np.array([index >= 0 for index in units])
        own = np.array(units)[known]
        values.extend(explanation.values[known])
        told.extend(vocabulary.values[own])
        errors.extend(vocabulary.value_errors[own])
        if explanation.importances is not None:
            pair = explanation.importances[known], vocabulary.importances[own]
            by_text.append(float(np.corrcoef(*pair)[0, 1]))
    measured, expected = np.array(values), np.array(told)
    inside = np.abs(measured - expected) <= _NINETY * np.array(errors)
    share = r2(measured, expected)
    print(f"| values against filled texts, R² ({len(measured)} units) | {share:.3f} |")
    print(f"| the same, inside 90% intervals | {inside.mean():.2f} |")
    print(
        f"| importances against single texts, correlation within a text, median of "
        f"{len(by_text)} (quartiles) | {np.median(by_text):.2f} ({np.quantile(by_text, 0.25):.2f} "
        f"to {np.quantile(by_text, 0.75):.2f}) |"
    )


def against_refit(first: Vocabulary, second: Vocabulary) -> None:
    """Prints how often intervals hold the difference to fresh rows."""
    other = {kind: index for index, kind in enumerate(second.token_ids)}
    common = [index for index, kind in enumerate(first.token_ids) if kind in other]
    matched = [other[first.token_ids[index]] for index in common]
    away = first.importances[common] - second.importances[matched]
    away -= away.mean()  # importances sum to 0 over items, and the items differ
    error = np.hypot(first.importance_errors[common], second.importance_errors[matched])
    inside = np.abs(away) <= _NINETY * error
    share = r2(first.importances[common], second.importances[matched])
    print(f"| importances against fresh rows, R² ({len(common)} items) | {share:.2f} |")
    print(f"| the same, inside 90% intervals | {inside.mean():.2f} |")


def planted(items: int, rows: int, noise: float, seed: int) -> float:
    """The share of 90% intervals that hold the importance of a made-up SLALOM."""
    rng = np.random.default_rng(seed)
    importances = rng.normal(size=items + 1)
    importances[:-1] -= importances[:-1].mean()
    values = 2 * rng.normal(size=items + 1)
    truth = SparseSlalom(values, importances, -0.5, 0.3)
    counts = sequence_counts(draw_sequences(items, rows, rng), items + 1)
    answers = truth.predict(counts) + noise * rng.normal(size=rows)
    kinds = np.zeros(rows, dtype=bool)
    fitted = fit_vocabulary(values, Evidence(counts, answers, np.arange(rows), kinds), rng)
    away = np.abs(fitted.slalom.importances - truth.importances)[:-1]
    return float((away <= _NINETY * fitted.errors[:-1]).mean())


def large(given: argparse.Namespace) -> None:
    """Builds a vocabulary of many words of the beginnings of texts, and prints what it took."""
    texts = [text for path in given.data for text in sample_texts(path, given.text, sys.maxsize, 0)]
    texts = [" ".join(text.split()[: given.words]) for text in texts]
    listed = None
    if given.listed:
        counts = Counter(unit.text.lower() for text in texts for unit in words(text))
        plain = [word for word, _ in counts.most_common() if word.isascii() and word.isalpha()]
        listed = [word for word in plain if len(word) <= _LONGEST][: given.large]
    explainer = Explainer(given.model, granularity="word", random_state=0, show_progress=True)
    marks = [("reading", time.process_time())]

    def tell(plan: VocabularyPlan) -> None:
        marks.append(("asking and fitting", time.process_time()))
        print(f"<!-- {plan} -->", flush=True)

    vocabulary = build_vocabulary(
        explainer,
        () if given.listed else texts,
        words=listed,
        most_items=given.large,
        on_plan=tell,
    )
    marks.append(("", time.process_time()))
    print("| what | found |")
    print("| --- | ---: |")
    print(f"| items of {len(texts):,} texts of up to {given.words} words | {len(vocabulary):,} |")
    print(f"| calls | {vocabulary.calls:,} |")
    for (name, begun), (_, ended) in pairwise(marks):
        print(f"| processor seconds, {name} | {ended - begun:.0f} |")
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"| largest memory, MiB | {most:,.0f} |")
    for kind, quality in vocabulary.quality.items():
        told = f"{quality.r2:.2f} ({quality.values_alone:.2f})"
        print(f"| R² on {quality.rows:,} unseen {kind} (values alone) | {told} |")


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, nargs="+")
    parser.add_argument("--text", default="text")
    parser.add_argument("--model")
    parser.add_argument("--texts", type=int, default=300)
    parser.add_argument("--single", type=int, default=20)
    parser.add_argument("--planted", action="store_true")
    parser.add_argument("--large", type=int, help="items of one large vocabulary")
    parser.add_argument("--words", type=int, default=40, help="of its texts, at most")
    parser.add_argument("--listed", action="store_true", help="its words as a list, without texts")
    given = parser.parse_args()
    if given.large:
        large(given)
        return
    if given.planted:
        print("| rows for each item | noise | inside 90% intervals (20 SLALOMs of 200 items) |")
        print("| ---: | ---: | ---: |")
        for each, noise in ((4, 0.05), (4, 0.3), (10, 0.05), (10, 0.3)):
            shares = [planted(200, 200 * each, noise, seed) for seed in range(20)]
            print(f"| {each} | {noise} | {np.mean(shares):.3f} |", flush=True)
        return
    texts = sample_texts(given.data[0], given.text, 2 * given.texts + given.single, 0)
    order = np.random.default_rng(0).permutation(len(texts))
    single = [texts[index] for index in order[: given.single]]
    halves = np.array_split(order[given.single :], 2)
    built = []
    for seed, half in enumerate(halves):
        explainer = Explainer(given.model, random_state=seed, show_progress=False)
        started = time.monotonic()
        built.append(build_vocabulary(explainer, [texts[index] for index in half]))
        seconds = time.monotonic() - started
        print(f"<!-- {len(built[-1])} items, {built[-1].calls} calls, {seconds:.0f} s -->")
    print("| what | found |")
    print("| --- | ---: |")
    for kind, quality in built[0].quality.items():
        print(f"| R² on {quality.rows} unseen {kind} | {quality.r2:.3f} |")
        print(f"| the same, values alone | {quality.values_alone:.3f} |")
    against_single_texts(built[0], Explainer(given.model, show_progress=False)(single))
    against_refit(*built)


if __name__ == "__main__":
    main()
