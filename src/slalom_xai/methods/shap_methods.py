"""Three Shapley samplers of the package shap, over units and all explained columns at once.

The Shapley value of a unit is what it adds to the output, averaged over all orders in which units
are added to the empty text. ``kernel-shap`` solves a weighted regression for it, with weights
(n - 1) / (C(n, k) k (n - k)) of rows that keep k of n units; ``permutation-shap`` averages over
random orders; ``partition-shap`` gives Owen values, for which only orders count that keep
neighbours together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from slalom_xai.errors import optional_package
from slalom_xai.methods.base import Estimator, Findings, attributed, register
from slalom_xai.methods.evidence import accepts_empty, calls_to_fit, count_rows
from slalom_xai.queries import Queries
from slalom_xai.slalom.rows import DESIGN
from slalom_xai.system.process import silence_and_seed


@dataclass(frozen=True)
class ShapSettings:
    """What is asked of shap where every row is asked anyway, so that more costs only time.

    Attributes:
        free_permutations: orders times units.
        free_spans: evaluations over units squared.
        most_bits: units up to which all subsets are counted; shap takes no larger numbers.
    """

    free_permutations: int = 2000
    free_spans: int = 16
    most_bits: int = 60


SHAP = ShapSettings()


@dataclass(frozen=True)
class _Shapley(Estimator):
    """A method of the package shap."""

    estimates: ClassVar[str] = "shapley"

    def parameters(self, units: int, distinct: int) -> int:
        """Three calls a unit.

        Kernel SHAP's rows come in pairs of complements, of which a regression learns once; one
        order there and back takes two calls a unit; and single units may be asked besides.
        """
        return 3 * units


@register
@dataclass(frozen=True)
class KernelShap(_Shapley):
    """Shapley values by weighted regression (Lundberg and Lee 2017): ``shap.KernelExplainer``.

    No features are selected. It is exact, with no row left to test, where all rows fit into the
    budget. The text with everything removed is the background. A model that takes no empty text
    (no special tokens, or a function) is not asked one: the mean of its answers to single units
    stands for it, the nearest to nothing that it can read, for a call a unit. The result's notes
    say so.
    """

    name: ClassVar[str] = "kernel-shap"
    summary: ClassVar[str] = (
        "Shapley values by shap's weighted regression; needs the package shap and at least 3 "
        "calls per unit"
    )

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Asks subsets, small and large ones first, and regresses."""
        shap = optional_package("shap", f"method {self.name!r}")
        model = ShapModel(queries)
        units = model.units
        if units == 1:  # nothing to share, and shap draws no rows
            change = queries.ask_whole("fit") - torch.as_tensor(model.empty).to(queries.ask_whole())
            return attributed(queries, change[None], rng, model.notes)
        samples = 2**DESIGN.enumerable
        if not model.all_affordable:
            samples = max(1, calls_to_fit(queries, 2 * units))
        samples = min(samples, 2 ** min(units, SHAP.most_bits) - 2)
        with silence_and_seed(rng):
            explainer = shap.KernelExplainer(model, np.zeros((1, units)))
            values = explainer.shap_values(
                np.ones((1, units)), nsamples=samples, l1_reg=False, silent=True
            )
        scores = np.asarray(values)[0]
        rows = explainer.maskMatrix[: explainer.nsamplesAdded]
        differences = rows[:, :-1] - rows[:, -1:]
        notes = model.notes
        if np.linalg.matrix_rank(differences) < units - 1:
            # shap itself turns to least squares where the equations are singular, but rounding
            # may hide that from it.
            scores = _least_squares(explainer, rows, differences, model.empty)
            notes += (
                "There were too few different rows to determine every unit: the Shapley values "
                "are the smallest that fit. Raise the budget.",
            )
        return attributed(queries, torch.as_tensor(scores), rng, notes)


