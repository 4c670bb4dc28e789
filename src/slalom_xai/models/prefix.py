"""The beginning that rows share, read once by a model in which later tokens change nothing about earlier ones.

Rows are a text with some tokens deleted. Up to the first deleted token a causal model computes for a row what it
computes for the text, so its keys and values there are kept from one reading of the text and lent to every row.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from slalom_xai.errors import ModelError
from slalom_xai.models.caches import Layers, empty_cache, layers_of, lent_cache, takes_caches
from slalom_xai.models.internals import evaluating

MOST_BYTES = 1 << 30
FEWEST = 8  # tokens of a text that is worth keeping, and enough to try rows of unequal length on
WINDOWS = (
    "sliding_window",
    "attention_window",
    "attention_chunk_size",
    "window_size",
    "local_attention",
)
WARNING = (
    "gpt2",
    "gpt_bigcode",
)  # they search rows for padding, and warn of it, unless given a mask
STRETCHED = (
    "dynamic",
    "longrope",
    "su",
)  # rotations that change for every token once a text is long


class PrefixCache:
    """Keys and values of one text at a time, lent to rows that begin like it.

    A model is first looked at (``can_cache``) and then tried on the text: rows that borrow must be answered as rows that
    are read whole. Until that has succeeded, ``keep`` keeps nothing, and callers ask the model in the usual way.

    Calls must not overlap: the caller holds the model's lock.

    Args:
        model: a sequence classifier of the transformers library.
        most_bytes: what is kept takes at most this much memory; of a longer text only the beginning is kept.
    """

    def __init__(self, model: Any, *, most_bytes: int = MOST_BYTES) -> None:
        self.rows_asked = 0
        self._model = model
        self._most_bytes = most_bytes
        self._possible = can_cache(model)
        self._reach = _reach(model.config) if self._possible else 0
        self._layers: Layers = []
        self._pad = -1
        self._segments = False
        self._tried = 0  # tokens of the longest text on which borrowing was seen to change nothing

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
        return int(self._layers[0][0].shape[2]) if self._layers else 0

    @property
    def bytes(self) -> int:
        """Memory that the kept keys and values take."""
        return sum(part.nbytes for layer in self._layers for part in layer)

    def keep(
        self,
        ids: Sequence[int],
        segments: Sequence[int] | None = None,
        *,
        filler: int | None = None,
    ) -> int:
        """Reads a text and keeps it in the place of the one before.

        The first text, and every text more than twice as long as any before it, is tried on two of its rows.

        Args:
            ids: all tokens of the text, special ones included, (n,).
            segments: of the tokens, where rows have them.
            filler: the token that rows have in the place of removed ones, where they are not deleted.

        Returns:
            How many tokens rows may share; 0 where rows must be asked in the usual way.
        """
        self._layers = []
        tokens = list(ids)
        if not self._possible or not FEWEST <= len(tokens) <= self._reach:
            return 0
        pad = _free_token(self._model.config, {*tokens, *([] if filler is None else [filler])})
        if pad is None:
            return 0
        self._pad = pad
        self._segments = segments is not None
        try:
            room = self._most_bytes // _bytes_per_token(self._model)
            if room < 1:
                return 0
            kept = min(room, len(tokens) - 1)  # the last token is never borrowed
            self._layers = self._read(tokens[:kept], None if segments is None else segments[:kept])
            if len(tokens) > 2 * self._tried:
                self._possible = self._agrees(tokens, segments)
                self._tried = len(tokens)
        except Exception:  # whatever a model of somebody else's raises here, there is still the usual way to ask it
            self._possible = False
        if not self._possible or self.bytes > self._most_bytes:
            self._layers = []
        return self.kept

    def answer(
        self, shared: int, ids: Tensor, lengths: Tensor, segments: Tensor | None = None
    ) -> Tensor:
        """Logits (rows, classes) of rows that begin with the first ``shared`` tokens of the kept text.

        Nothing here waits for the device.

        Args:
            shared: tokens that every row has in common with the text; at least one of each row must be left.
            ids: what follows in each row, on the model's device, (rows, width); whatever fills a row on the right is ignored.
            lengths: how many tokens follow in each row, at least 1, on the same device, (rows,).
            segments: like ``ids``, where the text was kept with segments.

        Raises:
            ModelError: more tokens than are kept, or other inputs than the text was kept with.
        """
        if (
            not 0 <= shared <= self.kept
            or not self._layers
            or self._segments != (segments is not None)
        ):
            raise ModelError(
                f"rows share {shared} tokens with a text of which {self.kept} are kept"
                f"{' with' if self._segments else ' without'} segments: keep the text first"
            )
        inside = torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]
        inputs = {"input_ids": ids.masked_fill(~inside, self._pad)}
        if segments is not None:
            inputs["token_type_ids"] = segments.masked_fill(~inside, 0)
        if getattr(self._model.config, "model_type", "") in WARNING:
            inputs["attention_mask"] = torch.ones(
                len(ids), shared + ids.shape[1], dtype=torch.long, device=ids.device
            )
        # Otherwise no mask: what fills a row stands behind all of its tokens, where none of them looks.
        return self._run(inputs, self._lent(shared, len(ids)) if shared else None, keep=False)[0]

    def _read(self, tokens: Sequence[int], segments: Sequence[int] | None) -> Layers:
        """Keys and values of the tokens."""
        self.rows_asked += 1
        past = self._run(
            self._inputs(tokens, segments),
            empty_cache() if takes_caches(self._model) else None,
            keep=True,
        )[1]
        layers = layers_of(past)
        expected = getattr(_text_config(self._model.config), "num_hidden_layers", len(layers))
        whole = all(
            part.ndim == 4 and part.shape[0] == 1 and part.shape[2] == len(tokens)
            for layer in layers
            for part in layer
        )
        if not layers or len(layers) != expected or not whole:
            raise ModelError(
                "the model keeps something else than the keys and values of every token"
            )
        return [(keys.contiguous(), values.contiguous()) for keys, values in layers]

    def _inputs(self, tokens: Sequence[int], segments: Sequence[int] | None) -> dict[str, Tensor]:
        """One row, masked as rows are in the usual way."""
        device = next(self._model.parameters()).device
        ids = torch.tensor([list(tokens)], device=device)
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        if segments is not None:
            inputs["token_type_ids"] = torch.tensor([list(segments)], device=device)
        return inputs

    def _lent(self, shared: int, rows: int) -> Any:
        """The beginning as every row's own, without copying it."""
        layers = [
            (k[:, :, :shared].expand(rows, -1, -1, -1), v[:, :, :shared].expand(rows, -1, -1, -1))
            for k, v in self._layers
        ]
        return lent_cache(layers, shared) if takes_caches(self._model) else tuple(layers)

    @contextmanager
    def _ready(self) -> Iterator[None]:
        with (
            evaluating(self._model),
            torch.inference_mode(),
            _padded_by(self._model.config, self._pad),
        ):
            yield

    def _run(self, inputs: Mapping[str, Tensor], past: Any, *, keep: bool) -> tuple[Tensor, Any]:
        with self._ready():
            output = self._model(**inputs, past_key_values=past, use_cache=keep)
        logits: Tensor = output.logits
        return (logits.float() if logits.itemsize < 4 else logits), (
            output.past_key_values if keep else None
        )

    def _agrees(self, tokens: Sequence[int], segments: Sequence[int] | None) -> bool:
        """Whether two rows that borrow, one of them padded, are answered as they are in the usual way."""
        shared = min(self.kept, len(tokens) // 2)
        rests = [[len(tokens) - 1], list(range(shared + 1, len(tokens), 2))]
        whole = torch.cat(
            [self._usual(tokens, segments, [*range(shared), *rest]) for rest in rests]
        )
        places = torch.tensor([rest + [0] * (len(rests[1]) - len(rest)) for rest in rests])
        ids, types = (
            None if stream is None else torch.tensor(stream)[places].to(whole.device)
            for stream in (tokens, segments)
        )
        assert ids is not None
        borrowed = self.answer(
            shared, ids, torch.tensor([len(rest) for rest in rests], device=whole.device), types
        )
        self.rows_asked += len(rests)
        coarse = _coarse(self._model)
        spread = (whole[0] - whole[1]).abs().max()
        scale = torch.maximum(spread, (1 + whole.abs()) * (0.2 if coarse else 0.1))
        tolerance = 5e-2 if coarse else 1e-4
        if not bool(((borrowed - whole).abs() <= tolerance * scale).all()):
            return False
        # Keys and values tell more than a few logits do: in a model that looks ahead they differ far more than by rounding.
        alone = self._read(tokens[:shared], None if segments is None else segments[:shared])
        return all(
            _close(kept[:, :, :shared], own, tolerance)
            for ours, theirs in zip(self._layers, alone, strict=True)
            for kept, own in zip(ours, theirs, strict=True)
        )

    def _usual(
        self, tokens: Sequence[int], segments: Sequence[int] | None, places: Sequence[int]
    ) -> Tensor:
        """The answer (1, classes) to one row as any model is asked."""
        self.rows_asked += 1
        streams = [
            None if stream is None else [stream[place] for place in places]
            for stream in (tokens, segments)
        ]
        assert streams[0] is not None
        with self._ready():
            logits: Tensor = self._model(**self._inputs(streams[0], streams[1])).logits
        return logits.float() if logits.itemsize < 4 else logits


def can_cache(model: Any) -> bool:
    """Whether a model looks like a decoder that takes keys and values of earlier tokens; ``keep`` then tries it."""
    config = getattr(model, "config", None)
    try:
        parameters = inspect.signature(model.forward).parameters
    except (AttributeError, TypeError, ValueError):
        return False
    if config is None or not {"past_key_values", "use_cache", "input_ids"} <= set(parameters):
        return False
    text = _text_config(config)
    ahead = getattr(text, "is_causal", True) is False or getattr(
        text, "use_bidirectional_attention", False
    )
    return not (getattr(config, "is_encoder_decoder", False) or ahead)


def _close(one: Tensor, other: Tensor, tolerance: float) -> bool:
    return bool((one - other).float().norm() <= tolerance * other.float().norm())


def _coarse(model: Any) -> bool:
    """Whether the model computes with fewer digits than float32 has."""
    first = next(model.parameters())
    return bool(
        first.itemsize < 4
        or (first.device.type == "cuda" and torch.backends.cuda.matmul.allow_tf32)
    )


def _text_config(config: Any) -> Any:
    return config.get_text_config() if hasattr(config, "get_text_config") else config


def _reach(config: Any) -> int:
    """Tokens up to which no token is out of another's sight, and a position means the same in every text."""
    limits = [1 << 30]

    def look(part: Mapping[str, Any]) -> None:
        limits.extend(
            part[name] for name in WINDOWS if isinstance(part.get(name), int) and part[name] > 0
        )
        if (part.get("rope_type") or part.get("type")) in STRETCHED:
            stated = part.get("original_max_position_embeddings")
            limits.append(
                stated
                or getattr(_text_config(config), "original_max_position_embeddings", None)
                or longest
            )
        for inner in part.values():
            if isinstance(inner, Mapping):
                look(inner)

    longest = getattr(_text_config(config), "max_position_embeddings", None) or 0
    look(config.to_dict())
    return int(min(limits))


def _bytes_per_token(model: Any) -> int:
    """Memory of one token's keys and values, as far as the configuration tells."""
    config = _text_config(model.config)
    heads = getattr(config, "num_attention_heads", 1)
    each = getattr(config, "head_dim", None) or config.hidden_size // heads
    heads = getattr(config, "num_key_value_heads", None) or heads
    return (
        2
        * int(config.num_hidden_layers)
        * int(heads)
        * int(each)
        * int(next(model.parameters()).itemsize)
    )


def _free_token(config: Any, used: set[int]) -> int | None:
    """What fills rows: the model's own pad token, or one that no row has; None where a row may have the model's own."""
    text = _text_config(config)
    pad = getattr(text, "pad_token_id", None)
    if pad is not None and pad >= 0:
        return None if pad in used else int(pad)
    return next((token for token in range(text.vocab_size) if token not in used), None)


@contextmanager
def _padded_by(config: Any, pad: int) -> Iterator[None]:
    """Decoders find a row's last token by the pad token of their configuration, where this one must stand."""
    text = _text_config(config)
    before = text.pad_token_id
    text.pad_token_id = pad
    try:
        yield
    finally:
        text.pad_token_id = before
