"""Runs a benchmark from the table of texts to the tables and figures of results."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from slalom_xai.data.bench.items import Item, Items, read_items
from slalom_xai.data.bench.options import BenchOptions, base_method, ranking_score
from slalom_xai.data.bench.results import Log, Made, tidy
from slalom_xai.data.bench.writing import draw, markdown
from slalom_xai.data.tables import read_table
from slalom_xai.data.tables.examples import Fields, read_examples
from slalom_xai.errors import InputError, SlalomError
from slalom_xai.explainer import Explainer
from slalom_xai.explanation import Array, Explanation
from slalom_xai.methods import Estimator, NaiveBayes, Random, Zero
from slalom_xai.metrics import Asker, Case, Measured, Need, asker, metric, to_units
from slalom_xai.models import TextModel
from slalom_xai.system.files import write_file
from slalom_xai.system.progress import Bar, progress_bar

# The explainers of a benchmark: one model and one set of options, with many methods.


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


def learn_naive_bayes(options: BenchOptions) -> NaiveBayes | None:
    """A Naive Bayes that has learnt from the corpus; None without one.

    Raises:
        InputError: the corpus cannot be read or used.
    """
    if options.corpus is None:
        return None
    fields = Fields(text=options.text, label=options.label)
    examples = read_examples(read_table(options.corpus), fields)
    return NaiveBayes(examples.texts, examples.labels)


# Gives each metric what it declares to need, so that a benchmark knows no metric by name.


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


# Works through a benchmark: every method on every text, every metric on every explanation.


class Grid:
    """Works through the texts, one at a time; what the log has is not done again.

    Args:
        explainers: make the explanations.
        options: settled ones.
        log: takes what was done.
        tell: called with one line for whatever a person should know.
    """

    def __init__(
        self,
        explainers: Explainers,
        options: BenchOptions,
        log: Log,
        tell: Callable[[str], None],
    ) -> None:
        self._options, self._log, self._tell = options, log, tell
        self._cases = Cases(explainers, options)
        self._explainers = {}
        for label in options.methods:
            self._explainers[label] = explainers.explainer(base_method(label))

    def run(self, item: Item, bar: Bar | None) -> None:
        """Explains one text with every method and measures what is not measured yet."""
        explanations: dict[str, Explanation] = {}
        for method in self._options.methods:
            explanation = self._explain(item, method)
            if explanation is not None:
                explanations[method] = explanation
        ask: Asker | None = None
        for method in self._options.methods:
            if method in explanations:
                made = self._log.made[(item.name, base_method(method))]
                ask = self._measure(Judged(item, method, explanations, made), ask)
            if bar is not None:
                bar.advance(1)

    def _explain(self, item: Item, method: str) -> Explanation | None:
        """The explanation of a text, from the log or new; None where it fails."""
        cell = (item.name, base_method(method))
        if cell in self._log.made:
            try:
                return self._log.explanation(cell)
            except InputError as error:
                self._tell(f"row {item.name}, {cell[1]}: {error}; the text is explained again")
        elif cell in self._log.failed and not self._options.retry:
            return None
        began = time.perf_counter()
        try:
            explanation = self._explainers[method](item.text)
        except SlalomError as error:
            self._log.add_failure(cell, str(error))
            return None
        self._log.add_explanation(cell, explanation, time.perf_counter() - began)
        return explanation

    def _measure(self, judged: Judged, ask: Asker | None) -> Asker | None:
        """Measures what is missing of one explanation.

        Args:
            judged: the explanation.
            ask: the model's answers so far; None: nothing was asked about the text yet.

        Returns:
            The model's answers, since other methods ask for many of the same rows.
        """
        cell = (judged.item.name, judged.method)
        measured = self._log.measured.get(cell, {})
        missing = [name for name in self._options.metrics if name not in measured]
        for name in missing:
            try:
                if ask is None:
                    ask = asker(self._explainers[judged.method], judged.explanation)
                result = self._evaluate(judged, ask, name)
            except SlalomError as error:
                result = metric(name).unavailable(str(error))
            self._log.add_measured(cell, name, result)
        return ask

    def _evaluate(self, judged: Judged, ask: Asker, name: str) -> Measured:
        """What one metric says of an explanation."""
        chosen = metric(name)
        return chosen.measure(self._cases.case(judged, ask, chosen.needs))


# Runs a benchmark from the table of texts to the tables and figures of results.


def bench(
    model: Any,
    data: str | Path,
    out: str | Path,
    options: BenchOptions | None = None,
    *,
    tokenizer: Any = None,
    device: str | None = None,
    dtype: str | None = None,
    tell: Callable[[str], None] | None = None,
    show_progress: bool | None = None,
) -> pd.DataFrame:
    """Compares explanation methods on the texts of a table.

    Results are written as they come, and a second run with the same settings resumes where the
    first stopped; more methods and metrics may be added to it. What fails is recorded with its
    reason.

    Args:
        model: whatever ``Explainer`` takes.
        data: CSV, TSV, JSON lines or Parquet with a text in each row.
        out: folder for log.jsonl, explanations/, results.csv, table.md and figures/.
        options: everything else.
        tokenizer: as for ``Explainer``.
        device: as for ``Explainer``.
        dtype: as for ``Explainer``.
        tell: called with one line for whatever a person should know.
        show_progress: a progress bar; None: when a person is watching.

    Returns:
        One row per text, method and number of a metric; see ``tidy``. With a shard, of its
        texts alone, and no table is written.
    """
    settled = (options or BenchOptions()).resolve()
    items = read_items(data, settled)
    chosen = [item for place, item in enumerate(items.items) if settled.shard.has(place)]
    loaded = Explainer(model, tokenizer, device=device, dtype=dtype, show_progress=False).model
    explainers = Explainers(loaded, settled, learn_naive_bayes(settled))
    log = Log.open(Path(out), _identity(loaded.name, items, settled))
    say = tell or (lambda line: None)
    grid = Grid(explainers, settled, log, say)
    with progress_bar(show_progress) as bar:
        if bar is not None:
            bar.start(len(chosen) * len(settled.methods), "explaining and measuring", afresh=True)
        for item in chosen:
            grid.run(item, bar)
    frame = tidy(log, [item.name for item in chosen], settled)
    if settled.shard.count == 1:
        _write(frame, log, settled, say)
    return frame


def _identity(model: str, items: Items, options: BenchOptions) -> dict[str, object]:
    """What must not change between runs into one folder."""
    identity = {"model": model, "data": items.sha256, **options.fixed()}
    if items.lines:  # earlier versions named texts by the line they begin on
        identity["texts_named_by"] = "row"
    return identity


def _write(
    frame: pd.DataFrame, log: Log, options: BenchOptions, tell: Callable[[str], None]
) -> None:
    """Writes the results for programs and for people."""
    write_file(log.folder / "results.csv", frame.to_csv(index=False, lineterminator="\n"))
    write_file(log.folder / "table.md", markdown(frame, log, options))
    try:
        import_module("matplotlib")
    except ImportError as error:
        tell(
            f"no figures were drawn ({error}): "
            "pip install matplotlib and run the same command again"
        )
        return
    draw(frame, log.folder / "figures")
