"""What a reproduction is: a claim as code, the checks that must hold, and its tables and figures.

A reproduction is a function that takes ``Settings`` and returns an ``Outcome``, made known by
``reproduction``:

    @reproduction(name="repeated-token", title="...", source="Leemann et al. 2024, Prop. 4.1")
    def repeated_token(settings: Settings) -> Outcome: ...

There are two kinds. A claim of the theory has one size, and its checks must hold. An experiment
runs a figure or a table of the paper again, at two sizes. Its checks are about order and shape,
never about the paper's absolute numbers: the weights, and often the data, are not the paper's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from slalom_xai.data.tables import Table, read_table
from slalom_xai.data.tables.examples import Examples, Fields, read_examples
from slalom_xai.data.tables.table import quote_names
from slalom_xai.errors import InputError
from slalom_xai.system.shards import WHOLE, Shard

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from slalom_xai.system.progress import Bar

PAPER = "Leemann et al. 2024"

_Item = TypeVar("_Item")


@dataclass(frozen=True)
class Check:
    """One statement that must hold.

    Attributes:
        statement: what is measured, in a sentence.
        value: the number found.
        bound: what it is held against.
        relation: whether the number must be at most or at least the bound.
    """

    statement: str
    value: float
    bound: float
    relation: Literal["≤", "≥"] = "≤"

    @property
    def holds(self) -> bool:
        """Whether the number keeps to its bound; a NaN never does."""
        if math.isnan(self.value):
            return False
        if self.relation == "≤":
            return self.value <= self.bound
        return self.value >= self.bound


def at_most(statement: str, value: float, bound: float) -> Check:
    """A number that must be small, such as the largest difference between two computations."""
    return Check(statement, float(value), float(bound), "≤")


def at_least(statement: str, value: float, bound: float) -> Check:
    """A number that must be large, such as the error of a formula that is claimed to be wrong."""
    return Check(statement, float(value), float(bound), "≥")


def judged(*checks: Check) -> tuple[Check, ...]:
    """Those that have a number: a run that was stopped may lack a method, or a model refuse it."""
    return tuple(check for check in checks if not math.isnan(check.value))


@dataclass(frozen=True)
class Outcome:
    """What a reproduction found.

    Attributes:
        checks: the statements, at least one.
        tables: by a short name in lower case.
        figures: by a short name in lower case; drawn only when somebody wants them.
        remarks: what a reader should know beside the checks, a sentence each.
        finding: of an experiment: in a sentence, what holds here and what does not; empty for
            other claims.
    """

    checks: tuple[Check, ...]
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    figures: Mapping[str, Callable[[], Figure]] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    finding: str = ""

    @property
    def holds(self) -> bool:
        """Whether every check holds."""
        return all(check.holds for check in self.checks)

    @property
    def verdict(self) -> str:
        """In words: "holds", "holds in part" or "does not hold here"."""
        if self.holds:
            return "holds"
        if any(check.holds for check in self.checks):
            return "holds in part"
        return "does not hold here"


@dataclass(frozen=True)
class Settings:
    """What a reproduction can be told.

    Attributes:
        seed: decides everything random.
        bar: shows how far it is; None shows nothing.
        small: the least that still shows the claim, in less time: what the tests run.
        full: of an experiment: the paper's size, instead of a small one.
        data: of an experiment: the folder with real data; None where none was given.
        store: of an experiment: the folder that keeps what is finished, so that a run that was
            killed goes on; None keeps nothing.
        shard: of an experiment: which share of its cells is measured.
        finished: of an experiment: whether to measure nothing and show what is finished.
        api: of an experiment: the address of a server that holds a language model.
        api_model: of an experiment: the model's name there.
        api_top: of an experiment: how many of the likeliest tokens the server should list.
    """

    seed: int = 0
    bar: Bar | None = None
    small: bool = False
    full: bool = False
    data: Path | None = None
    store: Path | None = None
    shard: Shard = WHOLE
    finished: bool = False
    api: str | None = None
    api_model: str | None = None
    api_top: int = 20

    def track(self, items: Iterable[_Item], label: str) -> Iterator[_Item]:
        """Passes the items on and moves the bar: for loops of more than a second or two."""
        listed = list(items)
        if self.bar is not None:
            self.bar.start(len(listed), label, afresh=True)
        for item in listed:
            yield item
            if self.bar is not None:
                self.bar.advance(1)


@dataclass(frozen=True)
class DataFile:
    """A table of real texts that an experiment needs.

    Attributes:
        name: the file's name up to its first dot; any format that the package reads will do.
        origin: where it comes from, for a reader who does not have it.
        columns: that it must have.
    """

    name: str
    origin: str
    columns: tuple[str, ...] = ("text", "label")

    def find(self, experiment: str, folder: Path | None) -> Path:
        """The file in a folder.

        Raises:
            InputError: there is no folder, or no such file in it.
        """
        named = f"{', '.join(self.columns[:-1])} and {self.columns[-1]}"
        wanted = f"{self.name}.csv or {self.name}.jsonl.gz, with columns {named}"
        if folder is None:
            raise InputError(
                f"{experiment} needs real data: give --data FOLDER with {wanted}: {self.origin}"
            )
        if not folder.is_dir():
            raise InputError(
                f"--data is {folder}, which is no folder: give one with {wanted}: {self.origin}"
            )
        found = sorted(path for path in folder.iterdir() if path.name.split(".")[0] == self.name)
        if not found:
            raise InputError(f"{folder} has no file {wanted}: {self.origin}")
        return found[0]

    def read(self, experiment: str, folder: Path | None) -> Examples:
        """The texts and classes of the file.

        Raises:
            InputError: it is not there, or is not a table of texts and labels.
        """
        return read_examples(self.table(experiment, folder), Fields())

    def table(self, experiment: str, folder: Path | None) -> Table:
        """The file as it is.

        Raises:
            InputError: it is not there, or lacks a column.
        """
        table = read_table(self.find(experiment, folder))
        missing = [f"no column {column!r}" for column in self.columns if column not in table.fields]
        if missing:
            there = quote_names(table.fields) if table.fields else "none at all"
            raise InputError(
                f"{table.path} has {' and '.join(missing)}, only {there}: rename its columns, or "
                f"give another table: {self.origin}"
            )
        return table


@dataclass(frozen=True)
class Reproduction:
    """A claim, or an experiment, that can be run.

    Attributes:
        name: what ``python -m research`` takes.
        title: the claim in a sentence.
        source: where it is made.
        run: computes the outcome.
        study: of an experiment: the folder of its finished cells; experiments with the same one
            share them. Empty: a claim.
        hours: of an experiment: what the full size takes without a GPU, roughly, on two cores.
        data: of an experiment: the tables it needs.
        server: of an experiment: it asks a language model on a server.
    """

    name: str
    title: str
    source: str
    run: Callable[[Settings], Outcome]
    study: str = ""
    hours: float = 0.0
    data: tuple[DataFile, ...] = ()
    server: bool = False

    @property
    def is_experiment(self) -> bool:
        """Whether this is an experiment rather than a claim."""
        return bool(self.study)


REGISTER: dict[str, Reproduction] = {}  # of the modules imported so far, by name
_Function = Callable[[Settings], Outcome]


def reproduction(
    *,
    name: str,
    title: str,
    source: str,
    study: str = "",
    hours: float = 0.0,
    data: tuple[DataFile, ...] = (),
    server: bool = False,
) -> Callable[[_Function], _Function]:
    """Function decorator: makes a reproduction known by its name; see ``Reproduction``."""

    def register(function: _Function) -> _Function:
        REGISTER[name] = Reproduction(name, title, source, function, study, hours, data, server)
        return function

    return register
