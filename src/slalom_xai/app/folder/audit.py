"""The files of an audit, as they lie there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slalom_xai.audit.files import CARD, PAGE, RECORD, REPORT, VIEW, read_audit

# What visitors can reach, by the name in the address: nothing else of the folder.
FILES = {
    PAGE: "text/html; charset=utf-8",
    VIEW: "text/html; charset=utf-8",
    REPORT: "text/plain; charset=utf-8",
    CARD: "text/plain; charset=utf-8",
    RECORD: "application/json",
}


@dataclass(frozen=True)
class AuditFolder:
    """A finished audit.

    Attributes:
        path: of the folder.
        record: what was found.
    """

    path: Path
    record: dict[str, Any]

    @classmethod
    def open(cls, path: Path) -> AuditFolder:
        """Looks at the folder of an audit.

        Raises:
            InputError: it is not finished, is of another version, or cannot be read.
        """
        return cls(path, read_audit(path))

    @property
    def files(self) -> list[str]:
        """The names of the files that are there."""
        return [name for name in FILES if self._file(name) is not None]

    def read(self, name: str) -> bytes | None:
        """A file; None where it is not one of an audit, is not there, or leads elsewhere."""
        file = self._file(name)
        return None if file is None else file.read_bytes()

    def _file(self, name: str) -> Path | None:
        file = self.path / name
        if name not in FILES or not file.is_file():
            return None
        return file if file.resolve().parent == self.path.resolve() else None
