"""A SLALOM of a vocabulary: slalom-eff's fit to pairs of tokens that need not share a text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from research.paper.review_models import ReviewModel
from slalom_xai.data.training.encoding import EncodedTexts, answers, harmless_side
from slalom_xai.methods.counts import Sequences
from slalom_xai.methods.evidence import AnsweredRows, Evidence
from slalom_xai.methods.paper.fits import fit_with_best_prior
from slalom_xai.methods.paper.formula import SlalomSurrogate
from slalom_xai.models.load import choose_device
from slalom_xai.queries.queries import OneByOne


def tokens_of(model: ReviewModel, texts: Sequence[str]) -> list[int]:
    """The distinct tokens of texts in the order in which they first stand; no special ones."""
    encoded = model.tokenizer(
        list(texts), add_special_tokens=False, truncation=True, max_length=model.spec.limit
    )
    return list(dict.fromkeys(token for row in encoded["input_ids"] for token in row))


def draw_pairs(tokens: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Pairs (count, 2) of two different tokens in either order; each token about as often."""
    rounds = -(-2 * count // tokens)
    once = np.concatenate([rng.permutation(tokens) for _ in range(rounds)])[: 2 * count]
    pairs = once.reshape(count, 2)
    same = pairs[:, 0] == pairs[:, 1]  # only where one round ends and the next begins
    pairs[same, 1] = (pairs[same, 1] + 1) % tokens
    return pairs


def fit_vocabulary(
    model: ReviewModel, tokens: Sequence[int], pairs: NDArray[np.int64]
) -> SlalomSurrogate:
    """The SLALOM without a sink that is fitted to the model's answers to pairs.

    Args:
        model: a classifier of two classes.
        tokens: ids.
        pairs: (m, 2), indices of ``tokens``.
    """
    before, after = _frame(model.tokenizer)
    rows = [[*before, *(tokens[index] for index in pair), *after] for pair in pairs]
    device = choose_device(None)
    pad = model.tokenizer.pad_token_id
    encoded = EncodedTexts([np.array(row) for row in rows], None, pad, device, ())
    side = harmless_side(model.network, encoded)
    logits = answers(model.network, encoded, side=side, precise=True).double()
    outputs = (logits[:, 1] - logits[:, 0])[:, None]
    counts = Sequences(torch.as_tensor(pairs), len(tokens))
    answered = AnsweredRows(counts, outputs)
    evidence = Evidence(answered, None, None, outputs.mean(dim=0), OneByOne())
    return fit_with_best_prior(evidence, counts).surrogate.normalise()


def _frame(tokenizer: Any) -> tuple[list[int], list[int]]:
    """The special tokens before and after a text."""
    bare = tokenizer("a", add_special_tokens=False)["input_ids"]
    full = tokenizer("a")["input_ids"]
    start = next(at for at in range(len(full)) if full[at : at + len(bare)] == bare)
    return full[:start], full[start + len(bare) :]
