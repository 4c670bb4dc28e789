"""Gradients by the input embeddings: plain, integrated from a baseline, and averaged over noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
import torch
from torch import Tensor

from slalom_xai.errors import InputError, one_of, optional_package
from slalom_xai.estimators.base import Estimator, Findings, register
from slalom_xai.estimators.white_box import Opened, finished
from slalom_xai.queries import Queries

REDUCTIONS = ("times-input", "mean", "l1", "l2")
BASELINES = ("zero", "pad", "mask")


@register
@dataclass(frozen=True)
class Gradient(Estimator):
    """The gradient of the output by each token's embedding, made one number per token.

    Args:
        reduction: "times-input" (the sum of gradient × embedding, the one that predicts what removing a token does), "mean"
            of the gradient, or its "l1" or "l2" norm, which have no sign.
    """

    reduction: str = "times-input"

    name: ClassVar[str] = "gradient"
    summary: ClassVar[str] = (
        "gradient × input (or mean, l1, l2) at the embeddings: needs a torch model and captum, one pass per class"
    )

    def __post_init__(self) -> None:
        """Checks the options."""
        if self.reduction not in REDUCTIONS:
            raise one_of("reduction", self.reduction, REDUCTIONS)

    def parameters(self, units: int, distinct: int) -> int:
        """Nothing is fitted."""
        return 1

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Differentiates."""
        opened = Opened(queries, self.name)
        captum = optional_package("captum.attr", f"method {self.name!r}")
        scores = [
            self._reduced(_gradient(captum, opened, opened.embeddings[None], c), opened.embeddings)
            for c in range(len(opened.full))
        ]
        notes: tuple[str, ...] = ()
        if self.reduction != "times-input":
            sign = "" if self.reduction == "mean" else " and have no sign"
            notes = (
                f"Scores by reduction={self.reduction!r} say how sensitive the output is{sign}: they do not predict deletions.",
            )
        return finished(queries, torch.stack(scores, dim=1), rng, opened.passes, notes)

    def _reduced(self, gradient: Tensor, embeddings: Tensor) -> Tensor:
        """(tokens, width) to (tokens,)."""
        if self.reduction == "times-input":
            return (gradient * embeddings).sum(dim=1)
        if self.reduction == "mean":
            return gradient.mean(dim=1)
        return (
            gradient.abs().sum(dim=1)
            if self.reduction == "l1"
            else gradient.square().sum(dim=1).sqrt()
        )


@register
@dataclass(frozen=True)
class IntegratedGradients(Estimator):
    """Gradients along the straight line from a baseline to the text, times their difference (Sundararajan et al., 2017).

    Special tokens stay as they are in the baseline, so that all of the change falls on the units.

    Args:
        steps: points on the line, by Gauss-Legendre.
        baseline: what stands in every token's place: the "zero" vector, or the embedding of the tokenizer's "pad" or "mask" token.
    """

    steps: int = 50
    baseline: str = "zero"

    name: ClassVar[str] = "integrated-gradients"
    summary: ClassVar[str] = (
        "gradients summed along the way from an empty baseline to the text: needs a torch model and captum, 50 passes per class"
    )

    def __post_init__(self) -> None:
        """Checks the options."""
        _check_whole("steps", self.steps)
        if self.baseline not in BASELINES:
            raise one_of("baseline", self.baseline, BASELINES)

    def parameters(self, units: int, distinct: int) -> int:
        """Nothing is fitted."""
        return 1

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Integrates."""
        opened = Opened(queries, self.name)
        captum = optional_package("captum.attr", f"method {self.name!r}")
        inputs, baseline = opened.embeddings[None], self._start(queries, opened)[None]
        method = captum.IntegratedGradients(opened.columns)
        scores = [
            method.attribute(
                inputs,
                baselines=baseline,
                target=c,
                n_steps=self.steps,
                internal_batch_size=opened.at_once,
            )[0].sum(dim=1)
            for c in range(len(opened.full))
        ]
        tokens = torch.stack(scores, dim=1)
        change = opened.full - opened.columns(baseline).detach()[0]
        gaps = (change - tokens.sum(dim=0)).abs()
        worst = int(gaps.argmax())
        note = (
            f"The output differs from that of the {self.baseline} baseline by {float(change[worst]):.4g}; the scores miss this by {float(gaps[worst]):.2g}. More steps miss less.",
        )
        return finished(queries, tokens, rng, opened.passes, note)

    def _start(self, queries: Queries, opened: Opened) -> Tensor:
        """The baseline's embeddings, (tokens, width)."""
        filler = torch.zeros_like(opened.embeddings[0])
        if self.baseline != "zero":
            filler = opened.lookup(_token(queries, self.baseline))
        start = opened.embeddings.clone()
        start[torch.as_tensor(queries.prompt.reading.positions, device=start.device)] = filler
        return start


