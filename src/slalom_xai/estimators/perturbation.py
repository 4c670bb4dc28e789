"""Methods that remove units and look at what changes: LIME, three Shapley samplers, occlusion and a GAM.

All work on masks over units, whatever a unit is and however it is removed, and on the explained columns (log odds and the
like), all of them at once. LIME's regression and the Shapley samplers are those of the packages lime and shap.
"""

from __future__ import annotations

import importlib
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from slalom_xai.designs import ENUMERABLE, LEAST_HELD_OUT, Pool, deletions, distinct_rows, held_out, held_out_rows, uniform_counts
from slalom_xai.errors import InputError
from slalom_xai.estimators.base import Answered, Findings, answered, attributed, fitting_budget, register
from slalom_xai.models import Row
from slalom_xai.queries import Queries
from slalom_xai.surrogates.additive import AdditiveFit, fit_additive
from slalom_xai.surrogates.scores import SCORES

KERNEL_WIDTH, RIDGE = 25.0, 1.0  # LIME's own for texts
FREE_PERMUTATIONS = 2000  # over the number of units, where every row is asked anyway

_one_at_a_time = threading.Lock()


@register
@dataclass(frozen=True)
class Lime:
    """LIME's recipe for texts (Ribeiro et al. 2016), through ``lime.lime_base.LimeBase``.

    The number of units removed is uniform on 1..n and so is their choice; rows are weighted by ``exp(-d² / (2 · 25²))`` with
    ``d`` 100 times the cosine distance to the whole text; a ridge regression (penalty 1, all units) gives the scores. Unlike
    LIME's explainer it regresses the explained columns, not probabilities. A model that takes no empty text is not asked one.
    Where a text has so few rows that all would be drawn, some are kept back for the test.
    """

    name: ClassVar[str] = "lime"
    summary: ClassVar[str] = "LIME's text recipe: weighted ridge regression on random removals; needs the package lime, any number of calls"
    additive: ClassVar[bool] = True

    def parameters(self, units: int, kinds: int) -> int:
        """One score per unit."""
        return units

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Asks random removals and regresses."""
        base = _package("lime.lime_base", self.name)
        units = len(queries.prompt.units)
        takes_empty = accepts_empty(queries)
        removed = rng.integers(1, units + (1 if takes_empty else 0), _rows_to_fit(queries, units))
        kept_back = _kept_back(queries, units, rng)
        drawn = [mask for mask in deletions(units, removed, rng) if queries.prompt.row(mask) not in kept_back]
        masks = np.stack([np.ones(units, dtype=bool), *drawn])
        outputs = queries.ask(masks, "fit")
        notes = () if takes_empty else ("The model takes no empty text, so that LIME always keeps a unit.",)
        with _apart(rng):
            scores = _lime_scores(base, masks.astype(np.float64), outputs.cpu().numpy())
        return attributed(queries, torch.as_tensor(scores), rng, notes)


@register
@dataclass(frozen=True)
class KernelShap:
    """Shapley values by weighted regression (Lundberg and Lee 2017): ``shap.KernelExplainer``, no feature selection.

    Exact, with no row left to test, where all rows fit into the budget. The text with everything removed is the background.
    A model that takes no empty text (no special tokens, or a function) is not asked one: the mean of its answers to single
    units stands for it, the nearest to nothing that it can read, for a call a unit. The result's notes say so.
    """

    name: ClassVar[str] = "kernel-shap"
    summary: ClassVar[str] = "Shapley values by shap's weighted regression; needs the package shap and at least 3 calls per unit"
    additive: ClassVar[bool] = True

    def parameters(self, units: int, kinds: int) -> int:
        """Rows come in pairs of complements, of which a regression learns once; and single units may be asked besides."""
        return 3 * units

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Asks subsets, small and large ones first, and regresses."""
        shap = _package("shap", self.name)
        game = Game(queries)
        units = game.units
        samples = 2**ENUMERABLE if game.all_affordable else max(1, _rows_to_fit(queries, 2 * units))
        with _apart(rng):
            explainer = shap.KernelExplainer(game, np.zeros((1, units)))
            options = {"nsamples": min(samples, 2 ** min(units, 60) - 2), "l1_reg": False, "silent": True}
            scores = np.asarray(explainer.shap_values(np.ones((1, units)), **options))[0]
        rows = explainer.maskMatrix[: explainer.nsamplesAdded]
        differences = rows[:, :-1] - rows[:, -1:]
        notes = game.notes
        if np.linalg.matrix_rank(differences) < units - 1:
            # shap itself turns to least squares where the equations are singular, but rounding may hide that from it.
            scores = _least_squares(explainer, rows, differences, game)
            notes += ("Too few different rows for all units: their Shapley values are the smallest that fit. Raise the budget.",)
        return attributed(queries, torch.as_tensor(scores), rng, notes)