@register
@dataclass(frozen=True)
class PermutationShap(_Shapley):
    """Shapley values by adding units in random orders: ``shap.PermutationExplainer``.

    Each order is taken there and back, which is exact where units interact in pairs at most. The
    empty text is treated as in ``KernelShap``.
    """

    name: ClassVar[str] = "permutation-shap"
    summary: ClassVar[str] = (
        "Shapley values by random orders of the units; needs the package shap and at least 3 "
        "calls per unit"
    )

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Asks growing and shrinking texts."""
        shap = optional_package("shap", f"method {self.name!r}")
        model = ShapModel(queries)
        units = model.units
        if model.all_affordable:
            orders = SHAP.free_permutations // units
        else:
            calls = 2 * units - 2  # of one order, beside the whole and the empty text
            orders = calls_to_fit(queries, calls) // calls
        evaluations = 2 * units + 1  # of one order, as shap counts them
        with silence_and_seed(rng):
            seed = int(rng.integers(2**31))
            explainer = shap.PermutationExplainer(model, UnitMasker(), seed=seed)
            explained = explainer(
                np.ones((1, units)),
                max_evals=max(1, orders) * evaluations,
                batch_size=evaluations,
                silent=True,
            )
        scores = torch.as_tensor(explained.values).reshape(units, -1)
        return attributed(queries, scores, rng, model.notes)


@register
@dataclass(frozen=True)
class PartitionShap(_Shapley):
    """Owen values over a binary tree of neighbouring units: ``shap.PartitionExplainer``.

    The tree is made of halves of halves. All of them take about n² calls; a smaller budget goes
    to the spans that matter most, and the units of a span that was not opened share its value.
    The empty text is treated as in ``KernelShap``.
    """

    name: ClassVar[str] = "partition-shap"
    summary: ClassVar[str] = (
        "Owen values: Shapley values over ever smaller halves of the text; needs the package shap "
        "and from 3 to n calls per unit"
    )

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Asks spans with and without the rest of the text."""
        shap = optional_package("shap", f"method {self.name!r}")
        model = ShapModel(queries)
        units = model.units
        # shap asks rows by twos and so up to one more than allowed; the whole and the empty text
        # are two of its own.
        if model.all_affordable:
            allowed = SHAP.free_spans * units**2
        else:
            allowed = calls_to_fit(queries, 2 * units) - 1
        with silence_and_seed(rng):
            explainer = shap.PartitionExplainer(model, UnitMasker(neighbours(units)))
            explained = explainer(np.ones((1, units)), max_evals=allowed + 2, silent=True)
        scores = torch.as_tensor(explained.values).reshape(units, -1)
        return attributed(queries, scores, rng, model.notes)


class ShapModel:
    """The model as shap sees it: masks (m, n) to the explained columns (m, C).

    Attributes:
        units: n.
        empty: (C,), the model's answer to the empty text, or what stands for it.
        notes: what stands for it.
        all_affordable: whether every row of the text fits into the budget, so that nothing need
            be counted.
    """

    def __init__(self, queries: Queries) -> None:
        self._queries = queries
        self.units = len(queries.prompt.units)
        rows = count_rows(queries)
        self.all_affordable = rows <= queries.budget
        self.notes: tuple[str, ...] = ()
        if not accepts_empty(queries):
            self._use_single_units("The model does not accept an")
        elif rows == queries.budget:
            self._use_single_units("The budget leaves no call for the")
        else:
            self.empty = queries.ask(~queries.prompt.whole, "fit")[0].cpu().numpy()

    def __call__(self, masks: NDArray[Any]) -> NDArray[np.float64]:
        """Answers in the order of the masks."""
        keep = np.asarray(masks) > 0.5
        some = keep.any(axis=1)
        answers = np.tile(self.empty, (len(keep), 1))
        if some.any():
            answers[some] = self._queries.ask(keep[some], "fit").cpu().numpy()
        return answers

    def _use_single_units(self, reason: str) -> None:
        """Has the mean of the answers to single units stand for the empty text."""
        singles = self._queries.ask(np.eye(self.units, dtype=bool), "fit")
        self.empty = singles.mean(dim=0).cpu().numpy()
        self.notes = (
            f"{reason} empty text: the mean of its answers to single units is used instead.",
        )


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
    """A binary tree over positions, halves of halves.

    Returns:
        (n - 1, 4), a node each: left child, right child, height, size.
    """
    nodes: list[tuple[float, float, float, float]] = []

    def join(start: int, end: int) -> tuple[int, int]:
        """The node of a span, and its height."""
        if end - start == 1:
            return start, 0
        middle = (start + end + 1) // 2
        (left, low), (right, high) = join(start, middle), join(middle, end)
        height = max(low, high) + 1
        nodes.append((left, right, height, end - start))
        return units + len(nodes) - 1, height

    join(0, units)
    return np.array(nodes, dtype=np.float64)


def _least_squares(
    explainer: Any,
    rows: NDArray[np.float64],
    differences: NDArray[np.float64],
    empty: NDArray[np.float64],
) -> NDArray[np.float64]:
    """The smallest solution of Kernel SHAP's equations; scores sum to what they should.

    Args:
        explainer: shap's, with weights and answers.
        rows: (m, n), which units each of its rows keeps.
        differences: (m, n - 1), of all units' entries from the last one's.
        empty: (C,), the answer to the empty text.

    Returns:
        (n, C).
    """
    weights = np.sqrt(explainer.kernelWeights[: len(rows)])[:, None]
    change = explainer.fx - empty
    right = explainer.ey[: len(rows)] - empty - rows[:, -1:] * change
    first = np.linalg.lstsq(weights * differences, weights * right, rcond=None)[0]
    last = change - first.sum(axis=0)
    return np.concatenate([first, last[None]])
