"""Functions of a list of words, easy and hard to explain, drawn by a seed."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np

Game = Callable[[list[str]], float]


def drawn(words: list[str], seed: int, scale: float = 2.0) -> np.ndarray:
    """Normal numbers, one per word, that depend on the word and the seed alone."""
    return np.array([_number(word, seed) for word in words]) * scale


def _number(word: str, seed: int) -> float:
    return _normal(zlib.crc32(f"{seed} {word}".encode("utf-8", "surrogatepass")))


def _normal(code: int) -> float:
    """A number of 32 bits to a nearly normal one, as the sum of its four bytes."""
    return (sum(code.to_bytes(4, "big")) - 510) / 147.8


def slalom(seed: int) -> Game:
    """An average under a softmax, with a sink."""

    def play(words: list[str]) -> float:
        values, weights = drawn(words, seed, 3), np.exp(drawn(words, seed + 1, 1))
        return float((values @ weights + 0.6) / (weights.sum() + 2))

    return play


def additive(seed: int) -> Game:
    """A sum."""
    return lambda words: float(drawn(words, seed).sum() + 0.5)


def last_word(seed: int) -> Game:
    """The last word decides."""
    return lambda words: float(drawn(words[-1:], seed, 3).sum())


def first_word(seed: int) -> Game:
    """The first word decides, and the others a little."""
    return lambda words: float(drawn(words[:1], seed, 3).sum() + drawn(words, seed + 1, 0.1).sum())


def parity(seed: int) -> Game:
    """Whether an even number of some words is there (XOR)."""
    return lambda words: 4.0 * float((drawn(words, seed) > 0.5).sum() % 2) - 2


def largest(seed: int) -> Game:
    """The largest of the words' numbers."""
    return lambda words: float(drawn(words, seed, 3).max(initial=-9))


def product(seed: int) -> Game:
    """A product of factors around one."""
    return lambda words: float(
        np.exp(min(drawn(words, seed, 0.4).sum(), 50.0)) * (-1) ** len(words)
    )


def threshold(seed: int) -> Game:
    """A sum beyond a limit or not."""
    return lambda words: 3.0 if drawn(words, seed).sum() > 0.5 else -3.0


def order(seed: int) -> Game:
    """Words count by what stands before them."""

    def play(words: list[str]) -> float:
        joined = [f"{one} {other}" for one, other in zip(["", *words], words, strict=False)]
        return float(drawn(joined, seed).sum())

    return play


def length(seed: int) -> Game:
    """How many words there are, and little else."""
    return lambda words: float(3 * np.sin(len(words) + seed % 7) + drawn(words, seed, 0.2).sum())


def alternating(seed: int) -> Game:
    """Every second word counts, and which these are changes with a deletion."""
    return lambda words: float(drawn(words[::2], seed).sum() - drawn(words[1::2], seed).sum())


def noisy(seed: int) -> Game:
    """A SLALOM and noise that is always the same for the same words."""
    play = slalom(seed)
    return lambda words: play(words) + 0.5 * _number(" ".join(words), seed)


HARD: dict[str, Callable[[int], Game]] = {
    "last word": last_word,
    "first word": first_word,
    "parity": parity,
    "largest": largest,
    "product": product,
    "threshold": threshold,
    "order": order,
    "length": length,
    "alternating": alternating,
    "noisy": noisy,
}
FAMILIES: dict[str, Callable[[int], Game]] = {"slalom": slalom, "additive": additive, **HARD}
