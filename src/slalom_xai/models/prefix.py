"""The beginning that rows share, read once by a decoder.

Rows are a text with some tokens deleted. In a causal model later tokens change nothing about
earlier ones. So up to the first deleted token the model computes for a row what it computes for the
text, and its keys and values there are kept from one reading of the text and lent to every row.

Whether a model is causal cannot be told for certain by its configuration. So it is tried: two rows
that borrow must be answered as rows that are read whole, and what was kept must be what the model
computes for the beginning alone.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from slalom_xai.errors import ModelError
from slalom_xai.models.configurations import (
    bytes_per_token,
    can_cache,
    free_token,
    reach,
    set_pad_token,
    text_config,
    warns_without_mask,
)
from slalom_xai.models.internals import evaluation_mode

# Keys and values of a decoder, as versions of the transformers library hand them over.


# Keys and values of every layer, (1, heads, tokens, width) each.
Layers = list[tuple[Tensor, Tensor]]


def takes_caches(model: Any) -> bool:
    """Whether keys and values travel in a cache object.

    Some models before transformers 5 take plain tuples.
    """
    return bool(getattr(model, "_supports_cache_class", True))


def new_cache() -> Any:
    """A cache to fill.

    It is made without a configuration, which would let go of tokens behind a window.
    """
    from transformers import DynamicCache

    return DynamicCache()


def layers_of(past: Any) -> Layers:
    """Keys and values out of whatever a model handed over."""
    if isinstance(past, (tuple, list)):
        return [(keys, values) for keys, values in past]
    if hasattr(past, "key_cache"):
        return list(zip(past.key_cache, past.value_cache, strict=True))
    return [(layer.keys, layer.values) for layer in past.layers]


@functools.cache
def _lent_class() -> type:
    from transformers import DynamicCache

    class LentCache(DynamicCache):
        """Puts the lent beginning before each layer's new keys and values, and stores neither."""

        lent: Layers
        shared: int

        def update(
            self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: Any, **__: Any
        ) -> tuple[Tensor, Tensor]:
            keys, values = self.lent[layer_idx]
            return torch.cat([keys, key_states], dim=2), torch.cat([values, value_states], dim=2)

        def get_seq_length(self, layer_idx: int = 0) -> int:
            return self.shared

        def get_mask_sizes(self, query_length: Any, layer_idx: int = 0) -> tuple[int, int]:
            if not isinstance(query_length, int):  # positions, before transformers 5
                query_length = len(query_length)
            return self.shared + query_length, 0

        def __len__(self) -> int:
            return len(self.lent)

    return LentCache


def lend_cache(layers: Layers, shared: int) -> Any:
    """A cache of ``shared`` tokens that a model may look at and that does not grow.

    Only one layer's keys and values are ever put together with the new ones, so that memory does
    not add up over layers.
    """
    cache = _lent_class()()
    cache.lent, cache.shared = layers, shared
    return cache


def covers(part: Tensor, tokens: int) -> bool:
    """Whether keys or values are those of one row, with an entry for every token."""
    return part.ndim == 4 and part.shape[0] == 1 and part.shape[2] == tokens


def close(one: Tensor, other: Tensor, tolerance: float) -> bool:
    """Whether keys or values differ by at most this share of their norm."""
    return bool((one - other).float().norm() <= tolerance * other.float().norm())


# The beginning that rows share, read once by a decoder.


@dataclass(frozen=True)
class Closeness:
    """How far an answer that borrows may be off one that does not.

    Attributes:
        share: of the distance between the answers to two rows, and of the norm of keys and values.
        floor: the distance is taken to be at least this share of 1 + the answer's size.
    """

    share: float
    floor: float


@dataclass(frozen=True)
class PrefixSettings:
    """What is kept of a text, and how a model is tried.

    Attributes:
        most_bytes: memory of the keys and values kept. Of a longer text only the beginning is kept.
        fewest_tokens: of a text that is worth keeping, and enough to try rows of unequal length on.
        try_again: a text this many times as long as any before it is tried anew: what changes with
            length (windows, stretched positions) may have set in.
        fine: in float32. It lies between rounding, 1e-6, and what a model that looks ahead does.
        coarse: in half precision or TF32, which round a thousand times more.
    """

    most_bytes: int = 1 << 30
    fewest_tokens: int = 8
    try_again: int = 2
    fine: Closeness = Closeness(share=1e-4, floor=0.1)
    coarse: Closeness = Closeness(share=5e-2, floor=0.2)


PREFIX = PrefixSettings()
Segments = Sequence[int] | None


