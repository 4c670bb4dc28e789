"""What a decoder's configuration says about lending keys and values to other rows."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

_EVERYTHING = 1 << 30  # tokens that a model without windows sees
_WINDOWS = (
    "sliding_window",
    "attention_window",
    "attention_chunk_size",
    "window_size",
    "local_attention",
)
# Models that search rows for padding, and warn of it, unless they are given a mask.
_WARNING = ("gpt2", "gpt_bigcode")
# Kinds of rotary positions that change for every token once a text is long.
_STRETCHED = ("dynamic", "longrope", "su")


def can_cache(model: Any) -> bool:
    """Whether a model looks like a decoder that takes keys and values of earlier tokens.

    ``PrefixCache.keep`` then tries it.
    """
    config = getattr(model, "config", None)
    try:
        parameters = inspect.signature(model.forward).parameters
    except (AttributeError, TypeError, ValueError):
        return False
    if config is None or not {"past_key_values", "use_cache", "input_ids"} <= set(parameters):
        return False
    if getattr(config, "is_encoder_decoder", False):
        return False
    text = text_config(config)
    if getattr(text, "is_causal", True) is False:
        return False
    return not getattr(text, "use_bidirectional_attention", False)


def warns_without_mask(config: Any) -> bool:
    """Whether a model warns of padding unless it is given a mask."""
    return getattr(config, "model_type", "") in _WARNING


def text_config(config: Any) -> Any:
    """The part of a configuration that is about text."""
    if hasattr(config, "get_text_config"):
        return config.get_text_config()
    return config


def reach(config: Any) -> int:
    """Tokens up to which every token sees every earlier one, and positions mean the same.

    A longer text has tokens out of each other's sight, or positions that depend on its length.
    """
    text = text_config(config)
    longest = getattr(text, "max_position_embeddings", None) or 0
    usual = getattr(text, "original_max_position_embeddings", None) or longest
    limits = [_EVERYTHING]
    parts = [config.to_dict()]
    while parts:
        part = parts.pop()
        for name in _WINDOWS:
            sizes = part.get(name)
            for size in sizes if isinstance(sizes, list) else [sizes]:
                if isinstance(size, int) and size > 0:
                    limits.append(size)
        if (part.get("rope_type") or part.get("type")) in _STRETCHED:
            limits.append(part.get("original_max_position_embeddings") or usual)
        parts.extend(inner for inner in part.values() if isinstance(inner, Mapping))
    return int(min(limits))


def bytes_per_token(model: Any) -> int:
    """Memory of one token's keys and values, as far as the configuration tells."""
    config = text_config(model.config)
    heads = getattr(config, "num_attention_heads", 1)
    width = getattr(config, "head_dim", None) or config.hidden_size // heads
    kept_heads = getattr(config, "num_key_value_heads", None) or heads
    numbers = 2 * int(config.num_hidden_layers) * int(kept_heads) * int(width)
    return numbers * int(next(model.parameters()).itemsize)


def free_token(config: Any, used: set[int]) -> int | None:
    """What fills rows: the model's own pad token, or one that no row has.

    None where a row may have the model's own.
    """
    text = text_config(config)
    pad = getattr(text, "pad_token_id", None)
    if pad is None or pad < 0:
        return next((token for token in range(text.vocab_size) if token not in used), None)
    if pad in used:
        return None
    return int(pad)


@contextmanager
def padded_by(config: Any, pad: int) -> Iterator[None]:
    """Puts a pad token into a configuration, where decoders find a row's last token by it."""
    text = text_config(config)
    before = text.pad_token_id
    text.pad_token_id = pad
    try:
        yield
    finally:
        text.pad_token_id = before
