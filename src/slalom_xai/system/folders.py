"""Folders that are whole or not there.

A new one is filled beside its place and then changes places with the old one. Where the system can
exchange two folders (Linux), a reader finds the old one or the new one at every moment. Elsewhere
there is an instant without either; ``recover`` puts back what a kill leaves then.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import shutil
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from slalom_xai.system.files import lock, remove_if_left, sync_folder, sync_tree

_AT_FDCWD = -100  # of Linux: relative to the working folder
_RENAME_EXCHANGE = 2  # of Linux: both names must be there


@contextmanager
def replace_folder(folder: Path, *, without: Collection[str] = ()) -> Iterator[Path]:
    """A folder to fill instead of ``folder``.

    When the block ends without an error, it becomes ``folder``. What else is in the old folder goes
    along.

    Args:
        folder: need not be there; links are followed.
        without: names in the old folder that stay behind.

    Raises:
        OSError: it cannot be written; what was there is as it was.
    """
    place = Path(os.path.realpath(folder))
    place.parent.mkdir(parents=True, exist_ok=True)
    recover(place)
    draft, handle = _new_draft(place)
    try:
        yield draft
        sync_tree(draft)
        if place.is_dir():
            _bring_along(place, draft, without)
            shutil.copymode(place, draft)
            sync_folder(draft)
        _become(draft, place)
    finally:
        if handle is not None:
            os.close(handle)
        shutil.rmtree(draft, ignore_errors=True)  # the old folder, if all went well


def recover(folder: Path) -> None:
    """Puts right what a killed process left beside a folder.

    The old folder goes back if nothing is in its place.
    """
    place = Path(os.path.realpath(folder))
    if not place.parent.is_dir():
        return
    for left in _find_leftovers(place, "old"):
        if not place.exists():
            os.rename(left, place)
        else:
            shutil.rmtree(left, ignore_errors=True)
    for left in _find_leftovers(place, "new"):
        remove_if_left(left, shutil.rmtree)


def _prefix(place: Path, kind: str) -> str:
    return f".{place.name[:60]}-{kind}-"


def _beside(place: Path, kind: str) -> Path:
    return place.with_name(f"{_prefix(place, kind)}{secrets.token_hex(4)}.tmp")


def _new_draft(place: Path) -> tuple[Path, int | None]:
    """An empty folder beside its place, locked where there are locks."""
    while True:
        draft = _beside(place, "new")
        draft.mkdir()
        if sys.platform == "win32":  # folders cannot be opened there
            return draft, None
        handle = os.open(draft, os.O_RDONLY)
        # Somebody may have taken it for a leftover before it was locked.
        if lock(handle) is not False and draft.exists():
            return draft, handle
        os.close(handle)


def _find_leftovers(place: Path, kind: str) -> list[Path]:
    """What killed processes left beside a folder, of one kind."""
    left = []
    for name in sorted(os.listdir(place.parent)):
        if name.startswith(_prefix(place, kind)) and name.endswith(".tmp"):
            left.append(place.with_name(name))
    return left


def _bring_along(old: Path, new: Path, without: Collection[str]) -> None:
    """Puts what is only in the old folder into the new one, too."""
    for entry in sorted(old.iterdir()):
        target = new / entry.name
        if entry.name in without or target.exists():
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.copytree(entry, target, symlinks=True, copy_function=_link_or_copy)
        else:
            _link_or_copy(entry, target)


def _link_or_copy(source: str | Path, target: str | Path) -> str | Path:
    """A second name for a file, which takes no room; a copy where there are no second names."""
    try:
        os.link(source, target, follow_symlinks=False)
    except (OSError, NotImplementedError):
        shutil.copy2(source, target, follow_symlinks=False)
    return target


def _become(draft: Path, place: Path) -> None:
    """Puts the new folder in its place; the old one is then where the draft was, or gone."""
    if not place.is_dir() or not any(place.iterdir()):
        if sys.platform == "win32" and place.is_dir():
            place.rmdir()
        os.replace(draft, place)
    elif not _exchange(draft, place):
        aside = _beside(place, "old")
        os.rename(place, aside)
        try:
            os.rename(draft, place)
        except BaseException:
            os.rename(aside, place)
            raise
        shutil.rmtree(aside, ignore_errors=True)
    sync_folder(place.parent)


def _exchange(one: Path, other: Path) -> bool:
    """Lets two folders change names in one step; False where the system cannot."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    names = [os.fsencode(path) for path in (one, other)]
    done: int = rename(
        _AT_FDCWD,
        ctypes.c_char_p(names[0]),
        _AT_FDCWD,
        ctypes.c_char_p(names[1]),
        ctypes.c_uint(_RENAME_EXCHANGE),
    )
    return done == 0
