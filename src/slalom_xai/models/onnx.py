"""Classifiers exported to ONNX, run by ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slalom_xai.errors import InputError, ModelError
from slalom_xai.models.answers import Answers, check_convention
from slalom_xai.models.configurations import (
    check_vocabulary,
    config_outputs,
    reads_pairs,
    segment_count,
    token_limit,
)
from slalom_xai.models.hub import load_quietly, load_tokenizer
from slalom_xai.models.locks import lock_of
from slalom_xai.models.outputs import Outputs
from slalom_xai.models.padded import PaddedModel
from slalom_xai.models.token_batch import TokenBatch
from slalom_xai.models.tokens import Tokens

KNOWN_INPUTS = ("input_ids", "attention_mask", "token_type_ids")


class OnnxModel(PaddedModel):
    """An ``onnxruntime.InferenceSession`` with a tokenizer.

    Args:
        session: takes ``input_ids`` and ``attention_mask`` (and ``token_type_ids``) of any number
            of rows and tokens.
        tokenizer: makes its token ids.
        output: "logits" ("auto" means the same), or "probabilities".
        config: the transformers configuration of the exported model, for its labels.
        name: how it is called in results.
        labels: the names of the classes, where the caller gave some.
    """

    device = torch.device("cpu")  # where answers arrive, wherever the session runs

    def __init__(
        self,
        session: Any,
        tokenizer: Any,
        output: str = "auto",
        *,
        config: Any = None,
        name: str | None = None,
        labels: tuple[str, ...] | None = None,
    ) -> None:
        check_convention(output)
        self._session = session
        self._inputs = {
            node.name: np.int32 if "int32" in node.type else np.int64
            for node in session.get_inputs()
        }
        _check_inputs(session)
        check_vocabulary(tokenizer, config, getattr(config, "vocab_size", None))
        takes_segments = "token_type_ids" in self._inputs
        tokens = Tokens(
            tokenizer,
            limit=token_limit(tokenizer, config),
            segments=segment_count(config, takes_segments=takes_segments),
            pairs=reads_pairs(config),
        )
        super().__init__(tokens, name or "ONNX model", lock_of(session))
        nodes = [node.name for node in session.get_outputs()]
        self._output = "logits" if "logits" in nodes else nodes[0]
        self._pad = getattr(tokenizer, "pad_token_id", None) or 0
        known = config_outputs(config) if hasattr(config, "id2label") else None
        self._answers = Answers(
            self.name, probabilities=output == "probabilities", outputs=known, labels=labels
        )

    @property
    def outputs(self) -> Outputs:
        """What the answers mean; known once the session has answered a text."""
        return self._answers.outputs

    def _forward(self, batch: TokenBatch, side: str) -> Tensor:
        inputs = batch.inputs(self._pad, side, self.device)
        if "token_type_ids" in self._inputs and "token_type_ids" not in inputs:
            inputs["token_type_ids"] = torch.zeros_like(inputs["input_ids"])
        fed = {name: inputs[name].numpy().astype(kind) for name, kind in self._inputs.items()}
        raw = self._session.run([self._output], fed)[0]
        return self._answers.logits(raw, len(batch), lambda index: self.show(batch.row(index)))


def find_onnx(name: str) -> Path | None:
    """The ONNX file that a path names, or that lies in a folder without other weights."""
    path = Path(name)
    if path.suffix == ".onnx":
        return path
    if not path.is_dir() or any(path.glob("*.safetensors")) or any(path.glob("pytorch_model*.bin")):
        return None
    for file in (path / "model.onnx", path / "onnx" / "model.onnx"):
        if file.is_file():
            return file
    return None


def load_onnx(
    file: Path,
    tokenizer: Any,
    output: str,
    device: str | torch.device | None,
    *,
    trust_remote_code: bool = False,
    labels: tuple[str, ...] | None = None,
) -> OnnxModel:
    """Opens an ONNX file; its tokenizer and configuration lie beside it or one folder up.

    Raises:
        ModelError: ONNX Runtime is missing, or a file cannot be opened.
    """
    home = _home(file)
    if tokenizer is None and home is None:
        raise InputError(
            f"there is no config.json and no tokenizer beside {file}: "
            "save the tokenizer there, or pass tokenizer="
        )
    session = _session(file, device)
    config = None
    if home is not None:
        from transformers import AutoConfig

        with load_quietly(
            "the configuration", str(home), "export the model again, or remove config.json"
        ):
            config = AutoConfig.from_pretrained(
                str(home), trust_remote_code=bool(trust_remote_code)
            )
        if tokenizer is None:
            tokenizer = load_tokenizer(home, trust_remote_code=trust_remote_code)
    return OnnxModel(session, tokenizer, output, config=config, name=str(file), labels=labels)


def _home(file: Path) -> Path | None:
    """The folder of an ONNX file's configuration and tokenizer."""
    if not file.is_file():
        raise ModelError(
            f"there is no file {str(file)!r}: give an ONNX file, or a folder with model.onnx in it"
        )
    for folder in (file.parent, file.parent.parent):
        if (folder / "config.json").is_file():
            return folder
    return None


def _session(file: Path, device: str | torch.device | None) -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise ModelError(
            f"{file} is an ONNX file, but ONNX Runtime is not installed: pip install onnxruntime"
        ) from error
    if device is not None and str(device).split(":")[0] not in ("cpu", "cuda"):
        raise InputError(
            f"device {str(device)!r}: ONNX Runtime runs only on cpu or cuda here; "
            "pass one of them, or leave device out"
        )
    provider = "CPUExecutionProvider"
    if str(device).startswith("cuda"):
        provider = "CUDAExecutionProvider"
    if provider not in onnxruntime.get_available_providers():
        raise InputError(
            f"device {device!r}: the installed ONNX Runtime has no {provider}; "
            "pass device='cpu', or install onnxruntime-gpu"
        )
    try:
        return onnxruntime.InferenceSession(str(file), providers=[provider])
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise ModelError(
            f"ONNX Runtime cannot open {file} ({reason}): export the model again"
        ) from error


def _check_inputs(session: Any) -> None:
    nodes = session.get_inputs()
    names = [node.name for node in nodes]
    if not set(names) <= set(KNOWN_INPUTS) or "input_ids" not in names:
        raise InputError(
            f"the ONNX model takes {', '.join(names)}: expected {', '.join(KNOWN_INPUTS)}, "
            "the last two optional; export a sequence classifier"
        )
    fixed = []
    for node in nodes:
        if any(isinstance(size, int) for size in node.shape):
            fixed.append(f"{node.name} {node.shape}")
    if fixed:
        raise InputError(
            f"the ONNX model takes only {', '.join(fixed)}: "
            "export it with a variable number of rows and tokens (dynamic axes)"
        )
