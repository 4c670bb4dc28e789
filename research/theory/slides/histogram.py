"""The histogram task: say for every letter of a word how often it occurs in the word.

    DATAIAIAIA -> 1 5 1 5 3 5 3 5 3 5

One layer of attention with equal queries and keys, a residual stream and a small perceptron can do
it in two ways. It can compare letters: each looks at its equals and at a mark that is always there,
and the share of the mark tells how many equals there are. (Without the mark it could not: the
average of equal letters is the letter, however many.) Or attention does nothing in particular, so
that the perceptron is given the average of all letters and does the counting itself.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from research.theory.paper.synthetic import one_thread
from slalom_xai.errors import one_of

LETTERS, WORD_LENGTH = 6, 10  # kinds of letters, and how many letters a word has
EMBEDDING_WIDTH, HIDDEN, RANK = 24, 64, 8  # of the embeddings, the perceptron and the keys
SHARPNESS = 500.0  # times as much as others, equal letters are attended to at the start "letters"
BATCH_WORDS, RATE = 128, 5e-3  # of a step of Adam; the rate trades speed for a calm end
EVERY = 50  # steps of training from one recorded loss to the next
STARTS = ("letters", "places")
ALPHABET = "DATIKO"[:LETTERS]


class HistogramModel(torch.nn.Module):
    """One layer of attention with tied weights, a residual stream and a perceptron at every place.

    Args:
        start: what attention compares at first: "letters" or "places". Both are free to change in
            training.
        seed: of the random weights.
    """

    def __init__(self, start: str, seed: int = 0) -> None:
        super().__init__()
        if start not in STARTS:
            raise one_of("start", start, STARTS)
        draw = torch.Generator().manual_seed(seed)
        half = EMBEDDING_WIDTH // 2
        letters, places = (
            torch.zeros(LETTERS, EMBEDDING_WIDTH),
            torch.zeros(WORD_LENGTH, EMBEDDING_WIDTH),
        )
        mark = torch.zeros(EMBEDDING_WIDTH)
        # Letters live in the first half of the width and places in the second, each on axes of
        # their own.
        axes = [torch.linalg.qr(torch.randn(half, half, generator=draw))[0] for _ in range(2)]
        letters[:, :half] = 2 * axes[0][:LETTERS]
        places[:, half:] = axes[1][:WORD_LENGTH]
        mark[half:] = torch.randn(half, generator=draw)
        tied = torch.zeros(EMBEDDING_WIDTH, RANK)
        if start == "letters":
            mark[:half] = letters.sum(dim=0)[:half]  # as near to each letter as its equals are
            size = math.sqrt(math.log(SHARPNESS) * math.sqrt(RANK)) / 2
            tied[:half] = axes[0][:RANK].T * size
        else:
            tied[half:] = axes[1][:RANK].T
        self.letters, self.places, self.mark, self.tied = (
            torch.nn.Parameter(part) for part in (letters, places, mark, tied)
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.perceptron = torch.nn.Sequential(
                torch.nn.Linear(EMBEDDING_WIDTH, HIDDEN),
                torch.nn.ReLU(),
                torch.nn.Linear(HIDDEN, WORD_LENGTH),
            )

    def attention(self, words: Tensor) -> Tensor:
        """Attention of letters to letters and, last, to the mark.

        Returns:
            (rows, WORD_LENGTH, WORD_LENGTH + 1).
        """
        heard = self._heard(words) @ self.tied
        return torch.softmax(
            heard[:, :WORD_LENGTH] @ heard.transpose(1, 2) / math.sqrt(RANK), dim=-1
        )

    def forward(self, words: Tensor, attention: Tensor | None = None) -> Tensor:
        """Logits (rows, WORD_LENGTH, WORD_LENGTH) of the counts 1..WORD_LENGTH.

        Args:
            words: (rows, WORD_LENGTH), the numbers of letters.
            attention: other weights than the model's own, as ``attention`` gives them.
        """
        heard = self._heard(words)
        weights = attention
        if weights is None:
            weights = self.attention(words)
        logits: Tensor = self.perceptron(heard[:, :WORD_LENGTH] + weights @ heard)
        return logits

    def _heard(self, words: Tensor) -> Tensor:
        """What can be attended to, (rows, WORD_LENGTH + 1, EMBEDDING_WIDTH)."""
        letters = self.letters[words] + self.places
        mark = self.mark.expand(len(words), 1, EMBEDDING_WIDTH)
        return torch.cat([letters, mark], dim=1)


@dataclass(frozen=True)
class Solution:
    """A trained model with how it got there.

    Attributes:
        model: in evaluation mode.
        losses: of training, every 50 steps.
    """

    model: HistogramModel
    losses: NDArray[np.float64]


def draw_words(count: int, draw: torch.Generator) -> Tensor:
    """Random words (count, WORD_LENGTH); a few letters are frequent, so that all counts come up."""
    weights = torch.rand(count, LETTERS, generator=draw) ** 4
    return torch.multinomial(weights, WORD_LENGTH, replacement=True, generator=draw)


def spell(word: str) -> Tensor:
    """A word as the numbers of its letters, (1, WORD_LENGTH)."""
    return torch.tensor([[ALPHABET.index(letter) for letter in word]])


def counts(words: Tensor) -> Tensor:
    """How often each letter of each word occurs in it, (rows, WORD_LENGTH)."""
    return (words[:, :, None] == words[:, None, :]).sum(dim=-1)


def solve(start: str, seed: int = 0, steps: int = 1_500) -> Solution:
    """Trains a model from one of the two starts."""
    return trained(HistogramModel(start, seed), seed, steps)


def kicked(solution: Solution, seed: int = 0, size: float = 0.05, steps: int = 300) -> Solution:
    """A solution whose weights are all moved at random, and which is then trained on.

    Args:
        solution: what is kicked.
        seed: of the kick.
        size: of the kick, as a share of the root mean square of each matrix.
        steps: of training after it.
    """
    model, draw = copy.deepcopy(solution.model), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for part in model.parameters():
            scale = size * part.norm() / math.sqrt(part.numel())
            part.add_(scale * torch.randn(part.shape, generator=draw))
    return trained(model, seed, steps)


@one_thread()
def trained(model: HistogramModel, seed: int, steps: int) -> Solution:
    """Trains a model on ever new words."""
    draw = torch.Generator().manual_seed(seed + 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    losses = []
    for step in range(steps):
        words = draw_words(BATCH_WORDS, draw)
        loss = error(model, words)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
        if step % EVERY == 0:
            losses.append(loss.item())
    return Solution(model.eval(), np.array(losses))


def error(model: HistogramModel, words: Tensor) -> Tensor:
    """The cross entropy of the counts."""
    logits = model(words).flatten(0, 1)  # (rows * WORD_LENGTH, WORD_LENGTH)
    return torch.nn.functional.cross_entropy(logits, counts(words).flatten() - 1)


def between(
    first: HistogramModel, second: HistogramModel, words: Tensor, points: int = 21
) -> NDArray[np.float64]:
    """Errors (points,) on the straight line from one model's weights to the other's."""
    model, errors = copy.deepcopy(first), []
    three = (model.parameters(), first.parameters(), second.parameters())
    parts = list(zip(*three, strict=True))
    for share in np.linspace(0, 1, points):
        with torch.no_grad():
            for part, one, other in parts:
                part.copy_((1 - share) * one + share * other)
            errors.append(float(error(model, words)))
    return np.array(errors)


def accuracy(model: HistogramModel, words: Tensor, attention: Tensor | None = None) -> float:
    """The share of letters that are counted rightly."""
    with torch.no_grad():
        said = model(words, attention).argmax(dim=-1) + 1
    return float((said == counts(words)).double().mean())


def equal_letters(model: HistogramModel, words: Tensor) -> float:
    """How much more an equal letter elsewhere is attended to than another letter.

    This is the ratio of their mean weights.
    """
    with torch.no_grad():
        weights = model.attention(words)
    same = words[:, :, None] == words[:, None, :]
    elsewhere = ~torch.eye(WORD_LENGTH, dtype=torch.bool)
    among = weights[:, :, :WORD_LENGTH]
    return float(among[same & elsewhere].mean() / among[~same].mean())


def blind(model: HistogramModel, words: Tensor) -> Tensor:
    """The mean attention over words, (WORD_LENGTH, WORD_LENGTH + 1).

    It is what is left when attention may not look at the letters.
    """
    with torch.no_grad():
        return model.attention(words).mean(dim=0)
