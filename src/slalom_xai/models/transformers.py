"""Models of the transformers library, encoders and decoders: how they are asked about rows."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor

from slalom_xai.errors import ModelError, quote_text
from slalom_xai.models.configurations import (
    check_vocabulary,
    config_outputs,
    reads_pairs,
    segment_count,
    takes,
    token_limit,
)
from slalom_xai.models.fingerprints import transformers_fingerprint
from slalom_xai.models.hiding import HidingWays, spread_to_decoder
from slalom_xai.models.internals import Internals, evaluation_mode
from slalom_xai.models.locks import is_stateless, lock_of
from slalom_xai.models.outputs import Outputs
from slalom_xai.models.padded import HALF, PaddedModel, has_small_steps, written_batch
from slalom_xai.models.prefix import PrefixCache
from slalom_xai.models.reading import TokenReading
from slalom_xai.models.rows import Hiding, Row, TokenRow, TokenText
from slalom_xai.models.token_batch import TokenBatch
from slalom_xai.models.tokens import Tokens
from slalom_xai.system.switches import Switch

# Lets a GPU multiply float32 matrices in TF32, several times faster. What that rounds is far below
# what a fit leaves.
TENSOR_CORES = Switch(
    torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "high"
)


class AnyTransformer(PaddedModel):
    """A transformers model that answers each row with a few numbers.

    The model is used as it is: on its device, in its precision, its mode and configuration
    put back after every call.

    Args:
        model: takes token ids by name and gives ``logits``, (rows, outputs).
        tokens: reads its texts.
        name: how it is called in results.
        outputs: what its logits mean.
        lock: calls take turns.
        tail: tokens at the end of every row from which it answers.
    """

    def __init__(
        self,
        model: Any,
        tokens: Tokens,
        name: str,
        outputs: Outputs,
        lock: threading.RLock,
        *,
        tail: int = 1,
    ) -> None:
        super().__init__(tokens, name, lock)
        self._model = model
        self._prefix = PrefixCache(model, tail=tail)
        self._hiding = HidingWays(model, tokens.tokenizer, name)
        self._small = has_small_steps(model)
        self._fast = True
        self._outputs = outputs
        stated = inspect.signature(model.forward).parameters.get("attention_mask")
        self._mask_is_optional = stated is not None and stated.default is None

    @property
    def outputs(self) -> Outputs:
        """What its logits mean."""
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

    def weights_fingerprint(self) -> str:
        """A hash of the weights, the configuration and the versions that compute with them."""
        return transformers_fingerprint(self._model)

    @contextmanager
    def _exactly(self) -> Iterator[None]:
        self._fast = False
        try:
            yield
        finally:
            self._fast = True

    @property
    def hides(self) -> bool:
        """Whether tokens may be hidden from it, as far as its configuration tells."""
        return self._hiding.possible

    @property
    def hiding_opposes_deleting(self) -> bool:
        """Whether hiding tokens was seen to move its output another way than deleting them."""
        return self._hiding.opposes_deleting

    def read(
        self,
        text: str,
        text_pair: str | None = None,
        *,
        truncation: bool = False,
        removal: str = "delete",
    ) -> TokenReading:
        """Splits a text, or a pair, into its tokens.

        Before tokens are hidden for the first time, it is tried in which way.
        """
        if removal != "hide":
            return super().read(text, text_pair, truncation=truncation, removal=removal)
        reading = super().read(text, text_pair, truncation=truncation)
        way = self._way(reading)
        return replace(reading, tokens=TokenText(reading.tokens.streams, hiding=way))

    def _way(self, reading: TokenReading) -> Hiding:
        """How tokens of a text are hidden."""
        with self._lock, self._exactly():
            before = self._hiding.rows_asked
            try:
                return self._hiding.find(
                    reading,
                    lambda batch, in_holes: self._logits(batch, "right", in_holes),
                    half=self._half,
                )
            finally:
                self.probe_calls += self._hiding.rows_asked - before

    def answer(self, rows: Sequence[Row]) -> Tensor:
        """Logits for a batch of rows that are written out."""
        return self.answer_tokens(self._batch(rows))

    def _batch(self, rows: Sequence[Row]) -> TokenBatch:
        ends = [1 + row[-1][-1] for row in cast(Sequence[TokenRow], rows) if len(row) > 2]
        return written_batch(rows, self._hiding.way(max(ends)) if ends else None)

    @property
    def lends(self) -> bool:
        """Whether it looks like a decoder, whose reading of a beginning serves all rows with it."""
        return self._prefix.possible

    @contextmanager
    def lend_prefix(self, text: TokenText) -> Iterator[int]:
        """Reads the whole text once, where that serves its rows.

        Yields:
            How many tokens rows may then borrow; 0 where none.
        """
        with self._lock:
            before = self._prefix.rows_asked
            streams = [stream.tolist() for stream in text.streams]
            first = None if text.hiding is None else self._hiding.first_position
            with self._exactly():
                kept = self._prefix.keep(*streams, filler=text.filler, first_position=first)
            self.probe_calls += self._prefix.rows_asked - before
            try:
                yield kept
            finally:
                self._prefix.forget()

    def answer_tokens(self, batch: TokenBatch) -> Tensor:
        """Logits for a batch; of rows that borrow their beginning only the rest is read."""
        if not batch.shared:
            return super().answer_tokens(batch)
        inputs = self._inputs(batch, 0, "right", 0)
        rest = {name: tensor[:, batch.shared :] for name, tensor in inputs.items()}
        lengths = rest["attention_mask"].sum(dim=1)
        with self._lock, self._rounding():
            return self._prefix.answer(
                batch.shared,
                rest["input_ids"],
                lengths,
                rest.get("token_type_ids"),
                rest.get("position_ids"),
            )

    @contextmanager
    def hold_for_threads(self) -> Iterator[bool]:
        """Holds the lock and the mode of the model, for threads that ask it side by side.

        Yields:
            Whether they may. A decoder may not: it remembers what it has read.
        """
        with self._lock, evaluation_mode(self._model):
            yield not self.lends and is_stateless(self._model)

    def internals(self, row: Row) -> Internals:
        """The model as it is on one row, for methods that look inside."""
        batch = self._batch([row])
        return Internals(
            self._model,
            self._inputs(batch, 0, "right", self._hiding.in_holes),
            self._lock,
            self.name,
            lambda: _pad_token(self._model, batch),
        )

    def _rounding(self) -> AbstractContextManager[None]:
        """Tensor cores, where there are any and answers need not be exact."""
        if self.device.type == "cuda" and self._fast:
            return TENSOR_CORES.held()
        return nullcontext()

    def _forward(self, batch: TokenBatch, side: str) -> Tensor:
        return self._logits(batch, side, self._hiding.in_holes)

    def _logits(self, batch: TokenBatch, side: str, in_holes: int) -> Tensor:
        """Logits (len(batch), width), with a token in the holes of rows that have some."""
        used = {in_holes} if batch.hiding == "holes" else set()
        with (
            evaluation_mode(self._model),
            torch.inference_mode(),
            self._rounding(),
            _pad_token(self._model, batch, used) as pad,
        ):
            inputs = self._inputs(batch, pad, side, in_holes)
            if self._mask_is_optional and batch.equally_long and batch.hiding is None:
                del inputs["attention_mask"]  # attention is faster without one
            logits = getattr(self._model(**inputs), "logits", None)
        checked = self._check_logits(logits, batch)
        return checked.float() if checked.dtype in HALF else checked

    def _inputs(self, batch: TokenBatch, pad: int, side: str, in_holes: int) -> dict[str, Tensor]:
        """What the model is given for a batch."""
        inputs = batch.inputs(pad, side, self.device, in_holes)
        if "position_ids" in inputs:
            inputs["position_ids"] = inputs["position_ids"] + self._hiding.first_position
        config = self._model.config
        if batch.hiding == "holes" and getattr(config, "is_encoder_decoder", False):
            return spread_to_decoder(inputs, config.decoder_start_token_id)
        return inputs

    def _check_logits(self, logits: Any, batch: TokenBatch) -> Tensor:
        """Logits, if they are a tensor (len(batch), width)."""
        advice = "give a model with a sequence classification head"
        if not isinstance(logits, Tensor):
            first = quote_text(self.show(batch.row(0)))
            raise ModelError(f"{self.name} gives no logits for {first}: {advice}")
        shape, expected = tuple(logits.shape), (len(batch), self.outputs.width)
        if shape != expected:
            first = quote_text(self.show(batch.row(0)))
            raise ModelError(
                f"{self.name} returned shape {shape} instead of {expected} for {len(batch)} texts, "
                f"the first {first}: {advice}"
            )
        return logits


class TransformersModel(AnyTransformer):
    """A transformers model with a classification head, and its tokenizer."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        name: str | None = None,
        *,
        multilabel: bool = False,
        labels: tuple[str, ...] | None = None,
    ) -> None:
        config = model.config
        check_vocabulary(tokenizer, config, embedded_tokens(model))
        takes_segments = takes(model.forward, "token_type_ids")
        tokens = Tokens(
            tokenizer,
            limit=token_limit(tokenizer, config, model),
            segments=segment_count(config, takes_segments=takes_segments),
            pairs=reads_pairs(config),
        )
        shown = name or getattr(config, "name_or_path", "") or type(model).__name__
        outputs = config_outputs(config, multilabel).rename(labels, shown)
        super().__init__(model, tokens, shown, outputs, lock_of(model))


@contextmanager
def _pad_token(model: Any, batch: TokenBatch, also_used: Collection[int] = ()) -> Iterator[int]:
    """The id that pads; a model without one is lent an id that occurs in none of the rows.

    Decoders look for the last token that is not padding by this id, so it must be in their
    configuration while they run.
    """
    config = model.config
    pad = getattr(config, "pad_token_id", None)
    if pad is not None and pad >= 0:
        yield int(pad)
        return
    used = batch.ids.union(also_used)
    free = next((token for token in range(config.vocab_size) if token not in used), None)
    if free is None:
        raise ModelError(
            "the model has no pad token, and the text uses its whole vocabulary: "
            "set model.config.pad_token_id"
        )
    config.pad_token_id = free
    try:
        yield free
    finally:
        config.pad_token_id = pad


def embedded_tokens(model: Any) -> int | None:
    """How many tokens a model has embeddings for; None where that cannot be seen."""
    try:
        return int(model.get_input_embeddings().num_embeddings)
    except (AttributeError, NotImplementedError, TypeError):
        return None
