"""What a model's numbers mean, and which of them is explained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from torch import Tensor

from slalom_xai.errors import InputError, one_of

Kind = Literal["binary", "multiclass", "multilabel", "single", "regression"]


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
            probability each; labels of a multi-label model and a single output have their logit, and outputs of
            a regression are left as they are.
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
        """The target by label or index; by default index 1 of two classes, else the largest output.

        Args:
            wanted: a label, an index, or None.
            prediction: the columns for the whole text.
        """
        default = 1 if self.kind == "binary" else int(np.argmax(prediction))
        index = default if wanted is None else self.index(wanted)
        if self.kind == "binary":
            return Target(index, self.labels[index], 0, 1.0 if index == 1 else -1.0)
        return Target(index, self.labels[index], index, 1.0)

    @classmethod
    def numbered(cls, width: int) -> Outputs:
        """Outputs of a model that says nothing about them but how many there are."""
        kind: Kind = "single" if width == 1 else "binary" if width == 2 else "multiclass"
        return cls(kind, tuple(str(index) for index in range(width)))

    def index(self, wanted: str | int) -> int:
        """The index of a label, given by name or number."""
        if isinstance(wanted, str) and self.labels.count(wanted) > 1:
            raise InputError(
                f"target {wanted!r} is the name of {self.labels.count(wanted)} labels: give an index from 0 to {self.width - 1}"
            )
        if isinstance(wanted, str) and wanted in self.labels:
            return self.labels.index(wanted)
        if isinstance(wanted, (int, np.integer)) and not isinstance(wanted, bool) and 0 <= wanted < self.width:
            return int(wanted)
        if isinstance(wanted, str) and wanted.isdecimal() and int(wanted) < self.width:
            return int(wanted)
        raise one_of("target", wanted, [f"{label} ({index})" for index, label in enumerate(self.labels)])
