"""Whether a prediction is wrong: a file's label beside a model's, perhaps spelled otherwise."""

from __future__ import annotations

import re
from collections.abc import Sequence

_NUMBER = re.compile(r"\+?(\d{1,9})(\.0*)?")
_BOOLEANS = {"false": 0, "true": 1}


def is_correct(truth: str | None, prediction: str | None, names: Sequence[str]) -> bool | None:
    """Whether a prediction says what the file says; None where nobody can tell.

    Labels are equal without regard to case and to spaces around them. A number in the file means
    the one label of the model that has this number in its name ("LABEL_1", "2 stars"), or the label
    at this place, counted from 0, where no name has a number. A label that means none of the
    model's is not compared: a file with other classes is not a file full of mistakes.

    Args:
        truth: the label in the file.
        prediction: the model's label.
        names: the model's labels in order; empty where they are not known.
    """
    if truth is None or prediction is None:
        return None
    if _plain(truth) == _plain(prediction):
        return True
    if not names:
        # A number may stand for any name.
        return None if _number(truth) is not None and _number(prediction) is None else False
    meant = _meant(truth, names)
    if meant is None:
        return None
    return _plain(meant) == _plain(prediction)


def _meant(truth: str, names: Sequence[str]) -> str | None:
    """Which of the model's labels a label of the file means."""
    for name in names:
        if _plain(name) == _plain(truth):
            return name
    number = _number(truth)
    if number is None and len(names) == 2:
        number = _BOOLEANS.get(_plain(truth))
    if number is None:
        return None
    numbers = [[int(found) for found in re.findall(r"\d{1,9}", name)] for name in names]
    if any(numbers):
        having = [name for name, found in zip(names, numbers, strict=True) if found == [number]]
        return having[0] if len(having) == 1 else None
    return names[number] if number < len(names) else None


def _plain(label: str) -> str:
    number = _number(label)
    return label.strip().casefold() if number is None else str(number)


def _number(label: str) -> int | None:
    found = _NUMBER.fullmatch(label.strip())
    return None if found is None else int(found[1])
