"""On which side the rows of a batch can be padded without changing any answer.

Rows of unequal length are filled up so that they can be asked together. Most models ignore what is
masked, on one side at least; a few do not on either. That is tried once, on a short and a long row:
the short one is asked alone, and then beside the long one, where it has to be padded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class PaddingTolerance:
    """How far an answer may move by padding and still count as the same.

    Attributes:
        share: of the distance between the answers to the two rows. It has to lie above what
            rounding does, and below what a model does that reads its padding.
        floor: the distance is taken to be at least this share of 1 + the answer's size, so that
            two rows with nearly the same answer are not compared to the last digit.
    """

    share: float
    floor: float

    def of(self, alone: Tensor, other: Tensor) -> Tensor:
        """What is tolerated for each output, (1, width)."""
        spread = (alone - other).abs().max()
        return self.share * torch.maximum(spread, (1 + alone.abs()) * self.floor)


# Chosen by hand: float32 rounds at 1e-6, float16 and bfloat16 at 1e-3 and 1e-2 of a logit.
SINGLE_PRECISION = PaddingTolerance(share=1e-3, floor=1e-2)
HALF_PRECISION = PaddingTolerance(share=5e-2, floor=0.2)


def harmless_side(
    alone: Tensor, padded: Callable[[str], Tensor], sides: Sequence[str], tolerated: Tensor
) -> str | None:
    """The first side on which padding leaves a row's answer alone; None if there is no such side.

    Args:
        alone: the answer (1, width) to the row by itself.
        padded: a side to the answer (1, width) to the row when it is padded there.
        sides: "left" and "right", in the order in which they are tried.
        tolerated: how far each output may move, (1, width).
    """
    for side in sides:
        if bool(((padded(side) - alone).abs() <= tolerated).all()):
            return side
    return None
