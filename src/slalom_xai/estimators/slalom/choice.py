"""What is chosen among the fits: one head, an additive head beside it, or something between.

Rows that were not fitted decide. With few rows, a fit with an additive head follows them too
closely, and one without it misses what no average can tell. Their weighted mean

    F(x) = (1 - share) F_plain(x) + share F_rich(x)

misses less than either. It is a SLALOM again, because heads add.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from slalom_xai.estimators.evidence import Evidence
from slalom_xai.estimators.held_out import held_out_losses
from slalom_xai.estimators.slalom.candidates import Candidates
from slalom_xai.surrogates.fit import Fit
from slalom_xai.surrogates.formula import SlalomSurrogate
from slalom_xai.surrogates.interactions import Interactions

STEPS = 10  # shares that are tried, from none to all; held-out rows tell no finer ones apart


@dataclass(frozen=True)
class Choice:
    """One or two fits, and what predicts.

    Attributes:
        plain: the fit without an additive head, or the only one.
        rich: the fit with an additive head; None where it has no share.
        share: of ``rich`` in what predicts.
        interactions: pairs of units that the fits miss; None where there are none.
    """

    plain: Fit
    rich: Fit | None = None
    share: float = 0.0
    interactions: Interactions | None = None

    @property
    def main(self) -> Fit:
        """The fit with the larger share, whose covariance stands for both."""
        if self.rich is None or self.share < 0.5:
            return self.plain
        return self.rich

    @property
    def exact(self) -> bool:
        """Whether the model was found to be this very function."""
        return self.rich is None and self.interactions is None and self.plain.exact

    @property
    def surrogate(self) -> SlalomSurrogate:
        """What predicts."""
        heads = self.plain.surrogate
        if self.rich is not None:
            heads = blended(heads, self.rich.surrogate, self.share)
        return replace(heads, interactions=self.interactions)

    def refitted(self, candidates: Candidates) -> Choice:
        """The same, fitted again to the rows of ``candidates``, without what pairs add to them."""
        rich = None
        if self.rich is not None:
            rich = candidates.refitted(self.rich)
        return replace(self, plain=candidates.refitted(self.plain), rich=rich)


def choose(evidence: Evidence, plain: Fit, rich: Fit) -> Choice:
    """The share that predicts the rows to choose by best."""
    rows = evidence.choice.rows
    by_plain, by_rich = rows.predict(plain.surrogate), rows.predict(rich.surrogate)
    shares = torch.linspace(0, 1, STEPS + 1, dtype=by_plain.dtype, device=by_plain.device)
    between = torch.lerp(by_plain, by_rich, shares[:, None, None])  # (shares, m, C)
    losses = held_out_losses(evidence, between).tolist()
    share = losses.index(min(losses)) / STEPS
    if share == 0:
        return Choice(plain)
    if share == 1:
        return Choice(rich)
    return Choice(plain, rich, share)


def blended(plain: SlalomSurrogate, rich: SlalomSurrogate, share: float) -> SlalomSurrogate:
    """The weighted mean of two SLALOMs with sinks, as one: its heads are the heads of both."""
    parts = ((plain, 1 - share), (rich, share))
    sink_values, sink_importances = [], []
    for part, _ in parts:
        assert part.sink_values is not None
        assert part.sink_importances is not None
        sink_values.append(part.sink_values)
        sink_importances.append(part.sink_importances)
    weighed = zip(sink_values, parts, strict=True)
    return SlalomSurrogate(
        values=torch.cat([weight * part.values for part, weight in parts]),
        importances=torch.cat([part.importances for part, _ in parts]),
        sink_values=torch.cat([weight * values for values, (_, weight) in weighed]),
        sink_importances=torch.cat(sink_importances),
        length_offsets=_offsets(parts),
    )


def _offsets(parts: tuple[tuple[SlalomSurrogate, float], ...]) -> Tensor | None:
    """The weighted sum of the offsets by length; None where no part has any."""
    total: Tensor | None = None
    for part, weight in parts:
        if part.length_offsets is None:
            continue
        offsets = weight * part.length_offsets
        total = offsets if total is None else total + offsets
    return total
