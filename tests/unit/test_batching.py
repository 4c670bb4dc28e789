from dataclasses import dataclass

import torch
from torch import Tensor

from slalom_xai.surrogates.batching import merged, taken


@dataclass(frozen=True)
class Inner:
    pair: Tensor
    size: int


@dataclass(frozen=True)
class Outer:
    numbers: Tensor
    inner: Inner
    nothing: None = None


def batch(shift):
    return Outer(torch.arange(3) + shift, Inner(torch.arange(6).reshape(3, 2) + shift, 7))


def test_texts_are_taken_from_every_tensor():
    some = taken(torch.tensor([2, 0]), batch(0))
    assert some.numbers.tolist() == [2, 0]
    assert some.inner.pair.tolist() == [[4, 5], [0, 1]]
    assert some.inner.size == 7
    assert some.nothing is None


def test_chosen_texts_are_new_and_others_old():
    mixed = merged(torch.tensor([True, False, True]), batch(10), batch(0))
    assert mixed.numbers.tolist() == [10, 1, 12]
    assert mixed.inner.pair.tolist() == [[10, 11], [2, 3], [14, 15]]
