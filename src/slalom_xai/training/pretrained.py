"""Loads what training starts from or learns from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import AutoConfig, AutoModelForSequenceClassification

from slalom_xai.errors import ModelError
from slalom_xai.models.loading import GIVE_MODEL, load_tokenizer, loading, located
from slalom_xai.training.architecture import name_classes


def load_start(
    name: str | Path,
    labels: Sequence[str],
    *,
    layers: int | None,
    revision: str | None,
    trust_remote_code: bool,
) -> tuple[Any, Any]:
    """A pretrained model with a classification head for the labels, in float32, and its tokenizer.

    Args:
        name: folder or hub id.
        labels: the classes.
        layers: keep only this many of the first layers.
        revision: commit, tag or branch.
        trust_remote_code: let it bring code of its own.

    Raises:
        ModelError: it cannot be loaded, or has no such layers.
    """
    source = located(name)
    options = {"revision": revision, "trust_remote_code": bool(trust_remote_code)}
    with loading("the model to start from", source, GIVE_MODEL) as hub:
        options |= hub
        config = AutoConfig.from_pretrained(source, **options)
        name_classes(config, labels)
        if layers is not None:
            _keep_layers(config, layers, source)
        model, report = AutoModelForSequenceClassification.from_pretrained(
            source, config=config, output_loading_info=True, ignore_mismatched_sizes=True, **options
        )
    tokenizer = load_tokenizer(source, revision=revision, trust_remote_code=trust_remote_code)
    model = model.float()
    sizes = {key: value.numel() for key, value in model.state_dict().items()}
    if sum(sizes.get(key, 0) for key in report["missing_keys"]) > sum(sizes.values()) / 2:
        raise ModelError(
            f"{source!r} holds only few of the weights of a {type(model).__name__}: "
            "give a folder saved with save_pretrained"
        )
    _check_fast(tokenizer, source)
    give_padding(model, tokenizer)
    return model, tokenizer


def load_teacher(
    name: str | Path, labels: Sequence[str], *, trust_remote_code: bool
) -> tuple[Any, Any, list[int]]:
    """A trained classifier in float32, its tokenizer, and where it has each of the labels.

    Raises:
        ModelError: it cannot be loaded, or knows other classes.
    """
    source = located(name)
    options = {"trust_remote_code": bool(trust_remote_code)}
    with loading("the teacher", source, GIVE_MODEL) as hub:
        model, report = AutoModelForSequenceClassification.from_pretrained(
            source, output_loading_info=True, **options, **hub
        )
    tokenizer = load_tokenizer(source, trust_remote_code=trust_remote_code)
    if report["missing_keys"]:
        raise ModelError(
            f"the teacher {source!r} has no trained classification head: "
            "give a classifier, such as one that slalom train made"
        )
    names = model.config.id2label
    known = [str(names[index]).casefold() for index in range(model.config.num_labels)]
    if sorted(known) != sorted(label.casefold() for label in labels):
        raise ModelError(
            f"the teacher {source!r} knows the classes {', '.join(map(str, names.values()))}, "
            f"but the table has {', '.join(labels)}: "
            "they must be the same; name numbered classes with --labels"
        )
    give_padding(model, tokenizer)
    return model.float(), tokenizer, [known.index(label.casefold()) for label in labels]


def give_padding(model: Any, tokenizer: Any) -> None:
    """Makes model and tokenizer agree on a padding token.

    Decoders find the end of a text by it, so one that the tokenizer adds to texts will not do. If
    there is no other token for it, the vocabulary grows by one.
    """
    if tokenizer.pad_token_id is None and getattr(model.config, "pad_token_id", None) in range(
        len(tokenizer)
    ):
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(model.config.pad_token_id)
    if tokenizer.pad_token_id is None:
        added = tokenizer("a", verbose=False)["input_ids"]
        if tokenizer.eos_token_id is not None and tokenizer.eos_token_id not in added:
            tokenizer.pad_token = tokenizer.eos_token
        else:
            tokenizer.add_special_tokens({"pad_token": "<|pad|>"})
    if tokenizer.pad_token_id >= model.get_input_embeddings().num_embeddings:
        model.resize_token_embeddings(tokenizer.pad_token_id + 1)
    model.config.pad_token_id = tokenizer.pad_token_id


def _keep_layers(config: Any, layers: int, source: str) -> None:
    """Shortens a configuration; the weights of the layers behind are then left unread."""
    there = getattr(config, "num_hidden_layers", None)
    if not isinstance(there, int) or getattr(config, "is_encoder_decoder", False):
        raise ModelError(
            f"cannot keep the first {layers} layers of {source!r}, a {config.model_type} model: "
            "leave --layers out"
        )
    if layers > there:
        raise ModelError(
            f"--layers is {layers}, but {source!r} has {there} layers: give at most {there}"
        )
    for key, value in list(vars(config).items()):
        # Lists with one entry per layer, such as its kind of attention.
        if isinstance(value, list) and len(value) == there and "layer" in key:
            setattr(config, key, value[:layers])
    config.num_hidden_layers = layers


def _check_fast(tokenizer: Any, source: str) -> None:
    if not getattr(tokenizer, "is_fast", False):
        raise ModelError(
            f"the tokenizer of {source!r} does not report where its tokens stand, "
            "so its model could not be explained: give another model"
        )
