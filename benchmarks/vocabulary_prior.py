"""Does a vocabulary help to explain single texts with few calls?

``slalom-few`` learns what rows change by a Gaussian process. Here the process learns what is left
of these changes beyond what a vocabulary's SLALOM predicts, times the factor that fits best. Of
texts that the vocabulary has not seen, it prints the error of predicted changes, as a share of
their mean square, with and without the vocabulary: for few deletions, any number and single ones.

    python -m benchmarks.vocabulary_prior --data reviews.jsonl --texts 20
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from slalom_xai import Explainer
from slalom_xai.designs import RowPool, few_rows
from slalom_xai.estimators.slalom.few import FEW
from slalom_xai.surrogates.conditioning import Changes, conditioned
from slalom_xai.surrogates.process_fit import fit_kernel
from slalom_xai.tables import read_table
from slalom_xai.vocabulary import Vocabulary, build_vocabulary

BUDGETS = (60, 100, 150)
_TESTED = 100  # rows of each kind


class Text:
    """A text whose rows the model answers, and a vocabulary predicts."""

    def __init__(self, explainer: Explainer, text: str, vocabulary: Vocabulary) -> None:
        self._model = explainer.model
        self._reading = self._model.read(text)
        numbers = {kind: index for index, kind in enumerate(vocabulary.token_ids)}
        units = Explainer(method="slalom-few", budget=8, show_progress=False)(text).units
        known = [numbers.get(unit.token_ids) for unit in units]
        self.units = len(units)
        value, importance = vocabulary.sink
        values = [value if index is None else vocabulary.values[index] for index in known]
        importances = [0 if index is None else vocabulary.importances[index] for index in known]
        self._values = torch.tensor([*values, value], dtype=torch.float64)
        self._weights = torch.tensor([*importances, importance], dtype=torch.float64).exp()
        self.full = self._answers(np.ones((1, self.units), dtype=bool))

    def _answers(self, masks: np.ndarray) -> Tensor:
        logits = self._model.answer([self._reading.shorten(mask) for mask in masks]).double()
        return logits[:, 1:] - logits[:, :1]

    def changes(self, masks: np.ndarray) -> Tensor:
        """What the model's answers to rows (m, n) change, (m, 1)."""
        return self._answers(masks) - self.full

    def prior(self, masks: np.ndarray) -> Tensor:
        """What the vocabulary predicts for that."""
        rows = np.concatenate([np.ones((1, self.units), dtype=bool), masks])
        weights = torch.as_tensor(np.pad(rows, ((0, 0), (0, 1)), constant_values=True)).double()
        weights = weights * self._weights
        predicted = (weights @ self._values / weights.sum(dim=1))[:, None]
        return predicted[1:] - predicted[:1]


def tests(units: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Rows (m, n) to predict, by kind."""

    def deleted(count: np.integer) -> np.ndarray:
        mask = np.ones(units, dtype=bool)
        mask[rng.choice(units, count, replace=False)] = False
        return mask

    few = [deleted(rng.integers(1, min(10, units - 1) + 1)) for _ in range(_TESTED)]
    wide = [deleted(rng.integers(1, units)) for _ in range(_TESTED)]
    single = ~np.eye(units, dtype=bool)
    return {"few": np.array(few), "any number": np.array(wide), "single": single}


def errors(text: Text, budget: int, seed: int) -> dict[tuple[str, str], float]:
    """The error of each kind of rows, without and with the vocabulary."""
    pool = RowPool(np.arange(text.units))
    pool.take_whole()
    masks = few_rows(pool, budget - 1, np.random.default_rng([seed, budget]))
    changes, prior = text.changes(masks), text.prior(masks)
    factor = ((prior * changes).sum() / (prior**2).sum()).clamp(0, 2)
    found = {}
    for name, share in (("without", 0 * factor), ("with", factor)):
        seen = Changes.of(torch.as_tensor(masks).double(), changes - share * prior)
        known = conditioned(*fit_kernel(seen, FEW.kernel), seen, text.full[0])
        for kind, rows in tests(text.units, np.random.default_rng(seed)).items():
            truth = text.changes(rows)
            told = known.process.predict(torch.as_tensor(rows).double()) - text.full
            told = told + share * text.prior(rows)
            found[kind, name] = float(((told - truth) ** 2).mean() / (truth**2).mean())
    return found


def main() -> None:
    """Prints a table of mean errors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--texts", type=int, default=20)
    parser.add_argument("--first", type=int, default=1000, help="so many texts are passed over")
    parser.add_argument("--vocabulary-texts", type=int, default=120)
    given = parser.parse_args()
    texts = [" ".join(str(text).split()) for text in read_table(given.data).cells("text")]
    texts = [text for text in texts if 25 <= len(text.split()) <= 60]
    explainer = Explainer(show_progress=False)
    vocabulary = build_vocabulary(explainer, texts[: given.vocabulary_texts])
    asked = [Text(explainer, text, vocabulary) for text in texts[given.first :][: given.texts]]
    print("| calls | deletions | error without | error with | better with |")
    print("| ---: | --- | ---: | ---: | ---: |")
    for budget in BUDGETS:
        all_errors = [errors(text, budget, seed) for seed, text in enumerate(asked)]
        for kind in ("few", "any number", "single"):
            without, added = (
                np.array([one[kind, name] for one in all_errors]) for name in ("without", "with")
            )
            print(
                f"| {budget} | {kind} | {without.mean():.3f} | {added.mean():.3f} | "
                f"{(added < without).sum()} of {len(asked)} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
