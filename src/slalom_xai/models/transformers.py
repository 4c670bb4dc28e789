"""Sequence classifiers of the transformers library, encoders and decoders."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slalom_xai.errors import InputError, ModelError, shortened
from slalom_xai.models.base import Reading, Row, lock_of, unit_codes
from slalom_xai.outputs import Outputs
from slalom_xai.text import Unit

_Encoded = tuple[tuple[int, ...], ...]  # a row: its ids and, where the model has them, its segments


class TransformersModel:
    """A transformers model with a classification head, and its tokenizer.

    The model is used as it is: on its device, in its precision, its mode and configuration
    put back after every call. Special tokens are whatever the tokenizer adds around a text.
    """

    def __init__(self, model: Any, tokenizer: Any, name: str | None = None) -> None:
        self._model = model
        self._tokenizer = _checked(tokenizer)
        self._segmented = _takes(model, "token_type_ids")
        self._padding: str | None = None  # "right", "left", "none", or not known yet
        self.name = name or getattr(model.config, "name_or_path", "") or type(model).__name__
        self.outputs = _outputs(model.config)
        self.limit = _limit(model, tokenizer)
        self.probe_calls = 0
        self._lock = lock_of(model)

    @property
    def device(self) -> torch.device:
        """The device of the model's first parameter."""
        return cast(torch.device, next(self._model.parameters()).device)

    def read(self, text: str, *, truncation: bool = False) -> Reading:
        """Splits a text into its tokens.

        Raises:
            InputError: no token in the text, or more tokens than the model reads.
        """
        encoding = self._tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True, verbose=False)
        ids = np.array(encoding["input_ids"], dtype=np.int64)
        special = np.array(encoding["special_tokens_mask"], dtype=bool)
        content = np.flatnonzero(~special)
        if not len(content):
            raise InputError(f"the tokenizer finds no token in {shortened(text)}: give a text with words in it")
        content, left_out = self._cut(text, content, encoding["offset_mapping"], int(special.sum()), truncation)
        tokens = self._tokenizer.convert_ids_to_tokens(ids[content].tolist())
        spans = [_trimmed(text, *encoding["offset_mapping"][place]) for place in content]
        units = tuple(
            Unit(text[start:end] or token, start, end, (int(ids[place]),))
            for place, (start, end), token in zip(content, spans, tokens, strict=True)
        )
        types = encoding.get("token_type_ids") if self._segmented else None
        streams = [ids] if types is None else [ids, np.array(types, dtype=np.int64)]

        before, after = np.arange(content[0]), np.flatnonzero(special)[np.flatnonzero(special) > content[0]]

        def compose(places: NDArray[np.int64]) -> Row:
            order = np.concatenate([before, content[places], after])
            return tuple(tuple(stream[order].tolist()) for stream in streams)

        return Reading(text, units, unit_codes(ids[content].tolist()), left_out, compose)

    def _cut(
        self, text: str, content: NDArray[np.int64], offsets: Sequence[tuple[int, int]], added: int, truncation: bool
    ) -> tuple[NDArray[np.int64], str]:
        """The places of the tokens that fit, and the text behind them."""
        if self.limit is None or len(content) + added <= self.limit:
            return content, ""
        if not truncation:
            raise InputError(
                f"the text has {len(content) + added} tokens ({added} of them special), the model reads at most {self.limit}: "
                "shorten the text, or pass truncation=True (--truncation) to explain its beginning"
            )
        if self.limit <= added:
            raise InputError(f"the model reads {self.limit} tokens and {added} of them are special: nothing is left for the text")
        kept = content[: self.limit - added]
        return kept, text[offsets[kept[-1]][1] :]

    def size(self, row: Row) -> int:
        """Tokens in a row, special ones included."""
        return len(cast(_Encoded, row)[0])

    def show(self, row: Row) -> str:
        """A row as its tokens."""
        return " ".join(self._tokenizer.convert_ids_to_tokens(list(cast(_Encoded, row)[0])))

    def answer(self, rows: Sequence[Row]) -> Tensor:
        """Logits for a batch; rows of unequal length are padded where padding changes nothing."""
        encoded = cast(Sequence[_Encoded], rows)
        with self._lock, _evaluating(self._model), torch.inference_mode():
            if len({self.size(row) for row in rows}) == 1:
                return self._forward(encoded, "right")
            if self._padding is None:
                self._padding = self._harmless_padding(encoded)
            if self._padding != "none":
                return self._forward(encoded, self._padding)
            return self._by_length(encoded)

    def _by_length(self, rows: Sequence[_Encoded]) -> Tensor:
        lengths = np.array([self.size(row) for row in rows])
        result: Tensor | None = None
        for length in np.unique(lengths):
            places = np.flatnonzero(lengths == length)
            logits = self._forward([rows[int(place)] for place in places], "right")
            if result is None:
                result = logits.new_empty(len(rows), logits.shape[1])
            result[torch.as_tensor(places, device=logits.device)] = logits
        assert result is not None
        return result

    def _harmless_padding(self, rows: Sequence[_Encoded]) -> str:
        """The side on which padding a row leaves its answer alone; "none" if there is no such side."""
        short, long = min(rows, key=self.size), max(rows, key=self.size)
        alone, other = self._forward([short], "right"), self._forward([long], "right")
        self.probe_calls += 2
        first = getattr(self._tokenizer, "padding_side", "right")
        half = next(self._model.parameters()).dtype in (torch.float16, torch.bfloat16)
        spread = (alone - other).abs().max()
        tolerance = (5e-2 if half else 1e-3) * torch.maximum(spread, (1 + alone.abs()) * (0.2 if half else 1e-2))
        for side in (first, "left" if first == "right" else "right"):
            padded = self._forward([short, long], side)[:1]
            self.probe_calls += 2
            if bool(((padded - alone).abs() <= tolerance).all()):
                return str(side)
        return "none"

    def _forward(self, rows: Sequence[_Encoded], side: str) -> Tensor:
        width = max(self.size(row) for row in rows)
        with _pad_token(self._model, rows) as pad:
            ids = torch.tensor([_padded(row[0], width, pad, side) for row in rows])
            mask = torch.tensor([_padded((1,) * len(row[0]), width, 0, side) for row in rows])
            inputs = {"input_ids": ids.to(self.device), "attention_mask": mask.to(self.device)}
            if len(rows[0]) > 1:
                inputs["token_type_ids"] = torch.tensor([_padded(row[1], width, 0, side) for row in rows]).to(self.device)
            logits = getattr(self._model(**inputs), "logits", None)
        if not isinstance(logits, Tensor):
            raise ModelError(
                f"{self.name} gives no logits for {shortened(self.show(rows[0]))}: give a model with a sequence classification head"
            )
        expected = (len(rows), self.outputs.width)
        if tuple(logits.shape) != expected:
            raise ModelError(
                f"{self.name} answers {len(rows)} texts with shape {tuple(logits.shape)} instead of {expected} for {shortened(self.show(rows[0]))}: "
                "give a model with a sequence classification head"
            )
        return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits


