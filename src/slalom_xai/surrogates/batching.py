"""Tensors of several texts at once, inside nested dataclasses.

Fits of several texts are computed together: the first axis of every tensor is the text. A search
ends for some texts before others, and a step may help some and not others. The functions here pick
texts and mix old and new, field by field, whatever the dataclass is made of.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

_Batch = TypeVar("_Batch")


def taken(texts: Tensor, batch: _Batch) -> _Batch:
    """Only some texts of a batch.

    Args:
        texts: (b,), their indices.
        batch: a tensor (B, ...), or a dataclass of such tensors.

    Returns:
        the same with b texts.
    """
    some: _Batch = _by_field(lambda tensor: tensor[texts], batch)
    return some


def only(index: int, batch: _Batch) -> _Batch:
    """One text of a batch, as a batch of one; nothing is copied."""
    one: _Batch = _by_field(lambda tensor: tensor[index : index + 1], batch)
    return one


def merged(chosen: Tensor, new: _Batch, old: _Batch) -> _Batch:
    """What is new for the texts that are chosen, (B,), and what is old for the others."""

    def choose(one: Tensor, other: Tensor) -> Tensor:
        return torch.where(chosen.reshape(-1, *[1] * (one.ndim - 1)), one, other)

    together: _Batch = _by_field(choose, new, old)
    return together


def _by_field(change: Callable[..., Tensor], first: Any, *others: Any) -> Any:
    """Applies ``change`` to tensors, field by field; what is no tensor stays as in ``first``."""
    if isinstance(first, Tensor):
        return change(first, *others)
    if not is_dataclass(first) or isinstance(first, type):
        return first
    parts = {}
    for field in fields(first):
        of_field = [getattr(given, field.name) for given in (first, *others)]
        parts[field.name] = _by_field(change, *of_field)
    return type(first)(**parts)
