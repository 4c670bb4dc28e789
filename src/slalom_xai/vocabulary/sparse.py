"""One SLALOM for a whole vocabulary, fitted to rows that hold a few of its items each.

A row r holds item j n_rj times, and a SLALOM with a sink answers

    F_r = (sum_j n_rj w_j v_j + w_0 v_0) / (sum_j n_rj w_j + w_0),    w = exp(s).

Values v are given, importances s and the sink (s_0, v_0) are fitted by Gauss-Newton steps, each
solved by conjugate gradients. Rows are flat lists of entries, so that nothing is ever as large as
rows times items. The last item stands for everything that is no item of the vocabulary.
Importances have a normal prior with mean 0, and the sink's value one that is about as wide as the
values are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from slalom_xai.vocabulary.products import Map
from slalom_xai.vocabulary.sparse_rows import SparseRows

_STEPS = 25  # of Gauss and Newton at most
_REFIT_STEPS = 3  # where few rows were left out
_SOLVER_STEPS = 60  # of conjugate gradients for each of them
_SOLVED = 1e-4  # the residual of a solved step, as a share of the first
_DONE = 1e-6  # a step that lowers the loss by a smaller share is the last
_HALVINGS = 12
_SINK_SPREADS = 3.0  # standard deviations of the values, for the sink's
_LEAST_PULL = 1e-6  # keeps the sink's importance where it is if it does not matter
_LARGEST = 30.0  # importances stay within this: exp of it is still a plain number


@dataclass(frozen=True)
class SparseSlalom:
    """Importances of a vocabulary, with a sink.

    Attributes:
        values: (V,), given.
        importances: (V,).
        sink_value: v_0.
        sink_importance: s_0.
    """

    values: Tensor
    importances: Tensor
    sink_value: float
    sink_importance: float

    def predict(self, rows: SparseRows) -> Tensor:
        """F (m,) for rows."""
        return _forward(self, rows)[0]

    def normalised(self) -> SparseSlalom:
        """The same with importances that sum to 0, the last one aside; predictions stay."""
        shift = float(self.importances[:-1].mean())
        return replace(
            self,
            importances=self.importances - shift,
            sink_importance=self.sink_importance - shift,
        )

    def moved(self, step: Tensor, share: float) -> SparseSlalom:
        """Moved along a step (V + 2,)."""
        return SparseSlalom(
            self.values,
            (self.importances + share * step[:-2]).clamp(-_LARGEST, _LARGEST),
            self.sink_value + share * float(step[-1]),
            max(-_LARGEST, min(_LARGEST, self.sink_importance + share * float(step[-2]))),
        )


@dataclass(frozen=True)
class Prior:
    """What importances are drawn towards.

    Attributes:
        deviation: standard deviation of importances; 0: all are equal.
        centre: (V,); None: 0.
    """

    deviation: float
    centre: Tensor | None = None

    def loss(self, slalom: SparseSlalom) -> float:
        """How far a SLALOM is from what is expected, in squared standard deviations."""
        centre, pull = sink_prior(slalom.values)
        sink = pull * (slalom.sink_value - centre) ** 2
        return float((self.residuals(slalom.importances) ** 2).sum()) + sink

    def residuals(self, importances: Tensor) -> Tensor:
        """How far importances (V,) are from the centre, in standard deviations."""
        away = importances if self.centre is None else importances - self.centre
        return away / self.deviation if self.deviation else torch.zeros_like(away)


def sink_prior(values: Tensor) -> tuple[float, float]:
    """Where the sink's value is expected, and one over the variance of that."""
    spread = float(values.std()) * _SINK_SPREADS
    return float(values.mean()), max(spread, 1e-9) ** -2


def starting_point(values: Tensor, answers: Tensor) -> SparseSlalom:
    """Equal importances, and a sink that says what the rows say on average."""
    return SparseSlalom(values, torch.zeros_like(values), float(answers.mean()), 0.0)


def fit_sparse(
    start: SparseSlalom,
    rows: SparseRows,
    answers: Tensor,
    weights: Tensor,
    prior: Prior,
    steps: int = _STEPS,
) -> SparseSlalom:
    """Importances and a sink that predict answers, with values as they are.

    Args:
        start: where to begin; its values are kept.
        rows: m of them.
        answers: (m,).
        weights: (m,), one over the variance of each row's error.
        prior: of the importances.
        steps: at most.
    """
    slalom, loss = start, _loss(start, rows, answers, weights, prior)
    for _ in range(steps):
        step = _step(slalom, rows, answers, weights, prior)
        share, before = 1.0, loss
        for _ in range(_HALVINGS):
            tried = slalom.moved(step, share)
            loss = _loss(tried, rows, answers, weights, prior)
            if loss < before:
                break
            share /= 2
        else:
            return slalom
        slalom = tried
        if before - loss <= _DONE * before:
            break
    return slalom


def information(slalom: SparseSlalom, rows: SparseRows, weights: Tensor) -> Tensor:
    """What rows with weights (m,) say about each importance by itself, (V,)."""
    predicted, share, _ = _forward(slalom, rows)
    slope = share * (slalom.values[rows.item] - predicted[rows.row])
    return rows.by_item(slope**2 * weights[rows.row])


