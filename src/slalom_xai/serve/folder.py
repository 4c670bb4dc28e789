"""A folder that ``slalom corpus`` or ``slalom audit`` filled, to look at; nothing is written."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any, Literal

from slalom_xai.data.audit.files import CARD, PAGE, RECORD, REPORT, VIEW, read_audit
from slalom_xai.data.corpus.folder import MANIFEST, Corpus
from slalom_xai.data.corpus.schema import Record, arrow, count_rows, damage_error
from slalom_xai.errors import InputError, optional_packages

# The files of an audit, as they lie there.


# What visitors can reach, by the name in the address: nothing else of the folder.
FILES = {
    PAGE: "text/html; charset=utf-8",
    VIEW: "text/html; charset=utf-8",
    REPORT: "text/plain; charset=utf-8",
    CARD: "text/plain; charset=utf-8",
    RECORD: "application/json",
}


@dataclass(frozen=True)
class AuditFolder:
    """A finished audit.

    Attributes:
        path: of the folder.
        record: what was found.
    """

    path: Path
    record: dict[str, Any]

    @classmethod
    def open(cls, path: Path) -> AuditFolder:
        """Looks at the folder of an audit.

        Raises:
            InputError: it is not finished, is of another version, or cannot be read.
        """
        return cls(path, read_audit(path))

    @property
    def files(self) -> list[str]:
        """The names of the files that are there."""
        return [name for name in FILES if self._file(name) is not None]

    def read(self, name: str) -> bytes | None:
        """A file; None where it is not one of an audit, is not there, or leads elsewhere."""
        file = self._file(name)
        return None if file is None else file.read_bytes()

    def _file(self, name: str) -> Path | None:
        file = self.path / name
        if name not in FILES or not file.is_file():
            return None
        return file if file.resolve().parent == self.path.resolve() else None


# Pages of the texts of a corpus, and each text with its stored scores; no model is asked.


Order = Literal["row", "fidelity", "failed"]

_LISTED = [
    *("row", "id", "status", "problem", "text", "target", "predicted", "prediction"),
    "fidelity.any_r2",
]
_SORTED = ["status", "fidelity.any_r2"]
_BEGINNING = 300  # characters of a text in a list


@dataclass(frozen=True)
class StoredCorpus:
    """A finished corpus. Texts are numbered by their place in it, from 1.

    Attributes:
        corpus: its folder.
        ends: how many texts there are up to the end of each part.
    """

    corpus: Corpus
    ends: Sequence[int]

    @classmethod
    def open(cls, path: Path) -> StoredCorpus:
        """Looks at the folder of a corpus.

        Raises:
            InputError: it is not finished, is of another version, or cannot be read.
        """
        corpus = Corpus.open(path)
        found, wanted = len(corpus.folder.parts()), corpus.plan.parts
        if found != wanted:
            raise InputError(
                f"{path} has {found} of {wanted} parts: "
                "give the same slalom corpus command again, and it goes on"
            )
        counts = (count_rows(corpus.folder.part(part)) for part in range(wanted))
        return cls(corpus, list(accumulate(counts)))

    @property
    def path(self) -> Path:
        """The folder."""
        return self.corpus.folder.path

    @property
    def texts(self) -> int:
        """How many there are."""
        return self.ends[-1] if self.ends else 0

    def page(self, order: Order, start: int, count: int) -> list[Record]:
        """Texts without their units, each with its number.

        Args:
            order: of the texts: as in the table, the worst explained first, or the failed first.
            start: so many are passed over.
            count: of texts at most.
        """
        places: Sequence[int] = range(start, min(start + count, self.texts))
        if order != "row":
            places = self._orders[order].slice(start, count).to_pylist()
        records = self._read(places, _LISTED)
        for record in records:
            record["fidelity"] = (record["fidelity"] or {}).get("any_r2")
            record["text"] = (record["text"] or "")[:_BEGINNING]
        return records

    def text(self, number: int) -> Record | None:
        """A text with everything that is stored of it; None where there is no such number."""
        if not 1 <= number <= self.texts:
            return None
        return self._read([number - 1], None)[0]

    @cached_property
    def _orders(self) -> dict[Order, Any]:
        """The places in the orders that are not the table's; two columns of all parts are read."""
        what = "a corpus, which is in Parquet,"
        compute = optional_packages(["pyarrow.compute"], what, "parquet")[0]
        parts = [self._part(part, _SORTED) for part in range(len(self.ends))]
        table = arrow().concat_tables(parts).flatten()
        return {
            "fidelity": compute.sort_indices(table, [("fidelity.any_r2", "ascending")]),
            "failed": compute.sort_indices(table, [("status", "descending")]),
        }

    def _read(self, places: Sequence[int], columns: list[str] | None) -> list[Record]:
        """The texts at some places, in this order; each part is read once."""
        found: dict[int, Record] = {}
        for part, members in groupby(sorted(places), lambda place: bisect_right(self.ends, place)):
            start = self.ends[part - 1] if part else 0
            table = self._part(part, columns)
            for place in members:
                record = table.slice(place - start, 1).to_pylist()[0]
                found[place] = {"number": place + 1, **record}
        return [found[place] for place in places]

    def _part(self, part: int, columns: list[str] | None) -> Any:
        path = self.corpus.folder.part(part)
        try:
            with arrow().parquet.ParquetFile(path) as file:
                return file.read(columns=columns)
        except (OSError, ValueError) as error:  # pyarrow's own errors are of these kinds
            raise damage_error(Path(path.name), error) from error


# Finds out what a folder holds.


def open_folder(path: Path) -> StoredCorpus | AuditFolder:
    """Looks at a folder.

    Raises:
        InputError: it holds neither a corpus nor an audit, or one that is not finished, is of
            another version, or cannot be read.
    """
    if (path / RECORD).is_file():
        return AuditFolder.open(path)
    if (path / MANIFEST).is_file():
        return StoredCorpus.open(path)
    raise InputError(
        f"{path} holds neither a corpus nor an audit: "
        "give the folder that slalom corpus --out or slalom audit --out filled"
    )
