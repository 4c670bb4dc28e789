"""What a data set may be, and how it is kept."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from slalom_xai.errors import InputError
from slalom_xai.tables.lines import StreamLimits


@dataclass(frozen=True)
class DataSettings(StreamLimits):
    """Limits of a data set, and sizes of the work on it.

    Attributes:
        bytes: of a file, and of what is read from it. A larger file is refused before anything is
            read; one that is packed so well that its size does not show is stopped there.
        rows: of a file. A Parquet file with more is refused before anything is read; others do not
            say how many they have, and are stopped there.
        row_bytes: of one row of a text file. A longer one is damaged: a quote was not closed.
        label: characters of a label. A longer one is a text: the wrong column was named.
        batch: rows that are read and kept at once.
        excerpt: characters of a text that a page of rows shows.
        page: rows of a page, at most.
        search: characters of a search, at most.
        few_hits: if a search finds so many rows or fewer, they are sorted; if it finds more, the
            sorted rows are gone through until the page is full. Both take milliseconds here.
        counted: rows of a search that are counted, at most.
        seconds: for a page; a search that takes longer is given up.
        word_index: whether words are indexed, where this SQLite can. Without it, the file has about
            half the size, and a search reads all texts.
    """

    bytes: int = 4 << 30
    rows: int = 5_000_000
    row_bytes: int = 16 << 20
    label: int = 200
    batch: int = 500
    excerpt: int = 300
    page: int = 200
    search: int = 500
    few_hits: int = 5_000
    counted: int = 10_000
    seconds: float = 20.0
    word_index: bool = True

    def too_much(self, path: Path, what: str) -> InputError:
        """The error for a file that is too large.

        Args:
            path: the file.
            what: it has.
        """
        return InputError(
            f"{path} has {what}, but a data set may have up to {self.rows:,} rows and "
            f"{self.bytes / 1e9:.1f} GB: give a part of it"
        )


DATA_SETTINGS = DataSettings()
