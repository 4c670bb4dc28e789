"""A data set: the front door to its rows, and to what models say about them."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

from slalom_xai.errors import InputError
from slalom_xai.serve.data import answers
from slalom_xai.serve.data.answers import Prediction
from slalom_xai.serve.data.asking import Asking, Page, WholeRow, known, row_count
from slalom_xai.serve.data.file import (
    DATA_SETTINGS,
    FOREVER,
    VERSION,
    DataFile,
    DataSettings,
    parse_search,
)
from slalom_xai.serve.data.loading import Source, digest_of, is_imported, load, open_source
from slalom_xai.serve.data.paging import Question, read_cursor, write_cursor
from slalom_xai.serve.work.spec import DataSpec
from slalom_xai.system.files import make_folder

_MOST_LABELS = 100  # that are listed


class Dataset:
    """Rows of a file, kept so that any page of them in any order is found at once.

    Several threads and processes may use the same data set. Call ``prepare`` first.

    Args:
        source: a table: CSV, TSV or JSON lines, packed as .gz, .xz or .bz2 or not, or Parquet.
        folder: where the SQLite file is kept, ``data-<fingerprint>.sqlite``. The fingerprint is
            that of the source's content (see ``Source.fingerprint``): a changed file is read anew.
        text_field: the column of the texts.
        label_field: the column of the labels; None takes a column "label", if there is one.
        settings: limits.
    """

    def __init__(
        self,
        source: Path,
        folder: Path,
        *,
        text_field: str = "text",
        label_field: str | None = None,
        settings: DataSettings = DATA_SETTINGS,
    ) -> None:
        self.source = Path(source)
        self.folder = Path(folder)
        self.settings = settings
        self._text_field = text_field
        self._label_field = label_field
        self._ready: tuple[Source, DataFile] | None = None

    @classmethod
    def of(cls, spec: DataSpec) -> Dataset:
        """The data set that a server was started with."""
        return cls(
            Path(spec.source),
            Path(spec.folder),
            text_field=spec.text_field,
            label_field=spec.label_field,
        )

    @property
    def name(self) -> str:
        """The name of the source, without its folders."""
        return self.source.name

    @property
    def rows(self) -> int:
        """How many rows are there so far."""
        with self._file.reading() as connection:
            return row_count(connection)

    @property
    def imported(self) -> bool:
        """Whether all rows of the source are there."""
        return is_imported(self._file)

    @property
    def message(self) -> str:
        """Why reading ended early, in one line; empty if it did not."""
        with self._file.reading() as connection:
            found = connection.execute("SELECT value FROM meta WHERE name = 'message'").fetchone()
        return str(found[0])

    @property
    def labels(self) -> list[str]:
        """The labels in the source, so far; of very many, the most frequent ones."""
        query = f"SELECT label FROM labels ORDER BY rows DESC, label LIMIT {_MOST_LABELS}"
        with self._file.reading() as connection:
            return sorted(label for (label,) in connection.execute(query))

    def prepare(self) -> None:
        """Looks at the source and opens the SQLite file; reads no rows but the first.

        Raises:
            InputError: the source cannot be read, lacks a column or is too large, or the SQLite
                file cannot be made.
        """
        source = open_source(self.source, self._text_field, self._label_field, self.settings)
        make_folder("the folder of the data set", self.folder)
        path = self.folder / f"data-{source.fingerprint(VERSION)}.sqlite"
        if not path.exists():
            _check_room(self.source, self.folder)
        file = DataFile(path, word_index=self.settings.word_index)
        self.close()
        self._ready = source, file

    def load(self, stop: threading.Event) -> bool:
        """Reads all rows that are not there yet; call it in a thread of its own.

        Args:
            stop: ends it after the batch at hand; the next call goes on.

        Returns:
            Whether all rows are there.

        Raises:
            InputError: a row cannot be read; those before it are kept.
            Damaged: the rows that are there already cannot be read.
        """
        self._file.check()
        return load(self._prepared[0], self._file, stop)

    def close(self) -> None:
        """Closes the SQLite file."""
        if self._ready is not None:
            self._file.close()

    def row(self, number: int) -> WholeRow | None:
        """A row with its whole text; None if there is no such row."""
        if not 0 < number <= FOREVER:
            return None
        query = "SELECT row, text, label FROM rows WHERE row = ?"
        with self._file.reading() as connection:
            found = connection.execute(query, (number,)).fetchone()
        return None if found is None else WholeRow(*found)

    def page(
        self,
        *,
        model: str | None = None,
        sort: str = "row",
        descending: bool = False,
        search: str = "",
        label: str | None = None,
        wrong: bool = False,
        after: str | None = None,
        limit: int = 50,
    ) -> Page:
        """Some rows of a list.

        Pages that follow each other show each row that was there at first once, whatever comes in
        meanwhile. Rows without a value to sort by are at the end, in both directions. Equal ones
        are in the order of the file, or against it.

        Args:
            model: the fingerprint of the model whose predictions and explanations are shown.
            sort: "row", "label", "prediction", "probability", "fidelity", or "wrong": the wrong
                ones first, surest first, then the others, surest first.
            descending: the other way round.
            search: words that the texts must hold (see ``search``).
            label: only rows with this label in the file.
            wrong: only rows that the model gets wrong.
            after: the cursor of the page before.
            limit: rows of this page.

        Raises:
            InputError: there is no such order, it needs a model, the search is too long, or the
                cursor belongs to another list.
        """
        question = Question(model, sort, descending, search, label, wrong)
        question.check()
        if not 1 <= limit <= self.settings.page:
            raise InputError(f"limit is {limit}: give 1 to {self.settings.page} rows")
        words = parse_search(search, word_index=self._file.word_index, longest=self.settings.search)
        place = None
        if after is not None:
            place = read_cursor(question, after, self._file.secret)
        with self._file.reading(self.settings.seconds) as connection:
            asking = Asking(connection, self.settings, question, words)
            places = asking.places(place, limit + 1)
            rows = asking.shown([int(place.keys[-1]) for place in places[:limit]])
            total = asking.total()
        following = None
        if len(places) > limit:
            following = write_cursor(question, places[limit - 1], self._file.secret)
        return Page(rows, following, total)

    def find_unpredicted(self, model: str, limit: int) -> list[tuple[int, str]]:
        """The next rows without a prediction, with their texts; empty texts are among them.

        Args:
            model: its fingerprint.
            limit: rows, at most.
        """
        with self._file.reading() as connection:
            so_far = known(connection, model)
            found = connection.execute(
                "SELECT row, text FROM rows AS r WHERE row > ? AND NOT EXISTS "
                "(SELECT 1 FROM predictions AS p WHERE p.model = ? AND p.row = r.row) "
                "ORDER BY row LIMIT ?",
                (so_far.predicted_up_to, so_far.model, limit),
            )
            return found.fetchall()

    def keep_predictions(
        self,
        model: str,
        predictions: Iterable[Prediction | tuple[int, str | None, float | None]],
        *,
        label_names: Sequence[str] = (),
    ) -> None:
        """Keeps what a model says about rows; the first answer for a row stays.

        Args:
            model: its fingerprint.
            predictions: in any order.
            label_names: the model's labels in order, to compare them with those in the file, which
                may be numbers (see ``is_correct``).

        Raises:
            InputError: there is no such row; nothing is kept.
        """
        given = [Prediction(*prediction) for prediction in predictions]
        with self._file.transaction() as connection:
            number = answers.model_number(connection, model)
            answers.keep_predictions(connection, number, given, label_names)

    def predicted(self, model: str) -> int:
        """How many rows have a prediction of a model."""
        with self._file.reading() as connection:
            return known(connection, model).predicted

    def keep_explained(self, model: str, text: str, key: str, fidelity: float | None) -> None:
        """Keeps which explanation of a text is the last one, for all rows with this text.

        Args:
            model: its fingerprint.
            text: need not be in the data set, or not yet.
            key: of the explanation.
            fidelity: wide r2; None where the explanation has none.
        """
        with self._file.transaction() as connection:
            number = answers.model_number(connection, model)
            answers.keep_explained(connection, number, digest_of(text), key, fidelity)

    @property
    def _prepared(self) -> tuple[Source, DataFile]:
        if self._ready is None:
            raise RuntimeError("call prepare() first")
        return self._ready

    @property
    def _file(self) -> DataFile:
        return self._prepared[1]


def _check_room(source: Path, folder: Path) -> None:
    """Refuses a folder that has less room than the source takes itself."""
    needed, free = source.stat().st_size, shutil.disk_usage(folder).free
    if free < needed:
        raise InputError(
            f"{folder} has {free / 1e9:.1f} GB left, but the rows of {source} need more than "
            f"{needed / 1e9:.1f} GB: make room, or name another folder"
        )
