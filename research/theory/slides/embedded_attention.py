"""The embedded model's last layer with other attention weights put in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from research.theory.paper.synthetic import one_thread
from research.theory.slides.arrays import Floats
from slalom_xai.models.internals import eager_attention
from slalom_xai.models.load import text_model
from slalom_xai.models.transformers import TransformersModel

FILMS = (
    "I went in with low hopes and came out beaming. The two leads are so warm and quick that even "
    "the tired jokes about the "
    "in-laws land, and the songs, which I had feared most of all, turn out to be the best thing "
    "in it. It runs a little long.",
    "There is a good story somewhere in here about a father who cannot say sorry, but the "
    "director keeps cutting away to car chases "
    "that nobody asked for. The script is lazy, the score is loud, and by the end I no longer "
    "cared who had taken the money.",
    "A quiet, lovely film. Hardly anything happens: a woman moves into her late aunt's house, "
    "mends the roof, and makes a friend. "
    "Yet every scene is so well watched, and the acting so honest, that I was sorry when the "
    "lights came back on.",
    "Awful. The effects look cheap, the dialogue sounds as if it had been translated twice, and "
    "the hero has the charm of a wet towel. "
    "My brother laughed at the monster, which was meant to be sad. Two hours of my life that I "
    "will not get back.",
)


class LastLayer:
    """The last layer of the embedded movie-review classifier on one text, seen from [CLS].

    Attributes:
        attention: (heads, tokens), the model's own weights.
        values: (heads, tokens, h), what they average.
        log_odds: the model's own answer.

    Args:
        model: the embedded model, from ``embedded_model``.
        text: what it reads.
    """

    def __init__(self, model: TransformersModel, text: str) -> None:
        reading = model.read(text, truncation=True)
        row: Any = reading.shorten(np.ones(len(reading.pieces), dtype=bool))
        self._model: Any = model.internals(row).module
        self._ids = torch.tensor([row[0]])
        self._part: Any = self._model.bert.encoder.layer[-1].attention.self
        heard: list[Tensor] = []
        handle = self._part.value.register_forward_hook(lambda _, given, out: heard.append(out[0]))
        try:
            with torch.no_grad(), eager_attention(self._model):
                answer = self._model(input_ids=self._ids, output_attentions=True)
        finally:
            handle.remove()
        self.attention: Floats = answer.attentions[-1][0, :, 0].numpy()
        heads, tokens = self.attention.shape
        self.values: Floats = heard[0].reshape(tokens, heads, -1).transpose(0, 1).numpy()
        self.log_odds = float(answer.logits[0, 1] - answer.logits[0, 0])

    def answer(self, attention: Floats) -> float:
        """The log odds with other weights (heads, tokens) for [CLS] in the last layer.

        Everything else runs as it is.
        """
        with torch.no_grad():
            return float(self._answer(torch.as_tensor(attention)))

    @one_thread()
    def far_attention(self, steps: int = 150, strictness: float = 100.0) -> Floats:
        """Weights (heads, tokens) far from the model's own with nearly the same answer.

        They are searched for, as in Jain and Wallace (2019).

        Args:
            steps: of Adam on the logarithms of the weights.
            strictness: the price of a squared change of the log odds, where a divergence of log 2
                is worth log 2.
        """
        own = torch.as_tensor(self.attention)
        # The search starts from the places that the model hardly looks at.
        free = (-torch.log(own)).clone().requires_grad_()
        optimizer = torch.optim.Adam([free], lr=0.3)
        for _ in range(steps):
            weights = torch.softmax(free, dim=-1)
            change = self._answer(weights) - self.log_odds
            loss = strictness * change**2 - _divergence(own, weights).mean()
            (free.grad,) = torch.autograd.grad(loss, free)
            optimizer.step()
        result: Floats = torch.softmax(free, dim=-1).detach().numpy()
        return result

    def _answer(self, attention: Tensor) -> Tensor:
        context = torch.einsum("kt,kth->kh", attention, torch.as_tensor(self.values)).reshape(-1)
        with self._put_in(context):
            logits: Tensor = self._model(input_ids=self._ids).logits[0]
        return logits[1] - logits[0]

    @contextmanager
    def _put_in(self, context: Tensor) -> Iterator[None]:
        """Puts in what [CLS] hears from the other places."""

        def replace(_: Any, given: Any, out: Any) -> Any:
            if isinstance(out, tuple):  # by version of transformers, with the weights beside it
                return (replace(_, given, out[0]), *out[1:])
            heard = out.clone()
            heard[0, 0] = context
            return heard

        handle = self._part.register_forward_hook(replace)
        try:
            yield
        finally:
            handle.remove()


def embedded_model() -> TransformersModel:
    """The movie-review classifier that comes with the package, in double precision on the CPU."""
    model = text_model(None, device="cpu", dtype=torch.float64)
    assert isinstance(model, TransformersModel)
    return model


def _divergence(first: Tensor, second: Tensor) -> Tensor:
    """Jensen-Shannon divergence (heads,) of rows of positive weights."""
    middle = (first + second) / 2
    against_first = (first * (first / middle).log()).sum(dim=-1)
    against_second = (second * (second / middle).clamp_min(1e-30).log()).sum(dim=-1)
    return (against_first + against_second) / 2
