"""Small folders that ``slalom corpus`` and ``slalom audit`` filled, for the server to show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from slalom_xai.data.audit import (
    AuditFields,
    AuditSettings,
    own_lists,
    record,
    run_audit,
    write_audit,
)
from slalom_xai.data.corpus import ExplainOptions, explain_corpus
from slalom_xai.data.corpus.source import CorpusFields
from slalom_xai.data.corpus.staging import PartSize

HTML = "<script>alert(1)</script>"
TEXTS = [
    "A wonderful film with a warm heart",
    "Dull and tired from start to end",
    "I loved every minute of it",
    "The jokes are tired, the plot is dull",
    "",
    f"\U0001f3a5 a {HTML} wonderful film",
]
OPTIONS = ExplainOptions(budget=60, granularity="word")


def stored_corpus(folder: Path) -> Path:
    """Six texts in three parts; the fifth is empty and fails."""
    rows = [{"name": f"t{place}", "text": text} for place, text in enumerate(TEXTS)]
    out, fields, size = folder / "explanations", CorpusFields(id="name"), PartSize(texts=2)
    table = _table(folder / "texts.jsonl", rows)
    explain_corpus(table, out, OPTIONS, fields=fields, size=size, show_progress=False)
    return out


def stored_audit(folder: Path) -> Path:
    """Of ten reviews with enough harmless words to tell how far these differ."""
    things = " ".join(sorted(own_lists()["things"])[:55])
    rows = [
        {"text": f"{TEXTS[place % 4]} {things}", "label": ["positive", "negative"][place % 2]}
        for place in range(10)
    ]
    out, options = folder / "audit", ExplainOptions(budget=150, granularity="word")
    out.mkdir()
    settings = AuditSettings(texts=8, tried=1, trial_texts=2, attacked=1, explained=1)
    lists = {"things": frozenset(["table", "lemon", "film"])}
    table = _table(folder / "reviews.jsonl", rows)
    audit = run_audit(
        table, options, AuditFields(label="label"), lists, settings, show_progress=False
    )
    write_audit(out, record(audit, options, settings, "none", (), list(lists)), audit.explanations)
    return out


def _table(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
