"""The data set of an audit: its counts of words, and a sample of texts to ask the model about."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from slalom_xai.data.tables.streams import broken_characters, is_absent, open_stream
from slalom_xai.errors import InputError
from slalom_xai.models.text import words

# What a data set itself says of a word: does one class have it more often than chance?
#
# With n texts that hold the word, of which a share p is of a class that makes up a share p0 of
# all texts, z = (p - p0) / sqrt(p0 (1 - p0) / n) is standard normal if the word has nothing to do
# with the class (Gardner et al., 2021, "Competency problems").


@dataclass
class WordCounts:
    """How many texts of each class hold each word.

    Attributes:
        texts: of each class.
        holding: for each word, how many texts of each class hold it.
    """

    texts: Counter[str] = field(default_factory=Counter)
    holding: dict[str, Counter[str]] = field(default_factory=dict)

    def add(self, text: str, label: str) -> None:
        """Counts a text."""
        self.texts[label] += 1
        for word in distinct_words(text):
            self.holding.setdefault(word, Counter())[label] += 1

    def count(self, word: str) -> int:
        """How many texts hold a word."""
        return sum(self.holding.get(word, Counter()).values())

    def z(self, word: str, label: str) -> float:
        """How far the share of a class among the texts with a word is from chance.

        Returns:
            NaN where no text holds the word, or all texts are of one class.
        """
        count, every = self.count(word), sum(self.texts.values())
        chance = self.texts[label] / every if every else 0.0
        if count == 0 or not 0 < chance < 1:
            return math.nan
        share = self.holding[word][label] / count
        return (share - chance) / math.sqrt(chance * (1 - chance) / count)


def distinct_words(text: str) -> Iterable[str]:
    """The words of a text, in small letters, each once."""
    return {unit.text.lower() for unit in words(text)}


# The data set of an audit: its counts of words, and a sample of texts to ask the model about.


_READ = 1 << 20  # bytes that are hashed at once


@dataclass(frozen=True)
class AuditText:
    """A text of the sample.

    Attributes:
        row: its number in the table, from 1.
        text: itself.
        label: its class, as the table has it; empty without a column of labels.
        groups: for each column of groups, the one it belongs to.
    """

    row: int
    text: str
    label: str
    groups: tuple[str, ...]


@dataclass
class AuditData:
    """What a table says.

    Attributes:
        path: the table.
        sha256: of its bytes.
        rows: how many it has.
        unread: rows that cannot be used, and why, the first few.
        unread_rows: how many of them there are.
        counts: how many texts of each class hold each word.
        sample: texts drawn at random.
        group_rows: for each column of groups, how many rows that hold a text each group has.
    """

    path: Path
    sha256: str
    rows: int = 0
    unread: list[str] = field(default_factory=list)
    unread_rows: int = 0
    counts: WordCounts = field(default_factory=WordCounts)
    sample: list[AuditText] = field(default_factory=list)
    group_rows: list[Counter[str]] = field(default_factory=list)


@dataclass(frozen=True)
class AuditFields:
    """Which columns hold what.

    Attributes:
        text: the texts.
        label: the classes; None: there are none.
        groups: columns by which texts are grouped, such as the country of their author.
    """

    text: str = "text"
    label: str | None = None
    groups: tuple[str, ...] = ()


def read_data(path: Path, fields: AuditFields, texts: int, rng: np.random.Generator) -> AuditData:
    """Reads a table of any size once, and draws texts from it.

    Args:
        path: CSV, TSV, JSON lines or Parquet.
        fields: which columns hold what.
        texts: how many to draw, at most.
        rng: of the drawing.

    Raises:
        InputError: it cannot be read, has no such columns, or no texts.
    """
    stream = open_stream(path)
    wanted = [fields.text, *([] if fields.label is None else [fields.label]), *fields.groups]
    for name in wanted:
        stream.check_field(name)
    data = AuditData(path, _sha256(path), group_rows=[Counter() for _ in fields.groups])
    with closing(stream.rows(wanted)) as rows:
        for place, cells, problem in rows:
            data.rows += 1
            reason = str(problem) if problem is not None else _find_problem(cells[0])
            if reason:
                data.unread_rows += 1
                if len(data.unread) < 5:
                    data.unread.append(f"{place}: {reason}")
                continue
            text = str(cells[0])
            named = [_name(cell) for cell in cells[1:]]
            label = named.pop(0) if fields.label is not None else ""
            data.counts.add(text, label)
            for group, rows_of in zip(named, data.group_rows, strict=True):
                rows_of[group] += 1
            _draw(data, AuditText(data.rows, text, label, tuple(named)), texts, rng)
    if not data.sample:
        raise InputError(f"{path} has no texts: give a table with a text in each row")
    data.sample.sort(key=lambda one: one.row)
    return data


def _draw(data: AuditData, text: AuditText, most: int, rng: np.random.Generator) -> None:
    """Keeps every text with the same chance, however many follow."""
    seen = data.rows - data.unread_rows
    if len(data.sample) < most:
        data.sample.append(text)
        return
    place = int(rng.integers(seen))
    if place < most:
        data.sample[place] = text


def _find_problem(cell: object) -> str:
    """Why a cell holds no text; empty if it does."""
    if is_absent(cell) or (isinstance(cell, str) and not cell.strip()):
        return "there is no text"
    if not isinstance(cell, str):
        return f"a {type(cell).__name__} and not a text"
    return broken_characters(cell) or ""


def _name(cell: object) -> str:
    if is_absent(cell):
        return ""
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    return str(cell).strip()


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as content:
        while chunk := content.read(_READ):
            digest.update(chunk)
    return digest.hexdigest()


def class_of(label: str, labels: Sequence[str]) -> int:
    """The index of a class that a table names, or numbers as the model does; -1 for none.

    Args:
        label: as the table has it.
        labels: the names of the model's classes.
    """
    folded = [name.casefold() for name in labels]
    if label.casefold() in folded:
        return folded.index(label.casefold())
    if label.isdecimal() and int(label) < len(labels):
        return int(label)
    return -1