@register
@dataclass(frozen=True)
class PermutationShap:
    """Shapley values by adding units in random orders, there and back: ``shap.PermutationExplainer``.

    Exact where units interact in pairs at most. The empty text is treated as in ``KernelShap``.
    """

    name: ClassVar[str] = "permutation-shap"
    summary: ClassVar[str] = "Shapley values by random orders of the units; needs the package shap and at least 3 calls per unit"
    additive: ClassVar[bool] = True

    def parameters(self, units: int, kinds: int) -> int:
        """One order there and back, and single units."""
        return 3 * units

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Asks growing and shrinking texts."""
        shap = _package("shap", self.name)
        game = Game(queries)
        cost = 2 * game.units - 2  # rows of one order there and back, beside the whole and the empty text
        orders = FREE_PERMUTATIONS // game.units if game.all_affordable else _rows_to_fit(queries, cost) // cost
        each = 2 * game.units + 1
        with _apart(rng):
            explainer = shap.PermutationExplainer(game, UnitMasker(), seed=int(rng.integers(2**31)))
            found = explainer(np.ones((1, game.units)), max_evals=max(1, orders) * each, batch_size=each, silent=True)
        return attributed(queries, torch.as_tensor(found.values).reshape(game.units, -1), rng, game.notes)


@register
@dataclass(frozen=True)
class PartitionShap:
    """Owen values over a binary tree of neighbouring units, halves of halves: ``shap.PartitionExplainer``.

    All of them take about n² calls; a smaller budget goes to the spans that matter most, and the units of a span that was not
    opened share its value. The empty text is treated as in ``KernelShap``.
    """

    name: ClassVar[str] = "partition-shap"
    summary: ClassVar[str] = "Owen values: Shapley values over halves of halves of the text; needs the package shap, 3 to n calls per unit"
    additive: ClassVar[bool] = True

    def parameters(self, units: int, kinds: int) -> int:
        """Enough to open every span once."""
        return 3 * units

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Asks spans with and without the rest of the text."""
        shap = _package("shap", self.name)
        game = Game(queries)
        # shap asks rows by twos and so up to one more than allowed; the whole and the empty text are two of its own.
        allowed = 16 * game.units**2 if game.all_affordable else _rows_to_fit(queries, 2 * game.units) - 1
        with _apart(rng):
            explainer = shap.PartitionExplainer(game, UnitMasker(neighbours(game.units)))
            found = explainer(np.ones((1, game.units)), max_evals=allowed + 2, silent=True)
        return attributed(queries, torch.as_tensor(found.values).reshape(game.units, -1), rng, game.notes)


@register
@dataclass(frozen=True)
class Occlusion:
    """``f(all) - f(all without the unit)``, unit by unit (Zeiler and Fergus 2014)."""

    name: ClassVar[str] = "occlusion"
    summary: ClassVar[str] = "what is lost when one unit goes; one call per unit"
    additive: ClassVar[bool] = True

    def parameters(self, units: int, kinds: int) -> int:
        """One score per unit."""
        return units

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Leaves out each unit."""
        units = len(queries.prompt.units)
        answers = queries.ask(np.concatenate([np.ones((1, units), dtype=bool), ~np.eye(units, dtype=bool)]), "fit")
        return attributed(queries, answers[0] - answers[1:], rng)


@register
@dataclass(frozen=True)
class Gam:
    """A weight for each unit in its place, and an intercept: the additive model of the paper's Table 6, for one text.

    The paper fits its GAM to sequences in which any word may stand anywhere, under a fixed LASSO penalty; within one text a
    unit has one place, and the penalty, a ridge, is cross-validated. ``linear`` fits the same weights to the rows that
    ``slalom`` asks, which lean to few deletions, and through the whole text. This one sees deletions of every size alike and is
    free to miss the whole text by its intercept, so that its scores say what a unit does on average over all shortened texts.
    """

    name: ClassVar[str] = "gam"
    summary: ClassVar[str] = (
        "additive model of each position with an intercept, ridge regression on uniform wide deletions; any number of calls"
    )
    additive: ClassVar[bool] = True

    def parameters(self, units: int, kinds: int) -> int:
        """One weight per unit, and the intercept."""
        return units + 1

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Asks wide deletions and regresses."""
        units = len(queries.prompt.units)
        whole = np.ones((1, units), dtype=bool)
        pool = Pool(queries.prompt.interchangeable, queries.prompt.row)
        pool.take(whole)
        for row in _kept_back(queries, units + 1, rng):
            pool.claim(row)
        drawn = pool.draw(_rows_to_fit(queries, units + 1), uniform_counts(1, units - 1, rng), rng)
        fit = fit_gam(answered(queries, np.concatenate([whole, drawn]), "fit"))
        names = [name for name in SCORES if name not in ("importance", "alone")]
        errors = tuple(dict.fromkeys(names, column) for column in fit.standard_errors.T)
        return replace(attributed(queries, fit.surrogate.unit_scores, rng), standard_errors=errors)


