"""Writes what a training made to its folder."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from slalom_xai import __version__
from slalom_xai.errors import InputError
from slalom_xai.models.loading import quiet

_RECORD = "training.json"


def check_folder(folder: Path, overwrite: bool) -> None:
    """Refuses a folder that the model could not be saved in, before anything is trained.

    Raises:
        InputError: it is a file, cannot be written, or holds what is not to be replaced.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out is {folder}, which is a file: give a folder")
    nearest = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        raise InputError(f"--out is {folder} and nothing can be written to {nearest}: give another folder")
    if not folder.exists() or not any(folder.iterdir()):
        return
    if not overwrite:
        raise InputError(f"--out is {folder}, a folder that is not empty: give a new folder, or --overwrite to replace an earlier training")
    if not (folder / _RECORD).is_file():
        raise InputError(f"--out is {folder}, which was not made by slalom train (it has no {_RECORD}): give a new folder")


def save(model: Any, tokenizer: Any, folder: Path, record: Mapping[str, Any], *, half: bool) -> None:
    """Saves the model in place of an earlier one; other files in the folder stay.

    Everything is written beside the folder first, so that what was there is whole until the new files are.

    Args:
        model: stays in float32; with ``half`` its weights are rounded to what is saved.
        tokenizer: the model's.
        folder: see ``check_folder``.
        record: for training.json.
        half: store the weights as float16.

    Raises:
        InputError: the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".saving-") as place:
            with quiet():
                model.save_pretrained(place, state_dict=_halved(model) if half else None)
                _save_tokenizer(tokenizer, Path(place))
            _remove_earlier(folder)
            files = sorted(path.name for path in Path(place).iterdir())
            for name in files:
                shutil.move(str(Path(place) / name), str(folder / name))
        _write(folder, {**record, "files": sorted([*files, _RECORD])})
    except OSError as error:
        raise InputError(f"cannot save the model in {folder} ({error.strerror or error}): give another --out") from error


def write_record(folder: Path, record: Mapping[str, Any]) -> None:
    """Replaces training.json, the list of files excepted."""
    _write(folder, {**record, "files": _earlier(folder)})


def versions() -> dict[str, str]:
    """The versions of what a training depends on."""
    return {"slalom-xai": __version__} | {name: version(name) for name in ("torch", "transformers", "tokenizers")}


def _write(folder: Path, record: Mapping[str, Any]) -> None:
    (folder / _RECORD).write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _earlier(folder: Path) -> list[str]:
    """The files of the training in a folder; names that lead out of it are none of them."""
    try:
        found = json.loads((folder / _RECORD).read_text(encoding="utf-8"))["files"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [name for name in found if isinstance(name, str) and name not in ("", ".", "..") and Path(name).name == name]


def _remove_earlier(folder: Path) -> None:
    for name in _earlier(folder):
        if (folder / name).is_file():
            (folder / name).unlink()


@torch.no_grad()
def _halved(model: Any) -> dict[str, Tensor]:
    """The weights as float16; tensors that share memory still do. The model gets the rounded numbers."""
    halves: dict[tuple[int, torch.Size], Tensor] = {}
    state: dict[str, Tensor] = {}
    for name, tensor in model.state_dict().items():
        if not tensor.is_floating_point():
            state[name] = tensor
            continue
        key = (tensor.data_ptr(), tensor.shape)
        if key not in halves:
            halves[key] = tensor.half()
            tensor.copy_(halves[key])
        state[name] = halves[key]
    return state


def _save_tokenizer(tokenizer: Any, folder: Path) -> None:
    """Saves a tokenizer so that transformers 4 can load it, too."""
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    if settings.get("tokenizer_class") == "TokenizersBackend":
        settings["tokenizer_class"] = "PreTrainedTokenizerFast"
    path.write_text(json.dumps(settings, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
