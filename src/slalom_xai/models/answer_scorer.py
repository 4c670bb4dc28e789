"""A causal language model that answers as a classifier does: with a few numbers for each row.

Every row ends with the tokens of one and the same answer. The numbers are the log odds of that
answer and of parts of it. Seen like this, a language model is asked, padded and lent beginnings as
any decoder with a classification head is.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from slalom_xai.models.answer_spans import Span, span_logits
from slalom_xai.models.configurations import takes
from slalom_xai.models.decoders import text_config

_CELLS = 1 << 26  # logits of single tokens that are worked on at once


class AnswerScorer(torch.nn.Module):
    """The log odds of an answer that stands at the end of every row.

    Args:
        lm: a causal language model of the transformers library; it is not changed.
        answer: the tokens of the answer.
        spans: the parts of it that get a number each.
    """

    def __init__(self, lm: Any, answer: Sequence[int], spans: Sequence[Span]) -> None:
        super().__init__()
        self.training = False  # of this module alone
        self.lm = lm
        # A copy without a token to pad with: whoever pads then takes one that no row holds. That
        # of chat models often ends every message.
        self.config = copy.deepcopy(lm.config)
        self.config.pad_token_id = None
        text_config(self.config).pad_token_id = None
        self._answer = tuple(answer)
        self._spans = tuple(spans)
        self._takes_cache = takes(lm.forward, "past_key_values")

    @property
    def _supports_cache_class(self) -> bool:
        return bool(getattr(self.lm, "_supports_cache_class", True))

    def get_input_embeddings(self) -> Any:
        """The language model's table of tokens."""
        return self.lm.get_input_embeddings()

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        past_key_values: Any = None,
        use_cache: bool = False,
        position_ids: Tensor | None = None,
    ) -> SimpleNamespace:
        """``logits`` (rows, spans), and keys and values where they are wanted.

        Args:
            input_ids: (rows, width), behind what is in the cache.
            attention_mask: as the language model takes it.
            past_key_values: keys and values of what comes before.
            use_cache: whether to hand keys and values back.
            position_ids: as the language model takes them.
        """
        last = self._last(input_ids, attention_mask, past_key_values)
        before = torch.arange(-len(self._answer), 0, device=last.device)
        predicting = (last[:, None] + before).clamp(min=0)  # each token by the one before it

        def pick(_: Any, given: tuple[Any, ...]) -> tuple[Any, ...]:
            hidden = given[0]
            places = predicting[:, :, None].expand(-1, -1, hidden.shape[-1])
            return (hidden.gather(1, places), *given[1:])

        # Only the tokens that predict the answer are compared with the whole vocabulary.
        hook = self.lm.get_output_embeddings().register_forward_pre_hook(pick)
        inputs: dict[str, Any] = {"input_ids": input_ids}
        if attention_mask is not None:
            inputs["attention_mask"] = attention_mask
        if position_ids is not None:
            inputs["position_ids"] = position_ids
        if self._takes_cache:
            inputs |= {"past_key_values": past_key_values, "use_cache": use_cache}
        try:
            output = self.lm(**inputs)
        finally:
            hook.remove()
        logits = span_logits(self._gaps(output.logits), self._spans)
        past = output.past_key_values if use_cache else None
        return SimpleNamespace(logits=logits, past_key_values=past)

    def _last(self, ids: Tensor, mask: Tensor | None, past: Any) -> Tensor:
        """Where the last token of each row stands, (rows,).

        Rows that borrow their beginning are filled up with a token that none of them holds.
        """
        if mask is not None and mask.shape == ids.shape:
            there = mask.bool()
        elif past is not None:
            there = ids != text_config(self.config).pad_token_id
        else:
            there = torch.ones_like(ids, dtype=torch.bool)
        places = torch.arange(ids.shape[1], device=ids.device)
        return torch.where(there, places, 0).amax(dim=1)

    def _gaps(self, logits: Tensor) -> Tensor:
        """The log odds (rows, tokens) against each token of the answer."""
        tokens = torch.tensor(self._answer, device=logits.device)
        rows = max(1, _CELLS // (logits.shape[1] * logits.shape[2]))
        parts = []
        for start in range(0, len(logits), rows):
            single = logits[start : start + rows].float()
            wanted = tokens.expand(len(single), -1)[:, :, None]
            others = single.scatter(2, wanted, -torch.inf).logsumexp(dim=2)
            parts.append(others - single.gather(2, wanted)[:, :, 0])
        return torch.cat(parts)
