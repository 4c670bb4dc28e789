"""Methods that remove units and look at what changes: LIME, occlusion and a GAM.

All work on masks over units, whatever a unit is and however it is removed, and on the explained
columns (log odds and the like), all of them at once. LIME's regression is that of the package
lime.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from slalom_xai.errors import optional_package
from slalom_xai.methods.additive import AdditiveFit, fit_additive
from slalom_xai.methods.base import Estimator, Findings, attributed, register
from slalom_xai.methods.evidence import (
    AnsweredRows,
    accepts_empty,
    ask_masks,
    calls_to_fit,
    keys_kept_for_test,
    row_pool,
)
from slalom_xai.methods.scores import additive_standard_errors
from slalom_xai.queries import Queries
from slalom_xai.slalom.rows import deletions, uniform_counts
from slalom_xai.system.process import silence_and_seed


@dataclass(frozen=True)
class LimeSettings:
    """What the package lime uses for texts.

    Attributes:
        kernel_width: scale of the distances; rows that lack half of the units weigh 0.5.
        distance_scale: factor on the cosine distance to the whole text, which is below 1.
        ridge: penalty of the regression, in units of the row weights.
    """

    kernel_width: float = 25.0
    distance_scale: float = 100
    ridge: float = 1.0


LIME = LimeSettings()


@register
@dataclass(frozen=True)
class Lime(Estimator):
    """LIME's recipe for texts (Ribeiro et al. 2016), through ``lime.lime_base.LimeBase``.

    The number of units removed is uniform on 1..n and so is their choice; rows are weighted by
    ``exp(-d² / (2 · 25²))`` with ``d`` 100 times the cosine distance to the whole text; a ridge
    regression (penalty 1, all units) gives the scores. Unlike LIME's explainer it regresses the
    explained columns, not probabilities. A model that takes no empty text is not asked one. Where
    a text has so few rows that all would be drawn, some are kept back for the test.
    """

    name: ClassVar[str] = "lime"
    summary: ClassVar[str] = (
        "LIME's text recipe: weighted ridge regression on random removals; needs the package "
        "lime, any number of calls"
    )

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Asks random removals and regresses."""
        base = optional_package("lime.lime_base", f"method {self.name!r}")
        units = len(queries.prompt.units)
        notes: tuple[str, ...] = ()
        most_removed = units
        if not accepts_empty(queries):
            most_removed = units - 1
            notes = (
                "The model does not accept an empty text, so LIME always keeps at least one unit.",
            )
        removed = rng.integers(1, most_removed + 1, calls_to_fit(queries, units))
        kept_for_test = keys_kept_for_test(queries, units, rng)
        masks = deletions(units, removed, rng)
        masks = masks[~np.isin(queries.prompt.keys(masks), kept_for_test)]
        masks = np.concatenate([queries.prompt.whole, masks])
        outputs = queries.ask(masks, "fit").cpu().numpy()
        with silence_and_seed(rng):
            scores = _lime_scores(base, masks.astype(np.float64), outputs)
        return attributed(queries, torch.as_tensor(scores), rng, notes)


@register
@dataclass(frozen=True)
class Occlusion(Estimator):
    """``f(all) - f(all without the unit)``, unit by unit (Zeiler and Fergus 2014)."""

    name: ClassVar[str] = "occlusion"
    summary: ClassVar[str] = "how much the output drops when one unit is removed; one call per unit"
    combines: ClassVar[bool] = True

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Leaves out each unit."""
        without_one = ~np.eye(len(queries.prompt.units), dtype=bool)
        answers = queries.ask(np.concatenate([queries.prompt.whole, without_one]), "fit")
        return attributed(queries, answers[0] - answers[1:], rng)


@register
@dataclass(frozen=True)
class Gam(Estimator):
    """A weight for each unit in its position, and an intercept.

    This is the additive model of the paper's Table 6, for one text. The paper fits its GAM to
    sequences in which any word may stand anywhere, under a fixed LASSO penalty; within one text a
    unit has one position, and the penalty, a ridge, is cross-validated. ``linear`` fits the same
    weights to the rows that ``slalom`` asks, which lean to few deletions, and through the whole
    text. This one sees deletions of every size alike and is free to miss the whole text by its
    intercept, so that its scores say what a unit does on average over all shortened texts.
    """

    name: ClassVar[str] = "gam"
    summary: ClassVar[str] = (
        "additive model with one weight per position: ridge regression on deletions of any size; "
        "any number of calls"
    )
    combines: ClassVar[bool] = True

    def parameters(self, units: int, distinct: int) -> int:
        """One weight per unit, and the intercept."""
        return units + 1

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Asks wide deletions and regresses."""
        units = len(queries.prompt.units)
        parameters = self.parameters(units, queries.prompt.distinct)
        pool = row_pool(queries)
        whole = pool.take_whole()
        pool.claim(keys_kept_for_test(queries, parameters, rng))
        rows = calls_to_fit(queries, parameters)
        masks = pool.draw(rows, uniform_counts(1, units - 1, rng), rng)
        fit = fit_gam(ask_masks(queries, np.concatenate([whole, masks]), "fit"))
        findings = attributed(queries, fit.surrogate.unit_scores, rng)
        return replace(findings, standard_errors=additive_standard_errors(fit))


def fit_gam(rows: AnsweredRows) -> AdditiveFit:
    """Ridge regression with an intercept: both sides are centred first."""
    counts = rows.table - rows.table.mean(dim=0)
    outputs = rows.outputs - rows.outputs.mean(dim=0)
    return fit_additive(1 + counts, outputs, torch.zeros_like(outputs[0]))


def _lime_scores(
    base: Any, masks: NDArray[np.float64], outputs: NDArray[np.float64]
) -> NDArray[np.float64]:
    """LIME's regression of each column.

    Args:
        base: the module ``lime.lime_base``.
        masks: (m, n); the first row is the whole text.
        outputs: (m, C).

    Returns:
        (n, C).
    """

    def kernel(distance: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(np.sqrt(np.exp(-(distance**2) / LIME.kernel_width**2)))

    cosines = np.sqrt(masks.mean(axis=1))  # of a mask and all ones
    distances = LIME.distance_scale * (1 - cosines)
    lime = base.LimeBase(kernel)
    linear_model = importlib.import_module("sklearn.linear_model")
    ridge = linear_model.Ridge(alpha=LIME.ridge, fit_intercept=True)
    units, columns = masks.shape[1], outputs.shape[1]
    scores = np.zeros((units, columns))
    for column in range(columns):
        weights = lime.explain_instance_with_data(
            masks, outputs, distances, column, units, "none", ridge
        )[1]
        for unit, weight in weights:
            scores[unit, column] = weight
    return scores
