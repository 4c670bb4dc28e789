"""The front door: measures and fits a vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from slalom_xai.data.corpus.source import CorpusFields, open_source
from slalom_xai.data.vocabulary.evidence import (
    Asker,
    Effects,
    Evidence,
    draw_sequences,
    draw_text_rows,
)
from slalom_xai.data.vocabulary.fitting import FITS, Fitted, fit_vocabulary, r2
from slalom_xai.data.vocabulary.items import (
    GRANULARITIES,
    SETTINGS,
    Found,
    Items,
    carrier,
    find_items,
    items_of_list,
    items_of_texts,
    room,
)
from slalom_xai.data.vocabulary.result import Quality, Vocabulary
from slalom_xai.errors import BudgetError, InputError, one_of
from slalom_xai.explainer import Explainer
from slalom_xai.models.base import ShowsItsWeights
from slalom_xai.models.outputs import Target
from slalom_xai.options import ExplainOptions
from slalom_xai.queries import Queries
from slalom_xai.system.progress import Bar, progress_bar


@dataclass(frozen=True)
class VocabularyPlan:
    """What building a vocabulary will take.

    Attributes:
        items: how many.
        texts: that were read.
        problems: texts that cannot be read, and why.
        left_out: items that are too rare to be among them.
        too_long: items that have too many tokens to be among them.
        lengths: of the texts that items fill.
        fills: calls for values.
        sequences: calls for short sequences.
        deletions: calls for shortened texts.
    """

    items: int
    texts: int
    problems: dict[str, int]
    left_out: int
    too_long: int
    lengths: tuple[int, ...]
    fills: int
    sequences: int
    deletions: int

    @property
    def calls(self) -> int:
        """All model calls."""
        return self.fills + self.sequences + self.deletions


def build_vocabulary(
    explainer: Explainer,
    texts: Iterable[str] = (),
    *,
    words: Sequence[str] | None = None,
    most_items: int = SETTINGS.most_items,
    lengths: Sequence[int] | None = None,
    budget: int | None = None,
    on_plan: Callable[[VocabularyPlan], None] = lambda plan: None,
) -> Vocabulary:
    """One value and one importance for each item of a vocabulary.

    Args:
        explainer: says the model, the granularity ("token" or "word"), the target, the seed and
            whether long texts are cut.
        texts: where items are found, and what is shortened; none: only ``words`` in short
            sequences.
        words: the items; None: all of the texts.
        most_items: of the texts; those of most texts are kept.
        lengths: of the texts that an item fills for its value, in items; None: three typical
            lengths of the texts.
        budget: model calls in all; None: about eleven for each item.
        on_plan: is told what it will take, before the first call.

    Raises:
        InputError: there are no items, or the model has no tokens.
        BudgetError: the budget is too small for the items.
    """
    _check(explainer, most_items, lengths)
    model, rng = explainer.model, np.random.default_rng(explainer.random_state)
    texts, truncation = list(texts), explainer.truncation
    with progress_bar(explainer.show_progress) as bar:
        shown = _Shown(bar)
        shown.begin(len(texts), "reading texts")
        found = find_items(
            model, texts, explainer.granularity, truncation=truncation, done=shown.advance
        )
    items = _items(explainer, found, words, most_items)
    asked = carrier(model, items)
    chosen = _lengths(found, lengths, room(model, asked))
    plan = _plan(items, found, chosen, budget)
    on_plan(plan)
    with progress_bar(explainer.show_progress) as bar:
        shown = _Shown(bar)
        queries = Queries(explainer.batches, asked, budget=plan.calls, progress=shown)
        return _Builder(explainer, queries, items, found, plan, rng, shown).build()


@dataclass(frozen=True)
class _Shown:
    """A progress bar whose total is known before the first question."""

    bar: Bar | None

    def begin(self, total: int, label: str) -> None:
        """Begins a part of the work."""
        if self.bar is not None:
            self.bar.start(total, label, afresh=True)

    def start(self, total: int) -> None:
        """Some rows are going to be asked, which was known."""

    def advance(self, rows: int, spent: str = "") -> None:
        """Some of the part is done."""
        if self.bar is not None:
            self.bar.advance(rows, spent)


@dataclass(frozen=True)
class _Builder:
    """Asks, fits and puts the result together."""

    explainer: Explainer
    queries: Queries
    items: Items
    found: Found
    plan: VocabularyPlan
    rng: np.random.Generator
    shown: _Shown

    def build(self) -> Vocabulary:
        """The vocabulary."""
        target = _target(self.explainer)
        asker = Asker(self.queries, target)
        self.shown.begin(self.plan.calls, "asking the model")
        answers = asker.filled(self.plan.lengths, room(self.explainer.model, asker.carrier))
        values = answers.mean(axis=1)
        training, tests, effects = self._evidence(asker)
        others = float(np.average(values, weights=np.maximum(self.items.texts, 1)))
        self.shown.begin(FITS, "fitting the items")
        fitted = fit_vocabulary(np.append(values, others), training, self.rng, self.shown.advance)
        return self._vocabulary(target, answers, fitted, tests, effects)

    def _evidence(self, asker: Asker) -> tuple[Evidence, dict[str, Evidence], Effects]:
        """The rows to fit to, those that test, by kind, and the effects of single removals."""
        plan, tests = self.plan, {}
        table = draw_sequences(len(self.items), plan.sequences, self.rng)
        check = round(SETTINGS.check_share * len(table))
        tests["sequences"] = asker.sequences(table[:check], "check")
        training = [asker.sequences(table[check:], "fit")]
        effects = Effects(np.zeros(0, dtype=np.int64), np.zeros(0))
        numbers = {kind: number for number, kind in enumerate(self.items.token_ids)}
        drawn = list(draw_text_rows(self.found.texts, numbers, plan.deletions, self.rng))
        if len(drawn) > 1:
            check = max(1, round(SETTINGS.check_share * len(drawn)))
            tests["deletions"], first = asker.deletions(drawn[:check], "check")
            evidence, rest = asker.deletions(drawn[check:], "fit")
            training.append(evidence)
            effects = Effects(
                np.concatenate([first.item, rest.item]), np.concatenate([first.lost, rest.lost])
            )
        return Evidence.join(training), tests, effects

    def _vocabulary(
        self,
        target: Target,
        answers: NDArray[np.float64],
        fitted: Fitted,
        tests: dict[str, Evidence],
        effects: Effects,
    ) -> Vocabulary:
        explainer, items = self.explainer, self.items
        model = explainer.model
        slalom = fitted.slalom
        mean, error, spread, contexts = effect_scores(effects, len(items))
        return Vocabulary(
            names=items.names,
            token_ids=items.token_ids,
            texts=items.texts,
            values=answers.mean(axis=1),
            value_errors=_moderated(answers),
            importances=slalom.importances[:-1],
            importance_errors=fitted.errors[:-1],
            effects=mean,
            effect_errors=error,
            spreads=spread,
            contexts=contexts,
            sink=(slalom.sink_value, slalom.sink_importance),
            quality={
                kind: Quality(r2(slalom, rows), r2(fitted.alone, rows), len(rows.answers))
                for kind, rows in tests.items()
            },
            lengths=self.plan.lengths,
            granularity=explainer.granularity,
            target=target.label,
            kind=model.outputs.kind,
            labels=model.outputs.labels,
            model=model.name,
            fingerprint=(model.weights_fingerprint() if isinstance(model, ShowsItsWeights) else ""),
            seed=explainer.random_state,
            calls_fit=self.queries.calls_fit,
            calls_check=self.queries.calls_check,
            texts_read=len(self.found.texts),
            left_out=items.left_out,
        )


def effect_scores(
    effects: Effects, items: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Mean, standard error and spread over texts of what removals lose, and the texts, (V,) each.

    NaN where an item was removed from too few texts.
    """
    contexts = np.bincount(effects.item, minlength=items)
    total = np.bincount(effects.item, effects.lost, items)
    squares = np.bincount(effects.item, effects.lost**2, items)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = total / contexts
        variance = (squares - contexts * mean**2).clip(min=0) / (contexts - 1)
        spread = np.where(contexts > 1, np.sqrt(variance), np.nan)
        error = spread / np.sqrt(contexts)
    return mean, error, spread, contexts


