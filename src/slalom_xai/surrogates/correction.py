"""What is learnt from the calls beyond what can be read: a process beside the heads of a SLALOM.

    F(x) = P(x) + share * m(x) * (H(x) - f(all))

H is what the heads predict, m(x) the share of units that x lacks, and P a Gaussian process
(``process``) on what that leaves. A process leans on rows that are like the one asked for, and
knows interactions of any order. Heads tell what happens where much is missing and few rows are
alike; with few calls they tell little of a few deletions. Held-out rows choose the share.

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
        process: predicts the rest. Its output for the whole text is the model's.
        shapley: (n, C), the Shapley values of both together, averaged over orders of the units.
    """

    share: Tensor
    process: Process
    shapley: Tensor

    def applied(self, by_heads: Tensor, counts: Tensor) -> Tensor:
        """What is predicted for rows of counts (m, n) for which heads predict (m, C)."""
        missing = 1 - counts.clamp(max=1).mean(dim=1, keepdim=True)
        from_heads = self.share * missing * (by_heads - self.process.full)
        return self.process.predict(counts) + from_heads

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
