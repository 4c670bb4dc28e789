"""The front door: explains the same texts with two models, and compares."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from slalom_xai.data.corpus import Corpus, ExplainOptions, explain_corpus
from slalom_xai.data.corpus.engines import Engine
from slalom_xai.data.corpus.schema import EXPLAINED
from slalom_xai.data.corpus.source import CorpusFields, CorpusSource, open_source
from slalom_xai.data.diff.words import (
    Drift,
    Paired,
    Record,
    TextChange,
    WordChange,
    check_pair,
    text_change,
)
from slalom_xai.errors import InputError, SlalomError
from slalom_xai.explainer import Explainer
from slalom_xai.methods import estimator
from slalom_xai.models import prompt
from slalom_xai.slalom.trust import TRUST
from slalom_xai.system.files import make_folder

# How far the explanations that a diff compares can be trusted: what their fidelity says.


@dataclass(frozen=True)
class Trust:
    """The fidelity of one model's explanations, for any number of deletions.

    Attributes:
        checked: texts whose explanation has a fidelity.
        median: of R² over these; None without any.
        poor: how many of them predict less than half of what deletions do.
        below_zero: how many predict less than nothing.
    """

    checked: int
    median: float | None
    poor: int
    below_zero: int


def trust_in(records: Iterable[Mapping[str, Any]]) -> Trust:
    """What the rows of a corpus say of their explanations."""
    found = [
        float(one["fidelity"]["any_r2"])
        for one in records
        if one["fidelity"] is not None and one["fidelity"]["any_r2"] is not None
    ]
    return Trust(
        checked=len(found),
        median=median(found) if found else None,
        poor=sum(r2 < TRUST.doubtful for r2 in found),
        below_zero=sum(r2 < 0 for r2 in found),
    )


# The front door: explains the same texts with two models, and compares.


BEFORE, AFTER = "before", "after"
_LOOKED_AT = 20  # texts that are split by both models before anything is asked


@dataclass(frozen=True)
class DiffPlan:
    """What a diff will take.

    Attributes:
        texts: of the table.
        calls: that each model is asked at most, told from the first texts.
    """

    texts: int
    calls: int


@dataclass(frozen=True)
class Diff:
    """What differs between two models.

    Attributes:
        models: as they were given.
        target: the label that values argue for; None: of each text its own.
        rate: of false discoveries.
        least: texts that a word must have.
        words: those that changed first.
        drift: how words in general moved, by score.
        texts: that changed their answer, the largest change first.
        trust: in the explanations of each model.
        compared: how many texts were.
        failed: how many texts could not be explained by one or both.
        calls: to both models, of this and earlier runs.
        seed: of everything random.
    """

    models: tuple[str, str]
    target: str | None
    rate: float
    least: int
    words: tuple[WordChange, ...]
    drift: dict[str, Drift]
    texts: tuple[TextChange, ...]
    trust: tuple[Trust, Trust]
    compared: int
    failed: int
    calls: int
    seed: int

    @property
    def changed(self) -> tuple[WordChange, ...]:
        """The words that changed."""
        return tuple(word for word in self.words if word.changed)


def diff_models(
    before: ExplainOptions,
    after: ExplainOptions,
    table: str | Path,
    out: str | Path,
    *,
    fields: CorpusFields | None = None,
    rate: float = 0.05,
    least: int = 2,
    workers: int | None = None,
    on_plan: Callable[[DiffPlan], None] = lambda plan: None,
    show_progress: bool | None = None,
) -> Diff:
    """Explains the texts of a table with two models, and says what differs.

    The explanations stay in the folders ``before`` and ``after`` of ``out``; a run that was stopped
    resumes where it stopped.

    Args:
        before: the first model and how it is asked.
        after: the second; all but the model should be the same.
        table: as ``slalom corpus`` takes it.
        out: a folder.
        fields: which columns hold what; None: the texts are in "text".
        rate: of false discoveries among the words that are called changed.
        least: texts that a word must have.
        workers: processes; None: one, or one for each GPU.
        on_plan: is told what it will take, before the first call.
        show_progress: as for ``explain_corpus``.

    Raises:
        InputError: the models do not fit together, or the table cannot be used.
    """
    if not 0 < rate < 1:
        raise InputError(f"the false discovery rate is {rate:g}: give a share between 0 and 1")
    estimator(before.method)  # refuses an unknown name
    fields = fields or CorpusFields()
    source = open_source(Path(table), fields)
    on_plan(_check_models(before, after, source))
    folder = Path(out)
    make_folder("--out", folder)
    for name, options in ((BEFORE, before), (AFTER, after)):
        explain_corpus(
            table,
            folder / name,
            options,
            fields=fields,
            engine=Engine("local", workers),
            show_progress=show_progress,
        )
    return compare(Corpus.open(folder / BEFORE), Corpus.open(folder / AFTER), rate, least)


def compare(before: Corpus, after: Corpus, rate: float, least: int = 2) -> Diff:
    """What differs between the explanations of the same texts.

    Args:
        before: the explanations of the first model.
        after: those of the second.
        rate: of false discoveries.
        least: texts that a word must have.

    Raises:
        InputError: they do not fit together.
    """
    if before.manifest["table sha256"] != after.manifest["table sha256"]:
        raise InputError(
            f"{before.folder.path} and {after.folder.path} are not of the same table: "
            "explain the same one with both models"
        )
    paired, texts, targets = Paired(), [], set()
    compared = failed = calls = 0
    kept: tuple[list[Record], list[Record]] = ([], [])
    for one, other in zip(before.records(), after.records(), strict=True):
        calls += (one["calls"] or 0) + (other["calls"] or 0)
        if one["status"] != EXPLAINED or other["status"] != EXPLAINED:
            failed += 1
            continue
        check_pair(one, other)
        compared += 1
        targets.add(one["target"])
        paired.add(one, other)
        for of_model, record in zip(kept, (one, other), strict=True):
            of_model.append({"fidelity": record["fidelity"]})
        changed = text_change(one, other)
        if changed is not None:
            texts.append(changed)
    if not compared:
        raise InputError(
            f"none of {failed} texts could be explained by both models: "
            f"{before.folder.errors} says why"
        )
    words, drift = paired.changes(rate, least)
    texts.sort(key=lambda each: -abs(each.output_after - each.output_before))
    return Diff(
        models=(_name(before), _name(after)),
        target=targets.pop() if len(targets) == 1 else None,
        rate=rate,
        least=least,
        words=tuple(words),
        drift=drift,
        texts=tuple(texts),
        trust=(trust_in(kept[0]), trust_in(kept[1])),
        compared=compared,
        failed=failed,
        calls=calls,
        seed=int(before.manifest["explained with"]["seed"]),
    )


def _name(corpus: Corpus) -> str:
    return str(corpus.manifest["explained with"]["model"] or "embedded")


def _check_models(before: ExplainOptions, after: ExplainOptions, source: CorpusSource) -> DiffPlan:
    """Refuses models that do not fit together, before the first call.

    Raises:
        InputError: they have other labels, or split texts differently.
    """
    first, second = before.load_for_table(), after.load_for_table()
    labels = [explainer.model.outputs.labels for explainer in (first, second)]
    if labels[0] != labels[1]:
        raise InputError(
            f"the models have different labels ({', '.join(labels[0][:6])} and "
            f"{', '.join(labels[1][:6])}): compare models of the same task"
        )
    with closing(source.rows()) as rows:
        looked_at = [row.text for row in islice(rows, _LOOKED_AT) if row.problem is None]
    readable = [text for text in looked_at if text.strip() and _fits(first, second, text)]
    with closing(source.rows()) as rows:
        texts = sum(1 for _ in rows)
    calls = [each for text in readable if (each := _calls(first, text)) is not None]
    return DiffPlan(texts, round(sum(calls) / max(1, len(calls)) * texts))


def _calls(explainer: Explainer, text: str) -> int | None:
    """The most calls for a text; None where it cannot be explained, which its file will say."""
    try:
        return explainer.most_calls(text)
    except SlalomError:
        return None


def _fits(first: Explainer, second: Explainer, text: str) -> bool:
    """Whether both models can read a text.

    Raises:
        InputError: they split it differently.
    """
    records = []
    for explainer in (first, second):
        try:
            reading = explainer.model.read(text, truncation=explainer.truncation)
        except SlalomError:
            return False  # its explanation will fail, and say why
        units = prompt(reading, explainer.granularity).units
        spans = [{"part": unit.part, "start": unit.start, "end": unit.end} for unit in units]
        records.append({"units": spans, "text": text, "target": None})
    check_pair(*records)
    return True
