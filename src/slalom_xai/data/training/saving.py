"""Writes what a training made to its folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from slalom_xai import __version__
from slalom_xai.errors import InputError
from slalom_xai.models.hub import hide_loading_messages
from slalom_xai.system.files import check_replaceable, is_draft, write_file
from slalom_xai.system.folders import recover, replace_folder

_RECORD = "training.json"


def check_folder(folder: Path, overwrite: bool) -> None:
    """Refuses a folder that the model could not be saved in, before anything is trained.

    Raises:
        InputError: it is a file, cannot be replaced, or holds what is not to be replaced.
    """
    check_replaceable("--out", folder)
    recover(folder)
    names = _names_in(folder)
    if all(map(_is_left, names)):
        return
    if not overwrite:
        raise InputError(
            f"--out is {folder}, a folder that is not empty: "
            "give a new folder, or --overwrite to replace an earlier training"
        )
    if not (folder / _RECORD).is_file() and not any(map(_is_left, names)):
        raise InputError(
            f"--out is {folder}, which was not made by slalom train (it has no {_RECORD}): "
            "give a new folder"
        )


def _names_in(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    return [path.name for path in folder.iterdir()]


def _is_left(name: str) -> bool:
    """Whether it is what a kill left in a folder when models were still written inside it."""
    return name.startswith(".saving-")


def save(
    model: Any, tokenizer: Any, folder: Path, record: Mapping[str, Any], *, half: bool
) -> None:
    """Saves the model in place of an earlier one; other files in the folder stay.

    Everything is written to a new folder beside the old one; then the two change places. So what
    was there is whole until the new one is.

    Args:
        model: stays in float32; with ``half`` its weights are rounded to what is saved.
        tokenizer: the model's.
        folder: see ``check_folder``.
        record: for training.json.
        half: store the weights as float16.

    Raises:
        InputError: the folder cannot be written.
    """
    left = [name for name in _names_in(folder) if _is_left(name) or is_draft(name)]
    try:
        with replace_folder(folder, without=[*_earlier(folder), _RECORD, *left]) as draft:
            with hide_loading_messages():
                _write_model(model, tokenizer, draft, half)
            files = sorted(_names_in(draft))
            _write(draft, {**record, "files": sorted([*files, _RECORD])})
    except OSError as error:
        raise InputError(
            f"cannot save the model in {folder} ({error.strerror or error}): "
            "make room or give another --out; what was there is unchanged"
        ) from error


def _write_model(model: Any, tokenizer: Any, folder: Path, half: bool) -> None:
    """Writes the files that transformers reads.

    Raises:
        OSError: they cannot be written.
    """
    weights = None
    if half:
        weights = _to_float16(model)
    try:
        model.save_pretrained(folder, state_dict=weights)
        _save_tokenizer(tokenizer, folder)
    except OSError:
        raise
    except Exception as error:
        # safetensors and tokenizers report a full disk with errors of their own.
        if "os error" not in str(error):
            raise
        raise OSError(" ".join(str(error).split())[:200]) from error


def write_record(folder: Path, record: Mapping[str, Any]) -> None:
    """Replaces training.json, the list of files excepted."""
    _write(folder, {**record, "files": _earlier(folder)})


def versions() -> dict[str, str]:
    """The versions of what a training depends on."""
    return {"slalom-xai": __version__} | {
        name: version(name) for name in ("torch", "transformers", "tokenizers")
    }


def _write(folder: Path, record: Mapping[str, Any]) -> None:
    write_file(folder / _RECORD, json.dumps(record, indent=2, ensure_ascii=False) + "\n")


def _earlier(folder: Path) -> list[str]:
    """The files of the training in a folder; names that lead out of it are none of them."""
    try:
        names = json.loads((folder / _RECORD).read_text(encoding="utf-8"))["files"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []
    if not isinstance(names, list):
        return []
    return list(filter(_is_plain_name, names))


def _is_plain_name(name: object) -> bool:
    """Whether it names something inside a folder and leads nowhere else."""
    if not isinstance(name, str) or name in ("", ".", ".."):
        return False
    return Path(name).name == name


@torch.no_grad()
def _to_float16(model: Any) -> dict[str, Tensor]:
    """The weights as float16; tensors that share memory still do.

    The model gets the rounded numbers.
    """
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


# What a training leaves to read.


@dataclass(frozen=True)
class Epoch:
    """One pass over the training texts.

    Attributes:
        epoch: its number, from 1.
        training_loss: mean over its batches.
        validation_loss: cross-entropy on the validation part.
        validation_accuracy: share of right answers there.
        seconds: how long it took.
    """

    epoch: int
    training_loss: float
    validation_loss: float
    validation_accuracy: float
    seconds: float


@dataclass(frozen=True)
class Score:
    """How a model does on texts.

    Attributes:
        accuracy: share of right answers.
        loss: mean cross-entropy.
        confidence: mean probability of the answers it gives; near the accuracy where probabilities
            can be trusted.
        rows: texts it was asked about.
    """

    accuracy: float
    loss: float
    confidence: float
    rows: int


def score(logits: Tensor, labels: Tensor) -> Score:
    """Compares logits (rows, classes) with the classes (rows,)."""
    logits = logits.double()
    best = logits.softmax(1).max(1)
    return Score(
        accuracy=float((best.indices == labels).double().mean()),
        loss=float(cross_entropy(logits, labels)),
        confidence=float(best.values.mean()),
        rows=len(labels),
    )


@dataclass(frozen=True)
class TrainingReport:
    """What happened in a training.

    Attributes:
        folder: where the model is.
        labels: the classes, in the order of the logits.
        parameters: numbers in the model.
        rows: texts it was trained on, without those set aside.
        history: every finished epoch.
        best_epoch: the one that is saved.
        validation: how the saved model does on the validation part.
        test: how it does on the test table; None without one, or if it was interrupted.
        scale: what the last layer was multiplied with to fit the probabilities; None without a
            teacher.
        notes: what a person should know, such as how many texts were cut.
        interrupted: whether Ctrl-C ended it.
        seconds: how long everything took.
    """

    folder: str
    labels: tuple[str, ...]
    parameters: int
    rows: int
    history: tuple[Epoch, ...]
    best_epoch: int
    validation: Score
    test: Score | None
    scale: float | None
    notes: tuple[str, ...]
    interrupted: bool
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data, for JSON."""
        plain = asdict(self)
        for name in ("labels", "history", "notes"):
            plain[name] = list(plain[name])
        return plain
