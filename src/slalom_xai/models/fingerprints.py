"""Tells models in memory apart by what they are made of."""

from __future__ import annotations

import json
from hashlib import blake2b
from importlib.metadata import version
from typing import Any

import torch

# What a configuration says that has nothing to do with answers.
_WHERE_FROM = ("_name_or_path", "name_or_path", "transformers_version", "id2label", "label2id")


def transformers_fingerprint(model: Any) -> str:
    """Equal for models that give the same answers to the same token ids, to the last digit.

    That is the class, the configuration, the weights in their precision, the kind of device, and
    the versions of the libraries. Not the tokenizer: it decides which ids are asked, and the ids
    are part of each row.

    Args:
        model: a model of the transformers library.
    """
    config = {}
    for name, entry in sorted(model.config.to_dict().items()):
        if name not in _WHERE_FROM:
            config[name] = entry
    made_of = {
        "class": f"{type(model).__module__}.{type(model).__qualname__}",
        "config": config,
        "device": str(model.device.type),
        "torch": torch.__version__,
        "transformers": version("transformers"),
    }
    digest = blake2b(json.dumps(made_of, default=str).encode(), digest_size=16)
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(_content(tensor))
    return digest.hexdigest()


def _content(tensor: torch.Tensor) -> bytes:
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes()
