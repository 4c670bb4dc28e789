"""Gradients by the input embeddings: plain, integrated from a baseline, and averaged over noise.

With embeddings x (tokens, width) of the whole text and a column f,

    gradient × input      x · ∇f(x)
    integrated gradients  (x - x') · mean over a in (0, 1) of ∇f(x' + a (x - x')), x' a baseline
    SmoothGrad            x · mean over noise e of ∇f(x + e),

each summed over the width. The gradients are captum's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
import torch
from torch import Tensor

from slalom_xai.errors import InputError, one_of, optional_package
from slalom_xai.methods.base import Findings, register
from slalom_xai.methods.white_box import OpenModel, WhiteBoxEstimator, explain_tokens
from slalom_xai.queries import Queries

REDUCTIONS = ("times-input", "mean", "l1", "l2")
BASELINES = ("zero", "pad", "mask")


@register
@dataclass(frozen=True)
class Gradient(WhiteBoxEstimator):
    """The gradient of the output by each token's embedding, made one number per token.

    Args:
        reduction: "times-input" (the sum of gradient × embedding, the one that predicts what
            removing a token does), "mean" of the gradient, or its "l1" or "l2" norm, which have
            no sign.
    """

    reduction: str = "times-input"

    name: ClassVar[str] = "gradient"
    summary: ClassVar[str] = (
        "gradient × input (or mean, l1, l2) at the embeddings: needs a torch model and captum, "
        "one pass per class"
    )

    def __post_init__(self) -> None:
        """Checks the options."""
        if self.reduction not in REDUCTIONS:
            raise one_of("reduction", self.reduction, REDUCTIONS)

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Differentiates."""
        model = OpenModel(queries, self.name)
        captum = optional_package("captum.attr", f"method {self.name!r}")
        scores = []
        for column in range(len(model.full)):
            gradient = _mean_gradient(captum, model, model.embeddings[None], column)
            scores.append(self._reduce(gradient, model.embeddings))
        tokens = torch.stack(scores, dim=1)
        return explain_tokens(queries, tokens, rng, model.passes, self._notes())

    def _reduce(self, gradient: Tensor, embeddings: Tensor) -> Tensor:
        """(tokens, width) to (tokens,)."""
        if self.reduction == "times-input":
            return (gradient * embeddings).sum(dim=1)
        if self.reduction == "mean":
            return gradient.mean(dim=1)
        if self.reduction == "l1":
            return gradient.abs().sum(dim=1)
        return gradient.square().sum(dim=1).sqrt()

    def _notes(self) -> tuple[str, ...]:
        if self.reduction == "times-input":
            return ()
        sign = "" if self.reduction == "mean" else " and have no sign"
        return (
            f"Scores by reduction={self.reduction!r} say how sensitive the output is{sign}: they "
            "do not predict deletions.",
        )


@register
@dataclass(frozen=True)
class IntegratedGradients(WhiteBoxEstimator):
    """Gradients along the straight line from a baseline to the text, times their difference.

    See Sundararajan et al. (2017). Special tokens stay as they are in the baseline, so that all
    of the change falls on the units.

    Args:
        steps: points on the line, by Gauss-Legendre.
        baseline: what stands in every token's place: the "zero" vector, or the embedding of the
            tokenizer's "pad" or "mask" token.
    """

    steps: int = 50
    baseline: str = "zero"

    name: ClassVar[str] = "integrated-gradients"
    summary: ClassVar[str] = (
        "gradients summed along the way from an empty baseline to the text: needs a torch model "
        "and captum, 50 passes per class"
    )

    def __post_init__(self) -> None:
        """Checks the options."""
        _check_whole("steps", self.steps)
        if self.baseline not in BASELINES:
            raise one_of("baseline", self.baseline, BASELINES)

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Integrates."""
        model = OpenModel(queries, self.name)
        captum = optional_package("captum.attr", f"method {self.name!r}")
        baseline = self._baseline_embeddings(queries, model)[None]
        method = captum.IntegratedGradients(model.columns)
        scores = []
        for column in range(len(model.full)):
            by_width = method.attribute(
                model.embeddings[None],
                baselines=baseline,
                target=column,
                n_steps=self.steps,
                internal_batch_size=model.at_once,
            )
            scores.append(by_width[0].sum(dim=1))
        tokens = torch.stack(scores, dim=1)
        change = model.full - model.columns(baseline).detach()[0]
        gaps = (change - tokens.sum(dim=0)).abs()
        worst = int(gaps.argmax())
        note = (
            f"The output differs from that of the {self.baseline} baseline by "
            f"{float(change[worst]):.4g}; the scores miss this by {float(gaps[worst]):.2g}. "
            "More steps miss less."
        )
        return explain_tokens(queries, tokens, rng, model.passes, (note,))

    def _baseline_embeddings(self, queries: Queries, model: OpenModel) -> Tensor:
        """The baseline's embeddings, (tokens, width)."""
        filler = torch.zeros_like(model.embeddings[0])
        if self.baseline != "zero":
            filler = model.lookup(_filler_token(queries, self.baseline))
        start = model.embeddings.clone()
        start[torch.as_tensor(queries.prompt.reading.positions, device=start.device)] = filler
        return start


