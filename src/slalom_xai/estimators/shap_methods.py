"""Three Shapley samplers of the package shap, over units and on the explained columns, all of them at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from slalom_xai.designs import ENUMERABLE
from slalom_xai.errors import optional_package
from slalom_xai.estimators.asking import accepts_empty, apart, every_row, rows_to_fit
from slalom_xai.estimators.base import Estimator, Findings, attributed, register
from slalom_xai.queries import Queries

FREE_PERMUTATIONS = 2000  # over the number of units, where every row is asked anyway


@register
@dataclass(frozen=True)
class KernelShap(Estimator):
    """Shapley values by weighted regression (Lundberg and Lee 2017): ``shap.KernelExplainer``, no feature selection.

    Exact, with no row left to test, where all rows fit into the budget. The text with everything removed is the background.
    A model that takes no empty text (no special tokens, or a function) is not asked one: the mean of its answers to single
    units stands for it, the nearest to nothing that it can read, for a call a unit. The result's notes say so.
    """

    name: ClassVar[str] = "kernel-shap"
    summary: ClassVar[str] = (
        "Shapley values by shap's weighted regression; needs the package shap and at least 3 calls per unit"
    )

    def parameters(self, units: int, distinct: int) -> int:
        """Rows come in pairs of complements, of which a regression learns once; and single units may be asked besides."""
        return 3 * units

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Asks subsets, small and large ones first, and regresses."""
        shap = optional_package("shap", f"method {self.name!r}")
        game = Game(queries)
        units = game.units
        samples = 2**ENUMERABLE if game.all_affordable else max(1, rows_to_fit(queries, 2 * units))
        with apart(rng):
            explainer = shap.KernelExplainer(game, np.zeros((1, units)))
            options = {
                "nsamples": min(samples, 2 ** min(units, 60) - 2),
                "l1_reg": False,
                "silent": True,
            }
            scores = np.asarray(explainer.shap_values(np.ones((1, units)), **options))[0]
        rows = explainer.maskMatrix[: explainer.nsamplesAdded]
        differences = rows[:, :-1] - rows[:, -1:]
        notes = game.notes
        if np.linalg.matrix_rank(differences) < units - 1:
            # shap itself turns to least squares where the equations are singular, but rounding may hide that from it.
            scores = _least_squares(explainer, rows, differences, game)
            notes += (
                "There were too few different rows to determine every unit: the Shapley values are the smallest that fit. Raise the budget.",
            )
        return attributed(queries, torch.as_tensor(scores), rng, notes)


@register
@dataclass(frozen=True)
class PermutationShap(Estimator):
    """Shapley values by adding units in random orders, there and back: ``shap.PermutationExplainer``.

    Exact where units interact in pairs at most. The empty text is treated as in ``KernelShap``.
    """

    name: ClassVar[str] = "permutation-shap"
    summary: ClassVar[str] = (
        "Shapley values by random orders of the units; needs the package shap and at least 3 calls per unit"
    )

    def parameters(self, units: int, distinct: int) -> int:
        """One order there and back, and single units."""
        return 3 * units

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Asks growing and shrinking texts."""
        shap = optional_package("shap", f"method {self.name!r}")
        game = Game(queries)
        cost = (
            2 * game.units - 2
        )  # rows of one order there and back, beside the whole and the empty text
        orders = (
            FREE_PERMUTATIONS // game.units
            if game.all_affordable
            else rows_to_fit(queries, cost) // cost
        )
        each = 2 * game.units + 1
        with apart(rng):
            explainer = shap.PermutationExplainer(game, UnitMasker(), seed=int(rng.integers(2**31)))
            found = explainer(
                np.ones((1, game.units)),
                max_evals=max(1, orders) * each,
                batch_size=each,
                silent=True,
            )
        return attributed(
            queries, torch.as_tensor(found.values).reshape(game.units, -1), rng, game.notes
        )


@register
@dataclass(frozen=True)
class PartitionShap(Estimator):
    """Owen values over a binary tree of neighbouring units, halves of halves: ``shap.PartitionExplainer``.

    All of them take about n² calls; a smaller budget goes to the spans that matter most, and the units of a span that was not
    opened share its value. The empty text is treated as in ``KernelShap``.
    """

    name: ClassVar[str] = "partition-shap"
    summary: ClassVar[str] = (
        "Owen values: Shapley values over ever smaller halves of the text; needs the package shap and from 3 to n calls per unit"
    )

    def parameters(self, units: int, distinct: int) -> int:
        """Enough to open every span once."""
        return 3 * units

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Asks spans with and without the rest of the text."""
        shap = optional_package("shap", f"method {self.name!r}")
        game = Game(queries)
        # shap asks rows by twos and so up to one more than allowed; the whole and the empty text are two of its own.
        allowed = (
            16 * game.units**2 if game.all_affordable else rows_to_fit(queries, 2 * game.units) - 1
        )
        with apart(rng):
            explainer = shap.PartitionExplainer(game, UnitMasker(neighbours(game.units)))
            found = explainer(np.ones((1, game.units)), max_evals=allowed + 2, silent=True)
        return attributed(
            queries, torch.as_tensor(found.values).reshape(game.units, -1), rng, game.notes
        )


