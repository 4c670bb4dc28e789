"""Files that are whole or not there: every result is written beside its place and then renamed.

A full disk, an error or a kill at any moment leaves what was there before. What a killed process
leaves beside it is removed by the next one that writes to the same place.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zlib import crc32

from slalom_xai.errors import InputError

DRAFT = ".slalom-"  # how the names of drafts begin
_DEVICES = ("/dev/", "/proc/")
_REASON = 200  # characters of Python's own words in a message, at most
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def write_file(path: str | Path, content: str | bytes) -> Path:
    """Writes bytes, or a text as UTF-8, whole or not at all; returns the path.

    Raises:
        InputError: it cannot be written; what was there is as it was.
    """
    try:
        encoded = content if isinstance(content, bytes) else content.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            f"cannot write {path}: its text holds half a character (a lone surrogate); "
            "decode it as UTF-8 first"
        ) from error
    with replace_file(path) as draft:
        draft.write_bytes(encoded)
    return Path(path)


def read_json(path: str | Path, written_by: str = "Explanation.save") -> Any:
    """Reads JSON.

    Args:
        path: of the file.
        written_by: what wrote such files, for the message.

    Raises:
        InputError: it cannot be read, or is not JSON.
    """
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    except RecursionError as error:
        raise InputError(
            f"{path} is nested too deep to be read: give a file written by {written_by}"
        ) from error
    except ValueError as error:
        reason = "it holds a number of thousands of digits"
        if isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
            reason = " ".join(str(error).split())[:_REASON]
        raise InputError(
            f"{path} is not JSON ({reason}): give a file written by {written_by}"
        ) from error


@contextmanager
def replace_file(path: str | Path) -> Iterator[Path]:
    """A file to write instead of ``path``.

    When the block ends without an error, it becomes ``path``. Links are followed, and the new file
    has the rights of the old one. A device or a pipe is written as it is.

    Raises:
        InputError: it cannot be written; what was there is as it was.
    """
    path = Path(path)
    try:
        place = _real_place(path)
        if place is None:
            yield path
            return
        _remove_drafts(place)
        draft, handle = _new_draft(place)
        with _whole_or_nothing(draft, handle):
            yield draft
            _become(draft, handle, place)
    except OSError as error:
        raise cannot_write(path, error) from error


def cannot_write(path: Path, error: OSError) -> InputError:
    """The error for a place that cannot be written."""
    reason = error.strerror or str(error)
    if error.errno in _FULL:
        return InputError(
            f"cannot write {path}: {reason}; what was there is unchanged: "
            "make room, or give another place"
        )
    return InputError(
        f"cannot write {path}: {reason}; "
        "give a path in a folder that exists and that you may write to"
    )


def make_private(path: Path) -> None:
    """Makes an empty file that only its owner can read; one that is there stays as it is."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))


def append_line(path: Path, line: str) -> None:
    """Adds one line to a file that other processes add to, too.

    A line before it that was cut short stays alone.

    Raises:
        InputError: the file cannot be written.
    """
    try:
        handle = os.open(
            path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o666
        )
        try:
            lock(handle, wait=True)
            size = os.fstat(handle).st_size
            if size > 0 and _last_byte(handle, size) != b"\n":
                line = "\n" + line  # the line before it was cut short
            _write_all(handle, (line + "\n").encode("utf-8"))
        finally:
            os.close(handle)
    except OSError as error:
        raise cannot_write(path, error) from error


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder last, where the system can."""
    if sys.platform == "win32":
        return
    with contextlib.suppress(OSError):  # some file systems cannot
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def sync_tree(folder: Path) -> None:
    """Makes everything in a folder last."""
    for root, _, names in os.walk(folder):
        for name in names:
            if not (Path(root) / name).is_symlink():
                with (Path(root) / name).open("rb+") as file:
                    os.fsync(file.fileno())
        sync_folder(Path(root))


def lock(handle: int, *, wait: bool = False) -> bool | None:
    """Takes the lock of an open file or folder.

    Returns:
        False where another process holds it, and None where there are no locks.
    """
    if sys.platform == "win32":
        return None
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in (errno.ENOLCK, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS):
            return None
        raise
    return True


def is_draft(name: str) -> bool:
    """Whether a name is that of a draft, perhaps one that a killed process left."""
    return name.startswith(DRAFT) and name.endswith(".tmp")


def remove_if_left(path: Path, remove: Callable[[Path], None]) -> None:
    """Removes a draft, a file or a folder, unless the process that made it is still at work."""
    with contextlib.suppress(OSError):
        if sys.platform == "win32":  # what is open there cannot be removed
            remove(path)
            return
        handle = os.open(path, os.O_RDONLY)
        try:
            if lock(handle):
                remove(path)
        finally:
            os.close(handle)


def _real_place(path: Path) -> Path | None:
    """Where a file is to be written; None for a device or a pipe, which cannot be renamed."""
    if str(path).startswith(_DEVICES):
        return None
    place = Path(os.path.realpath(path))
    if place.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if place.exists() and not place.is_file():
        return None
    if place.exists() and not os.access(place, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return place


def _prefix(place: Path) -> str:
    """How names of drafts of this file begin; short, as names of files can be of full length."""
    return f"{DRAFT}{crc32(place.name.encode('utf-8', 'surrogateescape')):08x}-"


def _new_draft(place: Path) -> tuple[Path, int]:
    """An empty file beside its place, open and locked."""
    while True:
        draft = place.with_name(f"{_prefix(place)}{secrets.token_hex(4)}.tmp")
        handle = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            # Somebody may have taken it for a leftover before it was locked.
            if lock(handle) is not False and draft.exists():
                if place.exists():
                    shutil.copymode(place, draft)
                return draft, handle
        except OSError:
            os.close(handle)
            draft.unlink(missing_ok=True)
            raise
        os.close(handle)


@contextmanager
def _whole_or_nothing(draft: Path, handle: int) -> Iterator[None]:
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            os.close(handle)
        draft.unlink(missing_ok=True)
        raise
    with contextlib.suppress(OSError):
        os.close(handle)


def _become(draft: Path, handle: int, place: Path) -> None:
    os.fsync(handle)
    if sys.platform == "win32":  # an open file cannot be renamed there
        os.close(handle)
    os.replace(draft, place)
    sync_folder(place.parent)


def _remove_drafts(place: Path) -> None:
    """Removes what killed processes left of this file."""
    for left in place.parent.glob(f"{_prefix(place)}*.tmp"):
        remove_if_left(left, Path.unlink)


def _last_byte(handle: int, size: int) -> bytes:
    os.lseek(handle, size - 1, os.SEEK_SET)
    return os.read(handle, 1)


def _write_all(handle: int, content: bytes) -> None:
    """Writes bytes, at once where the disk has room."""
    while content:
        content = content[os.write(handle, content) :]


# Whether results can be written to a place, asked before anything is computed.
#
# A run may take hours, so a path that cannot be written must be known at its start. Each check
# refuses such a path with an ``InputError`` that names the option the path was given with.


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
    """Refuses a folder that ``replace_folder`` could not replace.

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
