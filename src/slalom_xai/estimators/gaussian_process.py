"""The ceiling: how much of what deletions do can be learnt from as many calls.

A Gaussian process predicts rows from rows that are like them (``surrogates/process.py``). It knows
interactions of every order and explains nothing. It says what there was to learn, so that an
explanation can be measured by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from slalom_xai.estimators.base import Estimator, Findings, register
from slalom_xai.estimators.gathering import gather
from slalom_xai.estimators.held_out import measure
from slalom_xai.queries import Queries
from slalom_xai.surrogates.process_fit import fit_process

_NOTE = (
    "A Gaussian process predicts and does not explain: a unit's score is what it predicts for "
    "removing that unit alone."
)


@register
@dataclass(frozen=True)
class GaussianProcess(Estimator):
    """What can be learnt from as many calls, with one score per unit: its predicted removal."""

    name: ClassVar[str] = "gp"
    summary: ClassVar[str] = (
        "the ceiling, which explains nothing: what a Gaussian process learns of deletions from as "
        "many calls"
    )
    combines: ClassVar[bool] = True

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Asks the model and fits; rows that other methods choose by are fitted, too."""
        question = queries.prompt
        parameters = self.parameters(len(question.units), question.distinct)
        evidence = gather(queries, parameters, rng).settled
        generator = torch.Generator().manual_seed(int(rng.integers(2**31)))
        rows = evidence.fit
        process = fit_process(rows.table, rows.outputs, evidence.full, generator)
        fidelity = measure(evidence, process)
        return Findings(process, ({},) * len(evidence.full), fidelity, (_NOTE,))
