"""Gives each metric what it declares to need, so that a benchmark knows no metric by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from slalom_xai.bench.explainers import Explainers
from slalom_xai.bench.items import Item
from slalom_xai.bench.log import Made
from slalom_xai.bench.options import BenchOptions, base_method, ranking_score
from slalom_xai.errors import InputError
from slalom_xai.estimators import Random, Zero
from slalom_xai.explanation import Array, Explanation
from slalom_xai.metrics import Asker, Case, Need, to_units

# Further explanations of each text, where a metric compares seeds. Three in all give three pairs to
# compare; each more costs as much as the first.
_FURTHER_SEEDS = 2

# Methods that know nothing of the model: agreeing with chance says nothing.
_FLOORS = (Random.name, Zero.name)


@dataclass(frozen=True)
class Judged:
    """An explanation that is judged, beside those of the same text by other methods.

    Attributes:
        item: the text.
        method: the label of the method, such as "slalom" or "slalom:shapley".
        explanations: those that could be made, by label, this one included.
        made: what it took to make this one.
    """

    item: Item
    method: str
    explanations: Mapping[str, Explanation]
    made: Made

    @property
    def explanation(self) -> Explanation:
        """What is judged."""
        return self.explanations[self.method]


class Cases:
    """Makes the cases of a benchmark.

    Args:
        explainers: for explanations with other seeds, and for the weights of Naive Bayes.
        options: settled ones.
    """

    def __init__(self, explainers: Explainers, options: BenchOptions) -> None:
        self._explainers, self._options = explainers, options

    def case(self, judged: Judged, ask: Asker, needs: frozenset[Need]) -> Case:
        """The case of an explanation, with what a metric needs.

        Args:
            judged: the explanation.
            ask: the model's answers, which every case has.
            needs: of the metric.

        Raises:
            SlalomError: something cannot be provided, such as marks that do not fit the words.
        """
        case = Case(
            judged.explanation,
            ask,
            score=ranking_score(judged.method) or self._options.score,
            seed=self._options.seed,
            label=_label(judged),
        )
        if Need.OTHER_METHODS in needs:
            case = replace(case, others=_other_methods(judged))
        if Need.OTHER_SEEDS in needs:
            case = replace(case, others=case.others + self._other_seeds(judged))
        if Need.NAIVE_BAYES in needs:
            case = replace(case, naive_bayes=self._naive_bayes(judged))
        if Need.RATIONALE in needs:
            case = replace(case, rationale=self._marks(judged))
        if Need.SECONDS in needs:
            case = replace(case, seconds=judged.made.seconds, calls=judged.made.calls)
        return case

    def _other_seeds(self, judged: Judged) -> tuple[Explanation, ...]:
        """Explanations by the same method with other seeds."""
        method, text = base_method(judged.method), judged.item.text
        explanations = []
        for seed in range(1, _FURTHER_SEEDS + 1):
            explanations.append(self._explainers.explainer(method, seed)(text))
        return tuple(explanations)

    def _naive_bayes(self, judged: Judged) -> Array | None:
        """The weights of Naive Bayes, (n,); None without a corpus."""
        learnt = self._explainers.naive_bayes
        if learnt is None:
            return None
        return self._explainers.explainer(learnt)(judged.item.text).values

    def _marks(self, judged: Judged) -> NDArray[np.bool_] | None:
        """Which units people marked, (n,); None where they marked none of this text."""
        item = judged.item
        if item.marks is None:
            return None
        rationale = to_units(
            judged.explanation, item.marks, item.words, at_least=self._options.at_least
        )
        return rationale.marks


def _label(judged: Judged) -> str | None:
    """The true label as the model calls it; as the table has it where the model has no such."""
    label, outputs = judged.item.label, judged.explanation.outputs
    if label is None:
        return None
    try:
        return outputs.labels[outputs.index(label)]
    except InputError:
        return label


def _other_methods(judged: Judged) -> tuple[Explanation, ...]:
    """Explanations by other methods, each once, and no floor."""
    others = []
    for label, explanation in judged.explanations.items():
        is_ranked_anew = ":" in label  # the same explanation as without the score
        is_same = base_method(label) == base_method(judged.method)
        if not is_ranked_anew and not is_same and label not in _FLOORS:
            others.append(explanation)
    return tuple(others)
