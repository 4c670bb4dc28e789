"""How the model does on slices of the texts: by label, by length, and by every given column.

A slice is compared with the other texts of its column: its accuracy, and the error rate of each
class, by Fisher's exact test at a false discovery rate over all slices. Those with too few texts
are named and not compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slalom_xai.data.audit.data import AuditText
from slalom_xai.data.audit.groups import mean_interval
from slalom_xai.data.audit.trials import Array, wilson

LABEL, LENGTH = "label", "length"
NO_GROUP = "(none)"
_SURE = 50.0  # log odds beyond which a probability is 0 or 1, so that nothing overflows


def columns(sample: Sequence[AuditText], names: Sequence[str]) -> dict[str, list[str]]:
    """For each given column, the group of each text."""
    return {
        name: [one.groups[place] or NO_GROUP for one in sample] for place, name in enumerate(names)
    }


def slices(
    sample: Sequence[AuditText],
    names: Sequence[str],
    odds: Array,
    truth: Sequence[int],
    labels: Sequence[str],
    least: int,
    rate: float,
) -> list[dict[str, Any]]:
    """What the model makes of each slice, as JSON has it.

    Args:
        sample: the texts.
        names: of the columns of groups.
        odds: (texts, classes), the model's answers.
        truth: the class of each text; -1 where it has none.
        labels: of the model.
        least: texts that a slice must have to be compared.
        rate: of false discoveries.
    """
    answers = _Answers(odds, np.array(truth), labels)
    lengths = _halves(np.array([len(one.text) for one in sample]))
    ways: dict[str, Sequence[str]] = {LABEL: [one.label for one in sample], LENGTH: lengths}
    ways |= columns(sample, names)
    table = []
    for by, groups in ways.items():
        column = np.array(groups)
        for group in sorted(set(groups) - {""}):
            own = column == group
            told = answers.told(own)
            enough = int(own.sum()) >= least
            compared = answers.compared(own, least) if enough and by != LABEL else {}
            table.append({"by": by, "group": group, **told, "enough": enough, "against": compared})
    _adjust([one for each in table for one in each["against"].values()], rate)
    return table


def _halves(lengths: NDArray[np.int64]) -> list[str]:
    """Short and long texts, as near to halves as equal lengths allow; no names if all are equal."""
    cuts, counts = np.unique(lengths, return_counts=True)
    if len(cuts) == 1:
        return [""] * len(lengths)
    shorter = counts.cumsum()[:-1]
    cut = cuts[np.abs(2 * shorter - len(lengths)).argmin()]
    names = np.where(lengths <= cut, f"up to {cut} characters", f"more than {cut} characters")
    return [str(name) for name in names]


def _adjust(tests: Sequence[dict[str, Any]], rate: float) -> None:
    """Writes adjusted chances beside those that are there."""
    from scipy import stats

    adjusted = stats.false_discovery_control([one["p"] for one in tests])
    for one, q in zip(tests, adjusted.tolist(), strict=True):
        one["q"], one["differs"] = q, q <= rate


class _Answers:
    """What the model chose, and what is right."""

    def __init__(self, odds: Array, truth: NDArray[np.int64], labels: Sequence[str]) -> None:
        self._chosen, self._truth, self._labels = odds.argmax(axis=1), truth, labels
        self._chances = 1 / (1 + np.exp(-np.clip(odds, -_SURE, _SURE)))
        self._wrong = self._chosen != truth

    def told(self, own: NDArray[np.bool_]) -> dict[str, Any]:
        """Numbers of the texts of a slice."""
        known = own & (self._truth >= 0)
        right, of = int((~self._wrong[known]).sum()), int(known.sum())
        low, high = wilson(right, of)
        shares = [float((self._chosen[own] == label).mean()) for label in self._classes]
        means = [mean_interval(self._chances[own, label]) for label in self._classes]
        return {
            "texts": int(own.sum()),
            "accuracy": right / of if of else None,
            "accuracy_low": low if of else None,
            "accuracy_high": high if of else None,
            "errors": {
                name: self._errors(own, label)
                for label, name in enumerate(self._labels)
                if (own & (self._truth == label)).any()
            },
            "predicted": dict(zip(self._labels, shares, strict=True)),
            "mean_prediction": {
                name: _ends(*mean) for name, mean in zip(self._labels, means, strict=True)
            },
        }

    def compared(self, own: NDArray[np.bool_], least: int) -> dict[str, dict[str, Any]]:
        """Accuracy and error rates beside those of the other texts, where there are enough."""
        every = {"accuracy": self._truth >= 0}
        every |= {
            f"errors of {name}": self._truth == label for label, name in enumerate(self._labels)
        }
        from scipy import stats

        found = {}
        for name, counted in every.items():
            here, there = counted & own, counted & ~own
            if min(here.sum(), there.sum()) < least:
                continue
            wrong = [int(self._wrong[some].sum()) for some in (here, there)]
            of = [int(some.sum()) for some in (here, there)]
            shares = [hits / each for hits, each in zip(wrong, of, strict=True)]
            if name == "accuracy":
                shares = [1 - share for share in shares]
            right = [each - hits for hits, each in zip(wrong, of, strict=True)]
            p = float(stats.fisher_exact([wrong, right]).pvalue)
            found[name] = {"here": shares[0], "elsewhere": shares[1], "texts": of[0], "p": p}
        return found

    @property
    def _classes(self) -> range:
        return range(len(self._labels))

    def _errors(self, own: NDArray[np.bool_], label: int) -> dict[str, float]:
        of = own & (self._truth == label)
        wrong = int(self._wrong[of].sum())
        low, high = wilson(wrong, int(of.sum()))
        share = wrong / int(of.sum())
        return {"texts": int(of.sum()), "wrong": wrong, "rate": share, "low": low, "high": high}


def _ends(mean: float, low: float, high: float) -> dict[str, float | None]:
    """A mean of probabilities with its interval; None where there is none."""
    if low != low:
        return {"mean": mean, "low": None, "high": None}
    return {"mean": mean, "low": max(0.0, low), "high": min(1.0, high)}
