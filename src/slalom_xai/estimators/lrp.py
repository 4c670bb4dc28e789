"""AttnLRP: relevance handed back from the output to the embeddings, layer by layer.

The rules of ``models.relevance`` change the gradients of attention, normalisations and
activations so that relevance is kept. A token's relevance is then the sum of its embedding times
the changed gradient (Achtibat et al., ICML 2024).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from slalom_xai.errors import ModelError, few_numbers
from slalom_xai.estimators.base import Findings, register
from slalom_xai.estimators.white_box import OpenModel, WhiteBoxEstimator, explain_tokens
from slalom_xai.models.internals import eager
from slalom_xai.models.relevance import relevance_rules
from slalom_xai.queries import Queries

RULES_TOLERANCE = 1e-2  # absolute and relative; rules change gradients, and outputs by rounding


@register
@dataclass(frozen=True)
class AttnLRP(WhiteBoxEstimator):
    """Layer-wise relevance propagation with rules for attention, as input × changed gradient."""

    name: ClassVar[str] = "attn-lrp"
    summary: ClassVar[str] = (
        "relevance passed back layer by layer (AttnLRP): needs a transformer in torch, one "
        "forward pass and one backward pass per class"
    )

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Runs the model under the rules and goes back once per column."""
        model = OpenModel(queries, self.name)
        full = model.full
        embeddings = model.embeddings[None].clone().requires_grad_()
        columns = model.columns(embeddings, _under_rules)[0]
        if not torch.allclose(columns.detach(), full, rtol=RULES_TOLERANCE, atol=RULES_TOLERANCE):
            raise ModelError(
                f"{queries.model.name} returns {few_numbers(full.tolist())}, but "
                f"{few_numbers(columns.tolist())} under the rules of attn-lrp, which should change "
                "nothing but gradients: use integrated-gradients, and please report this model"
            )
        relevances = []
        for column in columns:
            (gradient,) = torch.autograd.grad(column, embeddings, retain_graph=True)
            relevances.append((gradient * embeddings.detach())[0].sum(dim=1))
        tokens = torch.stack(relevances, dim=1)
        sums = tokens.sum(dim=0)
        worst = int((full - sums).abs().argmax())
        note = (
            f"The relevances of all tokens sum to {float(sums[worst]):.4g}, but the output is "
            f"{float(full[worst]):.4g}: biases, positions and the softmax hold the rest."
        )
        return explain_tokens(queries, tokens, rng, model.passes, (note,))


@contextmanager
def _under_rules(module: Any) -> Iterator[None]:
    # Attention goes in plain steps: the rules cannot see into fused kernels.
    with eager(module), relevance_rules(module):
        yield
