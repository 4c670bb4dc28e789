"""Which rows a vocabulary is fitted to: short sequences of its items, and deletions of texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from slalom_xai.models.rows import Indices
from slalom_xai.vocabulary.items import ReadText, TokenIds
from slalom_xai.vocabulary.settings import SETTINGS


def draw_sequences(items: int, rows: int, rng: np.random.Generator) -> Indices:
    """Short sequences of random items, (rows, longest); -1 stands for no item.

    Every item is in about as many of them.
    """
    choices = np.array(SETTINGS.sequence_lengths)
    lengths = choices[np.arange(rows) % len(choices)]
    slots = int(lengths.sum())
    rounds = -(-slots // items)
    drawn = np.concatenate([rng.permutation(items) for _ in range(rounds)])[:slots]
    table = np.full((rows, int(choices.max())), -1, dtype=np.int64)
    table[np.arange(table.shape[1]) < lengths[:, None]] = drawn
    return table[rng.permutation(rows)]


def sequence_counts(table: Indices, items: int) -> csr_array:
    """How often sequences (m, w) hold each item, (m, items)."""
    row, place = np.nonzero(table >= 0)
    return counted(row, table[row, place], (len(table), items))


def counted(row: Indices, item: Indices, shape: tuple[int, int]) -> csr_array:
    """A table of counts, from one entry for each item of each row; equal ones add up."""
    return csr_array((np.ones(len(row)), (row, item)), shape=shape)


@dataclass(frozen=True)
class TextRows:
    """Rows of one text: the whole, some with one item left out, and some with any number.

    Attributes:
        text: that they are of.
        units: (n,), the item of each unit; the number of items for those that are none.
        masks: (m, n), what each row keeps; the whole text is first.
        singles: the items that rows 1 to k leave out, in their order.
    """

    text: ReadText
    units: Indices
    masks: NDArray[np.bool_]
    singles: tuple[int, ...]

    def counts(self, items: int) -> csr_array:
        """How often the rows hold each of so many items, (m, items)."""
        row, unit = np.nonzero(self.masks)
        return counted(row, self.units[unit], (len(self.masks), items))


def draw_text_rows(
    texts: Sequence[ReadText],
    numbers: Mapping[TokenIds, int],
    calls: int,
    rng: np.random.Generator,
) -> Iterator[TextRows]:
    """Deletions of texts in random order, until so many rows are drawn.

    Items whose removal was seen in the fewest texts are left out first.

    Args:
        texts: to draw from; each is used once.
        numbers: the number of each item.
        calls: rows in all, at most.
        rng: the source of randomness.
    """
    seen = np.zeros(len(numbers), dtype=np.int64)
    each = calls // max(1, len(texts))  # few texts are shortened in more ways
    wide = max(SETTINGS.wide_rows, round(each * SETTINGS.wide_share))
    most = max(SETTINGS.single_rows, each - wide)
    for index in rng.permutation(len(texts)):
        text = texts[index]
        units = np.array([numbers.get(kind, len(numbers)) for kind in text.kinds])
        known = np.unique(units[units < len(numbers)])
        if not len(known) or len(np.unique(units)) < 2:
            continue  # nothing would be left
        wanted = known[seen[known] < SETTINGS.contexts]
        order = np.lexsort((rng.random(len(wanted)), seen[wanted]))
        singles = wanted[order][:most]
        without = units != singles[:, None]
        masks = _distinct_masks(without, _wide(len(units), wide, rng))[:calls]
        if len(masks) < 2:
            return
        singles = singles[: len(masks) - 1]
        seen[singles] += 1
        calls -= len(masks)
        yield TextRows(text, units, masks, tuple(singles.tolist()))


def _wide(units: int, rows: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Masks (rows, units) that leave out a random number of units."""
    gone = rng.integers(1, units, size=rows)
    ranks = rng.random((rows, units)).argsort(axis=1).argsort(axis=1)
    return np.asarray(ranks >= gone[:, None])


def _distinct_masks(singles: NDArray[np.bool_], wide: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The whole text, single removals, and those of the others that are not among them."""
    first = np.concatenate([np.ones((1, wide.shape[1]), dtype=bool), singles])
    known = {mask.tobytes() for mask in first}
    more = [mask for mask in wide if mask.tobytes() not in known]
    return np.concatenate([first, np.array(more, dtype=bool).reshape(-1, wide.shape[1])])
