"""Whether a model can have tokens hidden from it, and in which way: tried on a text.

A hidden token leaves the attention, and the others keep their positions. There are two ways to get
there, which give the same outputs in a model that has both:

* ``positions``: a row holds the kept tokens, each with the position id that it has in the text.
  Rows are short, so this is the faster way. A model whose attention depends on the distance between
  two tokens within the row (MPNet, DeBERTa, a sliding window) is misled by it.
* ``holes``: a row keeps its length, and the attention mask is 0 where tokens are hidden. A row ends
  with its last kept token, from which decoders read their output.

What a model takes cannot be told by its signature alone. So two rows of the text are tried in each
way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slalom_xai.errors import CannotHideError
from slalom_xai.models.configurations import names_of, reach, reserved_positions, text_config
from slalom_xai.models.padded import HALF_PRECISION, SINGLE_PRECISION
from slalom_xai.models.reading import TokenReading
from slalom_xai.models.rows import Hiding, Indices, KeptTokens, TokenText
from slalom_xai.models.token_batch import TokenBatch


@dataclass(frozen=True)
class HidingSettings:
    """How a model is tried.

    Attributes:
        tokens: of a text that is tried, special ones apart, at least. Of a shorter text the last
            token is repeated.
        try_again: a text this many times as long as any before it is tried anew: windows of the
            attention may have set in.
        rounding: outputs are taken to be the same where they differ by less than this share of what
            hiding half of the tokens changes, in float32.
        half_rounding: the same in half precision.
        opposed: hiding half of the tokens is said to do other things than deleting them where the
            two outputs differ by more than this multiple of what either changes.
        agreement: the two ways may also differ by this share of what deleting changes where hiding
            does not. Positions that are misunderstood change more.
    """

    tokens: int = 8
    try_again: int = 2
    rounding: float = 1e-4
    half_rounding: float = 5e-2
    opposed: float = 1.2
    agreement: float = 1e-2


HIDING = HidingSettings()
Forward = Callable[[TokenBatch, int], Tensor]  # rows, and the token in their holes, to logits


class HidingWays:
    """The way in which tokens are hidden from one model, by the length of the text.

    Args:
        model: a model of the transformers library.
        tokenizer: its tokenizer.
        name: how it is called in messages.
    """

    def __init__(self, model: Any, tokenizer: Any, name: str) -> None:
        self.rows_asked = 0
        names = names_of(model.forward)
        self._name = name
        self._problem = _visible_problem(model.config, names)
        self._takes_positions = "position_ids" in names
        self._reach = reach(model.config)
        self._tried: dict[int, Hiding | str] = {}  # tokens to the way, or to why there is none
        self.opposes_deleting = False  # whether hiding was seen to do other things than deleting
        self.first_position = reserved_positions(model)
        self.in_holes, self._also_in_holes = _ordinary_tokens(tokenizer, model.config)

    @property
    def possible(self) -> bool:
        """Whether tokens may be hidden, as far as configuration and signature tell."""
        return self._problem is None

    def way(self, tokens: int) -> Hiding:
        """The way for a text of so many tokens, which has been tried.

        Raises:
            CannotHideError: there is none.
        """
        tried = self._result(tokens)
        if tried not in ("positions", "holes"):
            raise CannotHideError.because(f"{self._name} {tried}")
        return "positions" if tried == "positions" else "holes"

    def _result(self, tokens: int) -> Hiding | str:
        if self._problem is not None:
            return self._problem
        longest = max(self._tried, default=0)
        enough = [size for size in self._tried if tokens <= size * HIDING.try_again]
        return self._tried[min(enough, default=longest)] if self._tried else "was not tried yet"

    def find(self, reading: TokenReading, forward: Forward, *, half: bool) -> Hiding:
        """The way for a text, tried where no text of about its length was.

        Args:
            reading: the text.
            forward: asks the model.
            half: whether the model computes in half precision.

        Raises:
            CannotHideError: there is none.
        """
        tokens = len(reading.tokens)
        known = any(tokens <= size * HIDING.try_again for size in self._tried)
        if self._problem is None and not known:
            try:
                self._tried[tokens] = self._try(reading, forward, half)
            except Exception as error:
                # Whatever somebody else's model raises here, tokens can still be deleted.
                reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
                self._tried[tokens] = f"fails when tokens are hidden from it ({reason})"
        return self.way(tokens)

    def _try(self, reading: TokenReading, forward: Forward, half: bool) -> Hiding | str:
        """The way for a text, or why there is none."""
        text, content = _long_enough(reading)
        keep = np.ones((3, len(text)), dtype=bool)
        keep[1, content[::2]] = keep[2, content[1::2]] = False
        ask = partial(self._ask, forward, text)
        whole = ask(None, keep[:1])
        holes = ask("holes", keep)
        if not bool(holes.isfinite().all()):
            return "gives no finite numbers when tokens are hidden from it"
        tolerated = (HALF_PRECISION if half else SINGLE_PRECISION).of(holes[1:2], whole)
        if not _close(holes[:1], whole, tolerated):
            return "gives another output when an attention mask is passed that hides nothing"
        if not _close(ask("holes", keep[1:], self._also_in_holes), holes[1:], tolerated):
            return "reads tokens where its attention mask is 0"
        deleted = torch.cat([whole, ask(None, keep[1:])])
        by_deleting = (deleted - holes).abs().max()
        by_hiding = (holes - whole).abs().max()
        moved = torch.maximum(by_hiding, (deleted - whole).abs().max())
        self.opposes_deleting |= bool(by_deleting > HIDING.opposed * moved)
        rounding = (HIDING.half_rounding if half else HIDING.rounding) * by_hiding
        # In half precision, rounding may be all that is seen. Holes are right in any case.
        telling = not half or bool(by_deleting > rounding)
        near = HIDING.try_again * len(text) <= self._reach
        if self._takes_positions and near and telling:
            tolerated = torch.maximum(HIDING.agreement * by_deleting, rounding)
            if _close(ask("positions", keep), holes, tolerated):
                return "positions"
        if bool(by_hiding > 0) and bool(by_deleting <= HIDING.rounding * by_hiding):
            return "counts positions among the tokens that it sees, so that hiding is deleting"
        return "holes"

    def _ask(
        self,
        forward: Forward,
        text: TokenText,
        way: Hiding | None,
        keep: NDArray[np.bool_],
        in_holes: int | None = None,
    ) -> Tensor:
        """Logits (m, width) of rows, one by one, because it is not known how they can be padded."""
        rows = KeptTokens(replace(text, hiding=way), keep)
        self.rows_asked += len(rows)
        fill = self.in_holes if in_holes is None else in_holes
        every = [np.array([index]) for index in range(len(rows))]
        return torch.cat([forward(TokenBatch([rows.take(one)]), fill) for one in every])


def _close(some: Tensor, others: Tensor, tolerated: Tensor) -> bool:
    return bool(((some - others).abs() <= tolerated).all())


def _visible_problem(config: Any, names: frozenset[str]) -> str | None:
    """Why no token can be hidden, as far as configuration and signature tell."""
    if not getattr(text_config(config), "num_attention_heads", None):
        return "has no attention, as far as its configuration tells"
    if "attention_mask" not in names:
        return "takes no attention mask"
    return None


def _ordinary_tokens(tokenizer: Any, config: Any) -> tuple[int, int]:
    """Two tokens that nothing is read off by, for holes."""
    special = set(tokenizer.all_special_ids)
    for name, value in vars(text_config(config)).items():
        if name.endswith("_token_id"):
            special.update(value if isinstance(value, list) else [value])
    first, second, *_ = [token for token in range(len(special) + 2) if token not in special]
    return first, second


def _long_enough(reading: TokenReading) -> tuple[TokenText, Indices]:
    """A text with tokens enough to hide some, and where those are that are not special."""
    tokens, content = reading.tokens, reading.positions
    more = np.repeat(content[-1], max(0, HIDING.tokens - len(content)))
    places = np.sort(np.concatenate([np.arange(len(tokens)), more]))
    streams = tuple(stream[places] for stream in tokens.streams)
    return TokenText(streams), np.flatnonzero(np.isin(places, content))


def spread_to_decoder(inputs: dict[str, Tensor], start: int) -> dict[str, Tensor]:
    """Inputs with holes for a model whose decoder reads the text once more.

    Such a model (T5, BART) shifts the text by one token and reads its output where the last token
    stands. The decoder is given the same holes. The token before the last one is what it reads
    there: where that is hidden, the last one that is kept takes its place.

    Args:
        inputs: ids and mask, (m, W), padded on the right.
        start: the token that the decoder begins with.
    """
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    shifted = torch.cat([torch.full_like(ids[:, :1], start), ids[:, :-1]], dim=1)
    seen = torch.cat([torch.ones_like(mask[:, :1]), mask[:, :-1]], dim=1)
    columns = torch.arange(ids.shape[1], device=ids.device)
    last = (mask * columns).amax(dim=1, keepdim=True)
    before = (seen * columns * (columns <= last)).amax(dim=1, keepdim=True)
    token = shifted.gather(1, before)
    seen = seen.scatter(1, before, 0).scatter(1, last, 1)
    return {
        **inputs,
        "decoder_input_ids": shifted.scatter(1, last, token),
        "decoder_attention_mask": seen,
    }
