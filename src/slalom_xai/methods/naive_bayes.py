"""Word weights of a naive Bayes classifier of a corpus.

They say what the words mean in the data, whatever the model made of them. The weight of a word is
``log((count in class 1 + α) / (count in class 0 + α))`` (the paper's App. E.4; its Eq. 82 needs
the logarithm).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from slalom_xai.errors import InputError
from slalom_xai.methods.base import Estimator, Findings, attributed, register
from slalom_xai.models.outputs import Outputs
from slalom_xai.models.text import words
from slalom_xai.queries import Queries

UNEVEN = 1.25  # ratio of class sizes in words from which a note says that counts lean to the larger


@register
@dataclass(frozen=True)
class NaiveBayes(Estimator):
    """The log ratio of how often a word stands in texts of class 1 and of class 0.

    With more than two classes it is ``log p(word | class)``, smoothed alike and centred over the
    classes. Words are lower-cased. A unit of several words has the sum of their weights, and the
    pieces of a word share its weight by their letters. As in the paper, two classes are compared
    by counts, so that a corpus should hold about as many words of each; a note says where not.

    Args:
        texts: the corpus.
        labels: the class of each text, by the model's label or its index.
        smoothing: α, Laplace's 1; the paper takes 40 for 5,000 reviews.
    """

    name: ClassVar[str] = "naive-bayes"
    summary: ClassVar[str] = (
        "word weights of a naive Bayes classifier; needs a labelled corpus, "
        "NaiveBayes(texts, labels), and no calls"
    )

    texts: Sequence[str] = field(default=(), repr=False)
    labels: Sequence[str | int] = field(default=(), repr=False)
    smoothing: float = 1.0

    def __post_init__(self) -> None:
        if isinstance(self.texts, str) or len(self.texts) == 0:
            raise InputError(
                "method 'naive-bayes' needs a labelled corpus, but none was given: "
                "use method=NaiveBayes(texts, labels) from slalom_xai.methods"
            )
        if len(self.texts) != len(self.labels):
            raise InputError(
                f"{len(self.texts)} texts were given with {len(self.labels)} labels: "
                "give one label for each text"
            )
        if not self.smoothing > 0:
            raise InputError(f"smoothing is {self.smoothing!r}: give a positive number, such as 1")

    def parameters(self, units: int, distinct: int) -> int:
        """Nothing is fitted to the model."""
        return 0

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Weighs the words of the text."""
        counts = self.by_class(queries.model.outputs)
        reading = queries.prompt.reading
        columns = 1 if len(counts) == 2 else len(counts)
        scores = np.zeros((len(queries.prompt.units), columns))
        for part, text in enumerate(reading.texts):
            in_text = words(text)
            weights = self.weights(counts, [word.text.lower() for word in in_text])
            for piece, unit in zip(reading.pieces, queries.prompt.owner, strict=True):
                for word, weight in zip(in_text, weights, strict=True):
                    shared = min(piece.end, word.end) - max(piece.start, word.start)
                    if piece.part == part and shared > 0:
                        scores[unit] += weight * shared / (word.end - word.start)
        notes = _notes(counts, queries.model.outputs)
        return attributed(queries, torch.as_tensor(scores), rng, notes)

    def weights(self, counts: Sequence[Counter[str]], given: Sequence[str]) -> NDArray[np.float64]:
        """Weights of lower-cased words, (words, 1) for two classes and (words, C) for more.

        Args:
            counts: how often each word stands in each class.
            given: the words.
        """
        smoothed = np.log([[count[word] + self.smoothing for count in counts] for word in given])
        if len(counts) == 2:
            return np.asarray(smoothed[:, 1:] - smoothed[:, :1])
        vocabulary = len(set().union(*counts))
        totals = [count.total() + self.smoothing * vocabulary for count in counts]
        likelihood = smoothed - np.log(totals)
        return np.asarray(likelihood - likelihood.mean(axis=1, keepdims=True))

    def by_class(self, outputs: Outputs) -> list[Counter[str]]:
        """How often each word stands in each of the model's classes."""
        if outputs.kind not in ("binary", "multiclass"):
            raise InputError(
                f"method 'naive-bayes' compares classes, but the model is {outputs.kind}: "
                "use a classifier of two or more classes"
            )
        counts: list[Counter[str]] = [Counter() for _ in outputs.labels]
        for label, of_label in self._by_label.items():
            counts[outputs.index(label)] += of_label
        return counts

    @cached_property
    def _by_label(self) -> dict[str | int, Counter[str]]:
        """Counted once for all texts that are explained."""
        counts: dict[str | int, Counter[str]] = {}
        for text, label in zip(self.texts, self.labels, strict=True):
            plain = label if isinstance(label, str) else int(label)
            in_text = [word.text.lower() for word in words(text)]
            counts.setdefault(plain, Counter()).update(in_text)
        return counts


def _notes(counts: Sequence[Counter[str]], outputs: Outputs) -> tuple[str, ...]:
    """Whether one of two classes has many more words than the other."""
    sizes = [count.total() for count in counts]
    if len(sizes) > 2 or max(sizes) < UNEVEN * min(sizes):
        return ()
    first, second = (
        f"{size:,} words of {label!r}" for size, label in zip(sizes, outputs.labels, strict=True)
    )
    return (f"The corpus holds {first} and {second}: the scores lean towards the larger class.",)
