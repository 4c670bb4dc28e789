"""The steps by which Appendix B.6 recovers a SLALOM, with the printed signs or the right ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from research.theory.paper.transformer import PlainTransformer, answers


@dataclass(frozen=True)
class Signs:
    """Which of the printed signs to use; each is wrong.

    Attributes:
        difference: Eq. 55: log(1/g − 1) as s(τ) − s(τ̂), where it is the negative of that.
        chain: Eq. 56: the difference between the two references subtracted, where the worked form
            beside it adds it.
        constant: Eq. 58: s(θ) as the mean of the differences, where it is minus that.
    """

    difference: bool = False
    chain: bool = False
    constant: bool = False


class Counted:
    """A model that counts how often it is asked.

    Args:
        model: what answers.
        front: tokens that stand before every row, which make a sink.
        noise: standard deviation of what is added to each answer.
        seed: decides the noise.
    """

    def __init__(
        self,
        model: PlainTransformer,
        front: Sequence[int] = (),
        noise: float = 0.0,
        seed: int = 0,
    ) -> None:
        self._model = model
        self._front = list(front)
        self._noise = noise
        self._generator = torch.Generator().manual_seed(seed)
        self.calls = 0

    def ask(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Answers (m, C)."""
        self.calls += len(rows)
        given = answers(self._model, [[*self._front, *row] for row in rows])
        shake = torch.randn(given.shape, generator=self._generator, dtype=given.dtype)
        return given + self._noise * shake


def follow_the_proof(
    model: Counted, units: int, signs: Signs | None = None
) -> tuple[Tensor, Tensor]:
    """Values (n,) and importances (n,) by the steps of App. B.6.

    The first token is the reference θ.

    Args:
        model: a SLALOM with one output that is not constant.
        units: how many tokens there are.
        signs: printed signs to use; None uses none.
    """
    used = signs or Signs()
    values = model.ask([[token] for token in range(units)])[:, 0]
    second = int((values - values[0]).abs().argmax())  # the paper's θ̂: any token of another value
    tokens = torch.arange(1, units)
    tied = values[1:] == values[0]
    beside = torch.where(tied, second, 0)  # the reference of each token
    rows = torch.stack([tokens, beside], dim=1).tolist()
    share = (model.ask(rows)[:, 0] - values[beside]) / (values[1:] - values[beside])
    steps = torch.log(1 / share - 1)
    if not used.difference:
        steps = -steps
    chain = steps[second - 1] * tied
    if used.chain:
        chain = -chain
    differences = torch.cat([torch.zeros(1, dtype=torch.float64), steps + chain])  # s(token) − s(θ)
    constant = differences.mean()
    if not used.constant:
        constant = -constant
    return values, differences + constant