class Game:
    """The cooperative game that shap plays: masks (m, n) to the explained columns (m, C).

    Attributes:
        units: how many play.
        empty: (C,), the model's answer to the empty text, or what stands for it.
        notes: what stands for it.
        all_affordable: whether every row of the text fits into the budget, so that nothing need be counted.
    """

    def __init__(self, queries: Queries) -> None:
        self._queries = queries
        self.units = len(queries.prompt.units)
        rows = every_row(queries)
        self.all_affordable = rows <= queries.budget
        self.notes: tuple[str, ...] = ()
        if accepts_empty(queries) and rows != queries.budget:
            self.empty = queries.ask(np.zeros((1, self.units), dtype=bool), "fit")[0].cpu().numpy()
            return
        self.empty = queries.ask(np.eye(self.units, dtype=bool), "fit").mean(dim=0).cpu().numpy()
        reason = (
            "The budget leaves no call for the"
            if accepts_empty(queries)
            else "The model does not accept an"
        )
        self.notes = (
            f"{reason} empty text: the mean of its answers to single units is used instead.",
        )

    def __call__(self, masks: NDArray[Any]) -> NDArray[np.float64]:
        """Answers in the order of the masks."""
        keep = np.asarray(masks) > 0.5
        some = keep.any(axis=1)
        answers = np.tile(self.empty, (len(keep), 1))
        if some.any():
            answers[some] = self._queries.ask(keep[some], "fit").cpu().numpy()
        return answers


class UnitMasker:
    """What shap calls a masker: a unit that is hidden is 0.

    Args:
        clustering: (n - 1, 4), a tree over units as scipy's linkage writes it; None for no tree.
    """

    def __init__(self, clustering: NDArray[np.float64] | None = None) -> None:
        self.clustering = clustering

    def __call__(self, mask: NDArray[np.bool_], units: NDArray[np.float64]) -> NDArray[np.float64]:
        """Units (n,) to one masked row (1, n)."""
        return (units * mask)[None]


def neighbours(units: int) -> NDArray[np.float64]:
    """A binary tree over positions, halves of halves: rows (left, right, height, size), (n - 1, 4)."""
    rows: list[tuple[float, float, float, float]] = []

    def join(start: int, end: int) -> tuple[int, int]:
        """The node of a span, and its height."""
        if end - start == 1:
            return start, 0
        middle = (start + end + 1) // 2
        (left, low), (right, high) = join(start, middle), join(middle, end)
        height = max(low, high) + 1
        rows.append((left, right, height, end - start))
        return units + len(rows) - 1, height

    join(0, units)
    return np.array(rows, dtype=np.float64)


def _least_squares(
    explainer: Any, rows: NDArray[np.float64], differences: NDArray[np.float64], game: Game
) -> NDArray[np.float64]:
    """The smallest solution of Kernel SHAP's equations, (n, C); scores sum to what they should."""
    weights = np.sqrt(explainer.kernelWeights[: len(rows)])[:, None]
    change = explainer.fx - game.empty
    right = explainer.ey[: len(rows)] - game.empty - rows[:, -1:] * change
    first = np.linalg.lstsq(weights * differences, weights * right, rcond=None)[0]
    return np.concatenate([first, (change - first.sum(axis=0))[None]])