def fit_gam(rows: Answered) -> AdditiveFit:
    """Ridge regression with an intercept: both sides are centred first."""
    counts, outputs = rows.counts - rows.counts.mean(dim=0), rows.outputs - rows.outputs.mean(dim=0)
    return fit_additive(1 + counts, outputs, torch.zeros_like(outputs[0]))


def accepts_empty(queries: Queries) -> bool:
    """Whether the text with everything removed is something that the model can read."""
    nothing = queries.prompt.row(np.zeros(len(queries.prompt.units), dtype=bool))
    return not (queries.model.size(nothing) == 0 or nothing == "")


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
        rows = _every_row(queries)
        self.all_affordable = rows <= queries.budget
        self.notes: tuple[str, ...] = ()
        if accepts_empty(queries) and rows != queries.budget:
            self.empty = queries.ask(np.zeros((1, self.units), dtype=bool), "fit")[0].cpu().numpy()
            return
        self.empty = queries.ask(np.eye(self.units, dtype=bool), "fit").mean(dim=0).cpu().numpy()
        reason = "The budget leaves no call for the" if accepts_empty(queries) else "The model takes no"
        self.notes = (f"{reason} empty text: the mean of its answers to single units stands for it.",)

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


def _lime_scores(base: Any, masks: NDArray[np.float64], outputs: NDArray[np.float64]) -> NDArray[np.float64]:
    """LIME's regression of each column, (n, C); the first row is the whole text."""
    distances = 100 * (1 - np.sqrt(masks.mean(axis=1)))  # the cosine distance of a mask to all ones
    lime = base.LimeBase(lambda distance: np.sqrt(np.exp(-(distance**2) / KERNEL_WIDTH**2)))
    ridge = importlib.import_module("sklearn.linear_model").Ridge(alpha=RIDGE, fit_intercept=True)
    scores = np.zeros((masks.shape[1], outputs.shape[1]))
    for column in range(outputs.shape[1]):
        found = lime.explain_instance_with_data(masks, outputs, distances, column, masks.shape[1], "none", ridge)[1]
        for unit, score in found:
            scores[unit, column] = score
    return scores


def _least_squares(explainer: Any, rows: NDArray[np.float64], differences: NDArray[np.float64], game: Game) -> NDArray[np.float64]:
    """The smallest solution of Kernel SHAP's equations, (n, C); scores sum to what they should."""
    weights = np.sqrt(explainer.kernelWeights[: len(rows)])[:, None]
    change = explainer.fx - game.empty
    right = explainer.ey[: len(rows)] - game.empty - rows[:, -1:] * change
    first = np.linalg.lstsq(weights * differences, weights * right, rcond=None)[0]
    return np.concatenate([first, (change - first.sum(axis=0))[None]])


def _rows_to_fit(queries: Queries, needed: int) -> int:
    """Calls left for the fit: what the test does not take, or all where that is too few, as fitting goes first."""
    rows = fitting_budget(queries)
    return rows if rows >= needed else queries.budget - queries.calls


def _every_row(queries: Queries) -> int:
    """How many different rows the text has, the empty one not among them."""
    units = len(queries.prompt.units)
    if units > ENUMERABLE:
        return distinct_rows(queries.prompt.interchangeable)
    numbers = np.arange(1, 2**units)
    return len({queries.prompt.row(mask) for mask in ((numbers[:, None] >> np.arange(units)) & 1).astype(bool)})


def _kept_back(queries: Queries, parameters: int, rng: np.random.Generator) -> set[Row]:
    """Rows that a fit must leave to the test, where it would otherwise ask all that the text has."""
    rows = _every_row(queries)
    spare = min(rows - 1 - parameters, queries.budget - 1 - parameters)
    if rows > queries.budget or spare < LEAST_HELD_OUT:
        return set()
    kept = held_out(Pool(queries.prompt.interchangeable, queries.prompt.row), min(held_out_rows(queries.budget), spare // 2), rng)
    return {queries.prompt.row(mask) for masks in (kept.local, kept.wide) for mask in masks}


def _package(name: str, method: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise InputError(
            f"method {method!r} needs the package {package}, which cannot be imported ({error}): pip install {package}"
        ) from error


@contextmanager
def _apart(rng: np.random.Generator) -> Iterator[None]:
    """Other people's code: without its warnings, and with NumPy's shared random numbers seeded and put back.

    Both belong to the whole process, so that one thread at a time comes in.
    """
    with _one_at_a_time, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = np.random.get_state()
        np.random.seed(int(rng.integers(2**31)))
        try:
            yield
        finally:
            np.random.set_state(before)