@register
@dataclass(frozen=True)
class SmoothGrad(Estimator):
    """The mean gradient at noisy copies of the embeddings, times the input (Smilkov et al., 2017).

    Args:
        samples: noisy copies.
        noise: standard deviation of the noise, as a share of the range of the embeddings' numbers.
    """

    samples: int = 25
    noise: float = 0.1

    name: ClassVar[str] = "smoothgrad"
    summary: ClassVar[str] = (
        "gradient × input with the gradient averaged over noise: needs a torch model and captum, 25 passes per class"
    )

    def __post_init__(self) -> None:
        """Checks the options."""
        _check_whole("samples", self.samples)
        if not isinstance(self.noise, (int, float)) or not 0 <= self.noise < float("inf"):
            raise InputError(
                f"noise is {self.noise!r}: give a share of the range of the embeddings, such as 0.1"
            )

    def parameters(self, units: int, distinct: int) -> int:
        """Nothing is fitted."""
        return 1

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Differentiates at noisy copies; the noise is our own, as captum's comes from the one generator that all threads share."""
        opened = Opened(queries, self.name)
        captum = optional_package("captum.attr", f"method {self.name!r}")
        clean = opened.embeddings
        drawn = torch.as_tensor(rng.standard_normal((self.samples, *clean.shape))).to(clean)
        noisy = clean + self.noise * (clean.max() - clean.min()) * drawn
        scores = [
            (_gradient(captum, opened, noisy, c) * clean).sum(dim=1)
            for c in range(len(opened.full))
        ]
        return finished(queries, torch.stack(scores, dim=1), rng, opened.passes)


def _gradient(captum: Any, opened: Opened, rows: Tensor, column: int) -> Tensor:
    """The mean gradient (tokens, width) of a column at rows (m, tokens, width)."""
    saliency = captum.Saliency(opened.columns)
    parts = [
        saliency.attribute(part.clone().requires_grad_(), target=column, abs=False)
        for part in torch.split(rows, opened.at_once)
    ]
    mean: Tensor = torch.cat(parts).mean(dim=0)
    return mean


def _token(queries: Queries, kind: str) -> int:
    """The id of the tokenizer's pad or mask token, from a row in which it stands for everything."""
    reading = queries.prompt.reading
    assert reading.positions is not None
    try:
        filled = queries.model.read(reading.text, reading.text_pair, truncation=True, removal=kind)
    except InputError as error:
        raise InputError(
            f'baseline="{kind}" needs a tokenizer with a {kind} token, but this one has none: use baseline="zero"'
        ) from error
    ids = cast(
        tuple[tuple[int, ...], ...], filled.shorten(np.zeros(len(reading.pieces), dtype=bool))
    )[0]
    return ids[int(reading.positions[0])]


def _check_whole(what: str, given: object) -> None:
    if not isinstance(given, int) or isinstance(given, bool) or given < 1:
        raise InputError(f"{what} is {given!r}: give a whole number of at least 1")
