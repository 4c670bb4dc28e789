"""Predictions for many rows that keep each unit at most once: a fast form of ``formula``.

What it has to do: choices between fits, and their tests, predict the same thousand rows of a text
again and again.

Why it is done this way: without repeats, a head's average is a quotient of two sums over the units
kept. So one product of the table of masks with the weights and the weighted values gives all heads
and columns at once,

    F_c(x) = sum_k  [ N (w_k v_kc) ]_x / [ N w_k ]_x  + o_c(n),       w = exp(s)

and the shares (m, K, p) of the reference are never written. A sink adds its part to both sums.

Shapes: m rows, n units, K heads, C columns (explained outputs).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch
from torch import Tensor

from slalom_xai.surrogates.formula import SlalomSurrogate, TwoScores
from slalom_xai.surrogates.scores import OneScore


@dataclass(frozen=True)
class MaskRows:
    """Rows that keep each unit once or not at all.

    Attributes:
        table: (m, n), ones and zeros.
    """

    table: Tensor

    def predict(self, surrogate: SlalomSurrogate | OneScore | TwoScores) -> Tensor:
        """What a surrogate predicts for these rows, (m, C)."""
        if isinstance(surrogate, TwoScores):
            return self._by_two_scores(surrogate)
        if not isinstance(surrogate, SlalomSurrogate):
            return surrogate.predict(self.table)
        predicted = self._averages(
            surrogate.values,
            surrogate.importances,
            surrogate.sink_values,
            surrogate.sink_importances,
        )
        if surrogate.length_offsets is not None:
            predicted += surrogate.length_offsets[self._kept]
        if surrogate.interactions is not None:
            predicted += surrogate.interactions.predict(self.table)
        if surrogate.correction is not None:
            predicted = surrogate.correction.applied(predicted, self.table)
        return predicted

    def _by_two_scores(self, two: TwoScores) -> Tensor:
        """The average of measured values, whose sink counts as far as units are missing."""
        return self._averages(
            two.values[None],
            two.importances[None],
            two.sink_value[None],
            two.sink_importance[None],
            self._missing,
        )

    def _averages(
        self,
        values: Tensor,
        importances: Tensor,
        sink_values: Tensor | None,
        sink_importances: Tensor | None,
        sink_counts: Tensor | None = None,
    ) -> Tensor:
        """The heads' averages, added up, (m, C).

        Args:
            values: (K, n, C).
            importances: (K, n).
            sink_values: (K, C), or None without a sink.
            sink_importances: (K,), or None without a sink.
            sink_counts: (m, 1), how often the sink counts in each row; None: once.
        """
        heads, units, columns = values.shape
        highest = importances.amax(dim=1, keepdim=True)
        if sink_importances is not None:
            highest = torch.maximum(highest, sink_importances[:, None])
        weights = torch.exp(importances - highest)  # (K, n)
        weighed = (weights[..., None] * values).movedim(1, 0).reshape(units, heads * columns)
        sums = self.table @ torch.cat([weights.T, weighed], dim=1)  # (m, K + K C)
        if sink_values is not None and sink_importances is not None:
            weight = torch.exp(sink_importances[:, None] - highest)  # (K, 1)
            of_sink = torch.cat([weight[:, 0], (weight * sink_values).flatten()])
            sums = sums + (of_sink if sink_counts is None else sink_counts * of_sink)
        if heads == 1:
            return sums[:, 1:] / sums[:, :1]
        totals = sums[:, heads:].reshape(-1, heads, columns)
        return (totals / sums[:, :heads, None]).sum(dim=1)

    @functools.cached_property
    def _kept(self) -> Tensor:
        """How many units each row keeps, (m,)."""
        return self.table.sum(dim=1).long()

    @functools.cached_property
    def _missing(self) -> Tensor:
        """The share of units that each row lacks, (m, 1)."""
        return 1 - self.table.mean(dim=1, keepdim=True)
