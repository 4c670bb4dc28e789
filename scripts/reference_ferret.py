r"""Makes the fixture of deletion and insertion, with ``ferret-xai``.

Ferret calls them AOPC comprehensiveness and sufficiency.

It is made once, in an environment of its own: ferret needs a transformers before 5, and with
``only_pos=False`` a numpy before 1.25 (it compares an array with an empty list). Of its many
requirements these measures need none but scipy, so ferret is installed without them and its package
is opened without running its own imports.

    python -m venv reference && . reference/bin/activate
    pip install torch==2.13.0 transformers==4.52.4 numpy==1.24.4 scipy==1.11.4
    pip install --no-deps ferret-xai==0.4.2
    python scripts/reference_ferret.py --model tests/fixtures/lrp/bert \
        --out tests/fixtures/ferret.json

``--model`` is a folder with a classifier of two classes and its tokenizer, whose words stand for
themselves: ferret decodes what is left of a text and tokenises it again. The tiny BERT comes from
``scripts/reference_lrp.py``. For random scores of random texts, for each answer of the model, the
fixture holds what ferret gives

    perc      over the bins 1, 5, 10, 20, 50 %, as one number (its default is 10, 20, ..., 100 %)
    curve     over the top 1, 2, ..., n − 1 tokens, as one number
    drops     for each of these alone

with tokens deleted or masked, and with ``only_pos`` off: tokens that argue against the answer are
deleted as others are.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
from transformers import AutoModelForSequenceClassification, AutoTokenizer

LENGTHS = (100, 20, 7)
BINS = (0.01, 0.05, 0.1, 0.2, 0.5)


def ferret() -> tuple[Any, Any]:
    """The measures' module and the class of explanations.

    ``ferret/__init__`` is left out, which imports all that ferret can do.
    """
    found = importlib.util.find_spec("ferret")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("ferret is not installed: pip install --no-deps ferret-xai==0.4.2")
    package = types.ModuleType("ferret")
    package.__path__ = list(found.submodule_search_locations)
    sys.modules["ferret"] = package
    from ferret.evaluators import faithfulness_measures
    from ferret.explainers.explanation import Explanation

    return faithfulness_measures, Explanation


def measured(
    evaluators: dict[str, Any], explanation: Any, target: int, removal: str
) -> dict[str, Any]:
    """Comprehensiveness and sufficiency over bins, over the curve, and at every point of it."""
    units = len(explanation.scores) - 2
    sizes = list(range(1, units))

    def ask(evaluator: Any, based_on: str, thresholds: list[Any]) -> float:
        removal_args = {
            "remove_tokens": removal == "delete",
            "based_on": based_on,
            "thresholds": thresholds,
        }
        found = evaluator.compute_evaluation(
            explanation, target=target, only_pos=False, removal_args=removal_args
        )
        return float(found.score)

    return {
        name: {
            "perc": ask(evaluator, "perc", list(BINS)),
            "curve": ask(evaluator, "k", sizes),
            "drops": [ask(evaluator, "k", [size]) for size in sizes],
        }
        for name, evaluator in evaluators.items()
    }


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument(
        "--model", type=Path, required=True, help="folder with a classifier and its tokenizer"
    )
    options.add_argument("--out", type=Path, required=True, help="the JSON file to write")
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    measures, explanation_of = ferret()
    model = AutoModelForSequenceClassification.from_pretrained(given.model).double().eval()
    words = AutoTokenizer.from_pretrained(given.model)
    evaluators = {
        "comprehensiveness": measures.AOPC_Comprehensiveness_Evaluation(model, words),
        "sufficiency": measures.AOPC_Sufficiency_Evaluation(model, words),
    }
    rng = np.random.default_rng(given.seed)
    cases = []
    for length in LENGTHS:
        for answer in (0, 1):
            text, probabilities = drawn(model, words, rng, length, answer)
            # No ties; half of them argue for the answer.
            scores = rng.permutation(np.arange(length) - length // 2 + 0.5) / length
            with_special = np.concatenate([[0], scores, [0]])
            explanation = explanation_of(text, words(text).tokens(), with_special, "random", answer)
            case = {
                "text": text,
                "target": answer,
                "probability": probabilities[answer],
                "scores": scores.tolist(),
            }
            for removal in ("delete", "mask"):
                found = measured(evaluators, explanation, answer, removal)
                cases.append(case | {"removal": removal, **found})
            print(length, answer, {name: cases[-2][name]["perc"] for name in evaluators})
    versions = {
        package: importlib.metadata.version(package)
        for package in ("ferret-xai", "transformers", "torch", "numpy")
    }
    fixture = {"about": "made by scripts/reference_ferret.py", "versions": versions, "cases": cases}
    given.out.write_text(json.dumps(fixture, indent=1) + "\n", encoding="utf-8")


def drawn(
    model: Any, words: Any, rng: np.random.Generator, length: int, answer: int
) -> tuple[str, list[float]]:
    """A random text that the model answers so, with its probabilities."""
    by_id = sorted(words.get_vocab(), key=words.get_vocab().get)
    plain = [word for word in by_id if word not in words.all_special_tokens]
    while True:
        text = " ".join(rng.choice(plain, length))
        probabilities = model(**words(text, return_tensors="pt")).logits.softmax(-1)[0].tolist()
        if probabilities[answer] > 0.5:
            return text, probabilities


if __name__ == "__main__":
    main()
