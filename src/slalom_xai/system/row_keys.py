"""Numbers that stand for sequences: equal for equal ones, and different for others.

The key of a sequence c_1 ... c_w of codes is

    sum over i of  salt_i * c_i   modulo 2^64,

where codes and salts come from a fixed mixing function (SplitMix64). Two different sequences have
the same key by a chance of about 2^-64. Sums can be taken over many rows at once, which is why rows
are told apart by keys and not by what they spell.
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.int64]

INERT = -1  # the code of a unit that may be left out of a row without changing it
CELLS = 1 << 20  # entries of a table of masks that are worked on at a time, to stay in the cache
_FIRST_SALT = 0x51A10B  # where the numbers of positions start, apart from those of codes


def mix_bits(numbers: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Whole numbers to numbers that look random (the finaliser of SplitMix64)."""
    with np.errstate(over="ignore"):
        state = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return state ^ (state >> np.uint64(31))


def kept_keys(keep: NDArray[np.bool_], codes: NDArray[np.uint64]) -> Keys:
    """Keys (m,) of what masks (m, n) leave of a sequence of mixed codes (n,), moved together."""
    salts = _salts(keep.shape[1] + 1)  # that of position 0 meets only what is left out
    keys = np.empty(len(keep), dtype=np.uint64)
    rows = max(1, CELLS // max(1, keep.shape[1]))
    for start in range(0, len(keep), rows):
        part = keep[start : start + rows]
        weighted = salts[part.cumsum(axis=1, dtype=np.int32)]
        weighted *= codes
        weighted *= part
        keys[start : start + rows] = weighted.sum(axis=1)
    return keys.view(np.int64)


def place_keys(keep: NDArray[np.bool_], codes: NDArray[np.uint64]) -> Keys:
    """Keys (m,) of what masks (m, n) leave of a sequence of mixed codes (n,), each in its place."""
    weights = codes * _salts(len(codes) + 1)[1:]
    keys = np.empty(len(keep), dtype=np.uint64)
    rows = max(1, CELLS // max(1, keep.shape[1]))
    for start in range(0, len(keep), rows):
        keys[start : start + rows] = keep[start : start + rows] @ weights
    return keys.view(np.int64)


def sequence_keys(
    codes: NDArray[np.uint64],
    sizes: NDArray[np.int64],
    places: NDArray[np.int64] | None = None,
) -> Keys:
    """Keys (m,) of sequences of mixed codes (m, w), of which the first ``sizes`` (m,) count.

    Args:
        codes: of each sequence.
        sizes: how many of them count.
        places: (m, w), where each of them stands, from 0 on; None: one behind the other.
    """
    salts = _salts(codes.shape[1] + 1)[1:]
    if places is not None:
        salts = _salts(int(places.max()) + 2)[places + 1]
    weighted = codes * salts
    weighted *= np.arange(codes.shape[1]) < sizes[:, None]
    return np.asarray(weighted.sum(axis=1)).view(np.int64)


@functools.lru_cache(maxsize=64)
def _salts(count: int) -> NDArray[np.uint64]:
    return mix_bits(np.arange(_FIRST_SALT, _FIRST_SALT + count))
