"""The explainers of a benchmark: one model and one set of options, with many methods."""

from __future__ import annotations

from slalom_xai.bench.options import BenchOptions
from slalom_xai.estimators import Estimator, NaiveBayes
from slalom_xai.explainer import Explainer
from slalom_xai.models import TextModel
from slalom_xai.tables import read_table
from slalom_xai.tables.examples import Fields, read_examples


class Explainers:
    """Makes explainers that differ in nothing but the method and the seed.

    Args:
        model: what is explained.
        options: settled ones.
        naive_bayes: has learnt from the corpus; None without one.
    """

    def __init__(
        self, model: TextModel, options: BenchOptions, naive_bayes: NaiveBayes | None
    ) -> None:
        self._model, self._options = model, options
        self.naive_bayes = naive_bayes

    def explainer(self, method: str | Estimator, further_seed: int = 0) -> Explainer:
        """An explainer for a method.

        Args:
            method: its name, without a score; "naive-bayes" is the one that has learnt.
            further_seed: added to the seed of the benchmark.
        """
        if method == NaiveBayes.name and self.naive_bayes is not None:
            method = self.naive_bayes
        options = self._options
        return Explainer(
            self._model,
            method=method,
            budget=options.budget,
            granularity=options.granularity,
            removal=options.removal,
            truncation=options.truncation,
            random_state=options.seed + further_seed,
            show_progress=False,
        )


def learnt_naive_bayes(options: BenchOptions) -> NaiveBayes | None:
    """A Naive Bayes that has learnt from the corpus; None without one.

    Raises:
        InputError: the corpus cannot be read or used.
    """
    if options.corpus is None:
        return None
    fields = Fields(text=options.text, label=options.label)
    examples = read_examples(read_table(options.corpus), fields)
    return NaiveBayes(examples.texts, examples.labels)
