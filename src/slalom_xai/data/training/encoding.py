"""Texts as a model reads them: token rows on the device, padded where padding changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slalom_xai.data.tables.examples import Examples
from slalom_xai.errors import InputError
from slalom_xai.models.configurations import segment_count, takes, token_limit
from slalom_xai.models.internals import evaluation_mode
from slalom_xai.models.padded import SINGLE_PRECISION
from slalom_xai.models.padded import harmless_side as first_harmless_side
from slalom_xai.queries.cutting import groups_by_length
from slalom_xai.system.progress import Bar

Ids = Sequence[int] | NDArray[np.int32]


@dataclass(frozen=True)
class EncodingSettings:
    """How much is read at a time.

    Attributes:
        longest: tokens of a text where nobody says more.
        chunk: texts that are tokenised at a time.
        tokens: in a batch without gradients, filling included.
        rows: in a batch without gradients.
    """

    longest: int = 512
    chunk: int = 1000
    tokens: int = 32_768
    rows: int = 512


ENCODING = EncodingSettings()


class EncodedTexts:
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
        self._pad = pad
        self._device = device
        self._ids = _flat(rows, device)  # (all tokens,)
        self._segments = None if segments is None else _flat(segments, device)
        spared = torch.tensor(sorted(fixed), dtype=self._ids.dtype, device=device)
        self._fixed = torch.isin(self._ids, spared)
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
            holes: mean share of tokens left out at random; each text's share is drawn from 0 to
                twice this.

        Returns:
            input_ids, attention_mask and, where rows have segments, token_type_ids, each
            (rows, longest).
        """
        chosen = torch.tensor(list(indices), device=self._device)
        width = max(self.lengths[index] for index in indices)
        sizes = self._sizes[chosen, None]
        offset = torch.arange(width, device=self._device)[None]
        if side == "left":
            offset = offset - (width - sizes)
        inside = (offset >= 0) & (offset < sizes)  # (rows, width)
        source = self._starts[chosen, None] + offset.clamp(min=0).minimum(sizes - 1)
        if holes:
            source, inside = self._with_holes(source, inside, side, holes)
        inputs = {
            "input_ids": self._ids[source].long().masked_fill(~inside, self._pad),
            "attention_mask": inside.long(),
        }
        if self._segments is not None:
            inputs["token_type_ids"] = self._segments[source].long() * inside
        return inputs

    def _with_holes(
        self, source: Tensor, inside: Tensor, side: str, holes: float
    ) -> tuple[Tensor, Tensor]:
        """Loses some tokens and moves the others together; a text never loses all its tokens.

        Args:
            source: which of all tokens stands where, (rows, width).
            inside: where a row has tokens, (rows, width).
            side: where padding goes.
            holes: mean share of tokens left out.
        """
        content = inside & ~self._fixed[source]
        share = 2 * holes * torch.rand(len(source), 1, device=self._device)
        lost = content & (torch.rand(source.shape, device=self._device) < share)
        lost &= (content & ~lost).any(1, keepdim=True)
        kept = inside & ~lost
        last = kept if side == "left" else ~kept  # what moves to the end of a row
        order = last.to(torch.uint8).argsort(dim=1, stable=True)
        source, kept = source.gather(1, order), kept.gather(1, order)
        width = int(kept.sum(1).max())
        if side == "left":
            return source[:, -width:], kept[:, -width:]
        return source[:, :width], kept[:, :width]


