"""What kind of table a file is, by the ending of its name, and its bytes without their packing."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
import zlib
from pathlib import Path

from slalom_xai.errors import InputError

SEPARATED = (".csv", ".tsv")
JSON = (".jsonl", ".ndjson", ".json")
PARQUET = ".parquet"

_UNPACK = {".gz": gzip.decompress, ".xz": lzma.decompress, ".bz2": bz2.decompress}
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


def unpacked(path: Path, raw: bytes) -> tuple[str, bytes]:
    """The kind of a table, such as ".csv", and its bytes.

    Args:
        path: the file; a zip file without a second ending leaves it to the file inside to say the
            kind.
        raw: the bytes of the file.

    Raises:
        InputError: the kind is not known, or the file is damaged.
    """
    packing = path.suffix.lower()
    inside_says = packing == _ZIP and not Path(path.stem).suffix
    kind = ""
    if not inside_says:
        kind = kind_of(path.name, path)
    try:
        if packing == _ZIP:
            name, raw = _from_zip(path, raw)
            kind = kind or kind_of(name + packing, path)
        elif packing in _UNPACK:
            raw = _UNPACK[packing](raw)
    except InputError:
        raise
    except DAMAGE as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(
            f"{path} is damaged or not a {packing[1:]} file ({reason}): "
            "pack it again, or give it unpacked"
        ) from error
    return kind, raw


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


def _from_zip(path: Path, raw: bytes) -> tuple[str, bytes]:
    """The name and the bytes of the one file in an archive."""
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        names = []
        for info in archive.infolist():
            if not info.is_dir() and not info.filename.startswith("__MACOSX/"):
                names.append(info.filename)
        if len(names) != 1:
            raise InputError(
                f"{path} holds {len(names)} files: give a zip file with one table in it"
            )
        return Path(names[0]).name, archive.read(names[0])
