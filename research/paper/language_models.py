"""Models that learn a made-up language, by the training loop of ``slalom train``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from research.paper.nets import FullyConnected
from research.paper.word_tokenizer import word_tokenizer
from research.theory.paper.synthetic import LONGEST, WORDS, linear_log_odds, sample_rows
from slalom_xai.data.tables.examples import Examples
from slalom_xai.data.training.encoding import EncodedTexts, Reader, answers, harmless_side
from slalom_xai.data.training.loop import Course, Lesson, fit
from slalom_xai.data.training.options import LOOP
from slalom_xai.data.training.start import new_model
from slalom_xai.explainer import Explainer
from slalom_xai.methods import estimator
from slalom_xai.methods.additive import AdditiveSurrogate
from slalom_xai.models import prompt
from slalom_xai.queries import Queries
from slalom_xai.system.process import THREADS, at_most

WORD = "perfect"  # the repeated word of Fig. 3 and 7
REPLACEMENT = "the"  # what a removed word is replaced by in Fig. 7
NET = "net"
_LABELS = ("negative", "positive")
_LIMIT = LONGEST + 2  # tokens a transformer reads: 30 words, [CLS] and [SEP]
_WIDE = 256  # below, a step takes so little that threads would mostly wait for each other


Rows = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Language:
    """Texts of up to 30 words, and the log odds of their two classes.

    Attributes:
        words: all of them.
        sample: draws so many texts with a seed, each as indices of words.
        log_odds: the truth, (m,), for m texts.
        framed: whether [CLS] and [SEP] stand around texts for decoders, too.
    """

    words: tuple[str, ...]
    sample: Callable[[int, int], Rows]
    log_odds: Callable[[Rows], Tensor]
    framed: bool = False


LINEAR = Language(WORDS, sample_rows, linear_log_odds)  # Table 3


@dataclass(frozen=True)
class Size:
    """How much is computed.

    Attributes:
        width: of the transformers.
        layers: of the transformers, one after another.
        rate: the transformers' learning rate, which is constant.
        runs: models of each kind, each with data and weights of its own.
        texts: in an epoch. The transformers read the same in each; the nets would learn them by
            heart and read fresh ones.
        epochs: of the transformers.
        batch: texts of a step of the transformers.
        longer: other numbers of epochs, tried with the BERT type of two layers.
        hidden: ReLUs of the fully connected nets, one after another.
        net_epochs: of the nets.
        net_width: of the nets' embeddings.
        fitted: rows that surrogates are fitted to.
        tested: fresh rows that they are tested on.
        samples: of Kernel SHAP.
    """

    width: int = 64
    layers: tuple[int, ...] = (1, 2)
    rate: float = 5e-4
    runs: int = 2
    texts: int = 5000
    epochs: int = 5
    batch: int = 20
    longer: tuple[int, ...] = (1, 20)
    hidden: tuple[int, ...] = (200, 400, 1000)
    net_epochs: int = 15
    net_width: int = 16
    fitted: int = 10_000
    tested: int = 500
    samples: int = 500


@dataclass(frozen=True)
class Pupil:
    """One model that learns the language.

    Attributes:
        kind: a key of ``FAMILIES``, or ``NET``.
        depth: layers of a transformer, ReLUs of a net.
        epochs: how long it learns.
        run: which of several.
    """

    kind: str
    depth: int
    epochs: int
    run: int

    def __str__(self) -> str:
        return f"{self.kind}-{self.depth}-epochs-{self.epochs}-run-{self.run}"


class Learner:
    """A model of a language with its tokenizer.

    Args:
        pupil: what it is like.
        size: how wide it is and how long it learns.
        device: where it learns.
        language: what it learns.
    """

    def __init__(
        self, pupil: Pupil, size: Size, device: torch.device, language: Language = LINEAR
    ) -> None:
        self._pupil, self._size, self._device = pupil, size, device
        self._language = language
        unknown = None
        if REPLACEMENT in language.words:
            unknown = REPLACEMENT  # so that removal="unk" replaces words by it
        self._tokenizer = word_tokenizer(
            language.words,
            limit=_LIMIT,
            family=pupil.kind,
            framed=language.framed or pupil.kind in ("bert", "distilbert"),
            unknown=unknown,
        )
        self._model = self._new_model().to(device)
        self._reader = Reader(self._model, self._tokenizer, None)

    def _new_model(self) -> Any:
        pupil, size = self._pupil, self._size
        if pupil.kind == NET:
            return FullyConnected(
                len(self._tokenizer),
                places=LONGEST,
                width=size.net_width,
                hidden=pupil.depth,
                pad=self._tokenizer.pad_token_id,
                labels=_LABELS,
            )
        return new_model(
            self._tokenizer,
            family=pupil.kind,
            layers=pupil.depth,
            width=size.width,
            limit=_LIMIT,
            dropout=0.1,  # as the libraries' own configurations have it
            labels=_LABELS,
        )

    def learn(self, seed: int) -> float:
        """Learns from drawn classes; returns the accuracy on fresh texts."""
        lesson = self._lesson(self._texts(), seed)
        fresh = self._lesson(self._size.tested, seed + 1)
        course = Course(
            epochs=self._pupil.epochs,
            rate=self._size.rate,
            rows=self._size.batch,
            tokens=LOOP.tokens_from_scratch,
            decay=0.0,
            holes=0.0,
            patience=None,
            seed=seed,
            optimizer=partial(torch.optim.RMSprop, lr=self._size.rate),
            keep="last",
        )
        if self._pupil.kind == NET:
            course = _for_nets(course)
        threads = THREADS.fit if self._size.width < _WIDE else None
        with at_most(threads):
            trained = fit(self._model, lesson, fresh, course, tell=lambda line: None)
        self._model.eval()
        return trained.history[-1].validation_accuracy

    def _texts(self) -> int:
        """How many texts it learns from."""
        if self._pupil.kind == NET:
            return self._size.texts * self._pupil.epochs
        return self._size.texts

    def _lesson(self, count: int, seed: int) -> Lesson:
        """Texts of the language with drawn classes."""
        rows = self._language.sample(count, seed)
        generator = torch.Generator().manual_seed(seed)
        chances = torch.sigmoid(self._language.log_odds(rows))
        return Lesson(self._encoded(rows), torch.bernoulli(chances, generator=generator).long())

    def _encoded(self, rows: Rows) -> EncodedTexts:
        texts = tuple(self._spelled(row) for row in rows)
        encoded, _ = self._reader.read(Examples(texts, None, ("",) * len(texts)), self._device)
        return encoded

    def log_odds(self, rows: Rows) -> Tensor:
        """Its answers in float64, (m,)."""
        encoded = self._encoded(rows)
        side = harmless_side(self._model, encoded)
        logits = answers(self._model, encoded, side=side, precise=True).double()
        return logits[:, 1] - logits[:, 0]

    def _spelled(self, row: Sequence[int]) -> str:
        return " ".join(self._language.words[word] for word in row)

    def shap(self, copies: int, seed: int) -> float:
        """Kernel SHAP's value of a copy of ``WORD`` (linear language), mean over the copies.

        The method is called directly: the explainer does not ask it about a text of one distinct
        word. One copy alone has no one to share with.
        """
        if copies == 1:
            alone = self.log_odds([[WORDS.index(WORD)], [WORDS.index(REPLACEMENT)]])
            return float(alone[0] - alone[1])
        explainer = Explainer(self._model, self._tokenizer, removal="unk", show_progress=False)
        reading = explainer.model.read(self._spelled([WORDS.index(WORD)] * copies), removal="unk")
        queries = Queries(explainer.batches, prompt(reading, "token"), budget=self._size.samples)
        findings = estimator("kernel-shap").explain(queries, np.random.default_rng(seed))
        assert isinstance(findings.surrogate, AdditiveSurrogate)
        return float(findings.surrogate.unit_scores.mean())


def _for_nets(course: Course) -> Course:
    """The paper's training of fully connected nets, on texts that are all fresh."""
    return replace(course, optimizer=partial(torch.optim.Adam, lr=1e-3), rows=32, epochs=1)
