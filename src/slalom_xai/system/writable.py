"""Whether results can be written to a place, asked before anything is computed.

A run may take hours, so a path that cannot be written must be known at its start. Each check
refuses such a path with an ``InputError`` that names the option the path was given with.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from slalom_xai.errors import InputError


def check_writable(option: str, path: Path | None) -> None:
    """Refuses a file that cannot be written.

    Args:
        option: the option of the command line that names the file, such as ``--out``.
        path: the file, which need not exist; None where the option was not given.

    Raises:
        InputError: it is a folder, its folder does not exist, or it may not be written.
    """
    if path is None:
        return
    if not path.parent.is_dir() or path.is_dir():
        raise InputError(f"cannot write {path}: give {option} a file in a folder that exists")
    try:
        _try_to_write(path)
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"cannot write {path}: {reason}; give {option} another place") from error


def make_folder(option: str, folder: Path) -> None:
    """Creates a folder for results unless it exists, and refuses one that cannot be written to.

    Args:
        option: the option of the command line that names the folder.
        folder: the folder; those around it are created, too.

    Raises:
        InputError: it is a file, cannot be created, or may not be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or error
        raise InputError(
            f"{option} is {folder}, which cannot be created ({reason}): give a folder"
        ) from error
    if not os.access(folder, os.W_OK):
        raise InputError(f"{option} is {folder}, which cannot be written to: give another folder")


def check_replaceable(option: str, folder: Path) -> None:
    """Refuses a folder that ``replacing_folder`` could not replace.

    The new folder is filled beside the old one and then takes its place. So the folder around it
    must be writable, and nothing may hold the old one where it is.

    Args:
        option: the option of the command line that names the folder.
        folder: the folder, which need not exist; links are followed.

    Raises:
        InputError: it is a file, a mount point or the working folder, or cannot be written beside.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{option} is {folder}, which is a file: give a folder")
    target = Path(os.path.realpath(folder))
    if target.is_dir() and os.path.ismount(target):
        raise InputError(
            f"{option} is {folder}, which is a mount point and cannot be replaced: "
            "give a folder inside it"
        )
    if target in (Path.cwd(), *Path.cwd().parents):
        raise InputError(
            f"{option} is {folder}, the folder that this command runs in, which it cannot replace: "
            "run it elsewhere, or give a folder inside it"
        )
    nearest = next(above for above in target.parents if above.exists())
    if nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK):
        return
    inside = ""
    if target.is_dir():
        inside = ", such as one inside it"
    raise InputError(
        f"{option} is {folder}, but nothing can be written to {nearest}: "
        f"give another folder{inside}"
    )


def _try_to_write(path: Path) -> None:
    """Tries what writing the file will do, and leaves nothing behind.

    Raises:
        OSError: it cannot be written.
    """
    if path.exists() and not os.access(path, os.W_OK):
        raise PermissionError(13, "Permission denied")
    # A device or a pipe is written as it is; any other file is first written beside its place.
    if path.is_file() or not path.exists():
        with tempfile.TemporaryFile(dir=path.parent):
            pass
