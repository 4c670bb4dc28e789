"""Turns what a caller hands over into a TextModel."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch

from slalom_xai.errors import InputError, ModelError
from slalom_xai.models.base import TextModel

EMBEDDED = "embedded"


def text_model(
    model: Any,
    tokenizer: Any = None,
    *,
    output: str = "auto",
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
) -> TextModel:
    """The adapter for a model given as a name, an object or a function."""
    from transformers import PreTrainedModel

    from slalom_xai.models.callables import CallableModel
    from slalom_xai.models.transformers import TransformersModel

    if model is None or isinstance(model, (str, Path)):
        return _loaded(model, tokenizer, device, dtype, revision, trust_remote_code)
    if device is not None or dtype is not None:
        raise InputError("device and dtype are for models given by name: a model object is never moved or cast, so place it yourself")
    if all(hasattr(model, part) for part in ("read", "answer", "outputs", "show")):
        return model  # type: ignore[no-any-return]
    if isinstance(model, PreTrainedModel):
        if tokenizer is None:
            raise InputError(f"a {type(model).__name__} needs its tokenizer: pass tokenizer=AutoTokenizer.from_pretrained(...)")
        return TransformersModel(model, tokenizer)
    if callable(model) and not isinstance(model, torch.nn.Module):
        return CallableModel(model, output)
    raise InputError(
        f"cannot explain a {type(model).__name__}: give a hub id or folder, a transformers model with its tokenizer, or a function list[str] -> (n, classes)"
    )


def _loaded(
    name: str | Path | None,
    tokenizer: Any,
    device: str | torch.device | None,
    dtype: str | torch.dtype | None,
    revision: str | None,
    trust: bool,
) -> TextModel:
    """Loads a classifier and its tokenizer from the package, a folder or the hub."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    from slalom_xai.models.transformers import TransformersModel

    place = str(files("slalom_xai.models") / EMBEDDED) if name is None else str(name)
    target = _device(device)
    options = {"revision": revision, "trust_remote_code": trust}
    try:
        with _quiet():
            model, report = AutoModelForSequenceClassification.from_pretrained(place, output_loading_info=True, **options)
            if tokenizer is None:
                tokenizer = AutoTokenizer.from_pretrained(place, **options)
    except (OSError, ValueError, KeyError, ImportError) as error:
        reason = " ".join(str(error).split())
        raise ModelError(
            f"cannot load a classifier from {place!r} ({reason[:300]}): give a folder saved with save_pretrained, or a hub id"
        ) from error
    missing = sorted(report["missing_keys"])
    if missing:
        raise ModelError(
            f"{place!r} has no trained classification head (missing: {', '.join(missing[:4])}): give a model fine-tuned for classification"
        )
    try:
        model.to(target, _dtype(dtype) or (torch.float32 if target.type == "cpu" else model.dtype))
    except (RuntimeError, AssertionError) as error:
        raise ModelError(
            f"cannot put {place!r} on {target}: {' '.join(str(error).split())[:200]}; pass device='cpu', or a device that is there"
        ) from error
    return TransformersModel(model.eval(), tokenizer, "embedded movie-review classifier" if name is None else place)


def _device(device: str | torch.device | None) -> torch.device:
    try:
        return torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    except RuntimeError as error:
        raise InputError(f"unknown device {device!r}: give cpu, cuda, cuda:1 or mps") from error


def _dtype(dtype: str | torch.dtype | None) -> torch.dtype | None:
    if dtype is None:
        return None
    found = dtype if isinstance(dtype, torch.dtype) else getattr(torch, str(dtype), None)
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise InputError(f"unknown dtype {dtype!r}: give float32, bfloat16 or float16")
    return found


@contextmanager
def _quiet() -> Iterator[None]:
    """Keeps transformers' progress bars and loading reports off the screen: what matters is raised."""
    logging: Any = import_module("transformers.utils.logging")
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
