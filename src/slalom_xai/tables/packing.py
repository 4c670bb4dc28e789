"""What kind of table a file is, by the ending of its name, and its bytes without their packing."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

from slalom_xai.errors import InputError

SEPARATED = (".csv", ".tsv")
JSON = (".jsonl", ".ndjson", ".json")
PARQUET = ".parquet"

_UNPACK: Mapping[str, Callable[[Path], Any]] = {
    ".gz": gzip.open,
    ".xz": lzma.open,
    ".bz2": bz2.open,
}
PACKINGS = tuple(_UNPACK)
_ZIP = ".zip"

# Everything that the modules above raise for a damaged file.
DAMAGE = (
    OSError,
    EOFError,
    ValueError,
    RuntimeError,
    NotImplementedError,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
)


def opened(path: Path) -> IO[bytes]:
    """The bytes of a file without its packing.

    Raises:
        InputError: it cannot be opened.
    """
    packing = path.suffix.lower()
    try:
        if packing == _ZIP:
            with zipfile.ZipFile(path) as archive:  # the file inside keeps it open
                return archive.open(_name_in(archive, path))
        unpack = _UNPACK.get(packing)
        return path.open("rb") if unpack is None else unpack(path)
    except InputError:
        raise
    except DAMAGE as error:
        raise damaged(path, error) from error


def name_in_zip(path: Path) -> str:
    """The name of the one file in an archive.

    Raises:
        InputError: it cannot be opened, or does not hold one file.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return Path(_name_in(archive, path)).name
    except zipfile.BadZipFile as error:
        raise damaged(path, error) from error


def damaged(path: Path, error: Exception, after: str = "") -> InputError:
    """The error for a file that cannot be unpacked.

    Args:
        path: the file.
        error: what went wrong.
        after: what could be read of it.
    """
    reason = " ".join(str(error).split()) or type(error).__name__
    return InputError(
        f"cannot read {path}{after}: it is damaged or not a {path.suffix[1:]} file ({reason}); "
        "pack it again, or give it unpacked"
    )


def kind_of(name: str, given: Path) -> str:
    """The ending that says what a file holds, without that of its packing.

    Args:
        name: the name of the file, or of the one inside it with the packing's ending.
        given: the path that the user gave, for the message.

    Raises:
        InputError: the ending is not known, or the format has its own packing.
    """
    whole = Path(name.lower())
    kind, packed = whole.suffix, False
    if kind in (*_UNPACK, _ZIP):
        kind, packed = Path(whole.stem).suffix, True
    if kind in (*SEPARATED, *JSON):
        return kind
    if kind == PARQUET and not packed:
        return kind
    raise InputError(
        f"unknown kind of table {given.name!r}: "
        f"give a file that ends in {', '.join((*SEPARATED, *JSON))} or {PARQUET}; "
        f"all except {PARQUET} may be packed as .gz, .xz, .bz2 or .zip"
    )


def _name_in(archive: zipfile.ZipFile, path: Path) -> str:
    """The one file in an archive."""
    infos = [info for info in archive.infolist() if not info.is_dir()]
    names = [info.filename for info in infos if not info.filename.startswith("__MACOSX/")]
    if len(names) != 1:
        raise InputError(f"{path} holds {len(names)} files: give a zip file with one table in it")
    return names[0]
