"""A vocabulary in a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from slalom_xai.reports.colour import printable
from slalom_xai.slalom.trust import percent
from slalom_xai.vocabulary.result import Vocabulary, VocabularyItem

_KINDS = {"sequences": "short sequences of random items", "deletions": "shortened texts"}


def render(vocabulary: Vocabulary, items: Sequence[VocabularyItem]) -> RenderableType:
    """Some items, and how far to trust the vocabulary."""
    title = Text(
        f"{len(vocabulary):,} items of {printable(vocabulary.model)}: what argues for "
        f"{printable(vocabulary.target)}",
        style="bold",
    )
    parts: list[RenderableType] = [title, _table(items)]
    parts.extend(Text(line) for line in trust(vocabulary))
    lengths = ", ".join(map(str, vocabulary.lengths))
    parts.append(
        Text(
            f"{vocabulary.calls:,} model calls, {vocabulary.calls_check:,} of them to test. "
            f"Values are measured: texts of {lengths} copies. Importances are fitted. Effect: what "
            "is lost when the item goes from a text, measured; spread: how that differs from text "
            "to text.",
            style="dim",
        )
    )
    return Group(*parts)


def trust(vocabulary: Vocabulary) -> list[str]:
    """How well a vocabulary predicts rows that it has not seen, a sentence for each kind."""
    return [
        f"It predicts {percent(quality.r2)} of the model's answers to {quality.rows:,} unseen "
        f"{_KINDS[kind]}; values alone, {percent(quality.values_alone)}."
        for kind, quality in vocabulary.quality.items()
    ]


def _table(items: Sequence[VocabularyItem]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("item")
    for name in ("value", "±", "importance", "±", "effect", "±", "spread", "texts"):
        table.add_column(name, justify="right")
    for item in items:
        table.add_row(
            Text(printable(item.item)),
            _number(item.value, signed=True),
            _number(item.value_se),
            _number(item.importance, signed=True),
            _number(item.importance_se),
            _number(item.effect, signed=True),
            _number(item.effect_se),
            _number(item.spread),
            f"{item.texts:,}",
        )
    return table


def _number(number: float, signed: bool = False) -> str:
    if not math.isfinite(number):
        return "–"
    return f"{number:+.2f}" if signed else f"{number:.2f}"
