"""Keys and values of a decoder, as versions of the transformers library hand them over."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

# Keys and values of every layer, (1, heads, tokens, width) each.
Layers = list[tuple[Tensor, Tensor]]


def takes_caches(model: Any) -> bool:
    """Whether keys and values travel in a cache object.

    Some models before transformers 5 take plain tuples.
    """
    return bool(getattr(model, "_supports_cache_class", True))


def empty_cache() -> Any:
    """A cache to fill.

    It is made without a configuration, which would let go of tokens behind a window.
    """
    from transformers import DynamicCache

    return DynamicCache()


def layers_of(past: Any) -> Layers:
    """Keys and values out of whatever a model handed over."""
    if isinstance(past, (tuple, list)):
        return [(keys, values) for keys, values in past]
    if hasattr(past, "key_cache"):
        return list(zip(past.key_cache, past.value_cache, strict=True))
    return [(layer.keys, layer.values) for layer in past.layers]


@functools.cache
def _lent_class() -> type:
    from transformers import DynamicCache

    class LentCache(DynamicCache):
        """Puts the lent beginning before each layer's new keys and values, and stores neither."""

        lent: Layers
        shared: int

        def update(
            self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: Any, **__: Any
        ) -> tuple[Tensor, Tensor]:
            keys, values = self.lent[layer_idx]
            return torch.cat([keys, key_states], dim=2), torch.cat([values, value_states], dim=2)

        def get_seq_length(self, layer_idx: int = 0) -> int:
            return self.shared

        def get_mask_sizes(self, query_length: Any, layer_idx: int = 0) -> tuple[int, int]:
            if not isinstance(query_length, int):  # positions, before transformers 5
                query_length = len(query_length)
            return self.shared + query_length, 0

        def __len__(self) -> int:
            return len(self.lent)

    return LentCache


def lent_cache(layers: Layers, shared: int) -> Any:
    """A cache of ``shared`` tokens that a model may look at and that does not grow.

    Only one layer's keys and values are ever put together with the new ones, so that memory does
    not add up over layers.
    """
    cache = _lent_class()()
    cache.lent, cache.shared = layers, shared
    return cache


def covers(part: Tensor, tokens: int) -> bool:
    """Whether keys or values are those of one row, with an entry for every token."""
    return part.ndim == 4 and part.shape[0] == 1 and part.shape[2] == tokens


def close(one: Tensor, other: Tensor, tolerance: float) -> bool:
    """Whether keys or values differ by at most this share of their norm."""
    return bool((one - other).float().norm() <= tolerance * other.float().norm())
