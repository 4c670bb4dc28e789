"""Writes an audit into a folder: for people, for web pages, for programs, for a model card."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slalom_xai.audit.document import markdown, web_page
from slalom_xai.audit.files import CARD, PAGE, RECORD, REPORT, VIEW
from slalom_xai.audit.report import model_card, report
from slalom_xai.explanation import Explanation
from slalom_xai.reports.html import write_report
from slalom_xai.system.files import write_file


def write_audit(
    folder: Path, found: Mapping[str, Any], explanations: Sequence[Explanation]
) -> list[Path]:
    """Writes all files of an audit; returns them.

    Args:
        folder: that is there.
        found: what ``summary.record`` gives.
        explanations: of some texts.

    Raises:
        InputError: a file cannot be written.
    """
    blocks = report(found)
    content = json.dumps(found, ensure_ascii=False, indent=1, allow_nan=False) + "\n"
    files = [
        write_file(folder / RECORD, content),
        write_file(folder / REPORT, markdown(blocks)),
        write_file(folder / PAGE, web_page("Audit", blocks)),
        write_file(folder / CARD, markdown(model_card(found))),
    ]
    if explanations:
        files.append(write_report(explanations, folder / VIEW))
    return files
