"""Torch modules and functions that take token ids and a mask."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from slalom_xai.errors import InputError
from slalom_xai.models.answers import Answers, check_convention
from slalom_xai.models.configurations import (
    check_vocabulary,
    config_outputs,
    segment_count,
    takes,
    token_limit,
)
from slalom_xai.models.internals import Internals, evaluation_mode, only_token_table
from slalom_xai.models.locks import lock_of
from slalom_xai.models.outputs import Outputs
from slalom_xai.models.padded import HALF, PaddedModel, has_small_steps, written_batch
from slalom_xai.models.rows import Row
from slalom_xai.models.token_batch import TokenBatch
from slalom_xai.models.tokens import Tokens


class ModuleModel(PaddedModel):
    """Any torch module, or function, ``(input_ids, attention_mask) -> logits``, and its tokenizer.

    Ids and mask are integer tensors (rows, tokens); the answer is a tensor (rows, classes), or an
    object with ``logits``. The module stays on its device, in its precision and its mode. It must
    honour the mask: rows are padded on the side, left or right, that its answers do not depend on.

    Args:
        module: the model.
        tokenizer: makes its token ids.
        output: "logits" ("auto" means the same), or "probabilities".
        labels: the names of the classes, where the caller gave some.
    """

    def __init__(
        self,
        module: Callable[..., Any],
        tokenizer: Any,
        output: str = "auto",
        *,
        labels: tuple[str, ...] | None = None,
    ) -> None:
        check_convention(output)
        self._module = module
        config = getattr(module, "config", None)
        check_vocabulary(tokenizer, config, _embedded_tokens(module))
        tokens = Tokens(
            tokenizer,
            limit=token_limit(tokenizer, config, module),
            segments=segment_count(config, takes_segments=_takes_segments(module)),
        )
        name = getattr(module, "__qualname__", type(module).__name__)
        super().__init__(tokens, name, lock_of(module), must_take_padding=True)
        self._small = has_small_steps(module)
        self._pad = getattr(tokenizer, "pad_token_id", None) or 0
        known = config_outputs(config) if hasattr(config, "id2label") else None
        self._answers = Answers(
            self.name, probabilities=output == "probabilities", outputs=known, labels=labels
        )

    @property
    def outputs(self) -> Outputs:
        """What the answers mean; known once the module has answered a text."""
        return self._answers.outputs

    @property
    def device(self) -> torch.device:
        """The device of the module's first parameter; the CPU for functions."""
        first = self._first_parameter()
        return torch.device("cpu") if first is None else first.device

    @property
    def _half(self) -> bool:
        first = self._first_parameter()
        return first is not None and first.dtype in HALF

    @property
    def light(self) -> bool:
        """Whether it is small and runs on a CPU."""
        return self.device.type == "cpu" and self._small

    def _first_parameter(self) -> Tensor | None:
        if not isinstance(self._module, torch.nn.Module):
            return None
        return next(self._module.parameters(), None)

    def internals(self, row: Row) -> Internals:
        """The module as it is on one row, for methods that look inside."""
        if not isinstance(self._module, torch.nn.Module):
            raise InputError(
                f"{self.name} is a function, and a method cannot look inside a function: "
                "give the torch module itself, or use another method"
            )
        inputs = written_batch([row]).inputs(self._pad, "right", self.device)
        return Internals(self._module, inputs, self._lock, self.name)

    def _forward(self, batch: TokenBatch, side: str) -> Tensor:
        inputs = batch.inputs(self._pad, side, self.device)
        with self._in_evaluation(), torch.inference_mode():
            answer = self._module(**inputs)
        raw = getattr(answer, "logits", answer)
        return self._answers.logits(raw, len(batch), lambda index: self.show(batch.row(index)))

    def _in_evaluation(self) -> AbstractContextManager[None]:
        if isinstance(self._module, torch.nn.Module):
            return evaluation_mode(self._module)
        return nullcontext()


def _takes_segments(module: Callable[..., Any]) -> bool:
    if isinstance(module, torch.nn.Module):
        return takes(module.forward, "token_type_ids")
    return takes(module, "token_type_ids")


def _embedded_tokens(module: Callable[..., Any]) -> int | None:
    """Rows of the module's one table of embeddings; None where there are several or none."""
    if not isinstance(module, torch.nn.Module):
        return None
    table = only_token_table(module)
    return None if table is None else table.num_embeddings
