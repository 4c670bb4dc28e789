"""The files of an audit's folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slalom_xai.errors import InputError
from slalom_xai.system.files import read_json

FORMAT, VERSION = "slalom-audit", 1
RECORD = "audit.json"
REPORT, PAGE = "report.md", "report.html"
CARD = "model-card.md"
VIEW = "explanations.html"  # missing where no text was explained


def read_audit(folder: Path) -> dict[str, Any]:
    """What an audit found, as ``summary.record`` gives it.

    Raises:
        InputError: the folder holds no audit, an unfinished one, or one of another version.
    """
    found = read_json(folder / RECORD, "slalom audit")
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise InputError(
            f"{folder / RECORD} is no audit: give the folder that slalom audit --out filled"
        )
    if found.get("version") != VERSION:
        raise InputError(
            f"{folder / RECORD} has version {found.get('version')!r}, and this is version "
            f"{VERSION}: make the audit again, or use the version of slalom-xai that made it"
        )
    missing = [name for name in (REPORT, PAGE, CARD) if not (folder / name).is_file()]
    if missing:
        raise InputError(
            f"{folder} lacks {', '.join(missing)}: the audit is not finished; make it again"
        )
    return found
