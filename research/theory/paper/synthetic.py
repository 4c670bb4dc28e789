"""A language of ten words whose log odds are a plain sum, and small transformers that learn it.

The words, their weights and how often they occur are those of the paper's Table 3. The transformers
are ordinary BERT and GPT-2 classifiers of a few thousand parameters; positions and the special
token in front can be left out, as the paper's theory does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, Literal

import torch
from torch import Tensor

from research.theory.paper.transformer import row_counts

WORDS = ("the", "we", "movie", "watch", "good", "best", "perfect", "ok", "bad", "worst")
WEIGHTS = (0.0, 0.0, 0.0, 0.0, 0.6, 1.0, 1.5, -0.6, -1.0, -1.5)
CHANCES = (1 / 6, 1 / 6, 1 / 6, 1 / 6, 1 / 15, 1 / 20, 1 / 20, 1 / 15, 1 / 20, 1 / 20)
LONGEST = 30  # words in a row of the language
STEPS = 250  # of training, unless a claim says otherwise
Ask = Callable[[Sequence[Sequence[int]]], Tensor]  # rows of words to their log odds, (m,)


@dataclass(frozen=True)
class SmallSize:
    """The size of the small transformers, and how they are trained.

    They are as small as learns the language, so that a claim takes seconds: a few thousand
    parameters and a few hundred steps.

    Attributes:
        width: of the embeddings.
        heads: of each layer.
        inner: width of the feed-forward layers.
        batch: rows of a step.
        rate: the largest of AdamW's one-cycle schedule.
    """

    width: int = 32
    heads: int = 4
    inner: int = 64
    batch: int = 64
    rate: float = 3e-3


SMALL = SmallSize()
_PAD, _SPECIAL, _FIRST = 0, 1, 2  # ids: padding, the special token, the first word
_ROOM = 1100  # positions: the longest row that is asked
_AT_ONCE = 500  # rows in a batch, which bounds memory


def linear_log_odds(rows: Sequence[Sequence[int]]) -> Tensor:
    """The truth, (m,): the sum of the words' weights."""
    sums = [sum(WEIGHTS[word] for word in row) for row in rows]
    return torch.tensor(sums, dtype=torch.float64)


def rms(residuals: Tensor) -> float:
    """The root of the mean square."""
    return float(residuals.square().mean().sqrt())


def sample_rows(count: int, seed: int, *, even: bool = False) -> list[list[int]]:
    """Rows of words, each drawn independently of the others.

    Args:
        count: how many rows.
        seed: of the draw.
        even: lengths uniform on 1 to 30; else Bin(30, 1/2), as in the paper.
    """
    generator = torch.Generator().manual_seed(seed)
    lengths = (torch.rand(count, LONGEST, generator=generator) < 0.5).sum(dim=1).clamp(min=1)
    if even:
        lengths = torch.randint(1, LONGEST + 1, (count,), generator=generator)
    drawn = torch.multinomial(
        torch.tensor(CHANCES), count * LONGEST, replacement=True, generator=generator
    ).reshape(count, LONGEST)
    return [row[:length].tolist() for row, length in zip(drawn, lengths.tolist(), strict=True)]


def counts(rows: Sequence[Sequence[int]]) -> Tensor:
    """How often each word occurs, (m, words)."""
    return row_counts(rows, len(WORDS))


@dataclass(frozen=True)
class Shape:
    """What a small transformer is like.

    Attributes:
        family: an encoder (BERT, read at the first position) or a decoder (GPT-2, read at the
            last).
        layers: how many.
        positions: whether it has positional embeddings.
        special: whether a special token stands in front of every row, as [CLS] does.
    """

    family: Literal["encoder", "decoder"]
    layers: int
    positions: bool = False
    special: bool = False

    def __str__(self) -> str:
        layers = f"{self.layers} layers"
        if self.layers == 1:
            layers = "1 layer"
        extras = []
        if self.special and self.family == "encoder":
            extras.append("[CLS]")
        elif self.special:
            extras.append("start token")
        if self.positions:
            extras.append("positions")
        if not extras:
            return f"{self.family}, {layers}"
        return f"{self.family}, {layers}, {' and '.join(extras)}"

    def shallow(self) -> Shape:
        """The same with one layer, for a small run."""
        return replace(self, layers=1)


