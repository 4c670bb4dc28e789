"""Texts cut into pieces, and pieces grouped into the units that receive scores.

- ``units``: a unit, and the span of characters that it covers.
- ``word_splitting``: where words stand. Every model that has no tokenizer is explained by these.
- ``sentence_splitting``: where phrases and sentences begin.
- ``grouping``: which unit each piece belongs to, and what a reader should know about the units.
"""

from slalom_xai.text.grouping import ALL_UNKNOWN, owners, unknown_note, unspaced_note
from slalom_xai.text.units import GRANULARITIES, Unit, disjoint, equal_codes, joined, trimmed
from slalom_xai.text.word_splitting import is_unspaced, words

__all__ = [
    "ALL_UNKNOWN",
    "GRANULARITIES",
    "Unit",
    "disjoint",
    "equal_codes",
    "is_unspaced",
    "joined",
    "owners",
    "trimmed",
    "unknown_note",
    "unspaced_note",
    "words",
]
