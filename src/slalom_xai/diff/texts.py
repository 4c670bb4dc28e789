"""Which texts two models answer differently, and by which words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slalom_xai.diff.words import read_effect
from slalom_xai.errors import InputError, shortened

Record = Mapping[str, Any]
_WORDS = 5  # that are named for each text


@dataclass(frozen=True)
class WordShare:
    """What a unit does to the answers to one text.

    Attributes:
        unit: as it stands there.
        before: what is lost without it, under the first model.
        after: under the second.
    """

    unit: str
    before: float
    after: float

    @property
    def difference(self) -> float:
        """By how much more it argues for the target."""
        return self.after - self.before


@dataclass(frozen=True)
class TextChange:
    """A text that two models answer differently.

    Attributes:
        id: of the text in the table.
        text: the text.
        before: the label that the first model predicts.
        after: the label that the second one predicts.
        output_before: the explained output of the first model.
        output_after: that of the second.
        words: whose effect differs most between the two, in the direction of the change first.
    """

    id: str
    text: str
    before: str | None
    after: str | None
    output_before: float
    output_after: float
    words: tuple[WordShare, ...]


def check_pair(before: Record, after: Record) -> None:
    """Refuses explanations of different units or labels.

    Raises:
        InputError: the two models split the text differently, or explain another label.
    """
    spans = [
        [(unit["part"], unit["start"], unit["end"]) for unit in record["units"]]
        for record in (before, after)
    ]
    if spans[0] != spans[1]:
        raise InputError(
            f"the two models split {shortened(before['text'], 60)} into different tokens: "
            "compare them with --granularity word"
        )
    if before["target"] != after["target"]:
        raise InputError(
            f"one model explains {before['target']!r} and the other {after['target']!r} in "
            f"{shortened(before['text'], 60)}: give --target"
        )


def text_change(before: Record, after: Record) -> TextChange | None:
    """What became of a text; None where both models predict the same label."""
    if before["predicted"] == after["predicted"]:
        same_side = before["prediction"] * after["prediction"] > 0
        if before["predicted"] is not None or same_side:
            return None
    moved = after["prediction"] - before["prediction"]
    shares = [
        WordShare(one["unit"], first, second)
        for one, other in zip(before["units"], after["units"], strict=True)
        if (first := read_effect(one)) is not None and (second := read_effect(other)) is not None
    ]
    direction = 1 if moved >= 0 else -1
    shares.sort(key=lambda share: -direction * share.difference)
    return TextChange(
        before["id"],
        before["text"],
        before["predicted"],
        after["predicted"],
        before["prediction"],
        after["prediction"],
        tuple(share for share in shares[:_WORDS] if direction * share.difference > 0),
    )
