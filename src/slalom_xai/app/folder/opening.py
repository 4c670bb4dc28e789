"""Finds out what a folder holds."""

from __future__ import annotations

from pathlib import Path

from slalom_xai.app.folder.audit import AuditFolder
from slalom_xai.app.folder.corpus import StoredCorpus
from slalom_xai.audit.files import RECORD
from slalom_xai.corpus.folder import MANIFEST
from slalom_xai.errors import InputError


def open_folder(path: Path) -> StoredCorpus | AuditFolder:
    """Looks at a folder.

    Raises:
        InputError: it holds neither a corpus nor an audit, or one that is not finished, is of
            another version, or cannot be read.
    """
    if (path / RECORD).is_file():
        return AuditFolder.open(path)
    if (path / MANIFEST).is_file():
        return StoredCorpus.open(path)
    raise InputError(
        f"{path} holds neither a corpus nor an audit: "
        "give the folder that slalom corpus --out or slalom audit --out filled"
    )
