"""Whether two explanations say the same, where the model's answers differ by rounding.

A fit amplifies rounding: values that the answers hardly determine move far, and another candidate
may win. What an explanation predicts stays, so that is compared, relative to how much it varies.
"""

from __future__ import annotations

import numpy as np


def difference(one, other, rows=200):
    """How far two explanations of one text predict apart, relative to their predictions' spread."""
    assert [unit.text for unit in one.units] == [unit.text for unit in other.units]
    assert one.target == other.target
    count = len(one.units)
    rng = np.random.default_rng(0)
    keep = rng.random((rows, count)) < rng.uniform(0.2, 0.9, (rows, 1))
    keep[np.arange(rows), rng.integers(0, count, rows)] = True  # nothing kept is another question
    first, second = one.predict(keep), other.predict(keep)
    return float(np.sqrt(np.mean((first - second) ** 2)) / first.std())
