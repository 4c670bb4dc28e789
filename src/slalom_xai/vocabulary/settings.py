"""The numbers that ``slalom vocabulary`` rests on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class VocabularySettings:
    """How a vocabulary is measured and fitted.

    Attributes:
        most_items: items of a vocabulary at most.
        most_texts: texts that are read at most; more are sampled.
        length_quantiles: of the texts' lengths: an item fills a text of each of these lengths.
        default_lengths: where there are no texts, in items.
        sequence_lengths: items of a short sequence, each equally often.
        longest_share: an item may have this share of the tokens that the model reads, so that the
            longest sequence fits.
        rows_per_item: rows beside the filled texts, for each item, where no budget is given.
        least_rows_per_item: the fewest such rows.
        sequence_share: of these rows that are short sequences; the others are deletions of texts.
        wide_rows: of each text: rows with a random number of units left out, at least.
        single_rows: of each text: rows with one item left out, at least.
        wide_share: of the rows of a text, where texts are few.
        contexts: texts in which the removal of an item is measured, at most.
        check_share: of the rows that only test.
        first_prior: standard deviation of importances to begin with, and at most.
        least_prior: the smallest one.
        rounds: in which the prior and the weights of rows settle.
        groups: of rows; a refit without each of them tells the standard errors.
        error_scale: that standard errors are multiplied by: importances are logarithms, and their
            errors are wider than refits show. A judgement from a few planted SLALOMs with much
            noise, not the result of a search.
        chunk: rows that are made and asked at a time.
        cells: entries of a table of sequences that are made at a time.
    """

    most_items: int = 50_000
    most_texts: int = 10_000
    length_quantiles: tuple[float, ...] = (1 / 6, 1 / 2, 5 / 6)
    default_lengths: tuple[int, ...] = (8, 24, 72)
    sequence_lengths: tuple[int, ...] = (2, 3, 4, 6, 8)
    longest_share: float = 1 / 8
    rows_per_item: int = 8
    least_rows_per_item: int = 1
    sequence_share: float = 0.5
    wide_rows: int = 4
    single_rows: int = 8
    wide_share: float = 1 / 3
    contexts: int = 12
    check_share: float = 0.15
    first_prior: float = 3.0
    least_prior: float = 0.1
    rounds: int = 6
    groups: int = 20
    error_scale: float = 1.15
    chunk: int = 20_000
    cells: int = 4_000_000


SETTINGS = VocabularySettings()
