"""The middle of a sandwich covariance: how much the slope of the objective varies over rows.

What it has to do: at the optimum the slope of the objective is a sum over rows that is zero. How
far the parameters would move with other rows depends on how much each row's part g_i varies. Those
parts, by the values of column c and by the importances, are

    g_i^{vc} = q_i e_ic A_i,          g_i^s = sum_c q_i e_ic B_ic

with residuals e, weights q, and the derivatives A (by values) and B_c (by importances) of the
predictions, from the anchor and beyond what length offsets take. Where importances move, values
follow, so what counts of the second is the rest ``h_i = g_i^s - sum_c X_c' g_i^{vc}``. X is
the derivative of the best values by the importances (``values_by_importances``). The middle
("meat") is made of the products of g and h, summed over rows.

There are two forms of it: for tables, from the rows' parts written out, and a fast form for short
rows, whose parts are zero wherever the counts are. The tests compare them.

Shapes: m rows, p slots, K heads, n_f of them fitted, C columns, n_v = K p values,
n_s = n_f p fitted importances, l units in a short row. There is one text, B = 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from slalom_xai.surrogates.count_tables import Counts, ShortRows, table_of
from slalom_xai.surrogates.formula import slots
from slalom_xai.surrogates.problem import Problem
from slalom_xai.surrogates.projection import State


@dataclass(frozen=True)
class Meat:
    """Products, summed over rows, of each row's part in the slope of the objective.

    Attributes:
        values: C of (n_v, n_v), of g^{vc} with itself.
        mixed: C of (n_v, n_s), of g^{vc} with h.
        importances: (n_s, n_s), of h with itself.
    """

    values: list[Tensor]
    mixed: list[Tensor]
    importances: Tensor


@dataclass(frozen=True)
class Derivatives:
    """Derivatives of the predictions for all rows of one text.

    Attributes:
        problem: what was fitted.
        state: where it ended.
        shares: (m, K, p), of each slot in each row.
    """

    problem: Problem
    state: State
    shares: Tensor

    @classmethod
    def of(cls, problem: Problem, state: State, counts: Counts) -> Derivatives:
        """From the rows (m, n) that were fitted."""
        sink = problem.rows.shape[2] > counts.shape[1]
        table = slots(table_of(counts), sink, problem.sink_of_missing)
        scales = state.scaled.scales[0, ..., None]  # (m, K, 1)
        return cls(problem, state, table[:, None] * state.weights[0] * scales)

    def by_values(self) -> Tensor:
        """A, the same for every column, (m, n_v)."""
        return self._as_compared(self.shares)

    def by_importances(self, column: int) -> Tensor:
        """B of one column, (m, n_s)."""
        free = self.problem.free_heads
        values = self.state.values[0, :free, :, column]  # (n_f, p)
        predicted = self.state.head_predictions[0][:, :free, column, None]  # (m, n_f, 1)
        return self._as_compared(self.shares[:, :free] * (values - predicted))

    def _as_compared(self, slopes: Tensor) -> Tensor:
        """Slopes (m, heads, p) from the anchor and beyond lengths, (m, heads p)."""
        changes = self.problem.from_anchor(slopes.flatten(1)[None])
        return self.problem.beyond_length(changes)[0]


def meat_of(problem: Problem, state: State, counts: Counts, values_by_importances: Tensor) -> Meat:
    """The middle of the sandwich.

    Args:
        problem: what was fitted.
        state: where it ended.
        counts: (m, n), the rows.
        values_by_importances: X, (C, n_v, n_s), how the values follow the importances.
    """
    if isinstance(problem.rows, ShortRows) and _slopes_are_where_counts_are(problem, state):
        return _short_meat(problem, problem.rows, state, values_by_importances)
    return _dense_meat(problem, state, counts, values_by_importances)


def _slopes_are_where_counts_are(problem: Problem, state: State) -> bool:
    """Whether no derivative is other than zero where its row has no count, for one head."""
    return state.head_predictions.shape[2] == 1 and not problem.anchored and problem.lengths is None


def _dense_meat(
    problem: Problem, state: State, counts: Counts, values_by_importances: Tensor
) -> Meat:
    """From every row's part, written out."""
    slopes = Derivatives.of(problem, state, counts)
    residuals = problem.beyond_length(state.residuals)
    scaled = (problem.row_weights[..., None] * residuals)[0]  # (m, C)
    by_value = slopes.by_values()
    by_values = [by_value * pull[:, None] for pull in scaled.unbind(dim=1)]
    rest = by_value.new_zeros(len(by_value), values_by_importances.shape[2])
    for column, pull in enumerate(scaled.unbind(dim=1)):
        rest += slopes.by_importances(column) * pull[:, None]
    follows = torch.zeros_like(rest)
    for rows, part in zip(by_values, values_by_importances, strict=True):
        follows = follows + rows @ part
    rest = rest - follows
    return Meat(
        values=[rows.T @ rows for rows in by_values],
        mixed=[rows.T @ rest for rows in by_values],
        importances=rest.T @ rest,
    )


def _short_meat(
    problem: Problem, rows: ShortRows, state: State, values_by_importances: Tensor
) -> Meat:
    """From the entries of rows of few units, without any table.

    With G_cd the products of g^{vc} and g^{vd}, and T_c those of g^{vc} and g^s,

        mixed_c     = T_c - sum_d G_cd X_d
        importances = <g^s, g^s> - sum_c (T_c' X_c + X_c' mixed_c)
    """
    by_value, by_importance = _entries(problem, rows, state)
    grid = [[rows.products(part, other)[0] for other in by_value] for part in by_value]
    with_importance = [rows.products(part, by_importance)[0] for part in by_value]
    mixed = []
    for part, line in zip(with_importance, grid, strict=True):
        pairs = zip(line, values_by_importances, strict=True)
        mixed.append(part - sum(products @ follow for products, follow in pairs))
    importances = rows.products(by_importance, by_importance)[0]
    for part, rest, follow in zip(with_importance, mixed, values_by_importances, strict=True):
        importances = importances - part.T @ follow - follow.T @ rest
    return Meat([line[column] for column, line in enumerate(grid)], mixed, importances)


def _entries(problem: Problem, rows: ShortRows, state: State) -> tuple[tuple[Tensor, ...], Tensor]:
    """The entries of each row's part where its units are: C of (1, l, m), and (1, l, m)."""
    weights = rows.at(state.weights[:, 0, None])[:, 0]
    shares = rows.times * weights * state.scaled.scales.mT  # (1, l, m)
    scaled = (problem.row_weights[..., None] * state.residuals).mT  # (1, C, m)
    pulls = shares[:, None] * scaled[:, :, None]  # (1, C, l, m)
    values = rows.at(state.values[:, 0].mT)  # (1, C, l, m)
    predicted = state.head_predictions[:, :, 0].mT[:, :, None]  # (1, C, 1, m)
    by_importance = (pulls * (values - predicted)).sum(dim=1)
    return pulls.unbind(dim=1), by_importance
