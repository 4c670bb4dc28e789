"""AttnLRP: relevance handed back from the output to the embeddings, layer by layer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from slalom_xai.errors import ModelError, few_numbers
from slalom_xai.estimators.base import Estimator, Findings, register
from slalom_xai.estimators.white_box import Opened, finished
from slalom_xai.models.internals import eager
from slalom_xai.models.relevance import relevance_rules
from slalom_xai.queries import Queries


@register
@dataclass(frozen=True)
class AttnLRP(Estimator):
    """Layer-wise relevance propagation with rules for attention (Achtibat et al., ICML 2024), as input × changed gradient."""

    name: ClassVar[str] = "attn-lrp"
    summary: ClassVar[str] = (
        "relevance passed back layer by layer (AttnLRP): needs a transformer in torch, one forward pass and one backward pass per class"
    )

    def parameters(self, units: int, distinct: int) -> int:
        """Nothing is fitted."""
        return 1

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Runs the model under the rules and goes back once per column."""
        opened = Opened(queries, self.name)
        embeddings = opened.embeddings[None].clone().requires_grad_()
        columns = opened.columns(embeddings, _under_rules)[0]
        if not torch.allclose(columns.detach(), opened.full, rtol=1e-2, atol=1e-2):
            raise ModelError(
                f"{queries.model.name} returns {few_numbers(opened.full.tolist())}, but {few_numbers(columns.tolist())} under the rules of attn-lrp, which should change "
                "nothing but gradients: use integrated-gradients, and please report this model"
            )
        scores = []
        for column in columns:
            (gradient,) = torch.autograd.grad(column, embeddings, retain_graph=True)
            scores.append((gradient * embeddings.detach())[0].sum(dim=1))
        tokens = torch.stack(scores, dim=1)
        reached = tokens.sum(dim=0)
        worst = int((opened.full - reached).abs().argmax())
        note = (
            f"The relevances of all tokens sum to {float(reached[worst]):.4g}, but the output is {float(opened.full[worst]):.4g}: "
            "biases, positions and the softmax hold the rest.",
        )
        return finished(queries, tokens, rng, opened.passes, note)


@contextmanager
def _under_rules(module: Any) -> Iterator[None]:
    with (
        eager(module),
        relevance_rules(module),
    ):  # attention in plain steps: the rules cannot see into fused kernels
        yield
