"""The attention classifier on one text, as a function of which words are kept.

A word that is removed is replaced by [UNK] wherever it stands, so each head stays a weighted
average whose terms change from the word's to [UNK]'s in the same place. This is a SLALOM with a
sink in which a removed unit leaves something behind.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from research.theory.slides.arrays import Floats, Masks
from research.theory.slides.classifier import AttentionClassifier


@dataclass(frozen=True)
class WordAverages:
    """Averages over a text of d words, K of them (heads), whose mean is the output.

    Attributes:
        kept: (K, d), the weight of each word.
        kept_values: (K, d), weight times value of each word.
        removed: (K, d), the weight of [UNK] in its places.
        removed_values: (K, d), weight times value of [UNK] there.
        always: (K,), the weight of what no removal changes: [CLS] and the filling.
        always_values: (K,), weight times value of that.
    """

    kept: Floats
    kept_values: Floats
    removed: Floats
    removed_values: Floats
    always: Floats
    always_values: Floats

    @property
    def words(self) -> int:
        """How many words can be removed."""
        return int(self.kept.shape[1])

    def heads(self, keep: Floats | Masks) -> tuple[Floats, Floats]:
        """Numerators and denominators (K, m) of the averages.

        Args:
            keep: (m, d), which words are kept, or which share of each.
        """
        kept = np.asarray(keep, dtype=np.float64).T  # (d, m)
        gone = 1 - kept
        above = self.always_values[:, None] + self.kept_values @ kept + self.removed_values @ gone
        below = self.always[:, None] + self.kept @ kept + self.removed @ gone
        return above, below

    def output(self, keep: Floats | Masks) -> Floats:
        """The output (m,) for rows of kept words, (m, d)."""
        above, below = self.heads(keep)
        result: Floats = (above / below).mean(axis=0)
        return result

    def one_head(self, head: int) -> WordAverages:
        """One of the averages."""
        one = slice(head, head + 1)
        return WordAverages(
            self.kept[one],
            self.kept_values[one],
            self.removed[one],
            self.removed_values[one],
            self.always[one],
            self.always_values[one],
        )


def word_averages(
    model: AttentionClassifier, ids: torch.Tensor
) -> tuple[WordAverages, torch.Tensor]:
    """A text's averages, and the ids of its words in the order of their first places.

    Args:
        model: the classifier.
        ids: (tokens,), [CLS] first.
    """
    words = torch.tensor(list(dict.fromkeys(ids[1:].tolist())))
    with torch.no_grad():
        text = model.embed(ids[None])
        erased = model.embed(torch.cat([ids[:1], torch.full_like(ids[1:], model.unknown)])[None])
        scores, erased_scores = (model.scores(one)[0].double() for one in (text, erased))
        values, erased_values = (model.place_values(one)[0].double() for one in (text, erased))
    # The same number is taken from both, so that it cancels in the averages.
    highest = torch.maximum(scores, erased_scores).amax(dim=1, keepdim=True)
    weights = torch.exp(scores - highest)  # (K, length)
    erased_weights = torch.exp(erased_scores - highest)
    owner = torch.zeros(model.length, len(words), dtype=torch.float64)  # which word is where
    owner[1 : len(ids)] = (ids[1:, None] == words).double()
    fixed = owner.sum(dim=1) == 0
    averages = WordAverages(
        kept=(weights @ owner).numpy(),
        kept_values=((weights * values) @ owner).numpy(),
        removed=(erased_weights @ owner).numpy(),
        removed_values=((erased_weights * erased_values) @ owner).numpy(),
        always=weights[:, fixed].sum(dim=1).numpy(),
        always_values=(weights * values)[:, fixed].sum(dim=1).numpy(),
    )
    return averages, words


def random_averages(
    words: int, filling: int, rng: np.random.Generator, *, heads: int = 2, tilt: float = 0.0
) -> WordAverages:
    """Averages with random weights between 1/e and e and random values.

    They stand for a text of any length with nothing special about it.

    Args:
        words: how many.
        filling: places behind the text that always hold [UNK].
        rng: draws the numbers.
        heads: how many averages.
        tilt: added to the logarithm of every weight of [UNK].
    """
    weights = np.exp(rng.uniform(-1, 1, (heads, words)))
    values = rng.normal(0.5, 1.0, (heads, words))
    blank = np.exp(rng.uniform(-0.3, 0.3, (heads, words + filling)) + tilt)
    blank_values = blank * rng.normal(-0.5, 0.3, (heads, words + filling))
    own, rest = slice(0, words), slice(words, None)
    return WordAverages(
        weights,
        weights * values,
        blank[:, own],
        blank_values[:, own],
        blank[:, rest].sum(axis=1),
        blank_values[:, rest].sum(axis=1),
    )