@contextmanager
def one_thread() -> Iterator[None]:
    """Runs torch on one thread: on numbers this small more of them only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class SmallTransformer:
    """A BERT or GPT-2 classifier over the ten words, with random weights.

    Args:
        shape: what it is like.
        seed: decides the weights.
        spread: the standard deviation of the weights; the libraries' own is so small that answers
            hardly differ.
    """

    def __init__(self, shape: Shape, seed: int, spread: float = 0.02) -> None:
        self.shape = shape
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            if shape.family == "encoder":
                self.network = _encoder(shape, spread)
                positions = self.network.base_model.embeddings.position_embeddings
            else:
                self.network = _decoder(shape, spread)
                positions = self.network.base_model.wpe
        if not shape.positions:
            positions.weight.requires_grad_(False).zero_()

    @one_thread()
    def log_odds(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Its answers in float64, (m,); rows of a length together, so that nothing is padded."""
        if self.network.dtype != torch.float64:
            self.network.double().eval()
        log_odds = torch.zeros(len(rows), dtype=torch.float64)
        for length in sorted({len(row) for row in rows}):
            indices = [index for index, row in enumerate(rows) if len(row) == length]
            for start in range(0, len(indices), _AT_ONCE):
                part = indices[start : start + _AT_ONCE]
                with torch.no_grad():
                    logits = self._logits([rows[index] for index in part])
                log_odds[part] = logits[:, 1] - logits[:, 0]
        return log_odds

    @one_thread()
    def learn(self, steps: int, seed: int, *, even: bool = False) -> None:
        """Learns the linear language from the true chances of the classes."""
        self.network.float().train()
        trainable = [one for one in self.network.parameters() if one.requires_grad]
        optimizer = torch.optim.AdamW(trainable, lr=SMALL.rate)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, SMALL.rate, total_steps=steps)
        pool = sample_rows(steps * SMALL.batch, seed, even=even)
        for start in range(0, len(pool), SMALL.batch):
            rows = pool[start : start + SMALL.batch]
            logits = self._logits(rows)
            truth = torch.sigmoid(linear_log_odds(rows)).float()
            loss = torch.nn.functional.binary_cross_entropy_with_logits(
                logits[:, 1] - logits[:, 0], truth
            )
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()

    def _logits(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Logits (m, 2), rows padded on the right."""
        front: list[int] = []
        if self.shape.special:
            front = [_SPECIAL]
        longest = max(len(row) for row in rows)
        padded = []
        for row in rows:
            words = [_FIRST + word for word in row]
            padded.append(front + words + [_PAD] * (longest - len(row)))
        ids = torch.tensor(padded)
        mask = (ids != _PAD).long()
        logits: Tensor = self.network(input_ids=ids, attention_mask=mask).logits
        return logits


@functools.lru_cache(maxsize=32)
def trained(shape: Shape, seed: int, steps: int = STEPS, even: bool = False) -> SmallTransformer:
    """A small transformer that has learnt the linear language as well as it can.

    The same arguments give the same object, so that claims share what takes long.
    """
    model = SmallTransformer(shape, seed)
    model.learn(steps, seed, even=even)
    return model


def _encoder(shape: Shape, spread: float) -> Any:
    library: Any = import_module("transformers")
    config = library.BertConfig(
        vocab_size=_FIRST + len(WORDS),
        hidden_size=SMALL.width,
        num_hidden_layers=shape.layers,
        num_attention_heads=SMALL.heads,
        intermediate_size=SMALL.inner,
        max_position_embeddings=_ROOM,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        pad_token_id=_PAD,
        initializer_range=spread,
        num_labels=2,
    )
    return library.BertForSequenceClassification(config)


def _decoder(shape: Shape, spread: float) -> Any:
    library: Any = import_module("transformers")
    config = library.GPT2Config(
        vocab_size=_FIRST + len(WORDS),
        n_embd=SMALL.width,
        n_layer=shape.layers,
        n_head=SMALL.heads,
        n_inner=SMALL.inner,
        n_positions=_ROOM,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        pad_token_id=_PAD,
        bos_token_id=_SPECIAL,
        eos_token_id=_SPECIAL,
        initializer_range=spread,
        num_labels=2,
    )
    return library.GPT2ForSequenceClassification(config)
