"""The linear language (Table 3): models that learn it, and what is measured in each of them.

A text is 1 to 30 words drawn from ten. Its log odds are the sum of its words' weights, and its
class is drawn with them. Transformers and fully connected nets learn the classes; a cell is one
trained model with everything that Fig. 3, Fig. 7 and Table 6 need of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from slalom_xai.estimators import estimator
from slalom_xai.experiments.cells import Cells, Numbers
from slalom_xai.experiments.language_fits import surrogate_errors
from slalom_xai.experiments.nets import FullyConnected
from slalom_xai.explainer import Explainer
from slalom_xai.models import prompt
from slalom_xai.models.load import chosen_device
from slalom_xai.queries import Queries
from slalom_xai.tables.examples import Examples
from slalom_xai.theory.base import Settings
from slalom_xai.theory.paper.synthetic import LONGEST, WORDS, linear_log_odds, sample_rows
from slalom_xai.training.architecture import new_model, word_tokenizer
from slalom_xai.training.encoding import Reader, answers, harmless_side
from slalom_xai.training.loop import Course, Lesson, fit
from slalom_xai.training.settings import LOOP

STUDY = "linear-language"
HOURS = 50  # of the full size on two cores: some 10^16 operations
WORD = "perfect"  # the repeated word of Fig. 3 and 7
WEIGHT = 1.5  # its weight in the language
REPLACEMENT = "the"  # what a removed word is replaced by in Fig. 7
FAMILIES = {"bert": "BERT", "distilbert": "DistilBERT", "gpt2": "GPT-2"}
NET = "net"
_LABELS = ("negative", "positive")
_LIMIT = LONGEST + 2  # tokens a transformer reads: 30 words, [CLS] and [SEP]


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
    longer: tuple[int, ...] = (1, 20)
    hidden: tuple[int, ...] = (200, 400, 1000)
    net_epochs: int = 15
    net_width: int = 16
    fitted: int = 10_000
    tested: int = 500
    samples: int = 500


SMALL = Size()
FULL = Size(width=768, layers=(1, 2, 4, 6, 8, 12), rate=5e-5, runs=5, net_width=64)


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


def pupils(size: Size) -> list[Pupil]:
    """Every model of the study."""
    kinds = [(family, depth, size.epochs) for family in FAMILIES for depth in size.layers]
    kinds += [("bert", 2, epochs) for epochs in size.longer if 2 in size.layers]
    kinds += [(NET, hidden, size.net_epochs) for hidden in size.hidden]
    return [Pupil(*kind, run) for run in range(size.runs) for kind in kinds]


def study(settings: Settings, size: Size | None = None) -> pd.DataFrame:
    """Trains every model that is not finished yet, and measures it.

    Args:
        settings: seed, size, store and progress.
        size: None: the small or the full one, as the settings say.

    Returns:
        One row per model: the fields of ``Pupil`` and the numbers of ``measured``.
    """
    if size is None:
        size = FULL if settings.full else SMALL
    identity = {"study": STUDY, "seed": settings.seed, "size": asdict(size)}
    cells = Cells.open(settings.store, identity)
    records = []
    for pupil in settings.track(pupils(size), "training on the linear language"):
        numbers = cells.get(str(pupil), lambda one=pupil: measured(one, size, settings.seed))
        records.append(asdict(pupil) | numbers)
    return pd.DataFrame(records)


def measured(pupil: Pupil, size: Size, seed: int) -> Numbers:
    """Trains one model and measures it.

    Returns:
        accuracy: on fresh texts.
        repeats: log odds of 1 to 20 times ``WORD``.
        shap: Kernel SHAP's value of each copy of ``WORD``, mean over the copies, of 1 to 10.
        truth: mean squared distance to the language's own log odds on fresh rows.
        variance: of the model's log odds there.
        and of transformers the errors of ``surrogate_errors``.
    """
    seeds = np.random.SeedSequence([seed, pupil.run]).generate_state(4).tolist()
    device = chosen_device(None)
    gpus = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=gpus):
        torch.manual_seed(seeds[0])
        learner = _Learner(pupil, size, device)
        accuracy = learner.learn(seeds[1])
    fresh = sample_rows(size.tested, seeds[2])
    log_odds = learner.log_odds(fresh)
    numbers = {
        "accuracy": accuracy,
        "repeats": learner.log_odds([[WORDS.index(WORD)] * k for k in range(1, 21)]).tolist(),
        "shap": [learner.shap(copies, seed) for copies in range(1, 11)],
        "truth": float((log_odds - linear_log_odds(fresh)).square().mean()),
        "variance": float(log_odds.var()),
    }
    if pupil.kind != NET:
        seen = sample_rows(size.fitted, seeds[3])
        numbers |= surrogate_errors(seen, fresh, learner.log_odds(seen), log_odds)
    return numbers


class _Learner:
    """A model of the language with its tokenizer.

    Args:
        pupil: what it is like.
        size: how wide it is and how long it learns.
        device: where it learns.
    """

    def __init__(self, pupil: Pupil, size: Size, device: torch.device) -> None:
        self._pupil, self._size, self._device = pupil, size, device
        self._tokenizer = word_tokenizer(
            WORDS,
            limit=_LIMIT,
            family=pupil.kind,
            framed=pupil.kind in ("bert", "distilbert"),
            unknown=REPLACEMENT,  # so that removal="unk" replaces words by it
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
            rows=20,
            tokens=LOOP.tokens_from_scratch,
            decay=0.0,
            holes=0.0,
            patience=None,
            seed=seed,
            optimizer="rmsprop",
            constant=True,
            keep="last",
        )
        if self._pupil.kind == NET:
            course = _for_nets(course)
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
        rows = sample_rows(count, seed)
        generator = torch.Generator().manual_seed(seed)
        chances = torch.sigmoid(linear_log_odds(rows))
        return Lesson(self._encoded(rows), torch.bernoulli(chances, generator=generator).long())

    def _encoded(self, rows: Sequence[Sequence[int]]) -> Any:
        texts = tuple(_spelled(row) for row in rows)
        encoded, _ = self._reader.read(Examples(texts, None, ("",) * len(texts)), self._device)
        return encoded

    def log_odds(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Its answers in float64, (m,)."""
        encoded = self._encoded(rows)
        side = harmless_side(self._model, encoded)
        logits = answers(self._model, encoded, side=side, precise=True).double()
        return logits[:, 1] - logits[:, 0]

    def shap(self, copies: int, seed: int) -> float:
        """Kernel SHAP's value of a copy of the word, mean over the copies.

        The method is called directly: the explainer does not ask it about a text of one distinct
        word. One copy alone has no one to share with.
        """
        if copies == 1:
            alone = self.log_odds([[WORDS.index(WORD)], [WORDS.index(REPLACEMENT)]])
            return float(alone[0] - alone[1])
        explainer = Explainer(self._model, self._tokenizer, removal="unk", show_progress=False)
        reading = explainer.model.read(_spelled([WORDS.index(WORD)] * copies), removal="unk")
        queries = Queries(explainer.batches, prompt(reading, "token"), budget=self._size.samples)
        findings = estimator("kernel-shap").explain(queries, np.random.default_rng(seed))
        values: Tensor = findings.surrogate.unit_scores
        return float(values.mean())


