"""Tells models apart by what they are made of, not by what they are called."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from slalom_xai.models.bundled import bundled_folder, is_bundled

# Tells models in memory apart by what they are made of.


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


_CHUNK = 1 << 20  # bytes read at once


def fingerprint(
    source: str | None,
    dtype: str | None,
    revision: str | None = None,
    labels: Sequence[str] | None = None,
) -> str:
    """Equal for the same files in the same precision, under the same names of classes.

    Args:
        source: what a model was loaded from: folder, file or hub id; None, or one of its
            names: the bundled model.
        dtype: the precision asked for.
        revision: branch, tag or commit of a hub id, which must be in the local cache.
        labels: names that were given to classes that the model only numbers.
    """
    digest = hashlib.sha256(f"{dtype}\n".encode())
    if labels is not None:
        digest.update(f"{json.dumps(list(labels))}\n".encode())
    place = _place(source, revision)
    found = [place]
    if place.is_dir():
        found = sorted(path for path in place.rglob("*") if path.is_file())
    for path in found:
        digest.update(f"{path.relative_to(place)}\n".encode())
        with path.open("rb") as content:
            while chunk := content.read(_CHUNK):
                digest.update(chunk)
    return digest.hexdigest()[:16]


def _place(source: str | None, revision: str | None) -> Path:
    """Where the files of a model are that has been loaded."""
    if source is None or is_bundled(source):
        return bundled_folder()
    if Path(source).exists():
        return Path(source)
    from transformers.utils.hub import cached_file

    configuration = cached_file(source, "config.json", revision=revision, local_files_only=True)
    return Path(str(configuration)).parent
