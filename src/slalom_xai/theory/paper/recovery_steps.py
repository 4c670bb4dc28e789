"""The steps by which Appendix B.6 recovers a SLALOM, with the printed signs or the right ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from slalom_xai.theory.paper.transformer import PlainTransformer, answers


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
    """

    def __init__(self, model: PlainTransformer, front: Sequence[int] = ()) -> None:
        self._model = model
        self._front = list(front)
        self.calls = 0

    def ask(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Answers (m, C)."""
        self.calls += len(rows)
        return answers(self._model, [[*self._front, *row] for row in rows])


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
    differences = torch.zeros(units, dtype=torch.float64)  # s(token) − s(θ)
    others = [token for token in range(1, units) if token != second]
    for token in [second, *others]:
        reference = 0
        if values[token] == values[0]:
            reference = second
        pair = model.ask([[token, reference]])[0, 0]
        share = (pair - values[reference]) / (values[token] - values[reference])
        step = torch.log(1 / share - 1)
        if not used.difference:
            step = -step
        if reference == second and used.chain:
            step = step - differences[second]
        elif reference == second:
            step = step + differences[second]
        differences[token] = step
    constant = differences.mean()
    if not used.constant:
        constant = -constant
    return values, differences + constant
