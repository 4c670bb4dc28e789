"""The Naive-Bayes weight of a word (Appendix E.4, Eq. 82).

Naive Bayes adds log(p(word | 1) / p(word | 0)) over the words of a text. Eq. 82 prints the ratio
without the logarithm, which is positive for every word, so that its sum only grows with the text.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pandas as pd
import torch
from torch import Tensor

from research.base import Check, Outcome, Settings, at_least, at_most, reproduction
from research.drawing import BLUE, RED, panels
from research.theory.paper.synthetic import rms
from slalom_xai.methods.naive_bayes import NaiveBayes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WORDS = 40  # kinds of words
_TEXTS, _LENGTH = 200, 12  # fresh texts
_SIZES = (1000, 10000, 100000)  # words of each class in the corpora
_SIZE = "words of each class"
_LOG = "rms error: log of the ratio"
_PLAIN = "rms error: ratio as printed"


@reproduction(
    name="naive-bayes",
    title="The Naive-Bayes weight of a word is the logarithm of the ratio of its counts, not the "
    "ratio",
    source="Leemann et al. 2024, Appendix E.4, Eq. 82",
)
def naive_bayes(settings: Settings) -> Outcome:
    """Word weights from corpora of three sizes, and the log odds of fresh texts they add up to."""
    generator = torch.Generator().manual_seed(settings.seed)
    drawn = torch.randn(2, _WORDS, generator=generator, dtype=torch.float64)
    chances = torch.softmax(0.5 * drawn, dim=1)  # (classes, words)
    fresh = _fresh_texts(chances.mean(dim=0), generator)
    log_odds = fresh @ (chances[1] / chances[0]).log()
    rows = []
    for words in _SIZES:
        ratio = _ratio(chances, words, generator)
        errors = rms(fresh @ ratio.log() - log_odds), rms(fresh @ ratio - log_odds)
        rows.append((words, *errors))
    table = pd.DataFrame(rows, columns=[_SIZE, _LOG, _PLAIN])
    return Outcome(
        checks=_checks(table),
        tables={"sizes": table},
        figures={"sizes": lambda: _draw(table)},
        remarks=(
            "The ratio is positive for every word, so that its sum can only grow with the length "
            "of a text.",
        ),
    )


def _fresh_texts(chances: Tensor, generator: torch.Generator) -> Tensor:
    """Counts (texts, words) of texts drawn with the words' chances (words,)."""
    drawn = torch.multinomial(chances, _TEXTS * _LENGTH, True, generator=generator)
    texts = drawn.reshape(_TEXTS, _LENGTH)
    return torch.stack([torch.bincount(text, minlength=_WORDS) for text in texts]).double()


def _ratio(chances: Tensor, words: int, generator: torch.Generator) -> Tensor:
    """The ratio of smoothed counts (40,), through the package's own method.

    Args:
        chances: (classes, words), of each word.
        words: how many words of each class the corpora have.
        generator: draws the corpora.
    """
    corpora = []
    for label in (0, 1):
        drawn = torch.multinomial(chances[label], words, True, generator=generator)
        corpora.append(Counter(f"w{word}" for word in drawn.tolist()))
    names = [f"w{word}" for word in range(_WORDS)]
    method = NaiveBayes(texts=["w0"], labels=[0])
    return torch.as_tensor(method.weights(corpora, names))[:, 0].exp()


def _checks(table: pd.DataFrame) -> tuple[Check, ...]:
    logs, plain = table[_LOG].to_numpy(), table[_PLAIN].to_numpy()
    return (
        at_most(
            "with the logarithm, ten times the words: the error as a part of that before, at most",
            float((logs[1:] / logs[:-1]).max()),
            0.6,
        ),
        at_most("with the logarithm, 100,000 words: error of the log odds", logs[-1], 0.2),
        at_least("as printed: the least error over all sizes", plain.min(), 5.0),
    )


def _draw(table: pd.DataFrame) -> Figure:
    """Errors over the size of the corpora."""
    figure, (axes,) = panels(1, width=4.0, height=2.7)
    sizes = table[_SIZE]
    axes.loglog(sizes, table[_LOG], color=BLUE, marker="o", label="log of the ratio")
    axes.loglog(sizes, table[_PLAIN], color=RED, marker="o", label="ratio, as printed")
    axes.set(xlabel=_SIZE, ylabel="rms error of the log odds")
    axes.legend(fontsize=8, frameon=False)
    return figure