@register
@dataclass(frozen=True)
class SmoothGrad(WhiteBoxEstimator):
    """The mean gradient at noisy copies of the embeddings, times the input (Smilkov et al., 2017).

    Args:
        samples: noisy copies.
        noise: standard deviation of the noise, as a share of the range of the embeddings' numbers.
    """

    samples: int = 25
    noise: float = 0.1

    name: ClassVar[str] = "smoothgrad"
    summary: ClassVar[str] = (
        "gradient × input with the gradient averaged over noise: needs a torch model and captum, "
        "25 passes per class"
    )

    def __post_init__(self) -> None:
        """Checks the options."""
        _check_whole("samples", self.samples)
        if not isinstance(self.noise, (int, float)) or not 0 <= self.noise < float("inf"):
            raise InputError(
                f"noise is {self.noise!r}: give a share of the range of the embeddings, such as 0.1"
            )

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Differentiates at noisy copies.

        The noise is our own: captum's comes from the one generator that all threads share.
        """
        model = OpenModel(queries, self.name)
        captum = optional_package("captum.attr", f"method {self.name!r}")
        clean = model.embeddings
        noise = torch.as_tensor(rng.standard_normal((self.samples, *clean.shape))).to(clean)
        noisy = clean + self.noise * (clean.max() - clean.min()) * noise
        scores = []
        for column in range(len(model.full)):
            gradient = _mean_gradient(captum, model, noisy, column)
            scores.append((gradient * clean).sum(dim=1))
        return explain_tokens(queries, torch.stack(scores, dim=1), rng, model.passes)


def _mean_gradient(captum: Any, model: OpenModel, rows: Tensor, column: int) -> Tensor:
    """The mean gradient (tokens, width) of a column at rows (m, tokens, width)."""
    saliency = captum.Saliency(model.columns)
    gradients = []
    for part in torch.split(rows, model.at_once):
        inputs = part.clone().requires_grad_()
        gradients.append(saliency.attribute(inputs, target=column, abs=False))
    mean: Tensor = torch.cat(gradients).mean(dim=0)
    return mean


def _filler_token(queries: Queries, kind: str) -> int:
    """The id of the tokenizer's pad or mask token, from a row in which it stands for everything."""
    reading = queries.prompt.reading
    assert reading.positions is not None
    try:
        filled = queries.model.read(reading.text, reading.text_pair, truncation=True, removal=kind)
    except InputError as error:
        raise InputError(
            f'baseline="{kind}" needs a tokenizer with a {kind} token, but this one has none: '
            'use baseline="zero"'
        ) from error
    nothing = np.zeros(len(reading.pieces), dtype=bool)
    streams = cast(tuple[tuple[int, ...], ...], filled.shorten(nothing))
    return streams[0][int(reading.positions[0])]


def _check_whole(what: str, given: object) -> None:
    if not isinstance(given, int) or isinstance(given, bool) or given < 1:
        raise InputError(f"{what} is {given!r}: give a whole number of at least 1")