class PrefixCache:
    """Keys and values of one text at a time, lent to rows that begin like it.

    A model is first looked at (``can_cache``) and then tried on the text: rows that borrow must be
    answered as rows that are read whole. Until that has succeeded, ``keep`` keeps nothing, and
    callers ask the model in the usual way.

    Calls must not overlap: the caller holds the model's lock.

    Args:
        model: a sequence classifier of the transformers library.
        most_bytes: what is kept takes at most this much memory.
        tail: tokens at the end of every row that are never borrowed, because the model answers
            from each of them; a classifier answers from the last one alone.
    """

    def __init__(self, model: Any, *, most_bytes: int = PREFIX.most_bytes, tail: int = 1) -> None:
        self.rows_asked = 0
        self._model = model
        self._most_bytes = most_bytes
        self._tail = tail
        self._possible = can_cache(model)
        self._reach = reach(model.config) if self._possible else 0
        self._layers: Layers = []
        self._pad = -1
        self._segments = False
        self._first_position: int | None = None
        # Tokens of the longest text on which borrowing was seen to change nothing, by whether rows
        # have position ids.
        self._tried = {False: 0, True: 0}

    @property
    def possible(self) -> bool:
        """Whether the model may lend, as far as is known."""
        return self._possible

    def forget(self) -> None:
        """Keeps nothing any longer."""
        self._layers = []

    @property
    def kept(self) -> int:
        """How many tokens rows may share; 0 before a text is kept, or where nothing can be."""
        if not self._layers:
            return 0
        return int(self._layers[0][0].shape[2])

    @property
    def bytes(self) -> int:
        """Memory that the kept keys and values take."""
        return sum(part.nbytes for layer in self._layers for part in layer)

    def keep(
        self,
        ids: Sequence[int],
        segments: Segments = None,
        *,
        filler: int | None = None,
        first_position: int | None = None,
    ) -> int:
        """Reads a text and keeps it in the place of the one before.

        The first text, and every text more than twice as long as any before it, is tried on two of
        its rows.

        Args:
            ids: all tokens of the text, special ones included, (n,).
            segments: of the tokens, where rows have them.
            filler: the token that rows have in the place of removed ones, where they are not
                deleted.
            first_position: the position id of the first token, for rows that come with position
                ids; None for rows that do not.

        Returns:
            How many tokens rows may share; 0 where rows must be asked in the usual way.
        """
        self._layers = []
        tokens = list(ids)
        if not self._possible or not PREFIX.fewest_tokens <= len(tokens) <= self._reach:
            return 0
        used = set(tokens) if filler is None else {*tokens, filler}
        pad = free_token(self._model.config, used)
        if pad is None:
            return 0
        self._pad = pad
        self._segments = segments is not None
        self._first_position = first_position
        try:
            self._keep(tokens, segments)
        except Exception:
            # Whatever somebody else's model raises here, it can still be asked in the usual way.
            self._possible = False
        if not self._possible or self.bytes > self._most_bytes:
            self._layers = []
        return self.kept

    def _keep(self, tokens: Sequence[int], segments: Segments) -> None:
        """Keeps what there is room for, and tries the model on a text longer than any before."""
        room = self._most_bytes // bytes_per_token(self._model)
        kept = min(room, len(tokens) - self._tail)
        if kept < 1:
            return
        self._layers = self._read(tokens[:kept], _first(segments, kept))
        has_positions = self._first_position is not None
        if len(tokens) > PREFIX.try_again * self._tried[has_positions]:
            self._possible = self._agrees(tokens, segments)
            self._tried[has_positions] = len(tokens)

    def answer(
        self,
        shared: int,
        ids: Tensor,
        lengths: Tensor,
        segments: Tensor | None = None,
        positions: Tensor | None = None,
    ) -> Tensor:
        """Logits (rows, classes) of rows that begin with the first tokens of the kept text.

        Nothing here waits for the device.

        Args:
            shared: tokens that every row has in common with the text; at least one of each row must
                be left.
            ids: what follows in each row, on the model's device, (rows, width); whatever fills a
                row on the right is ignored.
            lengths: how many tokens follow in each row, at least 1, on the same device, (rows,).
            segments: like ``ids``, where the text was kept with segments.
            positions: like ``ids``, the position ids of rows that have some.

        Raises:
            ModelError: more tokens than are kept, or other inputs than the text was kept with.
        """
        alike = self._segments == (segments is not None)
        if not 0 <= shared <= self.kept or not self._layers or not alike:
            raise ModelError(
                f"rows share {shared} tokens with a text of which {self.kept} are kept"
                f"{' with' if self._segments else ' without'} segments: keep the text first"
            )
        inside = torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]
        inputs = {"input_ids": ids.masked_fill(~inside, self._pad)}
        if segments is not None:
            inputs["token_type_ids"] = segments.masked_fill(~inside, 0)
        if positions is not None:
            inputs["position_ids"] = positions
        if positions is not None or warns_without_mask(self._model.config):
            # Without a mask, position ids with gaps are taken for those of several texts.
            inputs["attention_mask"] = torch.ones(
                len(ids), shared + ids.shape[1], dtype=torch.long, device=ids.device
            )
        # Otherwise no mask: what fills a row stands behind all of its tokens, where none looks.
        past = self._lend(shared, len(ids)) if shared else None
        return self._run(inputs, past, keep=False)[0]

    def _read(self, tokens: Sequence[int], segments: Segments) -> Layers:
        """Keys and values of the tokens."""
        self.rows_asked += 1
        past = new_cache() if takes_caches(self._model) else None
        layers = layers_of(self._run(self._inputs(tokens, segments), past, keep=True)[1])
        expected = getattr(text_config(self._model.config), "num_hidden_layers", len(layers))
        whole = all(covers(part, len(tokens)) for layer in layers for part in layer)
        if not layers or len(layers) != expected or not whole:
            raise ModelError(
                "the model keeps something else than the keys and values of every token"
            )
        return [(keys.contiguous(), values.contiguous()) for keys, values in layers]

    def _inputs(
        self, tokens: Sequence[int], segments: Segments, positions: Segments = None
    ) -> dict[str, Tensor]:
        """One row, masked as rows are in the usual way."""
        device = next(self._model.parameters()).device
        ids = torch.tensor([list(tokens)], device=device)
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        if segments is not None:
            inputs["token_type_ids"] = torch.tensor([list(segments)], device=device)
        if positions is not None:
            inputs["position_ids"] = torch.tensor([list(positions)], device=device)
        return inputs

    def _lend(self, shared: int, rows: int) -> Any:
        """The beginning as every row's own, without copying it."""
        layers = []
        for keys, values in self._layers:
            own_keys = keys[:, :, :shared].expand(rows, -1, -1, -1)
            own_values = values[:, :, :shared].expand(rows, -1, -1, -1)
            layers.append((own_keys, own_values))
        if takes_caches(self._model):
            return lend_cache(layers, shared)
        return tuple(layers)

    @contextmanager
    def _ready(self) -> Iterator[None]:
        padded = set_pad_token(self._model.config, self._pad)
        with evaluation_mode(self._model), torch.inference_mode(), padded:
            yield

    def _run(self, inputs: Mapping[str, Tensor], past: Any, *, keep: bool) -> tuple[Tensor, Any]:
        """Logits and, where they are kept, keys and values."""
        with self._ready():
            output = self._model(**inputs, past_key_values=past, use_cache=keep)
        return _single(output.logits), (output.past_key_values if keep else None)

    def _agrees(self, tokens: Sequence[int], segments: Segments) -> bool:
        """Whether rows that borrow are answered as they are in the usual way.

        There are two of them, and one is padded.
        """
        shared = min(self.kept, len(tokens) // 2)
        end = len(tokens) - self._tail
        tail = list(range(end, len(tokens)))
        rests = [tail, [*range(shared + 1, end, 2), *tail]]
        usual = [self._usual(tokens, segments, [*range(shared), *rest]) for rest in rests]
        whole = torch.cat(usual)  # (2, classes)
        lengths = torch.tensor([len(rest) for rest in rests], device=whole.device)
        indices = torch.tensor([rest + [0] * (len(rests[1]) - len(rest)) for rest in rests])
        ids = torch.tensor(tokens)[indices].to(whole.device)
        types = None
        if segments is not None:
            types = torch.tensor(segments)[indices].to(whole.device)
        positions = None
        if self._first_position is not None:
            positions = indices.to(whole.device) + self._first_position
        borrowed = self.answer(shared, ids, lengths, types, positions)
        self.rows_asked += len(rests)
        closeness = PREFIX.coarse if _is_coarse(self._model) else PREFIX.fine
        spread = (whole[0] - whole[1]).abs().max()
        scale = torch.maximum(spread, (1 + whole.abs()) * closeness.floor)
        if not bool(((borrowed - whole).abs() <= closeness.share * scale).all()):
            return False
        # Keys and values tell more than a few logits do: in a model that looks ahead they differ
        # far more than by rounding.
        alone = self._read(tokens[:shared], _first(segments, shared))
        return all(
            close(kept[:, :, :shared], own, closeness.share)
            for ours, theirs in zip(self._layers, alone, strict=True)
            for kept, own in zip(ours, theirs, strict=True)
        )

    def _usual(self, tokens: Sequence[int], segments: Segments, indices: Sequence[int]) -> Tensor:
        """The answer (1, classes) to one row, some of the tokens, as any model is asked."""
        self.rows_asked += 1
        types = None
        if segments is not None:
            types = [segments[index] for index in indices]
        positions = None
        if self._first_position is not None:
            positions = [index + self._first_position for index in indices]
        inputs = self._inputs([tokens[index] for index in indices], types, positions)
        with self._ready():
            return _single(self._model(**inputs).logits)


def _first(segments: Segments, count: int) -> Segments:
    if segments is None:
        return None
    return segments[:count]


def _single(logits: Tensor) -> Tensor:
    """Logits in float32 at least."""
    return logits.float() if logits.itemsize < 4 else logits


def _is_coarse(model: Any) -> bool:
    """Whether the model computes with fewer digits than float32 has."""
    first = next(model.parameters())
    if first.itemsize < 4:
        return True
    return bool(first.device.type == "cuda" and torch.backends.cuda.matmul.allow_tf32)
