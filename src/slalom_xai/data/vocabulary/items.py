"""The items of a vocabulary: found in texts, or given as a list, and rows that are made of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from slalom_xai.errors import InputError, SlalomError, quote_text
from slalom_xai.models import Prompt, TextModel, TokenReading, prompt
from slalom_xai.models.base import SaysItsLimit
from slalom_xai.models.rows import Indices, Rows, TokenText
from slalom_xai.models.text import Unit

# The numbers that ``slalom vocabulary`` rests on.


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


# The items of a vocabulary: found in texts, or given as a list, and rows that are made of them.


GRANULARITIES = ("token", "word")
TokenIds = tuple[int, ...]


@dataclass(frozen=True)
class ReadText:
    """A text as its items.

    Attributes:
        reading: the text as the model reads it, without what only people need.
        owner: (pieces,), the unit that each piece belongs to.
        kinds: the token ids of each unit.
    """

    reading: TokenReading
    owner: Indices
    kinds: tuple[TokenIds, ...]

    def rows(self, masks: NDArray[np.bool_]) -> Rows:
        """The rows that keep some units, (m, units)."""
        return self.reading.rows_keeping(masks[:, self.owner])


@dataclass
class Found:
    """What was found in texts.

    Attributes:
        texts: those that can be read.
        forms: of each item: how often it is written in which way.
        contexts: of each item: how many texts have it.
        problems: why texts cannot be read, and how many.
    """

    texts: list[ReadText] = field(default_factory=list)
    forms: dict[TokenIds, Counter[str]] = field(default_factory=dict)
    contexts: Counter[TokenIds] = field(default_factory=Counter)
    problems: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Items:
    """The items of a vocabulary, those of most texts first.

    Attributes:
        names: as people read them; no two are equal.
        token_ids: of each.
        texts: (V,), how many texts have it.
        left_out: items that are not among them, because there are too many.
        too_long: items of the texts that are not among them, because they have too many tokens.
    """

    names: tuple[str, ...]
    token_ids: tuple[TokenIds, ...]
    texts: Indices
    left_out: int = 0
    too_long: int = 0

    def __len__(self) -> int:
        return len(self.names)


def find_items(
    model: TextModel,
    texts: Iterable[str],
    granularity: str,
    *,
    truncation: bool,
    done: Callable[[int], None] = lambda count: None,
) -> Found:
    """Reads texts and counts what they are made of.

    Raises:
        InputError: there are texts, and none of them can be read.
    """
    found, tried = Found(), 0
    for text in texts:
        tried += 1
        done(1)
        try:
            reading = token_reading(model, text, truncation)
        except SlalomError as error:
            found.problems[str(error)] += 1
            continue
        asked = prompt(reading, granularity)
        kinds = tuple(unit.token_ids for unit in asked.units)
        slim = replace(reading, pieces=())
        found.texts.append(ReadText(slim, asked.owner, kinds))
        for unit in asked.units:
            found.forms.setdefault(unit.token_ids, Counter())[unit.text] += 1
        found.contexts.update(set(kinds))
    if tried and not found.texts:
        problem, count = found.problems.most_common(1)[0]
        raise InputError(f"none of {tried} texts can be read; {count} because {problem}")
    return found


def items_of_texts(model: TextModel, found: Found, most: int) -> Items:
    """The items that most texts have.

    Web addresses and the like have so many tokens that a short sequence of such items would not
    fit. They are left out and counted: texts are as they are, and nobody could mend them all.

    Args:
        model: that reads the items.
        found: in texts.
        most: how many items.

    Raises:
        InputError: all items have too many tokens.
    """
    longest = _longest(model, found.texts[0].reading) if found.texts else None
    fitting = [kind for kind in found.forms if longest is None or len(kind) <= longest]
    if found.forms and not fitting:
        raise InputError(
            f"all items of the texts have more than {longest} tokens, which is the most that an "
            "item of this model may have: give --granularity token"
        )
    first = {kind: number for number, kind in enumerate(found.forms)}
    order = sorted(fitting, key=lambda kind: (-found.contexts[kind], first[kind]))
    kept = order[:most]
    names = _distinct([(found.forms[kind].most_common(1)[0][0], kind) for kind in kept])
    texts = np.array([found.contexts[kind] for kind in kept], dtype=np.int64)
    too_long = len(found.forms) - len(fitting)
    return Items(names, tuple(kept), texts, len(order) - len(kept), too_long)


def items_of_list(model: TextModel, words: Sequence[str], found: Found | None) -> Items:
    """The items of a list, one for each different word.

    A word is read as it stands within a text, behind another one: some tokenizers write a space
    before it.

    Raises:
        InputError: the list is empty or too long, or a word has no tokens or too many.
    """
    if not words:
        raise InputError("the list of words is empty: give one word a line")
    names: dict[TokenIds, str] = {}
    for word in words:
        reading = token_reading(model, f"{word} {word}", truncation=False)
        second = [piece for piece in reading.pieces if piece.start > len(word)]
        ids = tuple(token for piece in second for token in piece.token_ids)
        if not ids:
            raise InputError(f"the model has no token for {word!r}: take it out of the list")
        names.setdefault(ids, word)
    if len(names) > SETTINGS.most_items:
        raise InputError(
            f"the list has {len(names):,} different words, and a vocabulary holds "
            f"{SETTINGS.most_items:,}: give a shorter list"
        )
    contexts: Counter[TokenIds] = Counter() if found is None else found.contexts
    texts = np.array([contexts[kind] for kind in names], dtype=np.int64)
    return Items(_distinct([(name, kind) for kind, name in names.items()]), tuple(names), texts)


def carrier(model: TextModel, items: Items) -> Prompt:
    """All items as if they were one text, of which rows are composed in any order.

    Raises:
        InputError: an item has so many tokens that a short sequence of such would not fit.
    """
    frame = token_reading(model, items.names[0], truncation=True)
    ids, *segments = frame.tokens.streams
    before, after = int(frame.positions[0]), int(frame.positions[-1]) + 1
    _check_sizes(items, _longest(model, frame))
    sizes = np.array([len(kind) for kind in items.token_ids])
    owner = np.repeat(np.arange(len(items)), sizes)
    inner = np.concatenate([np.array(kind, dtype=np.int64) for kind in items.token_ids])
    streams = [np.concatenate([ids[:before], inner, ids[after:]])]
    for stream in segments:
        same = np.full(len(inner), stream[before])
        streams.append(np.concatenate([stream[:before], same, stream[after:]]))
    pieces = tuple(Unit("", 0, 0, (int(token),)) for token in inner)
    reading = replace(
        frame,
        pieces=pieces,
        codes=inner,
        tokens=TokenText(tuple(streams)),
        positions=before + np.arange(len(inner)),
        word_numbers=owner,
        unknown=None,
    )
    starts = np.cumsum(sizes) - sizes
    spelling = tuple(
        start + np.arange(size) for start, size in zip(starts, sizes.tolist(), strict=True)
    )
    pairs = zip(items.names, items.token_ids, strict=True)
    units = tuple(Unit(name, 0, 0, kind) for name, kind in pairs)
    once = np.ones(len(items), dtype=np.int64)
    return Prompt(reading, units, owner, np.arange(len(items)), once, spelling)


def room(model: TextModel, asked: Prompt) -> int | None:
    """The tokens that a row has room for beside the special ones; None: any number."""
    if not isinstance(model, SaysItsLimit) or model.limit is None:
        return None
    reading = asked.reading
    assert isinstance(reading, TokenReading)
    return model.limit - (len(reading.tokens) - len(reading.positions))


def token_reading(model: TextModel, text: str, truncation: bool) -> TokenReading:
    """A text as tokens.

    Raises:
        InputError: the model takes strings, or cannot read the text.
    """
    reading = model.read(text, truncation=truncation)
    if not isinstance(reading, TokenReading):
        raise InputError(
            f"{model.name} reads strings and shows no tokens: a vocabulary needs a model whose "
            "tokens can be put together at will, such as a transformers classifier"
        )
    return reading


def _longest(model: TextModel, frame: TokenReading) -> int | None:
    """The tokens that an item may have beside the special ones of a text; None: any number."""
    if not isinstance(model, SaysItsLimit) or model.limit is None:
        return None
    special = len(frame.tokens) - len(frame.positions)
    return max(1, int((model.limit - special) * SETTINGS.longest_share))


def _check_sizes(items: Items, most: int | None) -> None:
    for name, kind in zip(items.names, items.token_ids, strict=True):
        if most is not None and len(kind) > most:
            raise InputError(
                f"{quote_text(name, 60)} has {len(kind)} tokens, and an item of this model may "
                f"have {most}: give words, or --granularity token"
            )


def _distinct(named: Sequence[tuple[str, TokenIds]]) -> tuple[str, ...]:
    """Names that are all different: of two that are written alike, the rarer says its tokens."""
    taken: set[str] = set()
    names = []
    for name, kind in named:
        if name in taken:
            name = f"{name} (token {' '.join(map(str, kind))})"
        taken.add(name)
        names.append(name)
    return tuple(names)