def _moderated(answers: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far answers (V, lengths) differ over lengths: standard deviations (V,).

    Those of so few numbers are drawn halfway towards the median of all items.
    """
    if answers.shape[1] < 2:
        return np.full(len(answers), np.nan)
    variances = answers.var(axis=1, ddof=1)
    return np.asarray(np.sqrt((variances + np.median(variances)) / 2))


def _check(explainer: Explainer, most_items: int, lengths: Sequence[int] | None) -> None:
    if explainer.granularity not in GRANULARITIES:
        raise one_of("granularity", explainer.granularity, GRANULARITIES)
    if explainer.removal not in ("auto", "delete"):
        raise InputError(
            f"removal is {explainer.removal!r}, and a vocabulary is fitted to texts from which "
            'units are deleted: use removal="delete"'
        )
    if not 1 < most_items <= SETTINGS.most_items:
        raise InputError(
            f"{most_items} items were asked for: give a number from 2 to {SETTINGS.most_items:,}"
        )
    if lengths is not None and (not lengths or min(lengths) < 1):
        raise InputError(f"lengths is {list(lengths)}: give whole numbers of at least 1")


def _items(explainer: Explainer, found: Found, words: Sequence[str] | None, most: int) -> Items:
    if words is not None:
        items = items_of_list(explainer.model, words, found)
    else:
        items = items_of_texts(explainer.model, found, most)
    if not found.texts and words is None:
        raise InputError("there are no texts and no words: give a table or a list")
    if len(items) < 2:
        raise InputError(
            f"there is only one item, {items.names[0]!r}: a vocabulary compares at least two"
        )
    return items


def _lengths(found: Found, given: Sequence[int] | None, most: int | None) -> tuple[int, ...]:
    """How many copies fill a text."""
    lengths = list(given or SETTINGS.default_lengths)
    if given is None and found.texts:
        sizes = [len(text.kinds) for text in found.texts]
        quantiles = np.quantile(sizes, SETTINGS.length_quantiles)
        lengths = [max(2, round(length)) for length in quantiles.tolist()]
    if most is not None:
        lengths = [min(length, most) for length in lengths]
    return tuple(sorted(set(lengths)))


def _plan(
    items: Items, found: Found, lengths: tuple[int, ...], budget: int | None
) -> VocabularyPlan:
    """Shares a budget out.

    Raises:
        BudgetError: it is too small.
    """
    count = len(items)
    fills = count * len(lengths)
    least = fills + SETTINGS.least_rows_per_item * count
    if budget is not None and budget < least:
        raise BudgetError(
            f"the budget is {budget:,}, but {count:,} items need at least {least:,} calls: "
            "raise the budget, or ask for fewer items or lengths"
        )
    rows = (SETTINGS.rows_per_item * count + 100) if budget is None else budget - fills
    sequences = rows
    if len(found.texts) > 1:
        sequences = round(SETTINGS.sequence_share * rows)
    return VocabularyPlan(
        items=count,
        texts=len(found.texts),
        problems=dict(found.problems),
        left_out=items.left_out,
        too_long=items.too_long,
        lengths=lengths,
        fills=fills,
        sequences=sequences,
        deletions=rows - sequences,
    )


def _target(explainer: Explainer) -> Target:
    """The output that is explained: one for all items.

    Raises:
        InputError: it must be chosen.
    """
    outputs = explainer.model.outputs
    if explainer.target is None and outputs.kind != "binary" and outputs.width > 1:
        raise InputError(
            f"{explainer.model.name} has {outputs.width} outputs ({', '.join(outputs.labels[:6])})"
            ": choose the target of the vocabulary"
        )
    return outputs.target(explainer.target, [0.0] * outputs.width)


# Builds a vocabulary from files: a table of texts, a list of words, or both.


class PlanOnly(Exception):
    """Raised by whoever wants to know what it would take, and nothing else."""


def build_from_files(
    options: ExplainOptions,
    table: Path | None,
    words: Path | None,
    *,
    field: str = "text",
    most_texts: int = SETTINGS.most_texts,
    most_items: int = SETTINGS.most_items,
    lengths: Sequence[int] | None = None,
    budget: int | None = None,
    on_plan: Callable[[VocabularyPlan], None] = lambda plan: None,
) -> Vocabulary:
    """Builds a vocabulary; ``build_vocabulary`` describes the options.

    Args:
        options: the model and how it is asked.
        table: of texts.
        words: a text file with an item on each line.
        field: the column of the texts.
        most_texts: more are drawn at random.
        most_items: of the texts.
        lengths: of filled texts.
        budget: model calls in all.
        on_plan: is told what it will take.

    Raises:
        SlalomError: something cannot be used.
    """
    given = None if words is None else read_words(words)
    texts: list[str] = []
    if table is not None:
        texts = sample_texts(table, field, most_texts, options.seed)
    explainer = options.load_for_table()
    explainer.show_progress = None
    return build_vocabulary(
        explainer,
        texts,
        words=given,
        most_items=most_items,
        lengths=lengths,
        budget=budget,
        on_plan=on_plan,
    )


def read_words(path: Path) -> list[str]:
    """The lines of a text file; empty ones do not count.

    Raises:
        InputError: it cannot be read, or holds no words.
    """
    try:
        content = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text ({error.reason}): save it as UTF-8") from error
    words = [line.strip() for line in content.splitlines() if line.strip()]
    if not words:
        raise InputError(f"the list {path} is empty: give one word on each line")
    return words


def sample_texts(table: Path, field: str, most: int, seed: int) -> list[str]:
    """Texts of a table, drawn at random where there are more; empty ones do not count.

    Raises:
        InputError: there is no such table or column, or it holds no texts.
    """
    source = open_source(table, CorpusFields(text=field))
    rng = np.random.default_rng(seed)
    kept: list[tuple[int, str]] = []
    seen, problem = 0, None
    with closing(source.rows()) as rows:
        for row in rows:
            if row.problem is not None or not row.text.strip():
                problem = problem or row.problem or "it is empty"
                continue
            if len(kept) < most:
                kept.append((seen, row.text))
            elif (place := int(rng.integers(seen + 1))) < most:
                kept[place] = (seen, row.text)
            seen += 1
    if not kept:
        why = "" if problem is None else f" (the first row: {problem})"
        raise InputError(f"{table} has no texts in column {field!r}{why}: give another table")
    return [text for _, text in sorted(kept)]
