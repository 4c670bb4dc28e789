"""Sparse pairwise regression: a linear explanation with some pairs of units.

    F(K) = f(whole text) - sum over deleted units - sum over pairs of deleted units

Pairs are chosen by a lasso whose penalty is cross-validated (``surrogates/pairs.py``). On short
texts this is the strongest published peer. The score of a unit is its Shapley value in F: its own
part and half of each of its pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from torch import Tensor

from slalom_xai.estimators.base import Estimator, Findings, register
from slalom_xai.estimators.evidence import Evidence
from slalom_xai.estimators.gathering import gather
from slalom_xai.estimators.held_out import held_out_loss, linear_fit, measure
from slalom_xai.queries import Queries
from slalom_xai.surrogates.additive import AdditiveSurrogate, fit_additive
from slalom_xai.surrogates.pairs import PairsSurrogate
from slalom_xai.surrogates.pairs_fit import fit_pairs
from slalom_xai.surrogates.row_weights import inverse_variance


@register
@dataclass(frozen=True)
class Pairs(Estimator):
    """One score per unit, and a function that knows which pairs of units act together."""

    name: ClassVar[str] = "pairs"
    summary: ClassVar[str] = (
        "sparse pairwise regression: scores of tokens and of the pairs that matter, on the same "
        "calls as slalom"
    )
    combines: ClassVar[bool] = True
    estimates: ClassVar[str] = "shapley"

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Asks the model and fits."""
        question = queries.prompt
        parameters = self.parameters(len(question.units), question.distinct)
        evidence = gather(queries, parameters, rng)
        surrogate = pairs_fit(evidence)
        fidelity = measure(evidence, surrogate)
        return Findings(surrogate, ({},) * len(evidence.full), fidelity, _notes(surrogate))


def pairs_fit(evidence: Evidence) -> PairsSurrogate | AdditiveSurrogate:
    """The regression of all rows but those for the report.

    Rows are weighted by how well they can be predicted or not, whichever held-out rows prefer. They
    may also prefer a linear fit: where calls are few, chance chooses pairs.
    """
    if evidence.choose is None:
        return _fitted(evidence, False)
    linear = linear_fit(evidence).surrogate
    plain, weighted = (held_out_loss(evidence, _fitted(evidence, each)) for each in (False, True))
    if held_out_loss(evidence, linear) <= min(plain, weighted):
        return linear
    return _fitted(evidence.settled, weighted < plain)


def _fitted(evidence: Evidence, weighted: bool) -> PairsSurrogate | AdditiveSurrogate:
    rows = evidence.fit
    weights: Tensor | None = None
    if weighted:
        linear = fit_additive(rows.table, rows.outputs, evidence.full).surrogate
        weights = inverse_variance(linear.predict(rows.table) - rows.outputs, rows.deleted)
    return fit_pairs(rows.table, rows.outputs, evidence.full, weights)


def _notes(surrogate: PairsSurrogate | AdditiveSurrogate) -> tuple[str, ...]:
    """How many pairs there are."""
    if isinstance(surrogate, AdditiveSurrogate):
        return ("No pair of units helps to predict deletions: the explanation is linear.",)
    pairs = f"{len(surrogate.pairs)} pairs of units act"
    if len(surrogate.pairs) == 1:
        pairs = "One pair of units acts"
    return (f"{pairs} together. A unit's score has half of what each of its pairs adds.",)