def regular(models: pd.DataFrame) -> pd.DataFrame:
    """The models of a study that learnt as long as the paper's."""
    usual = models.loc[models["kind"] == "gpt2", "epochs"].max()
    return models[(models["kind"] == NET) | (models["epochs"] == usual)]


def kinds_of(models: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """The regular models of a study: the name and the kind of each sort, and its runs."""
    for (kind, depth), group in regular(models).groupby(["kind", "depth"], sort=False):
        yield _name(str(kind), int(depth)), str(kind), group


def _name(kind: str, depth: int) -> str:
    """A sort of model for tables: "BERT, 2 layers", "net, 200 ReLUs"."""
    if kind == NET:
        return f"net, {depth} ReLUs"
    if depth == 1:
        return f"{FAMILIES[kind]}, 1 layer"
    return f"{FAMILIES[kind]}, {depth} layers"


def _for_nets(course: Course) -> Course:
    """The paper's training of fully connected nets, on texts that are all fresh."""
    return replace(course, optimizer="adam", rate=1e-3, rows=32, epochs=1)


def _spelled(row: Sequence[int]) -> str:
    return " ".join(WORDS[word] for word in row)


def standard_error(numbers: Sequence[float]) -> float:
    """Of the mean of independent runs; NaN for a single one."""
    if len(numbers) < 2:
        return math.nan
    return float(np.std(numbers, ddof=1) / math.sqrt(len(numbers)))
