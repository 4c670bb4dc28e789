"""Runs a benchmark: every method on every text, every metric on every explanation."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from slalom_xai.bench.figures import draw
from slalom_xai.bench.items import Item, read_items
from slalom_xai.bench.log import Log
from slalom_xai.bench.options import BenchOptions, base_method, ranking_score
from slalom_xai.bench.tables import markdown, tidy
from slalom_xai.errors import InputError, SlalomError
from slalom_xai.estimators import Estimator, NaiveBayes
from slalom_xai.explainer import Explainer
from slalom_xai.explanation import Explanation
from slalom_xai.metrics import Asker, Case, Measured, asker, catalogue, metric, to_units
from slalom_xai.models import TextModel
from slalom_xai.progress import Bar, progress_bar
from slalom_xai.system.files import write_file
from slalom_xai.tables import read_table

_SEEDS = 2  # further explanations of each text where stability is asked for


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

    Results are written as they come, and a second run with the same settings goes on where the first stopped; more methods and
    metrics may be added to it. What fails is recorded with its reason.

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
        One row per text, method and number of a metric; see ``tidy``. With a part, of its texts alone, and no table is written.
    """
    settled = (options or BenchOptions()).settled()
    items = read_items(data, settled)
    chosen = (
        items.items if settled.part is None else items.items[settled.part[0] - 1 :: settled.part[1]]
    )
    first = Explainer(model, tokenizer, device=device, dtype=dtype, show_progress=False)
    corpus, say = _corpus(settled), tell or (lambda line: None)
    counted = (
        {"texts_named_by": "row"} if items.lines else {}
    )  # earlier versions named them by line
    log = Log.open(
        Path(out), {"model": first.model.name, "data": items.sha256, **settled.fixed(), **counted}
    )
    grid = _Grid(first.model, settled, log, corpus, say)
    with progress_bar(show_progress) as bar:
        if bar is not None:
            bar.start(len(chosen) * len(settled.methods), "explaining and measuring", afresh=True)
        for item in chosen:
            grid.run(item, bar)
    frame = tidy(log, [item.name for item in chosen], settled)
    if settled.part is None:
        _write(frame, log, settled, say)
    return frame


class _Grid:
    """Works through the texts, one at a time."""

    def __init__(
        self,
        model: TextModel,
        options: BenchOptions,
        log: Log,
        corpus: NaiveBayes | None,
        tell: Callable[[str], None],
    ) -> None:
        self._options, self._log, self._corpus, self._model, self._tell = (
            options,
            log,
            corpus,
            model,
            tell,
        )
        self._explainers = {label: self._explainer(base_method(label)) for label in options.methods}

    def _explainer(self, method: str | Estimator, seed: int = 0) -> Explainer:
        options = self._options
        chosen = self._corpus if method == "naive-bayes" and self._corpus is not None else method
        return Explainer(
            self._model,
            method=chosen,
            budget=options.budget,
            granularity=options.granularity,
            removal=options.removal,
            truncation=options.truncation,
            random_state=options.seed + seed,
            show_progress=False,
        )

    def run(self, item: Item, bar: Bar | None) -> None:
        """Explains one text with every method and measures what is not measured yet."""
        found: dict[str, Explanation] = {}
        for method in self._options.methods:
            explanation = self._explained(item, method)
            if explanation is not None:
                found[method] = explanation
        asked: Asker | None = None
        for method in self._options.methods:
            if method in found:
                asked = self._measured(item, method, found, asked)
            if bar is not None:
                bar.advance(1)

    def _explained(self, item: Item, method: str) -> Explanation | None:
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

    def _measured(
        self, item: Item, method: str, found: Mapping[str, Explanation], asked: Asker | None
    ) -> Asker | None:
        """Measures one explanation; hands the model's answers on, as other methods ask for many of the same rows."""
        cell, explanation = (item.name, method), found[method]
        missing = [
            name for name in self._options.metrics if name not in self._log.measured.get(cell, {})
        ]
        if not missing:
            return asked
        for name in missing:
            try:
                if asked is None:
                    asked = asker(self._explainers[method], explanation)
                case = self._case(item, method, found, asked, name)
                measured = metric(name).measure(case)
            except SlalomError as error:
                measured = Measured(
                    dict.fromkeys(catalogue()[name].gives, float("nan")), str(error)
                )
            self._log.add_measured(cell, name, measured)
        return asked

    @staticmethod
    def _comparable(label: str, method: str) -> bool:
        """Another method's explanation, once, and no floor: agreeing with chance says nothing."""
        return (
            ":" not in label
            and base_method(label) != base_method(method)
            and label not in ("random", "zero")
        )

    def _case(
        self, item: Item, method: str, found: Mapping[str, Explanation], asked: Asker, name: str
    ) -> Case:
        explanation, options = found[method], self._options
        extras: dict[str, Any] = dict(self._log.made[(item.name, base_method(method))])
        others = tuple(other for label, other in found.items() if self._comparable(label, method))
        if name == "stability":
            others = tuple(
                self._explainer(base_method(method), seed)(item.text)
                for seed in range(1, _SEEDS + 1)
            )
        if name == "naive-bayes" and self._corpus is not None:
            extras["naive_bayes"] = self._explainer(self._corpus)(item.text).values
        marks = None
        if name == "human" and item.marks is not None:
            marks = to_units(explanation, item.marks, item.words, at_least=options.at_least).marks
        return Case(
            explanation,
            asked,
            rationale=marks,
            score=ranking_score(method) or options.score,
            others=others,
            extras=extras,
            seed=options.seed,
        )


def _corpus(options: BenchOptions) -> NaiveBayes | None:
    """What Naive Bayes learns from."""
    if options.corpus is None:
        return None
    from slalom_xai.training.data import checked
    from slalom_xai.training.options import TrainingOptions

    examples = checked(
        read_table(options.corpus), TrainingOptions(text=options.text, label=options.label)
    )
    return NaiveBayes(examples.texts, examples.labels)


def _write(
    frame: pd.DataFrame, log: Log, options: BenchOptions, tell: Callable[[str], None]
) -> None:
    write_file(log.folder / "results.csv", frame.to_csv(index=False, lineterminator="\n"))
    write_file(log.folder / "table.md", markdown(frame, log, options))
    try:
        draw(frame, log.folder / "figures")
    except ImportError as error:
        tell(
            f"no figures were drawn ({error}): pip install matplotlib and run the same command again"
        )
