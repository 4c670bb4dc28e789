"""Texts as a model reads them: token rows on the device, in batches, padded where padding changes nothing."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slalom_xai.errors import InputError
from slalom_xai.models.internals import evaluating
from slalom_xai.models.transformers import takes, token_limit
from slalom_xai.progress import Bar
from slalom_xai.training.data import Examples

_MOST = 512  # tokens of a text where nobody says more
_CHUNK = 1000  # texts tokenised at a time
_TOKENS = 32768  # in a batch without gradients
_ROWS = 512
Ids = Sequence[int] | NDArray[np.int32]


class Encoded:
    """Token rows on the device as one flat tensor, so that a batch costs one gather.

    Args:
        rows: token ids of each text.
        segments: segments of each text's tokens, or None for a model that gets none.
        pad: id that fills rows up.
        device: where batches are needed.
        fixed: ids that holes leave alone.
    """

    def __init__(
        self,
        rows: Sequence[Ids],
        segments: Sequence[Ids] | None,
        pad: int,
        device: torch.device,
        fixed: Iterable[int],
    ) -> None:
        self.lengths = [len(row) for row in rows]
        self._pad, self._device = pad, device
        self._ids = _flat(rows, device)
        self._segments = None if segments is None else _flat(segments, device)
        self._fixed = torch.isin(
            self._ids, torch.tensor(sorted(fixed), dtype=self._ids.dtype, device=device)
        )
        self._sizes = torch.tensor(self.lengths, device=device)
        self._starts = self._sizes.cumsum(0) - self._sizes

    def __len__(self) -> int:
        return len(self.lengths)

    def batch(
        self, indices: Sequence[int], side: str = "right", holes: float = 0.0
    ) -> dict[str, Tensor]:
        """Model inputs for some rows, padded to the longest.

        Args:
            indices: which rows.
            side: where padding goes, "left" or "right".
            holes: mean share of tokens left out at random; each text's share is drawn from 0 to twice this.

        Returns:
            input_ids, attention_mask and, where rows have segments, token_type_ids, each (rows, longest).
        """
        chosen = torch.tensor(list(indices), device=self._device)
        width = max(self.lengths[index] for index in indices)
        sizes = self._sizes[chosen, None]
        offset = torch.arange(width, device=self._device)[None] - (
            width - sizes if side == "left" else 0
        )
        there = (offset >= 0) & (offset < sizes)
        places = self._starts[chosen, None] + offset.clamp(min=0).minimum(sizes - 1)
        if holes:
            places, there = self._with_holes(places, there, side, holes)
        inputs = {
            "input_ids": self._ids[places].long().masked_fill(~there, self._pad),
            "attention_mask": there.long(),
        }
        if self._segments is not None:
            inputs["token_type_ids"] = self._segments[places].long() * there
        return inputs

    def _with_holes(
        self, places: Tensor, there: Tensor, side: str, holes: float
    ) -> tuple[Tensor, Tensor]:
        """Loses some tokens and moves the others together; a text never loses all its tokens."""
        content = there & ~self._fixed[places]
        share = 2 * holes * torch.rand(len(places), 1, device=self._device)
        lost = content & (torch.rand(places.shape, device=self._device) < share)
        lost &= (content & ~lost).any(1, keepdim=True)
        kept = there & ~lost
        order = (kept if side == "left" else ~kept).to(torch.uint8).argsort(dim=1, stable=True)
        places, kept = places.gather(1, order), kept.gather(1, order)
        width = int(kept.sum(1).max())
        return (
            (places[:, -width:], kept[:, -width:])
            if side == "left"
            else (places[:, :width], kept[:, :width])
        )


def _flat(rows: Sequence[Ids], device: torch.device) -> Tensor:
    return torch.from_numpy(np.concatenate([np.asarray(row, dtype=np.int32) for row in rows])).to(
        device
    )


class Reader:
    """Reads texts for a model.

    Args:
        model: a sequence classifier.
        tokenizer: its fast tokenizer, with a padding token.
        max_length: tokens kept of a text; None: what the model reads, at most 512.

    Raises:
        InputError: more tokens wanted than the model reads.
    """

    def __init__(self, model: Any, tokenizer: Any, max_length: int | None) -> None:
        most = token_limit(tokenizer, model.config, model)
        if max_length is not None and most is not None and max_length > most:
            raise InputError(
                f"--max-length is {max_length}, but the model reads at most {most} tokens: give at most {most}"
            )
        self.limit = max_length or min(_MOST, most or _MOST)
        self._tokenizer = tokenizer
        self._segments = _segments(model)

    def read(self, examples: Examples, device: torch.device) -> tuple[Encoded, int]:
        """The examples as token rows, and how many of them had to be cut.

        Raises:
            InputError: pairs, for a model that cannot tell two texts apart.
        """
        if examples.pairs is not None:
            self._check_pairs()
        rows: list[Ids] = []
        segments: list[Ids] = []
        cut = 0
        for start in range(0, len(examples), _CHUNK):
            part = examples.chosen(range(start, min(start + _CHUNK, len(examples))))
            ids, types = self._tokens(part, truncation=False)
            long = [place for place, row in enumerate(ids) if len(row) > self.limit]
            if long:
                shorter, their_types = self._tokens(part.chosen(long), truncation=True)
                for place, row, kinds in zip(long, shorter, their_types, strict=True):
                    ids[place], types[place] = row, kinds
                cut += len(long)
            rows += ids
            segments += types
        distinct = self._segments > 0 and any(
            np.any(row) for row in segments
        )  # models take all zeros for granted
        return Encoded(
            rows,
            segments if distinct else None,
            self._tokenizer.pad_token_id,
            device,
            self._added(),
        ), cut

    def _tokens(self, examples: Examples, *, truncation: bool) -> tuple[list[Ids], list[Ids]]:
        """Ids and segments; a text without any token becomes one padding token, as there are no empty rows."""
        pairs = None if examples.pairs is None else list(examples.pairs)
        limits = {"truncation": True, "max_length": self.limit} if truncation else {}
        encoding = self._tokenizer(
            list(examples.texts), pairs, return_attention_mask=False, verbose=False, **limits
        )
        self._tokenizer.backend_tokenizer.no_truncation()  # or it would be saved with the tokenizer
        rows: list[Ids] = [
            np.array(row or [self._tokenizer.pad_token_id], dtype=np.int32)
            for row in encoding["input_ids"]
        ]
        made = encoding.get("token_type_ids") or [None] * len(rows)
        types: list[Ids] = [
            np.array(kinds or [0] * len(row), dtype=np.int32)
            for row, kinds in zip(rows, made, strict=True)
        ]
        return rows, types

    def _added(self) -> set[int]:
        """Ids that the tokenizer puts around texts."""
        found = set()
        for texts in (("a",), ("a", "a")):
            encoding = self._tokenizer(*texts, return_special_tokens_mask=True, verbose=False)
            found |= {
                token
                for token, special in zip(
                    encoding["input_ids"], encoding["special_tokens_mask"], strict=True
                )
                if special
            }
        return found

    def _check_pairs(self) -> None:
        encoding = self._tokenizer("a", "a", verbose=False)
        parts = encoding.sequence_ids(0)
        if None not in parts[parts.index(0) : parts.index(1)]:
            raise InputError(
                "--pair names a column of second texts, but the model's tokenizer puts nothing between two texts: "
                "join the texts in one column, or start from another model"
            )
        needed = max(encoding.get("token_type_ids") or [0]) + 1
        if 0 < self._segments < needed:
            raise InputError(
                f"--pair names a column of second texts and the tokenizer gives a pair {needed} segments, but the model knows only {self._segments}: "
                "join the texts in one column, or start from another model"
            )


def _segments(model: Any) -> int:
    """Segments a model tells apart, as explanations see it: 0 where it takes none, any number for XLNet."""
    if not takes(model.forward, "token_type_ids"):
        return 0
    return (
        1 << 30
        if model.config.model_type == "xlnet"
        else int(getattr(model.config, "type_vocab_size", 2))
    )


def batches(
    lengths: Sequence[int], *, tokens: int, rows: int, rng: random.Random | None, exact: bool
) -> list[list[int]]:
    """Groups rows of similar length.

    Args:
        lengths: tokens in each row.
        tokens: most tokens in a group, padding included; a longer row is a group of its own.
        rows: most rows in a group.
        rng: mixes rows and groups; None: in order.
        exact: only rows of equal length, for a model that cannot be padded.
    """
    noise = [
        rng.uniform(0, 16) if rng else 0.0 for _ in lengths
    ]  # texts of nearly equal length change their company
    order = sorted(
        range(len(lengths)),
        key=lambda row: (lengths[row] + (0.0 if exact else noise[row]), noise[row]),
    )
    groups: list[list[int]] = []
    longest = 0
    for row in order:
        longest = max(longest, lengths[row])
        full = not groups or len(groups[-1]) == rows or (len(groups[-1]) + 1) * longest > tokens
        if full or (exact and lengths[groups[-1][0]] != lengths[row]):
            groups.append([])
            longest = lengths[row]
        groups[-1].append(row)
    if rng:
        rng.shuffle(groups)
    return groups


def harmless_side(model: Any, encoded: Encoded) -> str | None:
    """The side on which padding a row leaves its answer alone; None if there is no such side."""
    places = range(len(encoded))
    short, long = (pick(places, key=encoded.lengths.__getitem__) for pick in (min, max))
    if encoded.lengths[short] == encoded.lengths[long]:
        return "right"
    with evaluating(model), torch.no_grad():
        alone, other = (model(**encoded.batch([place])).logits.float() for place in (short, long))
        tolerance = 1e-3 * torch.maximum((alone - other).abs().max(), (1 + alone.abs()) * 1e-2)
        for side in ("right", "left"):
            padded = model(**encoded.batch([short, long], side)).logits[:1].float()
            if bool(((padded - alone).abs() <= tolerance).all()):
                return side
    return None


def answers(model: Any, encoded: Encoded, *, side: str | None, bar: Bar | None = None) -> Tensor:
    """Logits (rows, classes) as float32 on the CPU, without gradients.

    Args:
        model: on the device of the rows.
        encoded: the rows.
        side: where it can be padded; None: only rows of equal length go together.
        bar: told how many rows are done.
    """
    device = next(model.parameters()).device
    result = torch.empty(len(encoded), model.config.num_labels)
    # No inference_mode: what a model caches there, such as its positions, could not be trained with afterwards.
    with evaluating(model), torch.no_grad():
        for group in batches(
            encoded.lengths, tokens=_TOKENS, rows=_ROWS, rng=None, exact=side is None
        ):
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                logits = model(**encoded.batch(group, side or "right")).logits
            result[group] = logits.float().cpu()
            if bar is not None:
                bar.advance(len(group))
    return result
