"""Builds a vocabulary from files: a table of texts, a list of words, or both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from slalom_xai.corpus.source import CorpusFields, open_source
from slalom_xai.errors import InputError
from slalom_xai.options import ExplainOptions
from slalom_xai.vocabulary.build import VocabularyPlan, build_vocabulary
from slalom_xai.vocabulary.result import Vocabulary
from slalom_xai.vocabulary.settings import SETTINGS


class PlanOnly(Exception):
    """Raised by whoever wants to know what it would take, and nothing else."""


def build_from_files(
    options: ExplainOptions,
    table: Path | None,
    words: Path | None,
    *,
    field: str = "text",
    most_texts: int = SETTINGS.most_texts,
    most_items: int = SETTINGS.most_items,
    lengths: Sequence[int] | None = None,
    budget: int | None = None,
    on_plan: Callable[[VocabularyPlan], None] = lambda plan: None,
) -> Vocabulary:
    """Builds a vocabulary; ``build_vocabulary`` describes the options.

    Args:
        options: the model and how it is asked.
        table: of texts.
        words: a text file with an item on each line.
        field: the column of the texts.
        most_texts: more are drawn at random.
        most_items: of the texts.
        lengths: of filled texts.
        budget: model calls in all.
        on_plan: is told what it will take.

    Raises:
        SlalomError: something cannot be used.
    """
    given = None if words is None else read_words(words)
    texts: list[str] = []
    if table is not None:
        texts = sample_texts(table, field, most_texts, options.seed)
    explainer = options.load_for_table()
    explainer.show_progress = None
    return build_vocabulary(
        explainer,
        texts,
        words=given,
        most_items=most_items,
        lengths=lengths,
        budget=budget,
        on_plan=on_plan,
    )


def read_words(path: Path) -> list[str]:
    """The lines of a text file; empty ones do not count.

    Raises:
        InputError: it cannot be read, or holds no words.
    """
    try:
        content = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is no text in UTF-8 ({error.reason}): save it as UTF-8"
        ) from error
    words = [line.strip() for line in content.splitlines() if line.strip()]
    if not words:
        raise InputError(f"the list {path} is empty: give one word on each line")
    return words


def sample_texts(table: Path, field: str, most: int, seed: int) -> list[str]:
    """Texts of a table, drawn at random where there are more; empty ones do not count.

    Raises:
        InputError: there is no such table or column, or it holds no texts.
    """
    source = open_source(table, CorpusFields(text=field))
    rng = np.random.default_rng(seed)
    kept: list[tuple[int, str]] = []
    seen, problem = 0, None
    with closing(source.rows()) as rows:
        for row in rows:
            if row.problem is not None or not row.text.strip():
                problem = problem or row.problem or "it is empty"
                continue
            if len(kept) < most:
                kept.append((seen, row.text))
            elif (place := int(rng.integers(seen + 1))) < most:
                kept[place] = (seen, row.text)
            seen += 1
    if not kept:
        why = "" if problem is None else f" (the first row: {problem})"
        raise InputError(f"{table} has no texts in column {field!r}{why}: give another table")
    return [text for _, text in sorted(kept)]
