"""Seconds that explanations take: methods on models with random weights, text by text.

Speed does not depend on weights, so nothing is trained. A text's words between spaces are its
tokens. A cell is one text with the methods that ask in batches, or with those that ask row by row.
A timing must not share the machine, so shares that run at the same time are wrong here.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from importlib import import_module
from typing import Any

import pandas as pd
import torch

from research.base import DataFile, Settings
from research.cells import Cells, Numbers, Work
from research.clock import clocked
from research.paper.language import standard_error
from research.paper.word_tokenizer import word_tokenizer
from slalom_xai.data.tables.examples import Examples
from slalom_xai.data.training.start import name_classes
from slalom_xai.errors import InputError
from slalom_xai.explainer import Explainer
from slalom_xai.explanation import Explanation
from slalom_xai.methods import Estimator
from slalom_xai.models import TextModel
from slalom_xai.models.load import choose_device, text_model

ALONE = "kernel-shap, one row a call"
_BY_ROW = "row by row"  # ends the names of cells
INSIDE_CALLS = 21  # the least that a method that looks inside takes: all but one are its test


@dataclass(frozen=True)
class TimedSize:
    """How much is computed.

    Attributes:
        texts: reviews that are explained.
        words: of a review at most; one word is one token. Kernel SHAP needs three calls a token.
        alone: texts that Kernel SHAP explains with one row a call, too.
        width: of the model.
    """

    texts: int = 5
    words: int = 120
    alone: int = 2
    width: int = 256


@dataclass(frozen=True)
class Timed:
    """One method under the clock.

    Attributes:
        name: for tables.
        method: what the explainer takes.
        budget: model calls.
        alone: whether each row is a call of its own, instead of batches.
    """

    name: str
    method: str | Estimator
    budget: int
    alone: bool = False

    @property
    def key(self) -> str:
        """What its numbers are kept under."""
        return f"{self.name}, {self.budget}"


class Clock:
    """A model with random weights, made when it is first needed, and texts for it.

    Args:
        reviews: reads where the texts come from.
        texts: how many are explained.
        words: of a text at most; shorter reviews are left as they are.
        configured: makes the configuration of a model for a tokenizer.
        framed: whether special tokens stand around each text.
        dtype: of the weights.
        seed: of the weights and of the explanations.
    """

    def __init__(
        self,
        reviews: Callable[[], Examples],
        *,
        texts: int,
        words: int,
        configured: Callable[[Any], Any],
        framed: bool,
        dtype: torch.dtype = torch.float32,
        seed: int = 0,
    ) -> None:
        self._reviews, self._count, self._words = reviews, texts, words
        self._configured, self._framed, self._dtype = configured, framed, dtype
        self._seed = seed
        self._explainers: dict[Timed, Explainer] = {}

    @cached_property
    def _texts(self) -> list[str]:
        """One to warm up with, and those that are explained.

        They come evenly from the whole table, which may have one class after the other.
        """
        reviews = self._reviews()
        wanted = self._count + 1
        if len(reviews) < wanted:
            raise InputError(
                f"{wanted} reviews are needed, but the table has {len(reviews)}: "
                "give one with more rows"
            )
        drawn = reviews.texts[:: len(reviews) // wanted][:wanted]
        return [" ".join(text.split()[: self._words]) for text in drawn]

    def seconds(self, index: int, methods: Sequence[Timed]) -> Numbers:
        """The seconds of each method on a text, and the rows it asked, by the method's key.

        Each method has explained another text before, so that nothing is done for the first time.
        """
        text = self._texts[index + 1]
        found: Numbers = {"tokens": len(text.split())}
        for timed in methods:
            explained: list[Explanation] = []
            explainer = self._explainer(timed)
            took = clocked(lambda: explained.append(explainer(text)), self._device)  # noqa: B023
            found[timed.key] = [took, explained[0].calls + explained[0].passes]
        return found

    def _explainer(self, timed: Timed) -> Explainer:
        """An explainer, warm with the first budget that its method was given."""
        if timed not in self._explainers:
            explainer = Explainer(
                self._model,
                method=timed.method,
                budget=timed.budget,
                granularity="token",
                removal="delete",
                batch_tokens=1 if timed.alone else None,
                random_state=self._seed,
                show_progress=False,
            )
            if timed.name not in {each.name for each in self._explainers}:
                explainer(self._texts[0])
                gc.collect()
                gc.freeze()  # else each clock first looks through all that was imported
            self._explainers[timed] = explainer
        return self._explainers[timed]

    @cached_property
    def _device(self) -> torch.device:
        return choose_device(None)

    @cached_property
    def _model(self) -> TextModel:
        """The model, drawn where it runs, and its tokenizer."""
        words = sorted({word for text in self._texts for word in text.split()})
        tokenizer = word_tokenizer(
            words, limit=self._words + 2, family="distilbert", framed=self._framed
        )
        config = self._configured(tokenizer)
        name_classes(config, ("negative", "positive"))
        library: Any = import_module("transformers")
        make = library.AutoModelForSequenceClassification.from_config
        gpus = [self._device] if self._device.type == "cuda" else []
        with torch.random.fork_rng(devices=gpus), self._device:
            torch.manual_seed(self._seed)
            model = make(config, dtype=self._dtype)
        return text_model(model.to(self._device).eval(), tokenizer)


def timed_study(
    settings: Settings,
    name: str,
    reviews: DataFile,
    size: TimedSize,
    methods: Sequence[Timed],
    *,
    configured: Callable[[Any], Any],
    framed: bool,
    dtype: torch.dtype = torch.float32,
) -> dict[str, Numbers]:
    """Explains every review that is not finished yet under the clock.

    Args:
        settings: seed, data, store and progress.
        name: of the experiment, which is also that of its cells.
        reviews: where the texts come from.
        size: of the study.
        methods: those that are timed.
        configured: see ``Clock``.
        framed: see ``Clock``.
        dtype: of the weights.

    Returns:
        The numbers of ``Clock.seconds`` by review.
    """
    identity = {"study": name, "seed": settings.seed, "size": asdict(size)}
    cells = Cells.open(settings.store, identity)
    clock = Clock(
        partial(reviews.read, name, settings.data),
        texts=size.texts,
        words=size.words,
        configured=configured,
        framed=framed,
        dtype=dtype,
        seed=settings.seed,
    )
    work = timed_work(clock, size.texts, methods, size.alone)
    return by_text(cells.fill(work, settings, "explaining under the clock"))


def timed_work(clock: Clock, texts: int, methods: Sequence[Timed], alone: int) -> dict[str, Work]:
    """The cells of a study: one for each text, with all methods that ask in batches.

    What asks row by row takes longer than all others together. It has cells of its own, evenly
    among the others, so that a run that is stopped has a little of it and most of them.

    Args:
        clock: measures.
        texts: how many are explained.
        methods: all of them.
        alone: how many texts are explained row by row, too.
    """
    by_batch = [timed for timed in methods if not timed.alone]
    by_row = [timed for timed in methods if timed.alone]
    every = max(1, texts // max(1, alone))
    work: dict[str, Work] = {}
    for index in range(texts):
        work[f"review-{index}"] = partial(clock.seconds, index, by_batch)
        if index % every == 0 and index // every < alone:
            work[f"review-{index} {_BY_ROW}"] = partial(clock.seconds, index, by_row)
    return work


def by_text(found: Mapping[str, Numbers]) -> dict[str, Numbers]:
    """The numbers of each text, from all of its cells."""
    texts: dict[str, Numbers] = {}
    for name, numbers in found.items():
        text = name.removesuffix(f" {_BY_ROW}")
        texts[text] = texts.get(text, {}) | numbers
    return texts


def seconds_table(
    found: Mapping[str, Numbers], timed: Sequence[Timed], printed: Mapping[tuple[str, int], float]
) -> pd.DataFrame:
    """Means over texts, a row for each method and budget that at least one text has.

    Args:
        found: the numbers of ``Clock.seconds`` by text.
        timed: in the order of the table.
        printed: the paper's seconds by name and budget.
    """
    rows = []
    for each in timed:
        cells = [numbers.get(each.key) for numbers in found.values()]
        pairs = [cell for cell in cells if cell is not None]
        if not pairs:
            continue
        seconds = [pair[0] for pair in pairs]
        rows.append(
            {
                "calls": each.budget,
                "method": each.name,
                "paper": printed.get((each.name, each.budget), float("nan")),
                "ours": sum(seconds) / len(seconds),
                "s.e.": standard_error(seconds),
                "rows asked": sum(pair[1] for pair in pairs) / len(pairs),
                "texts": len(pairs),
            }
        )
    return pd.DataFrame(rows)


def ratios(
    found: Mapping[str, Numbers], calls: Sequence[int], method: str, other: str
) -> list[float]:
    """How much of another's time a method takes, for each number of calls.

    Args:
        found: the numbers of ``Clock.seconds`` by text; texts that have both count.
        calls: of both methods.
        method: its name.
        other: the other's.

    Returns:
        A NaN alone where no text has both.
    """
    made = []
    for number in calls:
        keys = [f"{name}, {number}" for name in (method, other)]
        both = [[cell[key][0] for key in keys] for cell in found.values() if cell.keys() >= {*keys}]
        if both:
            own, others = map(sum, zip(*both, strict=True))
            made.append(own / others)
    return made or [math.nan]


def row_by_row_remark(found: Mapping[str, Numbers]) -> tuple[str, ...]:
    """Says that nothing was asked row by row yet, where that is so."""
    keys = {key for numbers in found.values() for key in numbers}
    if any(key.startswith(ALONE) for key in keys):
        return ()
    return ("The run ended before Kernel SHAP asked one row a call: there are no checks of that.",)
