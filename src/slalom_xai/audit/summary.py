"""The numbers of an audit: for files, for rules, and for the words of a report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from slalom_xai import __version__
from slalom_xai.audit.attacks import Attack
from slalom_xai.audit.files import FORMAT, VERSION
from slalom_xai.audit.findings import TriedWord
from slalom_xai.audit.run import Audit, AuditSettings
from slalom_xai.audit.trials import wilson
from slalom_xai.audit.words import Candidate
from slalom_xai.corpus.options import ExplainOptions

# What rules can speak of.
NUMBERS = {
    "flip_rate": "the largest share of texts that one word of the lists flips",
    "findings": "how many words of the lists were found",
    "accuracy": "of the model on the sample",
    "attack_rate": "the share of texts that up to four of the found words turn round",
    "fidelity": "the lowest R² of the explanations, for any number of deletions",
}


def numbers(audit: Audit) -> dict[str, float]:
    """The numbers that ``NUMBERS`` names; NaN where there is none."""
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
    }


def accuracy(audit: Audit) -> float | None:
    """The share of texts of the sample whose class the model finds; None without classes."""
    known = [index for index, label in enumerate(audit.truth) if label >= 0]
    if not known:
        return None
    chosen = audit.odds.argmax(axis=1)
    return float(np.mean([chosen[index] == audit.truth[index] for index in known]))


def groups(audit: Audit, names: Sequence[str]) -> list[dict[str, Any]]:
    """How the model does on each group of texts: by its label, its length, and the given columns.

    Args:
        audit: what was found.
        names: of the columns of groups.
    """
    chosen = audit.odds.argmax(axis=1)
    members: dict[tuple[str, str], list[int]] = {}
    lengths = np.array([len(one.text) for one in audit.data.sample])
    middle = float(np.median(lengths))
    for index, one in enumerate(audit.data.sample):
        if one.label:
            members.setdefault(("label", one.label), []).append(index)
        half = "shorter half" if lengths[index] <= middle else "longer half"
        members.setdefault(("length", half), []).append(index)
        for name, group in zip(names, one.groups, strict=True):
            members.setdefault((name, group or "(none)"), []).append(index)
    table = []
    for (by, group), indices in sorted(members.items()):
        known = [index for index in indices if audit.truth[index] >= 0]
        right = sum(int(chosen[index]) == audit.truth[index] for index in known)
        low, high = wilson(right, len(known))
        shares = [float(np.mean(chosen[indices] == label)) for label in range(len(audit.labels))]
        table.append(
            {
                "by": by,
                "group": group,
                "texts": len(indices),
                "accuracy": right / len(known) if known else None,
                "accuracy_low": low if known else None,
                "accuracy_high": high if known else None,
                "predicted": dict(zip(audit.labels, shares, strict=True)),
            }
        )
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
        "numbers": {name: _plain(number) for name, number in numbers(audit).items()},
        "groups": groups(audit, group_names),
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
        "explanations": [
            {
                "text": one.text,
                "local_r2": _plain(one.fidelity.local.r2),
                "wide_r2": _plain(one.fidelity.wide.r2),
            }
            for one in audit.explanations
            if one.fidelity is not None
        ],
    }


def _places(audit: Audit) -> dict[str, list[dict[str, int]]]:
    """Where words were put: rows of the table and characters, so that anybody can count again."""
    rows = {one.text: one.row for one in reversed(audit.data.sample)}
    return {
        label: [{"row": rows[place.text], "at": place.at} for place in places]
        for label, places in zip(audit.labels, audit.places, strict=True)
    }


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
