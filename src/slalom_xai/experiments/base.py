"""What an experiment is: a figure or a table of the paper, run again at two sizes.

An experiment is a function that takes ``Settings`` and returns an ``Outcome``, made known by
``experiment``. Its checks are about order and shape, never about the paper's absolute numbers: the
weights, and often the data, are not the paper's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from slalom_xai.errors import InputError
from slalom_xai.experiments.cells import Origin, made_here
from slalom_xai.models.load import chosen_device
from slalom_xai.tables import Table, read_table
from slalom_xai.tables.examples import Examples, Fields, read_examples
from slalom_xai.tables.table import listed
from slalom_xai.theory.base import Check, Outcome, Reproduction, Settings

PAPER = "Leemann et al. 2024"


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
            there = listed(table.fields) if table.fields else "none at all"
            raise InputError(
                f"{table.path} has {' and '.join(missing)}, only {there}: rename its columns, or "
                f"give another table: {self.origin}"
            )
        return table


@dataclass(frozen=True)
class Experiment(Reproduction):
    """A figure or a table of the paper that can be run again.

    Attributes:
        study: the folder of its finished cells; experiments with the same one share them.
        hours: what the full size takes without a GPU, roughly, on two cores.
        data: the tables it needs.
        server: it asks a language model on a server.
    """

    study: str
    hours: float
    data: tuple[DataFile, ...] = ()
    server: bool = False


_register: dict[str, Experiment] = {}
_Function = Callable[[Settings], Outcome]


def experiment(
    *,
    name: str,
    title: str,
    source: str,
    study: str,
    hours: float,
    data: tuple[DataFile, ...] = (),
    server: bool = False,
) -> Callable[[_Function], _Function]:
    """Function decorator: makes an experiment known by its name; see ``Experiment``."""

    def register(function: _Function) -> _Function:
        _register[name] = Experiment(name, title, source, function, study, hours, data, server)
        return function

    return register


def registered() -> dict[str, Experiment]:
    """Every experiment of the modules imported so far."""
    return dict(_register)


def judged(*checks: Check) -> tuple[Check, ...]:
    """Those that have a number: a run that was stopped may lack a method, or a model refuse it."""
    return tuple(check for check in checks if not math.isnan(check.value))


def check_ready(one: Experiment, settings: Settings, *, yes: bool) -> None:
    """Refuses a run that could not end well, before anything is computed.

    Args:
        one: what is to be run.
        settings: how.
        yes: run the full size without a GPU, too.

    Raises:
        InputError: a table or a column is missing, or the full size has no GPU.
    """
    if settings.finished:
        return  # nothing will be measured
    if one.server and (settings.api is None or settings.api_model is None):
        raise InputError(
            f"{one.name} asks a language model on a server, and none was named: give --api URL and "
            "--api-model NAME, as for slalom explain"
        )
    for needed in one.data:
        needed.table(one.name, settings.data)
    if settings.full and not yes and not one.server and chosen_device(None).type == "cpu":
        raise InputError(
            f"{one.name} at full size takes about {one.hours:g} hours on two cores, "
            "and there is no GPU here: give --yes to start it, or leave --full out"
        )


def manifest(settings: Settings, seconds: float) -> dict[str, Any]:
    """How an experiment was run: seed, size, versions, device and time.

    Args:
        settings: as it was run with.
        seconds: what this run took. Where cells are kept, their time, devices and versions are
            given instead: those of all runs, and of all experiments that share them.
    """
    origin = Origin(seconds, (made_here(),))
    if settings.store is not None:
        origin = Origin.of(settings.store)
    size = "small"
    if settings.full:
        size = "full"
    return {
        "seed": settings.seed,
        "size": size,
        "made": list(origin.made),
        "seconds": round(origin.seconds, 1),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }
