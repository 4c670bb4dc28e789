"""The front door: explains a table into a folder, or goes on with what an earlier run began."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path

from slalom_xai.data.corpus.engines import Engine, Task
from slalom_xai.data.corpus.folder import MANIFEST, Corpus, CorpusFolder
from slalom_xai.data.corpus.schema import FAILED, arrow, count_rows, read_records
from slalom_xai.data.corpus.source import CorpusFields, open_source
from slalom_xai.data.corpus.staging import (
    PART_SIZE,
    PartSize,
    check_rows,
    manifest,
    model_fingerprint,
    stage,
)
from slalom_xai.data.corpus.worker import PartDone
from slalom_xai.methods import estimator
from slalom_xai.options import ExplainOptions
from slalom_xai.system.files import write_file
from slalom_xai.system.progress import Bar, progress_bar
from slalom_xai.system.result_folder import open_folder
from slalom_xai.system.shards import WHOLE, Shard

# How far a run is: a bar where a person watches, and a line now and then where none does.


_LABEL = "explaining texts"
_FIRST = 5.0  # seconds until the first line
_PAUSE = 30.0  # seconds between two lines


class TextsDone:
    """Counts texts.

    Args:
        texts: how many are to be done.
        bar: where a person watches.
        lines: whether to write lines in the place of a bar.
        clock: gives seconds.
    """

    def __init__(
        self,
        texts: int,
        bar: Bar | None,
        lines: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._texts, self._bar, self._lines = texts, bar, lines
        self._done, self._clock = 0, clock
        self._started = clock()
        self._said = self._started - _PAUSE + _FIRST
        if bar is not None:
            bar.start(texts, _LABEL, afresh=True)

    def advance(self, texts: int) -> None:
        """Some texts are done."""
        self._done += texts
        if self._bar is not None:
            self._bar.advance(texts)
        now = self._clock()
        if self._lines and now - self._said >= _PAUSE:
            self._said = now
            sys.stderr.write(self.line(now - self._started) + "\n")
            sys.stderr.flush()

    def line(self, seconds: float) -> str:
        """How far the run is after so many seconds."""
        rate = self._done / max(seconds, 1e-9)
        said = f"{self._done:,} of {self._texts:,} texts, {rate:.1f} a second"
        if self._done == 0:
            return said
        left = timedelta(seconds=round((self._texts - self._done) / rate))
        return f"{said}, {left} left"


@contextmanager
def texts_done(texts: int, show: bool | None) -> Iterator[TextsDone]:
    """Shows how far a run is.

    Args:
        texts: how many are to be done.
        show: None: a bar in a terminal, and lines elsewhere; False: neither.
    """
    with progress_bar(show) as bar:
        yield TextsDone(texts, bar, lines=bar is None and show is not False)


# The front door: explains a table into a folder, or goes on with what an earlier run began.


_SOME = 100  # texts, from which it is told what all of them may take


@dataclass(frozen=True)
class Summary:
    """What a folder holds after a run.

    Attributes:
        folder: of the corpus.
        texts: of the table.
        explained: of these, in all runs.
        failed: of these.
        parts: that the table was split into.
        parts_done: of these.
        texts_now: that this run tried.
        calls_now: that this run took.
        seconds: that this run took.
    """

    folder: str
    texts: int
    explained: int
    failed: int
    parts: int
    parts_done: int
    texts_now: int
    calls_now: int
    seconds: float

    @property
    def is_complete(self) -> bool:
        """Whether all parts are there."""
        return self.parts_done == self.parts


def explain_corpus(
    path: str | Path,
    out: str | Path,
    options: ExplainOptions | None = None,
    *,
    fields: CorpusFields | None = None,
    engine: Engine | None = None,
    shard: Shard = WHOLE,
    retry: bool = False,
    size: PartSize = PART_SIZE,
    show_progress: bool | None = None,
    agree: Callable[[int, Sequence[str]], None] | None = None,
) -> Summary:
    """Explains every text of a table into a folder.

    A run that was stopped, by whatever, resumes where it stopped, and the result is the same.

    Args:
        path: CSV, TSV, JSON lines or Parquet; a folder of such files; or a data set that was saved
            with ``save_to_disk``.
        out: the folder; a new one, or that of an earlier run with the same options.
        options: the model, the method and so on; None: the defaults of ``Explainer``.
        fields: which columns hold what; None: the texts are in "text", and rows have numbers.
        engine: who explains; None: this process, or one process for each GPU.
        shard: which share of the parts.
        retry: try texts again that failed.
        size: of the parts.
        show_progress: False: nothing; None: a bar in a terminal, and elsewhere a line now and then.
        agree: is told how many texts are to be tried, and given some of them, before the model is
            asked anything; what it raises ends the run.

    Raises:
        SlalomError: something cannot be used; what was computed is kept.
    """
    arrow()
    started = time.monotonic()
    options, engine = options or ExplainOptions(), engine or Engine()
    estimator(options.method)  # refuses an unknown name
    engine.check(options, shard)
    source = open_source(Path(path), fields or CorpusFields())
    folder = CorpusFolder(Path(out))
    if folder.plan() is None:
        check_rows(source)
    model = model_fingerprint(options)
    settings = manifest(source, options, model, size)
    open_folder(folder.path, settings, kind="corpus", maker="slalom corpus", name=MANIFEST)
    with folder.held(shard):
        folder.make()
        folder.tidy()
        plan = stage(source, folder, shard, size, show_progress)
        ours = [part for part in range(plan.parts) if shard.has(part)]
        there = set(folder.parts())
        waiting = {part: _staged(folder, part) for part in ours if part not in there}
        if agree is not None:
            failing = _count_failures(folder, there) if retry else {}
            _agree(folder, waiting, failing, agree)
        done: list[PartDone] = []
        try:
            done += _explain_parts(engine, Task(folder, options, model), waiting, show_progress)
            if retry:
                failed = _count_failures(folder, ours)
                task = Task(folder, options, model, retry=True)
                done += _explain_parts(engine, task, failed, show_progress)
        finally:
            summary = _finish(folder, done, time.monotonic() - started)
    return summary


def _explain_parts(
    engine: Engine, task: Task, texts: dict[int, int], show_progress: bool | None
) -> Iterator[PartDone]:
    """Explains parts.

    Args:
        engine: who explains.
        task: what is to be done.
        texts: the parts, and how many texts of each are to be tried.
        show_progress: as ``explain_corpus`` takes it.
    """
    if not texts:
        return
    with texts_done(sum(texts.values()), show_progress) as shown:
        yield from engine.done(task, list(texts), shown.advance)


def _agree(
    folder: CorpusFolder,
    waiting: dict[int, int],
    failing: dict[int, int],
    agree: Callable[[int, Sequence[str]], None],
) -> None:
    """Says how much is to be tried, with some of the texts; nothing where nothing is."""
    texts = sum(waiting.values()) + sum(failing.values())
    if texts == 0:
        return
    some = folder.staged(min(waiting)) if waiting else folder.part(min(failing))
    agree(texts, [record["text"] for record in read_records(some)[:_SOME]])


def _staged(folder: CorpusFolder, part: int) -> int:
    """The texts of a part that waits, or that a worker of a killed run has just finished."""
    path = folder.staged(part)
    return count_rows(path if path.is_file() else folder.part(part))


def _count_failures(folder: CorpusFolder, parts: Iterable[int]) -> dict[int, int]:
    """The parts with texts that failed, and how many."""
    failed = {}
    for part in parts:
        statuses = Corpus.statuses(folder, part)
        if FAILED in statuses:
            failed[part] = statuses.count(FAILED)
    return failed


def _finish(folder: CorpusFolder, done: Sequence[PartDone], seconds: float) -> Summary:
    """Writes what failed, and what the run did."""
    corpus = Corpus.open(folder.path)
    failures = list(corpus.failures())
    lines = [json.dumps(failure, ensure_ascii=False) + "\n" for failure in failures]
    write_file(folder.errors, "".join(lines))
    parts = folder.parts()
    rows = sum(count_rows(folder.part(part)) for part in parts)
    summary = Summary(
        folder=str(folder.path),
        texts=corpus.plan.rows,
        explained=rows - len(failures),
        failed=len(failures),
        parts=corpus.plan.parts,
        parts_done=len(parts),
        texts_now=sum(entry.texts for entry in done),
        calls_now=sum(entry.calls for entry in done),
        seconds=seconds,
    )
    write_file(folder.path / "summary.json", json.dumps(asdict(summary), indent=1) + "\n")
    return summary