def _flat(rows: Sequence[Ids], device: torch.device) -> Tensor:
    every = np.concatenate([np.asarray(row, dtype=np.int32) for row in rows])
    return torch.from_numpy(every).to(device)


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
                f"--max-length is {max_length}, but the model reads at most {most} tokens: "
                f"give at most {most}"
            )
        self.limit = max_length or min(ENCODING.longest, most or ENCODING.longest)
        self._tokenizer = tokenizer
        takes_segments = takes(model.forward, "token_type_ids")
        self._segments = segment_count(model.config, takes_segments=takes_segments)

    def read(self, examples: Examples, device: torch.device) -> tuple[EncodedTexts, int]:
        """The examples as token rows, and how many of them had to be cut.

        Raises:
            InputError: pairs, for a model that cannot tell two texts apart.
        """
        if examples.pairs is not None:
            self._check_pairs()
        rows: list[Ids] = []
        segments: list[Ids] = []
        cut = 0
        for start in range(0, len(examples), ENCODING.chunk):
            end = min(start + ENCODING.chunk, len(examples))
            ids, types, shorter = self._read_some(examples.chosen(range(start, end)))
            rows += ids
            segments += types
            cut += shorter
        pad = self._tokenizer.pad_token_id
        # Models take segments that are all zero for granted.
        told_apart = self._segments > 0 and any(np.any(row) for row in segments)
        kept = segments if told_apart else None
        return EncodedTexts(rows, kept, pad, device, self._special_ids()), cut

    def _read_some(self, examples: Examples) -> tuple[list[Ids], list[Ids], int]:
        """Ids and segments of some examples, and how many of them had to be cut."""
        ids, types = self._tokens(examples, truncation=False)
        long = [index for index, row in enumerate(ids) if len(row) > self.limit]
        if long:
            shorter, their_types = self._tokens(examples.chosen(long), truncation=True)
            for index, row, segments in zip(long, shorter, their_types, strict=True):
                ids[index], types[index] = row, segments
        return ids, types, len(long)

    def _tokens(self, examples: Examples, *, truncation: bool) -> tuple[list[Ids], list[Ids]]:
        """Ids and segments.

        A text without any token becomes one padding token, as there are no empty rows.
        """
        pairs = None if examples.pairs is None else list(examples.pairs)
        limits = {"truncation": True, "max_length": self.limit} if truncation else {}
        encoding = self._tokenizer(
            list(examples.texts), pairs, return_attention_mask=False, verbose=False, **limits
        )
        self._tokenizer.backend_tokenizer.no_truncation()  # or it would be saved with the tokenizer
        rows: list[Ids] = []
        for row in encoding["input_ids"]:
            rows.append(np.array(row or [self._tokenizer.pad_token_id], dtype=np.int32))
        made = encoding.get("token_type_ids") or [None] * len(rows)
        types: list[Ids] = []
        for row, segments in zip(rows, made, strict=True):
            types.append(np.array(segments or [0] * len(row), dtype=np.int32))
        return rows, types

    def _special_ids(self) -> set[int]:
        """Ids that the tokenizer puts around texts."""
        special = set()
        for texts in (("a",), ("a", "a")):
            encoding = self._tokenizer(*texts, return_special_tokens_mask=True, verbose=False)
            masked = zip(encoding["input_ids"], encoding["special_tokens_mask"], strict=True)
            special |= {token for token, is_special in masked if is_special}
        return special

    def _check_pairs(self) -> None:
        encoding = self._tokenizer("a", "a", verbose=False)
        parts = encoding.sequence_ids(0)
        if None not in parts[parts.index(0) : parts.index(1)]:
            raise InputError(
                "--pair names a column of second texts, but the model's tokenizer puts nothing "
                "between two texts: join the texts in one column, or start from another model"
            )
        needed = max(encoding.get("token_type_ids") or [0]) + 1
        if 0 < self._segments < needed:
            raise InputError(
                "--pair names a column of second texts and the tokenizer gives a pair "
                f"{needed} segments, but the model knows only {self._segments}: "
                "join the texts in one column, or start from another model"
            )


def harmless_side(model: Any, encoded: EncodedTexts) -> str | None:
    """The side on which padding a row leaves its answer alone; None if there is no such side."""
    indices = range(len(encoded))
    short = min(indices, key=encoded.lengths.__getitem__)
    long = max(indices, key=encoded.lengths.__getitem__)
    if encoded.lengths[short] == encoded.lengths[long]:
        return "right"

    def answer(rows: Sequence[int], side: str = "right") -> Tensor:
        logits: Tensor = model(**encoded.batch(rows, side)).logits[:1].float()
        return logits

    with evaluation_mode(model), torch.no_grad():
        alone, other = answer([short]), answer([long])
        tolerated = SINGLE_PRECISION.of(alone, other)
        return first_harmless_side(
            alone, lambda side: answer([short, long], side), ("right", "left"), tolerated
        )


def answers(
    model: Any,
    encoded: EncodedTexts,
    *,
    side: str | None,
    bar: Bar | None = None,
    precise: bool = False,
) -> Tensor:
    """Logits (rows, classes) as float32 on the CPU, without gradients.

    Args:
        model: on the device of the rows.
        encoded: the rows.
        side: where it can be padded; None: only rows of equal length go together.
        bar: told how many rows are done.
        precise: compute in the model's own precision on a GPU, too, instead of in half of it.
    """
    device = next(model.parameters()).device
    half = device.type == "cuda" and not precise
    result = torch.empty(len(encoded), model.config.num_labels)
    groups = groups_by_length(
        encoded.lengths, tokens=ENCODING.tokens, rows=ENCODING.rows, rng=None, exact=side is None
    )
    # No inference_mode: what a model caches there, such as its positions, could not be trained with
    # afterwards.
    with evaluation_mode(model), torch.no_grad():
        for group in groups:
            with torch.autocast(device.type, torch.bfloat16, enabled=half):
                logits = model(**encoded.batch(group, side or "right")).logits
            result[group] = logits.float().cpu()
            if bar is not None:
                bar.advance(len(group))
    return result
