"""Turns what a caller hands over into a TextModel."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from slalom_xai.errors import InputError, ModelError
from slalom_xai.models.answers import check_convention
from slalom_xai.models.base import TextModel
from slalom_xai.models.bundled import bundled_folder, is_bundled
from slalom_xai.models.callables import CallableModel
from slalom_xai.models.hub import GIVE_MODEL, load_quietly, load_tokenizer, locate_model
from slalom_xai.models.onnx import OnnxModel, find_onnx, load_onnx
from slalom_xai.models.outputs import check_labels
from slalom_xai.models.sklearn import sklearn_model
from slalom_xai.models.torch_modules import ModuleModel
from slalom_xai.models.transformers import TransformersModel


def text_model(
    model: Any,
    tokenizer: Any = None,
    *,
    output: str = "auto",
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
    labels: Sequence[str] | None = None,
) -> TextModel:
    """The adapter for a model given as a name, an object or a function."""
    check_convention(output)
    given = check_labels(labels)
    if is_bundled(model):
        model = None
    if isinstance(tokenizer, (str, Path)):
        tokenizer = load_tokenizer(
            tokenizer, revision=revision, trust_remote_code=trust_remote_code
        )
    if model is None or isinstance(model, (str, Path)):
        file = None if model is None else find_onnx(locate_model(model))
        if file is None:
            _only_logits(output, "a transformers model")
            return _load_classifier(
                model, tokenizer, device, dtype, revision, trust_remote_code, given
            )
        if dtype is not None:
            raise InputError(
                f"dtype is {dtype!r}, but an ONNX file always computes in the precision it was "
                "exported in: leave dtype out"
            )
        return load_onnx(
            file, tokenizer, output, device, trust_remote_code=trust_remote_code, labels=given
        )
    if device is not None or dtype is not None:
        raise InputError(
            "device and dtype are only for models given by name: "
            "move or cast a model object yourself"
        )
    return _adapt(model, tokenizer, output, given)


def _adapt(model: Any, tokenizer: Any, output: str, labels: tuple[str, ...] | None) -> TextModel:
    """The adapter for an object."""
    from transformers import Pipeline, PreTrainedModel

    kind = type(model).__name__
    _check_weights(model, kind)
    if isinstance(model, TextModel):
        if labels is not None:
            raise InputError(
                f"labels were given, but a {kind} names its own classes, in outputs: "
                "leave labels out"
            )
        return model
    if isinstance(model, Pipeline):
        return _from_pipeline(model, tokenizer, output, labels)
    if isinstance(model, PreTrainedModel):
        _only_logits(output, "a transformers model")
        return TransformersModel(model, _require_tokenizer(tokenizer, model), labels=labels)
    if isinstance(model, torch.nn.Module):
        return ModuleModel(model, _require_tokenizer(tokenizer, model), output, labels=labels)
    if hasattr(model, "get_inputs") and hasattr(model, "run"):
        return OnnxModel(model, _require_tokenizer(tokenizer, model), output, labels=labels)
    if hasattr(model, "predict") and (hasattr(model, "fit") or hasattr(model, "classes_")):
        return sklearn_model(model, output, labels)
    if callable(model):
        if tokenizer is None:
            return CallableModel(model, output, labels=labels)
        return ModuleModel(model, tokenizer, output, labels=labels)
    _check_adapter(model, kind)
    raise InputError(
        f"cannot explain a {kind}: give a hub id or folder, a transformers model or torch module "
        "with its tokenizer, a text-classification pipeline, a fitted scikit-learn pipeline, an "
        "ONNX Runtime session with its tokenizer, or a function list[str] -> (n, classes)"
    )


def _check_adapter(model: Any, kind: str) -> None:
    """Tells an adapter that is almost a TextModel what it lacks."""
    has = dir(model)
    wanted = [name for name in vars(TextModel) if not name.startswith("_")]
    lacks = [name for name in wanted if name not in has]
    if "read" in lacks or "answer" in lacks or not lacks:
        return
    raise InputError(
        f"cannot explain a {kind}: it has read and answer, but lacks {', '.join(lacks)}; "
        "give it all that TextModel in slalom_xai.models lists"
    )


def _from_pipeline(
    pipeline: Any, tokenizer: Any, output: str, labels: tuple[str, ...] | None
) -> TextModel:
    """A text-classification pipeline is its model and its tokenizer.

    Where a sigmoid is applied to its scores, they are those of labels that do not exclude each
    other.
    """
    from transformers import TextClassificationPipeline

    if not isinstance(pipeline, TextClassificationPipeline):
        raise InputError(
            f"the pipeline's task is {pipeline.task!r}: give a text-classification pipeline, "
            "or wrap yours in a function list[str] -> (n, classes)"
        )
    _only_logits(output, "a pipeline")
    applied = getattr(pipeline, "_postprocess_params", {}).get("function_to_apply")
    sigmoid = str(getattr(applied, "value", applied)).lower() == "sigmoid"
    return TransformersModel(
        pipeline.model, tokenizer or pipeline.tokenizer, multilabel=sigmoid, labels=labels
    )


def _check_weights(model: Any, kind: str) -> None:
    """Refuses a model whose parameters are on the device "meta".

    There they have shapes and no numbers.
    """
    module = getattr(model, "model", model)  # a pipeline's
    if not isinstance(module, torch.nn.Module):
        return
    if any(part.device.type == "meta" for part in module.parameters()):
        raise InputError(
            f"the {kind} has parameters on the device 'meta', which holds no numbers: "
            "load its weights first"
        )


def _require_tokenizer(tokenizer: Any, model: Any) -> Any:
    """The tokenizer of a model that takes token ids.

    Raises:
        InputError: there is none, or the model takes texts and gives vectors, as a
            SentenceTransformer does.
    """
    kind = type(model).__name__
    takes_ids = tokenizer is not None or hasattr(model, "config")
    if type(model).__module__.startswith("sentence_transformers"):
        takes_ids = False
    if callable(getattr(model, "encode", None)) and not takes_ids:
        raise InputError(
            f"a {kind} gives each text a vector and chooses no class: give a function from texts "
            "to probabilities, such as lambda texts: head.predict_proba(model.encode(texts)) with "
            "a classifier that was fitted on its vectors"
        )
    if tokenizer is not None:
        return tokenizer
    if hasattr(model, "tokenizer") and isinstance(getattr(model, "model", None), torch.nn.Module):
        raise InputError(
            f"a {kind} holds a model and its tokenizer: pass both, its .model and its .tokenizer"
        )
    raise InputError(
        f"a {kind} needs its tokenizer: pass tokenizer=AutoTokenizer.from_pretrained(...)"
    )


def _only_logits(output: str, what: str) -> None:
    if output == "probabilities":
        raise InputError(
            'output="probabilities" is only for functions and modules; '
            f"the logits of {what} are used: leave output out"
        )


def _load_classifier(
    name: str | Path | None,
    tokenizer: Any,
    device: str | torch.device | None,
    dtype: str | torch.dtype | None,
    revision: str | None,
    trust: bool,
    labels: tuple[str, ...] | None,
) -> TextModel:
    """Loads a classifier and its tokenizer from the package, a folder or the hub."""
    from transformers import AutoModelForSequenceClassification

    shown, source = "embedded movie-review classifier", str(bundled_folder())
    if name is not None:
        shown, source = str(name), locate_model(name)
    target = choose_device(device)
    options = {"revision": revision, "trust_remote_code": bool(trust)}
    with load_quietly("a classifier", source, GIVE_MODEL) as hub:
        model, report = AutoModelForSequenceClassification.from_pretrained(
            source, output_loading_info=True, **options, **hub
        )
    if tokenizer is None:
        tokenizer = load_tokenizer(source, revision=revision, trust_remote_code=trust)
    missing = sorted(report["missing_keys"])
    if missing:
        raise ModelError(
            f"{source!r} has no trained classification head (missing: {', '.join(missing[:4])}): "
            "give a model fine-tuned for classification"
        )
    placed = _place_on_device(model, source, target, dtype)
    return TransformersModel(placed, tokenizer, shown, labels=labels)


def load_causal(
    name: str | Path,
    tokenizer: Any,
    device: str | torch.device | None,
    dtype: str | torch.dtype | None,
    revision: str | None,
    trust: bool,
) -> tuple[Any, Any]:
    """Loads a causal language model and its tokenizer from a folder or the hub.

    Raises:
        ModelError: it cannot be loaded, or has no trained head that predicts words.
    """
    from transformers import AutoModelForCausalLM

    if is_bundled(name):
        raise ModelError(
            f"{name!r} is the bundled classifier, which writes no text: give the folder or hub id "
            "of a causal language model"
        )
    source, target = locate_model(name), choose_device(device)
    options = {"revision": revision, "trust_remote_code": bool(trust)}
    with load_quietly("a causal language model", source, GIVE_MODEL) as hub:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            source, output_loading_info=True, **options, **hub
        )
    model, report = loaded
    missing = sorted(report["missing_keys"])
    if missing:
        raise ModelError(
            f"{source!r} has no trained head that predicts words (missing: "
            f"{', '.join(missing[:4])}): give a causal language model"
        )
    if tokenizer is None or isinstance(tokenizer, (str, Path)):
        tokenizer = load_tokenizer(tokenizer or source, revision=revision, trust_remote_code=trust)
    return _place_on_device(model, source, target, dtype), tokenizer


def _place_on_device(
    model: Any, source: str, target: torch.device, dtype: str | torch.dtype | None
) -> Any:
    """A loaded model on its device, in its precision, ready to be asked."""
    wanted = _dtype(dtype) or (torch.float32 if target.type == "cpu" else model.dtype)
    try:
        model.to(target, wanted)
    except (RuntimeError, AssertionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ModelError(
            f"cannot put {source!r} on {target}: {reason}; "
            "pass device='cpu', or a device that is there"
        ) from error
    return model.eval()


def choose_device(device: str | torch.device | None) -> torch.device:
    """The device of this name; a GPU if there is one, else the CPU, by default."""
    default = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        chosen = torch.device(device or default)
    except (RuntimeError, TypeError) as error:
        raise InputError(f"unknown device {device!r}: give cpu, cuda, cuda:1 or mps") from error
    if chosen.type == "meta":
        raise InputError(
            f"device {str(device)!r} holds no numbers, so nothing can be computed there: "
            "give cpu, cuda, cuda:1 or mps"
        )
    return chosen


def _dtype(dtype: str | torch.dtype | None) -> torch.dtype | None:
    if dtype is None:
        return None
    named: Any = dtype
    if not isinstance(dtype, torch.dtype):
        named = getattr(torch, str(dtype), None)
    if not isinstance(named, torch.dtype) or not named.is_floating_point:
        raise InputError(f"unknown dtype {dtype!r}: give float32, bfloat16 or float16")
    return named
