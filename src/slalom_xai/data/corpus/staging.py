"""Checks a table and splits it into parts, before the first text is explained.

A part ends when it has enough texts or enough characters, so that its boundaries follow from the
table alone. Each part of the shard at hand that is not explained yet becomes a file of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from slalom_xai import __version__
from slalom_xai.data.corpus.folder import CorpusFolder, Plan
from slalom_xai.data.corpus.schema import (
    FORMAT,
    VERSION,
    Record,
    staged_record,
    staged_schema,
    write_records,
)
from slalom_xai.data.corpus.source import CorpusSource
from slalom_xai.errors import InputError, quote_text
from slalom_xai.options import ExplainOptions
from slalom_xai.system.progress import progress_bar
from slalom_xai.system.shards import Shard

_DIGEST = 16  # bytes that stand for an id: with a billion of them, two never meet by chance


@dataclass(frozen=True)
class PartSize:
    """How large a part is: what a kill can cost, and what is explained together.

    Attributes:
        texts: at most.
        characters: of all its texts, about. A thousand short sentences are one part, and so are
            some eighty reviews.
    """

    texts: int = 1000
    characters: int = 100_000


PART_SIZE = PartSize()


def stage(
    source: CorpusSource,
    folder: CorpusFolder,
    shard: Shard,
    size: PartSize = PART_SIZE,
    show_progress: bool | None = None,
) -> Plan:
    """Makes the files of all parts of a shard that wait; does nothing where that was done.

    Raises:
        InputError: a file cannot be read or written.
    """
    plan = folder.plan()
    if plan is not None and folder.is_staged(shard):
        return plan
    rows = parts = 0
    done = set(folder.parts())
    with progress_bar(show_progress) as bar:
        for part, records in enumerate(_parts(source, size)):
            rows, parts = rows + len(records), part + 1
            if shard.has(part) and part not in done and not folder.staged(part).is_file():
                write_records(folder.staged(part), records, staged_schema())
            if bar is not None:
                bar.start(len(records), "reading the table")
                bar.advance(len(records))
    plan = Plan(rows, parts)
    folder.write_plan(plan)
    return plan


def _parts(source: CorpusSource, size: PartSize) -> Iterator[list[Record]]:
    """The rows of one part after the other."""
    records: list[Record] = []
    characters = 0
    with closing(source.rows()) as rows:
        for row in rows:
            records.append(staged_record(row))
            characters += len(row.text) + len(row.pair or "")
            if len(records) >= size.texts or characters >= size.characters:
                yield records
                records, characters = [], 0
    if records:
        yield records


def check_rows(source: CorpusSource) -> None:
    """Refuses a table without rows, or with two rows of the same id.

    It takes 16 bytes of memory for each id, and 40 while they are compared.

    Raises:
        InputError: it cannot be used.
    """
    digests = bytearray()
    number = 0
    with closing(source.rows()) as rows:
        for row in rows:
            number = row.row
            if source.fields.id is None:
                break
            if row.id:
                digests += _digest(row.id)
    if number == 0:
        raise InputError(f"{source.path} has no rows: give a table with a text in each row")
    halves = np.frombuffer(digests, dtype=np.uint64).reshape(-1, 2)
    ordered = halves[np.lexsort((halves[:, 1], halves[:, 0]))]
    again = ordered[1:][(ordered[1:] == ordered[:-1]).all(axis=1)]
    if len(again) == 0:
        return
    name, places = _rows_with(source, again[0].tobytes())
    raise InputError(
        f"{source.path} has {len(again)} rows whose id another row has in column "
        f"{source.fields.id!r}, such as {quote_text(name)} in {' and '.join(places)}: "
        "give every row its own id, or leave --id out"
    )


def _rows_with(source: CorpusSource, digest: bytes) -> tuple[str, list[str]]:
    """An id and the first two rows that have it."""
    name, places = "", []
    with closing(source.rows()) as rows:
        for row in rows:
            if row.id and _digest(row.id) == digest:
                name = row.id
                places.append(row.place)
                if len(places) == 2:
                    break
    return name, places


def _digest(name: str) -> bytes:
    return hashlib.blake2b(name.encode(), digest_size=_DIGEST).digest()


# What decides the results of a corpus: a run goes on only where all of it is the same.


_LIBRARIES = ("torch", "transformers", "tokenizers", "numpy", "pyarrow")


def manifest(
    source: CorpusSource, options: ExplainOptions, model: str, size: PartSize
) -> dict[str, Any]:
    """What must not change between runs, as JSON has it.

    Args:
        source: the table.
        options: how texts are explained.
        model: the fingerprint of the model.
        size: of the parts.
    """
    fields = source.fields
    return {
        "format": FORMAT,
        "version": VERSION,
        "slalom-xai": __version__,
        "table": source.path.name,
        "table sha256": source.sha256(),
        "columns": {"text": fields.text, "id": fields.id, "pair": fields.pair},
        "explained with": options.settings(),
        "model fingerprint": model,
        "part": {"texts": size.texts, "characters": size.characters},
        "libraries": {name: version(name) for name in _LIBRARIES},
    }


def model_fingerprint(options: ExplainOptions) -> str:
    """What tells the model from every other one; a hub id is fetched for it.

    Raises:
        SlalomError: there is no such model.
    """
    by_name = options.model is not None and not Path(options.model).exists()
    if by_name:
        options.load_for_table()
    return options.fingerprint()
