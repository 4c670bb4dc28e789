"""What a causal language model says by itself: at each step the likeliest token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from slalom_xai.errors import InputError
from slalom_xai.models.configurations import takes
from slalom_xai.models.decoders import can_cache
from slalom_xai.models.internals import evaluating

# Shares of the spread of logits that rounding stays below, in single and in half precision.
_ROUNDING, _COARSE = 1e-5, 1e-2


def stop_tokens(lm: Any, tokenizer: Any) -> frozenset[int]:
    """The tokens that end an answer."""
    told = [getattr(tokenizer, "eos_token_id", None)]
    for config in (getattr(lm, "generation_config", None), lm.config):
        told.append(getattr(config, "eos_token_id", None))
    stops: set[int] = set()
    for one in told:
        if isinstance(one, int):
            stops.add(one)
        elif isinstance(one, (list, tuple)):
            stops.update(one)
    return frozenset(stops)


def greedy_tokens(
    lm: Any, prompt: Sequence[int], stops: frozenset[int], most: int
) -> tuple[list[int], bool]:
    """The likeliest token after the prompt, then the likeliest after that, and so on.

    Args:
        lm: a causal language model.
        prompt: token ids.
        stops: the tokens that end an answer, which are no part of it.
        most: tokens of the answer.

    Returns:
        The tokens, and whether the answer was complete.
    """
    device = next(lm.parameters()).device
    caches = can_cache(lm)
    said: list[int] = []
    new, past = list(prompt), None
    with evaluating(lm), torch.inference_mode():
        while len(said) <= most:
            inputs: dict[str, Any] = {"input_ids": torch.tensor([new], device=device)}
            if caches:
                inputs |= {"past_key_values": past, "use_cache": True}
            if takes(lm.forward, "logits_to_keep"):
                inputs["logits_to_keep"] = 1
            output = lm(**inputs)
            token = int(output.logits[0, -1].argmax())
            if token in stops:
                return said, True
            said.append(token)
            past = output.past_key_values if caches else None
            new = [token] if caches else [*prompt, *said]
    return said[:most], False


def check_causal(lm: Any, tokens: Sequence[int]) -> None:
    """Refuses a model whose earlier tokens see later ones.

    Args:
        lm: what was given.
        tokens: at least two.

    Raises:
        InputError: what the model makes of the first tokens changes with the last one.
    """
    device = next(lm.parameters()).device
    other = next(token for token in tokens if token != tokens[-1])
    rows = torch.tensor([[*tokens], [*tokens[:-1], other]], device=device)
    with evaluating(lm), torch.inference_mode():
        inputs = {"input_ids": rows, "attention_mask": torch.ones_like(rows)}
        logits = lm(**inputs).logits[:, :-1].float()
    half = next(lm.parameters()).itemsize < 4
    tolerated = (_COARSE if half else _ROUNDING) * (logits.max() - logits.min())
    if not bool((logits[0] - logits[1]).abs().max() <= tolerated):
        raise InputError(
            f"a {type(lm).__name__} sees the words behind each word, so it cannot say how likely "
            "an answer is: give a causal language model (AutoModelForCausalLM)"
        )
