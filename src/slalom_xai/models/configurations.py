"""What the configuration of a transformers model and its tokenizer say about it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from slalom_xai.errors import InputError, ModelError, quote_text
from slalom_xai.models.outputs import Kind, Outputs

# Tokenizers that know no limit state a huge one.
_NO_LIMIT = 10**9
_ANY_NUMBER = 1 << 30
# A vocabulary may be rounded up to a multiple of 64 or so. Below this share of it in use, a
# tokenizer whose special tokens differ as well is taken for another model's.
_LEAST_USED = 0.9
_SPECIAL_IDS = ("pad_token_id", "cls_token_id", "bos_token_id", "sep_token_id", "eos_token_id")


def check_vocabulary(tokenizer: Any, config: Any, known: int | None) -> None:
    """Refuses a tokenizer that cannot be the model's own.

    Args:
        tokenizer: given beside the model.
        config: the model's configuration.
        known: how many tokens the model has embeddings for; None where that cannot be seen.

    Raises:
        InputError: it makes tokens the model has no embeddings for; or it leaves a good part of the
            vocabulary unused and its special tokens are other ones. One of the two alone may be in
            an honest pair.
    """
    if known is None or not hasattr(tokenizer, "get_vocab"):
        return
    made = max(tokenizer.get_vocab().values(), default=-1) + 1
    name = getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__
    what = f"the tokenizer {name} knows {made} tokens, but the model knows {known}"
    if made > known:
        raise InputError(
            f"{what}: it belongs to another model; pass the tokenizer that was saved with the model"
        )
    other = _differing_ids(tokenizer, config)
    if made < _LEAST_USED * known and other:
        raise InputError(
            f"{what}, and they disagree on {', '.join(other)}: "
            "pass the tokenizer that was saved with the model"
        )


def _differing_ids(tokenizer: Any, config: Any) -> list[str]:
    """The special tokens that a tokenizer and a configuration number differently."""
    differing = []
    for name in _SPECIAL_IDS:
        theirs = getattr(config, name, None)
        ours = getattr(tokenizer, name, None)
        if None not in (ours, theirs) and ours != theirs:
            differing.append(f"{name} ({ours} and {theirs})")
    return differing


def config_outputs(config: Any, multilabel: bool = False) -> Outputs:
    """What a transformers configuration says about the outputs."""
    names = config.id2label
    missing = [index for index in range(config.num_labels) if index not in names]
    if missing or not names:
        what = str(missing[0]) if missing else "labels"
        raise ModelError(
            f"the configuration's id2label is {quote_text(str(names))}, which has no {what}: "
            "number the labels from 0"
        )
    labels = tuple(str(names[index]) for index in range(config.num_labels))
    return Outputs(_kind(config, len(labels), multilabel), labels)


def _kind(config: Any, labels: int, multilabel: bool) -> Kind:
    problem = getattr(config, "problem_type", None)
    if problem == "regression":
        return "regression"
    if labels == 1:
        return "single"
    if multilabel or problem == "multi_label_classification":
        return "multilabel"
    if labels == 2:
        return "binary"
    return "multiclass"


def names_of(function: Any) -> frozenset[str]:
    """The inputs that a function names; none where it hides them."""
    try:
        return frozenset(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return frozenset()


def takes(function: Any, name: str) -> bool:
    """Whether a function can be handed an input of this name.

    Generic tokenizers make segments for models that have none.
    """
    parameters = inspect.signature(function).parameters
    kinds = {parameter.kind for parameter in parameters.values()}
    return name in parameters or inspect.Parameter.VAR_KEYWORD in kinds


def segment_count(config: Any, *, takes_segments: bool) -> int:
    """Segments that a model tells apart; 0 where it takes none, or ignores them as DeBERTa does."""
    if not takes_segments:
        return 0
    if getattr(config, "model_type", "") == "xlnet":  # it compares segments, whatever their number
        return _ANY_NUMBER
    return int(getattr(config, "type_vocab_size", 2) or 0)


def reads_pairs(config: Any) -> bool:
    """Whether a model reads pairs of texts, as far as its configuration tells."""
    return getattr(config, "text_pair", None) is not False


def token_limit(tokenizer: Any, config: Any, module: Any = None) -> int | None:
    """Tokens a model reads at most, special ones included; None where nothing limits it."""
    limits = []
    stated = getattr(tokenizer, "model_max_length", None)
    if stated is not None and (isinstance(stated, bool) or not isinstance(stated, int | float)):
        raise ModelError(
            f"the tokenizer's model_max_length is {quote_text(str(stated), 40)}: "
            "expected a number of tokens; correct it in tokenizer_config.json"
        )
    if stated is not None and 0 < stated < _NO_LIMIT:
        limits.append(int(stated))
    positions = getattr(config, "max_position_embeddings", None)
    if isinstance(positions, int) and positions > 0:
        limits.append(positions - reserved_positions(module))
    return min(limits, default=None)


def reserved_positions(module: Any) -> int:
    """Positions that RoBERTa-like models keep for padding.

    They count positions from behind the padding's own.
    """
    if not isinstance(module, torch.nn.Module):
        return 0
    for name, part in module.named_modules():
        if not name.endswith("position_embeddings") or not isinstance(part, torch.nn.Embedding):
            continue
        if part.padding_idx is not None:
            return int(part.padding_idx) + 1
    return 0


# What a decoder's configuration says about lending keys and values to other rows.


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
def set_pad_token(config: Any, pad: int) -> Iterator[None]:
    """Puts a pad token into a configuration, where decoders find a row's last token by it."""
    text = text_config(config)
    before = text.pad_token_id
    text.pad_token_id = pad
    try:
        yield
    finally:
        text.pad_token_id = before
