"""What a model's numbers mean, and which of them is explained."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from torch import Tensor

from slalom_xai.errors import InputError, one_of

Kind = Literal["binary", "multiclass", "multilabel", "single", "regression", "answers"]


# Names that say no more than a number does.
_NUMBERED_LABEL = re.compile(r"(?:LABEL_)?\d+(?:\.0)?|prediction|True|False")


@dataclass(frozen=True)
class Target:
    """Which output is explained: a column, with a sign for the first of two classes."""

    index: int
    label: str
    column: int
    sign: float


@dataclass(frozen=True)
class Outputs:
    """How a model's logits become the columns that are explained.

    Attributes:
        kind: two classes share one column, their log odds; more classes have the centred log
            probability each; labels of a multi-label model and a single output have their logit,
            and outputs of a regression are left as they are. The whole answer of a language model
            and the parts of it ("answers") have their logit each.
        labels: one name per class, label or output.
    """

    kind: Kind
    labels: tuple[str, ...]

    @property
    def width(self) -> int:
        """How many numbers the model answers per row."""
        return len(self.labels)

    def columns(self, logits: Tensor) -> Tensor:
        """Logits (m, width) to explained columns (m, C)."""
        if self.kind == "binary":
            return logits[:, 1:2] - logits[:, 0:1]
        if self.kind == "multiclass":
            return logits - logits.mean(dim=1, keepdim=True)
        return logits

    def target(self, wanted: str | int | None, prediction: Sequence[float]) -> Target:
        """The target by label or index.

        By default it is the predicted class, the whole answer of a language model, and else the
        largest output.

        Args:
            wanted: a label, an index, or None.
            prediction: the columns for the whole text.
        """
        if wanted is not None:
            index = self.index(wanted)
        elif self.kind == "binary":
            index = int(prediction[0] >= 0)
        elif self.kind == "answers":
            index = 0
        else:
            index = int(np.argmax(prediction))
        if self.kind == "binary" and index == 0:
            return Target(index, self.labels[index], 0, -1.0)
        column = 0 if self.kind == "binary" else index
        return Target(index, self.labels[index], column, 1.0)

    @classmethod
    def numbered(cls, width: int) -> Outputs:
        """Outputs of a model that says nothing about them but how many there are."""
        kinds: dict[int, Kind] = {1: "single", 2: "binary"}
        return cls(kinds.get(width, "multiclass"), tuple(str(index) for index in range(width)))

    def rename(self, labels: tuple[str, ...] | None, model: str) -> Outputs:
        """The same outputs under the names that a caller gives; None leaves them as they are.

        Raises:
            InputError: another number of names than outputs, or other names than the model has
                itself.
        """
        if labels is None:
            return self
        if len(labels) != self.width:
            names = _format_count(len(labels), "name")
            outputs = _format_count(self.width, "output")
            raise InputError(
                f"labels has {names} ({', '.join(labels[:6])}), but {model} has {outputs}: "
                "give one name for each output"
            )
        if labels != self.labels and not all(
            _NUMBERED_LABEL.fullmatch(label) for label in self.labels
        ):
            raise InputError(
                f"labels were given, but {model} names its own classes "
                f"({', '.join(self.labels[:6])}): leave labels out"
            )
        return replace(self, labels=labels)

    def index(self, wanted: str | int) -> int:
        """The index of a label, given by name or number."""
        if isinstance(wanted, str) and self.labels.count(wanted) > 1:
            raise InputError(
                f"target {wanted!r} is the name of {self.labels.count(wanted)} labels: "
                f"give an index from 0 to {self.width - 1}"
            )
        if isinstance(wanted, str) and wanted in self.labels:
            return self.labels.index(wanted)
        number = _whole_number(wanted)
        if number is not None and 0 <= number < self.width:
            return number
        known = [f"{label} ({index})" for index, label in enumerate(self.labels)]
        raise one_of("target", wanted, known)


def _whole_number(given: object) -> int | None:
    """A whole number, perhaps as a string; None where it is none."""
    if isinstance(given, str) and given.isdecimal():
        return int(given)
    if isinstance(given, (int, np.integer)) and not isinstance(given, bool):
        return int(given)
    return None


def _format_count(count: int, thing: str) -> str:
    """A number of things in words: "1 name", "2 names"."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def check_labels(labels: Any) -> tuple[str, ...] | None:
    """Names of classes as a caller gives them; None where none are given.

    Raises:
        InputError: anything but different names.
    """
    if labels is None:
        return None
    if isinstance(labels, (str, bytes, dict)) or not isinstance(labels, Iterable):
        raise InputError(
            f"labels is {labels!r}: give a list with one name per class, "
            'such as ["negative", "positive"]'
        )
    names = list(labels)
    if not names or not all(isinstance(name, str) and name.strip() for name in names):
        raise InputError(
            f'labels is {names!r}: give a name for every class, such as ["negative", "positive"]'
        )
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"labels holds {twice[0]!r} more than once: give every class its own name")
    return tuple(str(name) for name in names)
