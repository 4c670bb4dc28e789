"""Tells models apart by what they are made of, not by what they are called."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from slalom_xai.system.bundled import bundled_folder, is_bundled

_CHUNK = 1 << 20  # bytes read at once


def fingerprint(
    source: str | None,
    dtype: str | None,
    revision: str | None = None,
    labels: Sequence[str] | None = None,
) -> str:
    """Equal for the same files in the same precision, under the same names of classes.

    Args:
        source: what a model was loaded from: folder, file or hub id; None, or one of its
            names: the bundled model.
        dtype: the precision asked for.
        revision: branch, tag or commit of a hub id, which must be in the local cache.
        labels: names that were given to classes that the model only numbers.
    """
    digest = hashlib.sha256(f"{dtype}\n".encode())
    if labels is not None:
        digest.update(f"{json.dumps(list(labels))}\n".encode())
    place = _place(source, revision)
    found = [place]
    if place.is_dir():
        found = sorted(path for path in place.rglob("*") if path.is_file())
    for path in found:
        digest.update(f"{path.relative_to(place)}\n".encode())
        with path.open("rb") as content:
            while chunk := content.read(_CHUNK):
                digest.update(chunk)
    return digest.hexdigest()[:16]


def _place(source: str | None, revision: str | None) -> Path:
    """Where the files of a model are that has been loaded."""
    if source is None or is_bundled(source):
        return bundled_folder()
    if Path(source).exists():
        return Path(source)
    from transformers.utils.hub import cached_file

    configuration = cached_file(source, "config.json", revision=revision, local_files_only=True)
    return Path(str(configuration)).parent
