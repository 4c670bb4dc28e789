"""Methods that remove units and look at what changes: LIME, occlusion and a GAM.

All work on masks over units, whatever a unit is and however it is removed, and on the explained columns (log odds and the
like), all of them at once. LIME's regression is that of the package lime.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from slalom_xai.designs import Pool, deletions, uniform_counts
from slalom_xai.errors import optional_package
from slalom_xai.estimators.asking import accepts_empty, apart, kept_back_rows, rows_to_fit
from slalom_xai.estimators.base import Estimator, Findings, attributed, register
from slalom_xai.estimators.evidence import Answered, answered
from slalom_xai.queries import Queries
from slalom_xai.surrogates.additive import AdditiveFit, fit_additive
from slalom_xai.surrogates.scores import additive_standard_errors

KERNEL_WIDTH, RIDGE = 25.0, 1.0  # LIME's own for texts


@register
@dataclass(frozen=True)
class Lime(Estimator):
    """LIME's recipe for texts (Ribeiro et al. 2016), through ``lime.lime_base.LimeBase``.

    The number of units removed is uniform on 1..n and so is their choice; rows are weighted by ``exp(-d² / (2 · 25²))`` with
    ``d`` 100 times the cosine distance to the whole text; a ridge regression (penalty 1, all units) gives the scores. Unlike
    LIME's explainer it regresses the explained columns, not probabilities. A model that takes no empty text is not asked one.
    Where a text has so few rows that all would be drawn, some are kept back for the test.
    """

    name: ClassVar[str] = "lime"
    summary: ClassVar[str] = (
        "LIME's text recipe: weighted ridge regression on random removals; needs the package lime, any number of calls"
    )

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Asks random removals and regresses."""
        base = optional_package("lime.lime_base", f"method {self.name!r}")
        units = len(queries.prompt.units)
        takes_empty = accepts_empty(queries)
        removed = rng.integers(1, units + (1 if takes_empty else 0), rows_to_fit(queries, units))
        kept_back = kept_back_rows(queries, units, rng)
        drawn = deletions(units, removed, rng)
        drawn = drawn[~np.isin(queries.prompt.keys(drawn), kept_back)]
        masks = np.concatenate([np.ones((1, units), dtype=bool), drawn])
        outputs = queries.ask(masks, "fit")
        notes = (
            ()
            if takes_empty
            else (
                "The model does not accept an empty text, so LIME always keeps at least one unit.",
            )
        )
        with apart(rng):
            scores = _lime_scores(base, masks.astype(np.float64), outputs.cpu().numpy())
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
        units = len(queries.prompt.units)
        answers = queries.ask(
            np.concatenate([np.ones((1, units), dtype=bool), ~np.eye(units, dtype=bool)]), "fit"
        )
        return attributed(queries, answers[0] - answers[1:], rng)


@register
@dataclass(frozen=True)
class Gam(Estimator):
    """A weight for each unit in its place, and an intercept: the additive model of the paper's Table 6, for one text.

    The paper fits its GAM to sequences in which any word may stand anywhere, under a fixed LASSO penalty; within one text a
    unit has one place, and the penalty, a ridge, is cross-validated. ``linear`` fits the same weights to the rows that
    ``slalom`` asks, which lean to few deletions, and through the whole text. This one sees deletions of every size alike and is
    free to miss the whole text by its intercept, so that its scores say what a unit does on average over all shortened texts.
    """

    name: ClassVar[str] = "gam"
    summary: ClassVar[str] = (
        "additive model with one weight per position: ridge regression on deletions of any size; any number of calls"
    )
    combines: ClassVar[bool] = True

    def parameters(self, units: int, distinct: int) -> int:
        """One weight per unit, and the intercept."""
        return units + 1

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Asks wide deletions and regresses."""
        units = len(queries.prompt.units)
        whole = np.ones((1, units), dtype=bool)
        pool = Pool(queries.prompt.interchangeable, queries.prompt.keys)
        pool.take(whole)
        pool.claim(kept_back_rows(queries, units + 1, rng))
        drawn = pool.draw(rows_to_fit(queries, units + 1), uniform_counts(1, units - 1, rng), rng)
        fit = fit_gam(answered(queries, np.concatenate([whole, drawn]), "fit"))
        errors = additive_standard_errors(fit)
        return replace(attributed(queries, fit.surrogate.unit_scores, rng), standard_errors=errors)


def fit_gam(rows: Answered) -> AdditiveFit:
    """Ridge regression with an intercept: both sides are centred first."""
    counts, outputs = rows.counts - rows.counts.mean(dim=0), rows.outputs - rows.outputs.mean(dim=0)
    return fit_additive(1 + counts, outputs, torch.zeros_like(outputs[0]))


def _lime_scores(
    base: Any, masks: NDArray[np.float64], outputs: NDArray[np.float64]
) -> NDArray[np.float64]:
    """LIME's regression of each column, (n, C); the first row is the whole text."""
    distances = 100 * (1 - np.sqrt(masks.mean(axis=1)))  # the cosine distance of a mask to all ones
    lime = base.LimeBase(lambda distance: np.sqrt(np.exp(-(distance**2) / KERNEL_WIDTH**2)))
    ridge = importlib.import_module("sklearn.linear_model").Ridge(alpha=RIDGE, fit_intercept=True)
    scores = np.zeros((masks.shape[1], outputs.shape[1]))
    for column in range(outputs.shape[1]):
        found = lime.explain_instance_with_data(
            masks, outputs, distances, column, masks.shape[1], "none", ridge
        )[1]
        for unit, score in found:
            scores[unit, column] = score
    return scores