def _padded(row: tuple[int, ...], width: int, filler: int, side: str) -> tuple[int, ...]:
    padding = (filler,) * (width - len(row))
    return row + padding if side == "right" else padding + row


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """Switches dropout off, and every module back to its own mode afterwards."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


@contextmanager
def _pad_token(model: Any, rows: Sequence[_Encoded]) -> Iterator[int]:
    """The id that pads; a model without one is lent an id that occurs in none of the rows.

    Decoders look for the last token that is not padding by this id, so it must be in their
    configuration while they run.
    """
    config = model.config
    pad = getattr(config, "pad_token_id", None)
    if pad is not None and pad >= 0:
        yield int(pad)
        return
    used = {token for row in rows for token in row[0]}
    free = next((token for token in range(config.vocab_size) if token not in used), None)
    if free is None:
        raise ModelError("the model has no pad token and the text uses its whole vocabulary: set model.config.pad_token_id")
    config.pad_token_id = free
    try:
        yield free
    finally:
        config.pad_token_id = pad


def _checked(tokenizer: Any) -> Any:
    if not getattr(tokenizer, "is_fast", False):
        raise InputError(
            f"the tokenizer {type(tokenizer).__name__} does not report where its tokens stand in the text: load a fast one (AutoTokenizer with use_fast=True)"
        )
    return tokenizer


def _takes(model: Any, name: str) -> bool:
    """Whether a model can be handed an input of this name: generic tokenizers make segments for models that have none."""
    parameters = inspect.signature(model.forward).parameters
    return name in parameters or any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())


def _outputs(config: Any) -> Outputs:
    names = config.id2label
    labels = tuple(str(names[index]) for index in range(config.num_labels))
    if getattr(config, "problem_type", None) == "regression":
        return Outputs("regression", labels)
    if len(labels) == 1:
        return Outputs("single", labels)
    if getattr(config, "problem_type", None) == "multi_label_classification":
        return Outputs("multilabel", labels)
    return Outputs("binary" if len(labels) == 2 else "multiclass", labels)


def _limit(model: Any, tokenizer: Any) -> int | None:
    """Tokens the model reads at most, special ones included; None where nothing limits it."""
    limits = []
    stated = getattr(tokenizer, "model_max_length", None)
    if stated is not None and stated < 10**9:
        limits.append(int(stated))
    positions = getattr(model.config, "max_position_embeddings", None)
    if isinstance(positions, int) and positions > 0:
        limits.append(positions - _reserved_positions(model))
    return min(limits) if limits else None


def _reserved_positions(model: Any) -> int:
    """Positions that RoBERTa-like models keep for padding: they count from behind the padding's own."""
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, torch.nn.Embedding) and module.padding_idx is not None:
            return int(module.padding_idx) + 1
    return 0


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """A token's span without the white space some tokenizers count in, unless that is all of it."""
    piece = text[start:end]
    if not piece.strip():
        return start, end
    return start + len(piece) - len(piece.lstrip()), end - (len(piece) - len(piece.rstrip()))
