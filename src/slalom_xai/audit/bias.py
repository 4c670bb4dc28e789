"""What a data set itself says of a word: does one class have it more often than chance?

With n texts that hold the word, of which a share p is of a class that makes up a share p0 of all
texts, z = (p - p0) / sqrt(p0 (1 - p0) / n) is standard normal if the word has nothing to do with
the class (Gardner et al., 2021, "Competency problems").
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from slalom_xai.text import words


@dataclass
class WordCounts:
    """How many texts of each class hold each word.

    Attributes:
        texts: of each class.
        holding: for each word, how many texts of each class hold it.
    """

    texts: Counter[str] = field(default_factory=Counter)
    holding: dict[str, Counter[str]] = field(default_factory=dict)

    def add(self, text: str, label: str) -> None:
        """Counts a text."""
        self.texts[label] += 1
        for word in distinct_words(text):
            self.holding.setdefault(word, Counter())[label] += 1

    def count(self, word: str) -> int:
        """How many texts hold a word."""
        return sum(self.holding.get(word, Counter()).values())

    def z(self, word: str, label: str) -> float:
        """How far the share of a class among the texts with a word is from chance.

        Returns:
            NaN where no text holds the word, or all texts are of one class.
        """
        count, every = self.count(word), sum(self.texts.values())
        chance = self.texts[label] / every if every else 0.0
        if count == 0 or not 0 < chance < 1:
            return math.nan
        share = self.holding[word][label] / count
        return (share - chance) / math.sqrt(chance * (1 - chance) / count)


def distinct_words(text: str) -> Iterable[str]:
    """The words of a text, in small letters, each once."""
    return {unit.text.lower() for unit in words(text)}
