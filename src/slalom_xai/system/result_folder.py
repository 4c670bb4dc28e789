"""A folder of results that several runs fill: what must not change, and one line per result.

A file, settings.json by default, says what must not change between runs. A file of JSON lines has a
line for each result. A line that a kill cut short is left out when it is read, and its work is done
again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from slalom_xai.errors import InputError, quote_text
from slalom_xai.system.files import is_draft, make_folder, read_json, write_file

_SETTINGS = "settings.json"


def open_folder(
    folder: Path,
    settings: Mapping[str, Any],
    *,
    kind: str = "benchmark",
    maker: str = "slalom bench",
    name: str = _SETTINGS,
) -> None:
    """Makes a folder for results, or goes on with that of an earlier run.

    Args:
        folder: where the results are.
        settings: what must not change between runs, as JSON has it.
        kind: what the folder holds, for messages.
        maker: the command that fills it, for messages.
        name: of the file with the settings.

    Raises:
        InputError: the folder holds something else, or results with other settings.
    """
    file = folder / name
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: give a folder for the results")
    make_folder("--out", folder)
    if not file.is_file():
        _check_beginning(folder, kind, name)
        # Before anything else: other processes may be opening the same folder.
        write_file(file, json.dumps(settings, ensure_ascii=False, indent=1) + "\n")
    _check_same(folder, _read_settings(file, kind, maker), settings, kind)


def read_lines(path: Path) -> Iterator[Any]:
    """What each line of a file holds; nothing if there is no file. Lines cut short are left out.

    Raises:
        InputError: the file cannot be read.
    """
    if not path.is_file():
        return
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    for line in content.split(b"\n"):
        try:
            record = json.loads(line.decode("utf-8"))
        except (ValueError, RecursionError):
            continue
        yield record


def _check_beginning(folder: Path, kind: str, name: str) -> None:
    """Refuses a folder with more than what a run left that was killed before it wrote settings."""
    for file in folder.iterdir():
        if not file.name.startswith(name) and not is_draft(file.name):
            raise InputError(f"{folder} is not empty and is not a {kind}: give another folder")


def _read_settings(path: Path, kind: str, maker: str) -> dict[str, Any]:
    """The settings of an earlier run."""
    settings = read_json(path, maker)
    if not isinstance(settings, dict) or not settings:
        raise InputError(
            f"{path} holds no {kind} settings: "
            "give another --out, or delete this folder to start again"
        )
    return settings


def _check_same(folder: Path, before: Mapping[str, Any], now: Mapping[str, Any], kind: str) -> None:
    """Refuses a folder whose results have other settings."""
    changes = []
    for name, value in now.items():
        earlier = before.get(name)
        if isinstance(value, dict) and isinstance(earlier, dict):
            for part in {**earlier, **value}:
                if earlier.get(part) != value.get(part):
                    said = f"{_short(earlier.get(part))}, now {_short(value.get(part))}"
                    changes.append(f"{name}: {part} {said}")
        elif earlier != value:
            changes.append(f"{name} {_short(earlier)}, now {_short(value)}")
    if changes:
        raise InputError(
            f"{folder} holds a {kind} with other settings ({'; '.join(changes)}): "
            "give another folder"
        )


def _short(value: Any) -> str:
    """A setting for a message: texts in quotes, everything else as Python writes it."""
    if isinstance(value, str):
        return quote_text(value, 80)
    return quote_text(repr(value), 80)[1:-1]
