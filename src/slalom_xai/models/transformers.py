"""Sequence classifiers of the transformers library, encoders and decoders."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor

from slalom_xai.errors import InputError, ModelError, shortened
from slalom_xai.models.base import lock_of
from slalom_xai.models.internals import Internals, evaluating
from slalom_xai.models.padded import PaddedModel, has_small_steps
from slalom_xai.models.prefix import PrefixCache
from slalom_xai.models.token_rows import Encoded, Row, TokenBatch, TokenText, WrittenTokens
from slalom_xai.models.tokens import Tokens
from slalom_xai.outputs import Kind, Outputs

HALF = (torch.float16, torch.bfloat16)


class TransformersModel(PaddedModel):
    """A transformers model with a classification head, and its tokenizer.

    The model is used as it is: on its device, in its precision, its mode and configuration
    put back after every call.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        name: str | None = None,
        *,
        multilabel: bool = False,
        labels: tuple[str, ...] | None = None,
    ) -> None:
        check_vocabulary(tokenizer, model.config, _embedded_tokens(model))
        segments = (
            getattr(model.config, "type_vocab_size", 2)
            if takes(model.forward, "token_type_ids")
            else 0
        )
        pairs = getattr(model.config, "text_pair", None) is not False
        tokens = Tokens(
            tokenizer,
            limit=token_limit(tokenizer, model.config, model),
            segments=_segments(model.config, segments),
            pairs=pairs,
        )
        super().__init__(
            tokens,
            name or getattr(model.config, "name_or_path", "") or type(model).__name__,
            lock_of(model),
        )
        self._model = model
        self._prefix = PrefixCache(model)
        self._small = has_small_steps(model)
        self._fast = True
        self._outputs = config_outputs(model.config, multilabel).renamed(labels, self.name)
        stated = inspect.signature(model.forward).parameters.get("attention_mask")
        self._mask_is_optional = stated is not None and stated.default is None

    @property
    def outputs(self) -> Outputs:
        """What its configuration says."""
        return self._outputs

    @property
    def device(self) -> torch.device:
        """The device of the model's first parameter."""
        return cast(torch.device, next(self._model.parameters()).device)

    @property
    def _half(self) -> bool:
        return next(self._model.parameters()).dtype in HALF

    @property
    def light(self) -> bool:
        """Whether it is small and runs on a CPU."""
        return self.device.type == "cpu" and self._small

    @contextmanager
    def _exactly(self) -> Iterator[None]:
        self._fast = False
        try:
            yield
        finally:
            self._fast = True

    @property
    def lends(self) -> bool:
        """Whether it looks like a decoder, whose reading of a text's beginning serves all rows that share it."""
        return self._prefix.possible

    @contextmanager
    def lending(self, text: TokenText) -> Iterator[int]:
        """Reads the whole text once, where that serves its rows; gives the tokens that they may then borrow, 0 where none."""
        with self._lock:
            before = self._prefix.rows_asked
            with self._exactly():
                kept = self._prefix.keep(
                    *(stream.tolist() for stream in text.streams), filler=text.filler
                )
            self.probe_calls += self._prefix.rows_asked - before
            try:
                yield kept
            finally:
                self._prefix.forget()

    def answer_tokens(self, batch: TokenBatch) -> Tensor:
        """Logits for a batch; of rows that borrow their beginning only the rest is read."""
        if not batch.shared:
            return super().answer_tokens(batch)
        device, shared = self.device, batch.shared
        inputs = batch.inputs(0, "right", device)
        lengths = inputs["attention_mask"][:, shared:].sum(dim=1)
        segments = inputs.get("token_type_ids")
        with self._lock, _tensor_cores(device, self._fast):
            return self._prefix.answer(
                shared,
                inputs["input_ids"][:, shared:],
                lengths,
                None if segments is None else segments[:, shared:],
            )

    def internals(self, row: Row) -> Internals:
        """The model as it is on one row, for methods that look inside."""
        batch = TokenBatch([WrittenTokens.of([cast(Encoded, row)])])
        return Internals(
            self._model,
            batch.inputs(0, "right", self.device),
            self._lock,
            self.name,
            lambda: _pad_token(self._model, batch),
        )

    def _forward(self, batch: TokenBatch, side: str) -> Tensor:
        device = self.device
        with (
            evaluating(self._model),
            torch.inference_mode(),
            _tensor_cores(device, self._fast),
            _pad_token(self._model, batch) as pad,
        ):
            inputs = batch.inputs(pad, side, device)
            if self._mask_is_optional and batch.sizes.min() == batch.sizes.max():
                del inputs["attention_mask"]  # attention is faster without one
            logits = getattr(self._model(**inputs), "logits", None)
        if not isinstance(logits, Tensor):
            raise ModelError(
                f"{self.name} gives no logits for {shortened(self.show(batch.row(0)))}: give a model with a sequence classification head"
            )
        expected = (len(batch), self.outputs.width)
        if tuple(logits.shape) != expected:
            raise ModelError(
                f"{self.name} returned shape {tuple(logits.shape)} instead of {expected} for {len(batch)} texts, the first {shortened(self.show(batch.row(0)))}: "
                "give a model with a sequence classification head"
            )
        return logits.float() if logits.dtype in HALF else logits


