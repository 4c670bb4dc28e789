"""Games with known pairs of words or units."""

from __future__ import annotations

import torch

from slalom_xai.methods.additive import PairsSurrogate

WORDS = [
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
]
MAINS = {"two": 1.5, "five": -2.0, "nine": 0.75, "eleven": 0.5}
TOGETHER = {("two", "five"): 3.0, ("nine", "fourteen"): -1.25, ("three", "four"): 2.0}


def game(texts):
    """Log odds of words and of pairs of them that are in the text."""
    odds = []
    for text in texts:
        kept = set(text.split())
        total = sum(worth for word, worth in MAINS.items() if word in kept)
        total += sum(worth for pair, worth in TOGETHER.items() if kept.issuperset(pair))
        odds.append([0.0, total])
    return odds


def drawn(rows, units, seed=0):
    """Deletions of every size, the whole text first."""
    generator = torch.Generator().manual_seed(seed)
    shares = torch.rand(rows, 1, generator=generator)
    counts = (torch.rand(rows, units, generator=generator) > shares).double()
    counts[0] = 1
    return counts


def planted(units, pairs, columns=1, seed=0):
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    every = torch.combinations(torch.arange(units))
    some = every[torch.randperm(len(every), generator=generator)[:pairs]].double()
    return PairsSurrogate(draw(units, columns), some, draw(pairs, columns), draw(columns))
