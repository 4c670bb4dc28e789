"""Rules that a model must keep, such as "flip_rate>0.1", for the use in CI."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slalom_xai.data.audit.groups import RANDOM, GroupEffect
from slalom_xai.data.audit.run import Audit, AuditSettings
from slalom_xai.errors import InputError

_RULE = re.compile(r"\s*([a-z_]+)\s*(<=|>=|<|>)\s*([-+0-9.eE]+)\s*")
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Rule:
    """A rule that says when an audit fails.

    Attributes:
        said: as given.
        name: of the number that is looked at.
        compare: "<", "<=", ">" or ">=".
        bound: what it is compared with.
    """

    said: str
    name: str
    compare: str
    bound: float

    def broken_by(self, found: Mapping[str, Any]) -> str | None:
        """Why an audit breaks the rule; None where it keeps it.

        What was not measured breaks it: nobody knows whether the model keeps it.

        Args:
            found: what ``summary.record`` gives.
        """
        number = found["numbers"][self.name]
        if number is not None and _COMPARE[self.compare](number, self.bound):
            by = found["numbers come from"].get(self.name)
            return f"{self.name} is {number:.4g}" + (f" ({by})" if by else "")
        missing = found["not measured"].get(self.name)
        if number is None or missing:
            return f"{self.name} was not measured ({missing or 'there is none'})"
        return None


def rule(said: str, names: Collection[str]) -> Rule:
    """Reads a rule.

    Args:
        said: such as "flip_rate>0.1".
        names: of the numbers there are.

    Raises:
        InputError: it is none.
    """
    found = _RULE.fullmatch(said)
    if found is None or found[1] not in names:
        raise InputError(
            f"the rule is {said!r}: give one of {', '.join(names)}, compared by <, <=, > or >= "
            'with a number, such as "flip_rate>0.1"'
        )
    try:
        bound = float(found[3])
    except ValueError as error:
        raise InputError(f"the rule {said!r} ends with {found[3]!r}: give a number") from error
    if not math.isfinite(bound):
        raise InputError(f"the rule {said!r} compares with infinity: give a finite number")
    return Rule(said, found[1], found[2], bound)


# The numbers of an audit that rules compare: each with what it comes from, or why it is missing.
#
# A rule is about what a report calls a finding. A word that flips some of a few texts and does
# not stand out is none, and the largest of many such shares says nothing about the model.


NUMBERS = {
    "flip_rate": "the largest share of texts that one of the findings flips; 0 without any",
    "findings": "how many words of the lists were found",
    "accuracy": "of the model on the sample",
    "attack_rate": "the share of texts that up to four of the found words turn round",
    "fidelity": "the lowest R² of the explanations, for any number of deletions",
    "group_accuracy": "the lowest accuracy of a group of --group that has enough texts",
    "group_gap": "the largest difference of accuracy between such a group and its other texts",
    "group_flip_rate": "the largest share of texts of one group that a finding flips, or a word "
    "that does otherwise there; 0 without any",
    "group_differences": "how many words do more or less in a group than elsewhere, by group",
}
OF_GROUPS = frozenset(name for name in NUMBERS if name.startswith("group_"))
OF_LABELS = frozenset(("accuracy", "group_accuracy", "group_gap"))

Slices = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Figure:
    """A number of an audit.

    Attributes:
        number: NaN where there is none.
        by: the word, the group or the texts that it comes from.
        missing: why it is not measured, or not for all that it is about; empty where it is.
    """

    number: float = math.nan
    by: str = ""
    missing: str = ""


def figures(audit: Audit, settings: AuditSettings, table: Slices) -> dict[str, Figure]:
    """The numbers that ``NUMBERS`` names.

    Args:
        audit: what was found.
        settings: how much was asked.
        table: the slices of the texts.
    """
    least = settings.groups.least
    given = [one for one in table if one["rows"] is not None and one["enough"]]
    return {
        **_of_words(audit, settings),
        "accuracy": _accuracy(audit, least),
        "fidelity": _fidelity(audit),
        "group_accuracy": _group_accuracy(given, least),
        "group_gap": _group_gap(given, least),
        **_words_in_groups(audit, least),
    }


def _of_words(audit: Audit, settings: AuditSettings) -> dict[str, Figure]:
    """Flips, findings and attacks."""
    found = [one for one in audit.findings if one.found]
    least = settings.trials.least
    small = [f"{count:,} towards {label}" for label, count in audit.untested.items()]
    missing = ""
    if small:
        missing = (
            f"too few texts to put words into, {' and '.join(small)}, and {least} are needed: "
            "--texts draws more, if the table has them"
        )
    nothing = math.nan if len(small) == len(audit.labels) else 0.0
    flips, words = Figure(nothing, missing=missing), Figure(nothing, missing=missing)
    if found:
        worst = max(found, key=lambda one: one.effect.rate)
        low, high = worst.effect.interval
        flips = Figure(
            worst.effect.rate,
            f"{worst.word!r} turns {worst.effect.rate:.0%} of {worst.effect.texts:,} texts into "
            f"{worst.label} (95%: {low:.0%} to {high:.0%}; random words {worst.control:.1%})",
            missing,
        )
        words = Figure(float(len(found)), ", ".join(repr(one.word) for one in found[:10]), missing)
    attacks = audit.attacks["found"]
    turned = Figure(nothing, missing=missing)
    if attacks:
        count = sum(one.turned for one in attacks)
        turned = Figure(count / len(attacks), f"{count} of {len(attacks)} texts", missing)
    elif found:
        turned = Figure(missing="no text was attacked with the words that were found")
    return {"flip_rate": flips, "findings": words, "attack_rate": turned}


def _accuracy(audit: Audit, least: int) -> Figure:
    """The share of texts of the sample whose class the model finds."""
    known = [index for index, label in enumerate(audit.truth) if label >= 0]
    if not any(one.label for one in audit.data.sample):
        return Figure(missing="the table's classes are not given: --label names their column")
    if len(known) < least:
        return Figure(
            missing=f"{len(known):,} of {len(audit.truth):,} texts have a class that the model "
            f"knows ({', '.join(audit.labels[:6])}), and {least} are needed"
        )
    chosen = audit.odds.argmax(axis=1)
    right = sum(int(chosen[index]) == audit.truth[index] for index in known)
    return Figure(right / len(known), f"{right:,} of {len(known):,} texts")


def _fidelity(audit: Audit) -> Figure:
    known = [
        (float(one.fidelity.any.r2), one.text)
        for one in audit.explanations
        if one.fidelity is not None and math.isfinite(one.fidelity.any.r2)
    ]
    missing = f"{audit.unexplained:,} texts could not be explained" if audit.unexplained else ""
    if not known:
        return Figure(missing=missing or "no explanation could be checked")
    lowest, text = min(known)
    row = next(one.row for one in audit.data.sample if one.text == text)
    return Figure(lowest, f"row {row:,}", missing)


def _group_accuracy(given: Slices, least: int) -> Figure:
    known = [one for one in given if one["accuracy"] is not None]
    if not known:
        return Figure(missing=f"no group has {least} texts with a class")
    worst = min(known, key=lambda one: float(one["accuracy"]))
    return Figure(worst["accuracy"], f"{worst['by']} {worst['group']}, {worst['texts']:,} texts")


def _group_gap(given: Slices, least: int) -> Figure:
    tests = [(one, one["against"]["accuracy"]) for one in given if "accuracy" in one["against"]]
    if not tests:
        return Figure(missing=f"no group and the rest of its column have {least} texts each")
    group, test = max(tests, key=lambda both: _gap(both[1]))
    return Figure(
        _gap(test),
        f"{group['by']} {group['group']}: {test['here']:.1%}, other texts {test['elsewhere']:.1%}",
    )


def _gap(test: Mapping[str, Any]) -> float:
    return abs(float(test["here"]) - float(test["elsewhere"]))


def _words_in_groups(audit: Audit, least: int) -> dict[str, Figure]:
    words = [one for one in audit.subgroups.effects if one.word != RANDOM]
    if not words:
        none = Figure(missing=f"no group has {least} texts to put words into")
        return {"group_flip_rate": none, "group_differences": none}
    found = {(one.word, one.label) for one in audit.findings if one.found}
    counted = [one for one in words if one.differs or (one.word, one.label) in found]
    rate = Figure(0.0)
    if counted:
        worst = max(counted, key=lambda one: one.rate[0])
        share, low, high = worst.rate
        rate = Figure(
            share,
            f"{worst.word!r} turns {share:.0%} of {worst.texts:,} texts of {worst.by} "
            f"{worst.group} into {worst.label} (95%: {low:.0%} to {high:.0%})",
        )
    return {"group_flip_rate": rate, "group_differences": _differences(words, least)}


def _differences(words: Sequence[GroupEffect], least: int) -> Figure:
    if not any(np.isfinite(one.p) for one in words):
        return Figure(missing=f"no column has two groups with {least} texts to put words into")
    differing = [one for one in words if one.differs]
    named = [f"{one.word!r} in {one.by} {one.group}" for one in differing[:10]]
    return Figure(float(len(differing)), ", ".join(named))