def standard_errors(
    fitted: SparseSlalom,
    rows: SparseRows,
    answers: Tensor,
    weights: Tensor,
    groups: Tensor,
    prior: Prior,
    generator: torch.Generator,
    done: Callable[[int], None] = lambda count: None,
) -> Tensor:
    """Standard errors (V,) of importances.

    Refits that leave out one group of rows each say what the choice of rows does (a jackknife).
    As many refits, whose prior has its centre elsewhere, say what the prior does: an item that the
    rows say nothing about is as uncertain as the prior.

    Args:
        fitted: to the rows.
        rows: m of them.
        answers: (m,).
        weights: (m,), as for the fit.
        groups: (m,), from 0; rows of one text are in one group.
        prior: as for the fit.
        generator: the source of randomness.
        done: is told after each refit.
    """
    count = int(groups.max()) + 1
    whole = fitted.normalised().importances

    def away(some: Tensor, towards: Prior) -> Tensor:
        refit = fit_sparse(fitted, rows, answers, some, towards, steps=_REFIT_STEPS)
        done(1)
        return refit.normalised().importances - whole

    total, squares, by_prior = (torch.zeros_like(whole) for _ in range(3))
    for group in range(count):
        without = away(weights * (groups != group), prior)
        total += without
        squares += without**2
        centre = torch.randn(len(whole), generator=generator, dtype=torch.float64)
        by_prior += away(weights, Prior(prior.deviation, centre * prior.deviation)) ** 2
    by_rows = (squares - total**2 / count).clamp(min=0) * (count - 1) / count
    return (by_rows + by_prior / count).sqrt()


def _forward(slalom: SparseSlalom, rows: SparseRows) -> tuple[Tensor, Tensor, Tensor]:
    """Predictions (m,), the share of each entry (e,) and that of the sink (m,)."""
    weight = slalom.importances.exp()[rows.item] * rows.count
    sink = torch.tensor(slalom.sink_importance, dtype=torch.float64).exp()
    whole = rows.summed(weight) + sink
    share = weight / whole[rows.row]
    sink_share = sink / whole
    predicted = rows.summed(share * slalom.values[rows.item]) + sink_share * slalom.sink_value
    return predicted, share, sink_share


def _loss(
    slalom: SparseSlalom, rows: SparseRows, answers: Tensor, weights: Tensor, prior: Prior
) -> float:
    misses = slalom.predict(rows) - answers
    return float((weights * misses**2).sum()) + prior.loss(slalom)


def _step(
    slalom: SparseSlalom, rows: SparseRows, answers: Tensor, weights: Tensor, prior: Prior
) -> Tensor:
    """The step (V + 2,) of Gauss and Newton: importances, then the sink's importance and value."""
    predicted, share, sink_share = _forward(slalom, rows)
    slope = share * (slalom.values[rows.item] - predicted[rows.row])  # (e,), dF / ds_j
    if not prior.deviation:
        slope = torch.zeros_like(slope)
    sink_slope = sink_share * (slalom.sink_value - predicted)  # (m,), dF / ds_0
    pull = 0.0 if not prior.deviation else prior.deviation**-2
    centre, sink_pull = sink_prior(slalom.values)
    ridge = torch.full((rows.items + 2,), pull or 1.0, dtype=torch.float64)
    ridge[-2], ridge[-1] = _LEAST_PULL, sink_pull

    to_rows, to_items = rows.maps(slope)

    def forth(step: Tensor) -> Tensor:
        return to_rows(step[:-2]) + sink_slope * step[-2] + sink_share * step[-1]

    def back(misses: Tensor) -> Tensor:
        weighted = weights * misses
        items = to_items(weighted)
        return torch.cat([items, ((sink_slope @ weighted)[None]), (sink_share @ weighted)[None]])

    gradient = back(predicted - answers)
    gradient[:-2] += prior.residuals(slalom.importances) * pull**0.5
    gradient[-1] += sink_pull * (slalom.sink_value - centre)
    diagonal = ridge.clone()
    diagonal[:-2] += rows.by_item(slope**2 * weights[rows.row])
    diagonal[-2] += weights @ sink_slope**2
    diagonal[-1] += weights @ sink_share**2

    def matrix(step: Tensor) -> Tensor:
        return back(forth(step)) + ridge * step

    return _solved(matrix, -gradient, diagonal.clamp(min=1e-300))


def _solved(matrix: Map, right: Tensor, diagonal: Tensor) -> Tensor:
    """Solves a symmetric positive system by conjugate gradients with a diagonal preconditioner."""
    solution = torch.zeros_like(right)
    residual = right
    towards = residual / diagonal
    direction = towards
    size = first = residual @ towards
    for _ in range(_SOLVER_STEPS):
        if float(size) <= _SOLVED**2 * float(first) or float(size) == 0:
            break
        turned = matrix(direction)
        length = size / (direction @ turned)
        solution = solution + length * direction
        residual = residual - length * turned
        towards = residual / diagonal
        size, before = residual @ towards, size
        direction = towards + (size / before) * direction
    return solution
