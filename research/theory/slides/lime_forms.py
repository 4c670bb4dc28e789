"""What LIME says of the attention classifier: exactly, and in the closed forms of the theorem.

``wide_means`` has no sampling in it. A ratio is an integral, ``1/W = int exp(-x W) dx``, and a
number removed that is uniform on 0..d is a coin for each word whose bias is uniform; under both
integrals words are independent. What remains is to take out the whole text, which LIME never
samples.
"""

from __future__ import annotations

import numpy as np

from research.theory.slides.arrays import Floats
from research.theory.slides.averages import WordAverages
from research.theory.slides.lime import Means


def wide_means(text: WordAverages, coins: int = 64, nodes: int = 300) -> Means:
    """Exact means of the output under LIME's sampling, rows having no weights.

    The cost is linear in the number of words.

    Args:
        text: the classifier on a text.
        coins: quadrature nodes for the chance that a word is kept.
        nodes: quadrature nodes for the integral of the ratio.
    """
    d, heads = text.words, len(text.always)
    output, kept = 0.0, np.zeros(d)
    for head in range(heads):
        part = _coin_means(text.one_head(head), coins, nodes)
        output = output + part.output / heads
        kept = kept + part.kept / heads
    whole = float(text.output(np.ones((1, d)))[0])
    return Means((output * (d + 1) - whole) / d, (kept * (d + 1) - whole) / d)


def _coin_means(text: WordAverages, coins: int, nodes: int) -> Means:
    """Means for one head where one coin of uniform bias decides for each word.

    With W the denominator and N the numerator, E[N / W] is the integral of E[N exp(-x W)] over
    x > 0; given the bias of the coin the expectation is a product over the words.
    """
    kept, removed, always = text.kept[0], text.removed[0], float(text.always[0])
    # Values are taken from the whole text's output, which conditions the integral.
    centre = float(text.output(np.ones((1, text.words)))[0])
    kept_values = text.kept_values[0] - centre * kept
    removed_values = text.removed_values[0] - centre * removed
    rest = float(text.always_values[0]) - centre * always
    largest = always + np.maximum(kept, removed).sum()
    smallest = always + np.minimum(kept, removed).sum()
    points, log_weights = _between(np.log(1e-9 / largest), np.log(60 / smallest), nodes)
    x = np.exp(points)
    here, gone = np.exp(-np.outer(x, kept)), np.exp(-np.outer(x, removed))
    output, by_word = centre, np.full(text.words, centre / 2)
    for chance, weight in zip(*_between(0.0, 1.0, coins), strict=True):
        factor = chance * here + (1 - chance) * gone
        product = np.exp(np.log(factor).sum(axis=1) - x * always) * log_weights * x * weight
        terms = (chance * here * kept_values + (1 - chance) * gone * removed_values) / factor
        total = terms.sum(axis=1) + rest
        output += float(product @ total)
        with_word = total[:, None] - terms + kept_values  # (nodes, d): word j is kept for sure
        by_word += (product[:, None] * chance * here / factor * with_word).sum(axis=0)
    return Means(output, by_word)


def _between(low: float, high: float, nodes: int) -> tuple[Floats, Floats]:
    """Gauss-Legendre nodes and weights on an interval."""
    points, weights = np.polynomial.legendre.leggauss(nodes)
    return (points + 1) / 2 * (high - low) + low, weights * (high - low) / 2


def theorem_printed(text: WordAverages) -> Floats:
    """The theorem's approximation as printed, (d,).

    It is 3/2 of attention times value, minus the same for [UNK].
    """
    full, blank = _totals(text)
    difference = text.kept_values / full[1] - text.removed_values / blank[1]  # (K, d)
    result: Floats = 1.5 * difference.mean(axis=0)
    return result


def theorem_mended(text: WordAverages) -> Floats:
    """The same with the factor 1 and with centred values, (d,).

    Values are measured from half way between the whole text and [UNK] alone. The form is right
    where the filling outweighs the text, which is what the theorem assumes.
    """
    full, blank = _totals(text)
    middle = (full[0] / full[1] + blank[0] / blank[1]) / 2
    kept = (text.kept_values - middle * text.kept) / full[1]
    removed = (text.removed_values - middle * text.removed) / blank[1]
    result: Floats = (kept - removed).mean(axis=0)
    return result


def theorem_along(text: WordAverages, bandwidth: float = np.inf) -> Floats:
    """The effect of a word averaged along the way from the whole text to [UNK] alone, (d,).

    This is right also without filling.
    With a share p of the words kept, numerator and denominator are near their means, and word j
    moves the average by ``[a_j (v_j - F) - b_j (u_j - F)] / W`` with F and W those of p. LIME
    averages this with the weight of p times p (1 - p), and adds what the number of kept words alone
    explains.
    """
    d = text.words
    share = 1 - np.arange(1, d + 1) / d
    rows = np.repeat(share[:, None], d, axis=1)
    above, below = text.heads(rows)
    average = above / below
    weight = np.exp(-((1 - np.sqrt(share)) ** 2) / (2 * bandwidth**2))
    raw = weight * share * (1 - share)
    spread = raw / raw.sum()
    one, centred = spread / below, spread / below * average  # (K, d) each
    of_values = (text.kept_values - text.removed_values) * one.sum(axis=1)[:, None]
    of_weights = (text.kept - text.removed) * centred.sum(axis=1)[:, None]
    effect = of_values.mean(axis=0) - of_weights.mean(axis=0)
    level = share - (weight @ share) / weight.sum()
    slope = (weight * level) @ average.mean(axis=0) / ((weight * level) @ level)
    result: Floats = effect - effect.mean() + slope / d
    return result


def _totals(text: WordAverages) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
    """Numerators and denominators, (K, 1) each, of the whole text and of [UNK] alone."""
    above, below = text.heads(np.array([[1.0], [0.0]]).repeat(text.words, axis=1))
    return (above[:, :1], below[:, :1]), (above[:, 1:], below[:, 1:])


def relative_error(found: Floats, true: Floats) -> float:
    """Length of the difference over the length of the truth."""
    return float(np.linalg.norm(found - true) / np.linalg.norm(true))
