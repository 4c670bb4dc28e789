"""What the configuration of a transformers model and its tokenizer say about it."""

from __future__ import annotations

import inspect
from typing import Any

import torch

from slalom_xai.errors import InputError, ModelError, shortened
from slalom_xai.outputs import Kind, Outputs

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
            f"the configuration's id2label is {shortened(str(names))}, which has no {what}: "
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
            f"the tokenizer's model_max_length is {shortened(str(stated), 40)}: "
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