@contextmanager
def _tensor_cores(device: torch.device, fast: bool) -> Iterator[None]:
    """Lets a GPU multiply float32 matrices in TF32, several times faster; what it rounds is far below what a fit leaves."""
    if device.type != "cuda" or not fast:
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@contextmanager
def _pad_token(model: Any, batch: TokenBatch) -> Iterator[int]:
    """The id that pads; a model without one is lent an id that occurs in none of the rows.

    Decoders look for the last token that is not padding by this id, so it must be in their
    configuration while they run.
    """
    config = model.config
    pad = getattr(config, "pad_token_id", None)
    if pad is not None and pad >= 0:
        yield int(pad)
        return
    used = batch.ids
    free = next((token for token in range(config.vocab_size) if token not in used), None)
    if free is None:
        raise ModelError(
            "the model has no pad token, and the text uses its whole vocabulary: set model.config.pad_token_id"
        )
    config.pad_token_id = free
    try:
        yield free
    finally:
        config.pad_token_id = pad


def check_vocabulary(tokenizer: Any, config: Any, known: int | None) -> None:
    """Refuses a tokenizer that cannot be the model's own.

    Args:
        tokenizer: given beside the model.
        config: the model's configuration.
        known: how many tokens the model has embeddings for; None where that cannot be seen.

    Raises:
        InputError: it makes tokens the model has no embeddings for; or it leaves a good part of the vocabulary
            unused and its special tokens are other ones, which one of the two alone may be in an honest pair.
    """
    if known is None or not hasattr(tokenizer, "get_vocab"):
        return
    made = max(tokenizer.get_vocab().values(), default=-1) + 1
    what = f"the tokenizer {getattr(tokenizer, 'name_or_path', '') or type(tokenizer).__name__} knows {made} tokens, but the model knows {known}"
    if made > known:
        raise InputError(
            f"{what}: it belongs to another model; pass the tokenizer that was saved with the model"
        )
    names = ("pad_token_id", "cls_token_id", "bos_token_id", "sep_token_id", "eos_token_id")
    stated = [(name, getattr(config, name, None), getattr(tokenizer, name, None)) for name in names]
    other = [
        f"{name} ({ours} and {theirs})"
        for name, theirs, ours in stated
        if None not in (ours, theirs) and ours != theirs
    ]
    if made < 0.9 * known and other:
        raise InputError(
            f"{what}, and they disagree on {', '.join(other)}: pass the tokenizer that was saved with the model"
        )


def config_outputs(config: Any, multilabel: bool = False) -> Outputs:
    """What a transformers configuration says about the outputs."""
    names = config.id2label
    odd = [index for index in range(config.num_labels) if index not in names]
    if odd or not names:
        raise ModelError(
            f"the configuration's id2label is {shortened(str(names))}, which has no {odd[0] if odd else 'labels'}: number the labels from 0"
        )
    labels = tuple(str(names[index]) for index in range(config.num_labels))
    problem = getattr(config, "problem_type", None)
    kind: Kind = "binary" if len(labels) == 2 else "multiclass"
    if problem == "regression":
        kind = "regression"
    elif len(labels) == 1:
        kind = "single"
    elif multilabel or problem == "multi_label_classification":
        kind = "multilabel"
    return Outputs(kind, labels)


def takes(function: Any, name: str) -> bool:
    """Whether a function can be handed an input of this name: generic tokenizers make segments for models that have none."""
    parameters = inspect.signature(function).parameters
    return name in parameters or any(
        parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()
    )


def _segments(config: Any, stated: int) -> int:
    """Segments that can be told apart; DeBERTa says 0 and ignores them, XLNet compares any number."""
    if getattr(config, "model_type", "") == "xlnet":
        return 1 << 30
    return int(stated)


def _embedded_tokens(model: Any) -> int | None:
    try:
        return int(model.get_input_embeddings().num_embeddings)
    except (AttributeError, NotImplementedError, TypeError):
        return None


def token_limit(tokenizer: Any, config: Any, module: Any = None) -> int | None:
    """Tokens a model reads at most, special ones included; None where nothing limits it."""
    limits = []
    stated = getattr(tokenizer, "model_max_length", None)
    if stated is not None and (isinstance(stated, bool) or not isinstance(stated, int | float)):
        raise ModelError(
            f"the tokenizer's model_max_length is {shortened(str(stated), 40)}: "
            "expected a number of tokens; correct it in tokenizer_config.json"
        )
    if stated is not None and 0 < stated < 10**9:
        limits.append(int(stated))
    positions = getattr(config, "max_position_embeddings", None)
    if isinstance(positions, int) and positions > 0:
        limits.append(positions - _reserved_positions(module))
    return min(limits) if limits else None


def _reserved_positions(module: Any) -> int:
    """Positions that RoBERTa-like models keep for padding: they count from behind the padding's own."""
    for name, part in module.named_modules() if isinstance(module, torch.nn.Module) else ():
        if (
            name.endswith("position_embeddings")
            and isinstance(part, torch.nn.Embedding)
            and part.padding_idx is not None
        ):
            return int(part.padding_idx) + 1
    return 0
