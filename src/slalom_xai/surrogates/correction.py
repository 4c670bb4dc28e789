"""What is learnt from the calls beyond what can be read: a process beside the heads of a SLALOM.

    F(x) = share * H(x) + P(x)

H is what the heads predict, and P a Gaussian process (``process``) on what ``share`` of H leaves.
Heads need many calls before they tell few deletions well. A process leans on rows that are like the
one asked for, and knows interactions of any order. Held-out rows choose the share.

Shapes: n units, C columns (explained outputs).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from slalom_xai.surrogates.process import Process


@dataclass(frozen=True)
class Correction:
    """A process that predicts deletions, with a share of the heads.

    Attributes:
        share: (), of the heads, from 0 to 1.
        process: predicts the rest.
        shapley: (n, C), the Shapley values of the process, averaged over many orders of the units.
    """

    share: Tensor
    process: Process
    shapley: Tensor

    def applied(self, by_heads: Tensor, counts: Tensor) -> Tensor:
        """What is predicted for rows of counts (m, n) for which heads predict (m, C)."""
        return self.share * by_heads + self.process.predict(counts)

    def of_column(self, column: int) -> Correction:
        """One column of it."""
        here = slice(column, column + 1)
        process = replace(
            self.process, weights=self.process.weights[:, here], full=self.process.full[here]
        )
        return Correction(self.share, process, self.shapley[:, here])

    def cpu(self) -> Correction:
        """The same on the CPU."""
        return Correction(self.share.cpu(), self.process.cpu(), self.shapley.cpu())
