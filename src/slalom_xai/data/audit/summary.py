"""Everything that an audit found, as files have it and reports put into words."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from slalom_xai import __version__
from slalom_xai.data.audit.files import (
    CARD,
    FORMAT,
    PAGE,
    RECORD,
    REPORT,
    VERSION,
    VIEW,
    markdown,
    web_page,
)
from slalom_xai.data.audit.findings import TriedWord
from slalom_xai.data.audit.groups import GroupEffect
from slalom_xai.data.audit.report import model_card, report
from slalom_xai.data.audit.rules import figures
from slalom_xai.data.audit.run import Audit, AuditSettings
from slalom_xai.data.audit.slices import NO_GROUP, slices
from slalom_xai.data.audit.words import Candidate
from slalom_xai.explanation import Explanation
from slalom_xai.options import ExplainOptions
from slalom_xai.reports.html import write_report
from slalom_xai.system.files import write_file


def groups(audit: Audit, settings: AuditSettings, names: Sequence[str]) -> list[dict[str, Any]]:
    """How the model does on each slice of the texts, and how many rows of the table it has.

    Args:
        audit: what was found.
        settings: how much was asked.
        names: of the columns of groups.
    """
    table = slices(
        audit.data.sample,
        names,
        audit.odds,
        audit.truth,
        audit.labels,
        settings.groups.least,
        settings.trials.rate,
    )
    rows = dict(zip(names, audit.data.group_rows, strict=True))
    for one in table:
        group = "" if one["group"] == NO_GROUP else one["group"]
        one["rows"] = rows[one["by"]][group] if one["by"] in rows else None
    return table


def record(
    audit: Audit,
    options: ExplainOptions,
    settings: AuditSettings,
    fingerprint: str,
    group_names: Sequence[str],
    lists: Sequence[str],
) -> dict[str, Any]:
    """Everything an audit found, as JSON has it."""
    table = groups(audit, settings, group_names)
    measured = figures(audit, settings, table)
    return {
        "format": FORMAT,
        "version": VERSION,
        "slalom-xai": __version__,
        "model": options.model or "embedded",
        "model fingerprint": fingerprint,
        "options": options.settings(),
        "table": audit.data.path.name,
        "table sha256": audit.data.sha256,
        "rows": audit.data.rows,
        "rows not used": {"count": audit.data.unread_rows, "first": audit.data.unread},
        "texts asked about": len(audit.data.sample),
        "settings": asdict(settings),
        "lists": list(lists),
        "calls": audit.calls,
        "labels": list(audit.labels),
        "numbers": {name: _plain(figure.number) for name, figure in measured.items()},
        "numbers come from": {name: one.by for name, one in measured.items() if one.by},
        "not measured": {name: one.missing for name, one in measured.items() if one.missing},
        "group columns": list(group_names),
        "groups": table,
        "subgroups": _subgroups(audit),
        "screened": [_screened(one) for one in audit.screened],
        "places": _places(audit),
        "not tested towards": dict(audit.untested),
        "findings": [_word(one) for one in audit.findings],
        "strongest": [_word(one) for one in audit.strongest],
        "removals": {
            word: {"texts": effect.texts, "flips": effect.flips}
            for word, effect in audit.removals.items()
        },
        "attacks": {
            kind: [asdict(one) for one in attacks] for kind, attacks in audit.attacks.items()
        },
        "not explained": audit.unexplained,
        "explanations": _explained(audit),
    }


def _explained(audit: Audit) -> list[dict[str, Any]]:
    """How far to trust the explanation of each text."""
    return [
        {
            "row": _row(audit, one.text),
            "text": one.text,
            "few_r2": _plain(one.fidelity.few.r2),
            "any_r2": _plain(one.fidelity.any.r2),
        }
        for one in audit.explanations
        if one.fidelity is not None
    ]


def _row(audit: Audit, text: str) -> int:
    """The first row of the table that holds a text of the sample."""
    return next(one.row for one in audit.data.sample if one.text == text)


def _places(audit: Audit) -> dict[str, list[dict[str, int]]]:
    """Where words were put: rows of the table and characters, so that anybody can count again."""
    rows = {one.text: one.row for one in reversed(audit.data.sample)}
    return {
        label: [{"row": rows[place.text], "at": place.at} for place in places]
        for label, places in zip(audit.labels, audit.places, strict=True)
    }


def _subgroups(audit: Audit) -> dict[str, Any]:
    """What words do in each group, which groups are too small, and where words were put."""
    sample = audit.data.sample
    return {
        "effects": [_group_effect(one) for one in audit.subgroups.effects],
        "too small": [
            {"by": by, "group": group, "label": label, "texts": texts}
            for by, group, label, texts in audit.subgroups.small
        ],
        "places": {
            label: {
                by: [{"row": sample[index].row, "at": at} for index, at in places]
                for by, places in columns.items()
            }
            for label, columns in audit.subgroups.places.items()
        },
    }


def _group_effect(one: GroupEffect) -> dict[str, Any]:
    ends = {"flip_rate": one.rate, "change": one.change, "beyond": one.beyond}
    spread = {
        f"{name}{end}": _plain(number)
        for name, numbers in ends.items()
        for end, number in zip(("", "_low", "_high"), numbers, strict=True)
    }
    plain = {
        "word": one.word,
        "label": one.label,
        "by": one.by,
        "group": one.group,
        "texts": one.texts,
        "control": one.control,
        "control_change": _plain(one.control_change),
    }
    return {**plain, **spread, "p": _plain(one.p), "q": _plain(one.q), "differs": one.differs}


def _screened(one: Candidate) -> dict[str, Any]:
    return {"word": one.word, "changes": one.changes.tolist(), "values": one.values.tolist()}


def _word(one: TriedWord) -> dict[str, Any]:
    low, high = one.effect.interval
    return {
        "word": one.word,
        "lists": list(one.lists),
        "label": one.label,
        "found": one.found,
        "value": _plain(one.value),
        "z": _plain(one.z),
        "texts_with": one.texts_with,
        "texts": one.effect.texts,
        "flips": one.effect.flips,
        "flip_rate": _plain(one.effect.rate),
        "flip_rate_low": low,
        "flip_rate_high": high,
        "control": one.control,
        "change": _plain(one.effect.change),
        "change_se": _plain(one.effect.error),
        "p": _plain(one.chance),
    }


def _plain(number: float) -> float | None:
    return number if math.isfinite(number) else None


# Writes an audit into a folder: for people, for web pages, for programs, for a model card.


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
