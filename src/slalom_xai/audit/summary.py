"""The numbers of an audit: for files, for rules, and for the words of a report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from slalom_xai import __version__
from slalom_xai.audit.attacks import Attack
from slalom_xai.audit.files import FORMAT, VERSION
from slalom_xai.audit.findings import TriedWord
from slalom_xai.audit.run import Audit
from slalom_xai.audit.settings import AuditSettings
from slalom_xai.audit.slices import NO_GROUP, slices
from slalom_xai.audit.subgroups import RANDOM, GroupEffect
from slalom_xai.audit.words import Candidate
from slalom_xai.corpus.options import ExplainOptions

# What rules can speak of.
NUMBERS = {
    "flip_rate": "the largest share of texts that one word of the lists flips",
    "findings": "how many words of the lists were found",
    "accuracy": "of the model on the sample",
    "attack_rate": "the share of texts that up to four of the found words turn round",
    "fidelity": "the lowest R² of the explanations, for any number of deletions",
    "group_accuracy": "the lowest accuracy of a group of --group that has enough texts",
    "group_gap": "the largest difference of accuracy between such a group and its other texts",
    "group_flip_rate": "the largest share of texts of one group that one word of the lists flips",
    "group_differences": "how many words do more or less in a group than elsewhere, by group",
}
OF_GROUPS = frozenset(name for name in NUMBERS if name.startswith("group_"))


def numbers(audit: Audit, table: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The numbers that ``NUMBERS`` names; NaN where there is none.

    Args:
        audit: what was found.
        table: what ``groups`` gives.
    """
    found = [one for one in audit.findings if one.found]
    rates = [one.effect.rate for one in audit.findings]
    right = [share for share in [accuracy(audit)] if share is not None]
    turned = audit.attacks["found"]
    fidelity = [one.fidelity.wide.r2 for one in audit.explanations if one.fidelity is not None]
    return {
        "flip_rate": max(rates, default=math.nan),
        "findings": float(len(found)),
        "accuracy": right[0] if right else math.nan,
        "attack_rate": _turned(turned) if turned else 0.0,
        "fidelity": min(fidelity, default=math.nan),
        **_group_numbers(audit, table),
    }


def _group_numbers(audit: Audit, table: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The numbers of groups; NaN without any."""
    given = [one for one in table if one["rows"] is not None and one["enough"]]
    compared = [one["against"]["accuracy"] for one in given if "accuracy" in one["against"]]
    gaps = [abs(one["here"] - one["elsewhere"]) for one in compared]
    right = [one["accuracy"] for one in given if one["accuracy"] is not None]
    words = [one for one in audit.subgroups.effects if one.word != RANDOM]
    differing = float(sum(one.differs for one in words))
    return {
        "group_accuracy": min(right, default=math.nan),
        "group_gap": max(gaps, default=math.nan),
        "group_flip_rate": max((one.rate[0] for one in words), default=math.nan),
        "group_differences": differing if words else math.nan,
    }


def accuracy(audit: Audit) -> float | None:
    """The share of texts of the sample whose class the model finds; None without classes."""
    known = [index for index, label in enumerate(audit.truth) if label >= 0]
    if not known:
        return None
    chosen = audit.odds.argmax(axis=1)
    return float(np.mean([chosen[index] == audit.truth[index] for index in known]))


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
        "numbers": {name: _plain(number) for name, number in numbers(audit, table).items()},
        "group columns": list(group_names),
        "groups": table,
        "subgroups": _subgroups(audit),
        "screened": [_screened(one) for one in audit.screened],
        "places": _places(audit),
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
            "local_r2": _plain(one.fidelity.local.r2),
            "wide_r2": _plain(one.fidelity.wide.r2),
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


def _turned(attacks: Sequence[Attack]) -> float:
    return sum(one.turned for one in attacks) / len(attacks)


def _plain(number: float) -> float | None:
    return number if math.isfinite(number) else None
