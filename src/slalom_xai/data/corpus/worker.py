"""Explains one part after the other; every engine uses this."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slalom_xai.data.corpus.folder import CorpusFolder
from slalom_xai.data.corpus.schema import (
    FAILED,
    Record,
    explained_record,
    explained_schema,
    failed_record,
    read_records,
    write_records,
)
from slalom_xai.errors import InputError, SlalomError, quote_text
from slalom_xai.options import ExplainOptions
from slalom_xai.system.process import give_back_memory, keep_memory_flat

Advance = Callable[[int], None]
_TEXTS_PER_TRIM = 100  # free memory goes back to the machine after so many


@dataclass(frozen=True)
class PartDone:
    """What became of a part.

    Attributes:
        part: its number.
        texts: how many were tried.
        failed: how many of these failed.
        calls: to the model.
    """

    part: int
    texts: int
    failed: int
    calls: int


class PartWorker:
    """Loads a model and explains parts with it.

    Args:
        folder: of the corpus.
        options: how texts are explained.
        expected: the fingerprint that the model must have.

    Raises:
        SlalomError: an option or the model cannot be used, or it is another model.
    """

    def __init__(self, folder: CorpusFolder, options: ExplainOptions, expected: str) -> None:
        self._folder, self._options, self._fingerprint = folder, options, expected
        keep_memory_flat()
        self._explainer = options.load_for_table(folder.ledger)
        found = options.fingerprint()
        if found != expected:
            raise InputError(
                f"the model {options.model or 'embedded'} has changed since this run began "
                f"(its fingerprint is {found}, and was {expected}): "
                "bring the old one back, or give another --out"
            )

    def explain(self, part: int, advance: Advance) -> PartDone:
        """Explains a part that waits, and writes its file.

        A worker may be killed between writing and saying so. Another one then finds the part done.

        Args:
            part: its number.
            advance: is told how many texts are done.

        Raises:
            InputError: a file cannot be read or written.
        """
        staged, explained = self._folder.staged(part), self._folder.part(part)
        if not staged.is_file() and explained.is_file():
            records = read_records(explained)
            advance(len(records))
            return _done(part, records)
        waiting = read_records(staged)
        readable = [index for index, row in enumerate(waiting) if row["problem"] is None]
        advance(len(waiting) - len(readable))
        records = [self._failure(row, row["problem"]) for row in waiting]
        self._explain(waiting, readable, records, advance)
        write_records(explained, records, explained_schema())
        staged.unlink(missing_ok=True)
        return _done(part, records)

    def retry(self, part: int, advance: Advance) -> PartDone:
        """Tries the texts of a part again that failed, except those that the table does not have.

        Args:
            part: its number.
            advance: is told how many texts are done.

        Raises:
            InputError: a file cannot be read or written.
        """
        records = read_records(self._folder.part(part))
        failed = [index for index, record in enumerate(records) if record["status"] == FAILED]
        readable = [index for index in failed if has_text(records[index])]
        advance(len(failed) - len(readable))
        if readable:
            self._explain(list(records), readable, records, advance)
            write_records(self._folder.part(part), records, explained_schema())
        return _done(part, [records[index] for index in failed])

    def _explain(
        self,
        rows: Sequence[Mapping[str, Any]],
        readable: Sequence[int],
        records: list[Record],
        advance: Advance,
    ) -> None:
        """Explains some rows, and puts what becomes of them into ``records``."""
        texts = [rows[index]["text"] for index in readable]
        pairs = [rows[index]["text_pair"] for index in readable]
        are_pairs = any(pair is not None for pair in pairs)
        for number, result in self._explainer.each(texts, pairs if are_pairs else None):
            row = rows[readable[number]]
            if isinstance(result, Exception):
                record = self._failure(row, _reason(result))
            else:
                record = explained_record(row, result, self._fingerprint)
            records[readable[number]] = record
            advance(1)
            if (number + 1) % _TEXTS_PER_TRIM == 0:
                give_back_memory()
        give_back_memory()

    def _failure(self, row: Mapping[str, Any], problem: str) -> Record:
        return failed_record(row, problem, self._options.seed, self._fingerprint)


def has_text(record: Mapping[str, Any]) -> bool:
    """Whether the table had a text for a row, or both texts of a pair."""
    return bool(record["text"]) and record["text_pair"] != ""


def _done(part: int, records: Sequence[Record]) -> PartDone:
    failed = sum(record["status"] == FAILED for record in records)
    return PartDone(part, len(records), failed, sum(record["calls"] for record in records))


def _reason(error: Exception) -> str:
    if isinstance(error, SlalomError):
        return " ".join(str(error).split())
    said = quote_text(" ".join(f"{type(error).__name__}: {error}".split()), 300)[1:-1]
    return f"an error in slalom-xai itself ({said}): please report it"
