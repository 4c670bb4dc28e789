"""Questions about many sources, made of news and reviews: 20 to 60 sources each.

Four kinds, in equal numbers:

    story     news items; the question is about one of them, named by its headline
    topic     news items; the question is about those of one topic
    opinions  the beginnings of reviews of restaurants and shops; the question is about one thing
    review    the sentences of one movie review; the question is whether it is positive, and why

The files are ag_news_test, yelp_train and imdb_test in a folder, as JSON lines, gzipped or not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.random import Generator

from slalom_xai.data.tables import read_table
from slalom_xai.models.text import sentence_starts

TOPICS = ("world politics", "sports", "business", "science and technology")
THINGS = ("food", "service", "staff", "prices", "place")


@dataclass(frozen=True)
class Sizes:
    """How large prompts are.

    Attributes:
        fewest: sources.
        most: sources.
        words: of a source; longer ones are cut.
    """

    fewest: int = 20
    most: int = 60
    words: int = 35

    def draw(self, rng: Generator) -> int:
        """A number of sources."""
        return int(rng.integers(self.fewest, self.most + 1))

    def cut(self, text: str) -> str:
        """The beginning of a text, on one line."""
        return " ".join(text.split()[: self.words])


@dataclass(frozen=True)
class Prompt:
    """A question about sources.

    Attributes:
        kind: one of the four above.
        sources: in the order in which they stand in the prompt.
        question: about them.
    """

    kind: str
    sources: tuple[str, ...]
    question: str


def make_prompts(folder: Path, wanted: int, seed: int, sizes: Sizes) -> list[Prompt]:
    """So many prompts, of each kind in turn; the same seed gives the same ones."""
    rng = np.random.default_rng(seed)
    items = [(int(label), sizes.cut(text)) for label, text in _table(folder, "ag_news_test")]
    opinions = [sizes.cut(text) for _, text in _table(folder, "yelp_train")]
    reviews = [_sentences(text, sizes) for _, text in _table(folder, "imdb_test")]
    fitting = [parts for parts in reviews if sizes.fewest <= len(parts) <= sizes.most]
    order = iter(rng.permutation(len(fitting)).tolist())
    makers: tuple[Callable[[], Prompt], ...] = (
        lambda: _story([text for _, text in items], sizes.draw(rng), rng),
        lambda: _topic(items, sizes.draw(rng), rng),
        lambda: _opinions(opinions, sizes.draw(rng), rng),
        lambda: _review(fitting[next(order)]),
    )
    return [makers[number % len(makers)]() for number in range(wanted)]


def _table(folder: Path, name: str) -> list[tuple[str, str]]:
    """Labels and texts of a file."""
    found = sorted(folder.glob(f"{name}.jsonl*"))
    if not found:
        raise SystemExit(f"error: there is no {name}.jsonl or {name}.jsonl.gz in {folder}")
    table = read_table(found[0])
    labels, texts = (map(str, table.cells(field)) for field in ("label", "text"))
    return list(zip(labels, texts, strict=True))


def _sentences(text: str, sizes: Sizes) -> list[str]:
    starts = sentence_starts(text)
    parts = [text[start:end] for start, end in zip(starts, [*starts[1:], None], strict=True)]
    return [part for part in map(sizes.cut, parts) if part]


def _some(texts: Sequence[str], count: int, rng: Generator) -> list[str]:
    """So many different ones of the texts."""
    return [texts[number] for number in rng.choice(len(texts), count, replace=False)]


def _story(items: Sequence[str], size: int, rng: Generator) -> Prompt:
    sources = _some(items, size, rng)
    chosen = sources[int(rng.integers(size))]
    second = [*sentence_starts(chosen), len(chosen)][1]
    about = chosen[:second].strip().rstrip(".")
    return Prompt("story", tuple(sources), f'What is the news story "{about}" about?')


def _topic(items: Sequence[tuple[int, str]], size: int, rng: Generator) -> Prompt:
    topic = int(rng.integers(len(TOPICS)))
    few = int(rng.integers(2, 6))
    sources = _some([text for label, text in items if label == topic], few, rng)
    sources += _some([text for label, text in items if label != topic], size - few, rng)
    mixed = _some(sources, size, rng)
    return Prompt("topic", tuple(mixed), f"What happened in {TOPICS[topic]}?")


def _opinions(opinions: Sequence[str], size: int, rng: Generator) -> Prompt:
    thing = THINGS[int(rng.integers(len(THINGS)))]
    question = f"What do the reviewers say about the {thing}?"
    return Prompt("opinions", tuple(_some(opinions, size, rng)), question)


def _review(sentences: Sequence[str]) -> Prompt:
    question = "Is this movie review positive or negative, and why?"
    return Prompt("review", tuple(sentences), question)
