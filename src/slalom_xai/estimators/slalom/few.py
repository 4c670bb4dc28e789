"""Few calls, even fewer than units: what can be learnt, and how much of it can be trusted.

``slalom`` keeps rows apart to choose between fits and to test them, and needs more calls than the
text has units. Here every row is learnt from:

1. Most rows keep about half of the units, the others any number of them.
2. A Gaussian process learns what the rows change (``surrogates/process``). It shrinks what the rows
   do not show, so it needs no more rows than units. It predicts, and says how sure it is.
3. Values and importances are those of the SLALOM that comes nearest to the process.
4. The test is cross-validation: each fifth of the rows is predicted from the others by all the
   steps above.

Shapes: m rows, n units, C columns (explained outputs).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from slalom_xai.designs import Masks, RowPool, count_distinct_rows, few_rows, rows_of_every_size
from slalom_xai.estimators.base import Estimator, Findings, register
from slalom_xai.estimators.evidence import AnsweredRows
from slalom_xai.estimators.gathering import ask_masks, occurrence_offsets
from slalom_xai.estimators.row_budget import count_rows, row_pool
from slalom_xai.estimators.slalom.correcting import LEARNING
from slalom_xai.models import Prompt
from slalom_xai.queries import Queries, WorkPool
from slalom_xai.surrogates.conditioning import Changes, Conditioned, conditioned
from slalom_xai.surrogates.correction import Correction
from slalom_xai.surrogates.fit import fit_each
from slalom_xai.surrogates.formula import SlalomSurrogate
from slalom_xai.surrogates.problem import FitRequest
from slalom_xai.surrogates.process import Process
from slalom_xai.surrogates.process_fit import KernelRequest, ProcessSettings, fit_kernels
from slalom_xai.surrogates.process_shapley import process_shapley
from slalom_xai.surrogates.quality import FewAndMany, Fidelity, agreements
from slalom_xai.surrogates.scores import slalom_score

_READ = ("value", "importance", "linearized")  # scores that are read from the two scores


@dataclass(frozen=True)
class FewSettings:
    """Constants of the method.

    Attributes:
        least: calls without which nothing can be learnt.
        usual: calls of a budget that nobody gave.
        folds: of the rows, each of which is predicted from the others.
        prior: ridge on the importances that are read from the process.
        whole_share: weight of the whole text among the rows that the two scores are read from, as a
            share of all others. What is missed of it is missed in every change.
        far: times the range of all answers. Values farther than that from them are pointed out.
        kernel: how a kernel is searched for.
    """

    least: int = 8
    usual: int = 64
    folds: int = 5
    prior: float = 0.1
    whole_share: float = 0.05
    far: float = 2.0
    kernel: ProcessSettings = field(default=LEARNING)


FEW = FewSettings()


@register
@dataclass(frozen=True)
class SlalomFew(Estimator):
    """A value and an importance per unit from few calls, which may be fewer than units.

    Attributes:
        settings: tuned numbers that need no attention.
    """

    name: ClassVar[str] = "slalom-few"
    summary: ClassVar[str] = (
        "a value and an importance per unit from few calls, even fewer than units; for models "
        "that are slow or cost money"
    )
    additive: ClassVar[bool] = False
    combines: ClassVar[bool] = True
    holds_out: ClassVar[bool] = False

    settings: FewSettings = field(default=FEW, repr=False)

    def least_calls(self, question: Prompt) -> int:
        """A few, however long the text is."""
        return min(self.settings.least, count_distinct_rows(question.interchangeable))

    def usual_calls(self, question: Prompt) -> int:
        """As many for every text: calls are dear where this method is wanted."""
        return self.settings.usual

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Asks rows, learns from all of them, and tests by cross-validation."""
        asked = ask_masks(queries, _rows(queries, row_pool(queries), rng), "fit")
        full, moves = asked.outputs[0], queries.prompt.moves
        offsets = occurrence_offsets(queries, asked.outputs)
        rows = asked.table[1:]  # the first is the whole text
        changes = Changes.of(rows, asked.outputs[1:] - full, moves)
        parts = _folds(len(rows), self.settings.folds, rng)
        sets = [changes, *(_without(part, changes) for part in parts)]
        learnt, *others = self._learnt(sets, full, offsets, queries.work)
        shapley = process_shapley(learnt.known)
        share = full.new_zeros(())
        surrogate = replace(
            learnt.two, correction=Correction(share, learnt.known.process, shapley.values)
        )
        errors = []
        for column in range(len(full)):
            of_column = _read_errors(others, column)
            of_column |= _process_errors(learnt.known, column)
            of_column["shapley"] = shapley.errors[:, column]
            errors.append(of_column)
        fidelity = _fidelity(asked, parts, others)
        notes = (_note(len(parts)), *self._far_values(learnt.two, asked.outputs))
        return Findings(surrogate, tuple(errors), fidelity, notes)

    def _far_values(self, two: SlalomSurrogate, outputs: Tensor) -> tuple[str, ...]:
        """A sentence where values lie far beyond what the model answered."""
        lowest, highest = outputs.amin(dim=0), outputs.amax(dim=0)
        margin = self.settings.far * (highest - lowest)
        values = two.values[0]
        if not bool(((values < lowest - margin) | (values > highest + margin)).any()):
            return ()
        return (
            "Some values lie far beyond all answers of the model: these calls show how much a unit "
            "changes, and hardly tell a far value from a loud one. Compare removals instead.",
        )

    def _learnt(
        self, sets: Sequence[Changes], full: Tensor, offsets: Tensor, work: WorkPool
    ) -> list[_Learnt]:
        """Processes that have seen these changes, each with the two scores nearest to it."""
        kernels = work.run(fit_kernels, KernelRequest(sets, self.settings.kernel))
        known = [
            conditioned(kernel, noise, changes, full)
            for (kernel, noise), changes in zip(kernels, sets, strict=True)
        ]
        requests = self._two_scores([one.process for one in known], offsets)
        fits = work.run(fit_each, requests)
        return [_Learnt(one, fit.surrogate) for one, fit in zip(known, fits, strict=True)]

    def _two_scores(self, processes: Sequence[Process], offsets: Tensor) -> list[FitRequest]:
        """What finds the SLALOMs that come nearest to processes, on rows of every size."""
        units = processes[0].units
        masks = np.concatenate([rows_of_every_size(units), np.eye(units, dtype=bool)])
        rows = torch.as_tensor(masks).to(offsets)
        rows = torch.cat([torch.ones_like(rows[:1]), rows])
        weights = rows.new_ones(len(rows))
        weights[0] = self.settings.whole_share * len(rows)
        return [
            FitRequest(
                rows,
                process.predict(rows),
                row_weights=weights,
                prior=self.settings.prior,
                offsets=offsets,
            )
            for process in processes
        ]


@dataclass(frozen=True)
class _Learnt:
    """What some rows taught.

    Attributes:
        known: the process after it has seen them.
        two: the SLALOM that comes nearest to it.
    """

    known: Conditioned
    two: SlalomSurrogate


def _rows(queries: Queries, pool: RowPool, rng: np.random.Generator) -> Masks:
    """The rows to ask, (m, n), the whole text first."""
    whole = pool.take_whole()
    calls = min(queries.distinct_budget, count_rows(queries)) - len(whole)
    return np.concatenate([whole, few_rows(pool, calls, rng)])


def _folds(rows: int, folds: int, rng: np.random.Generator) -> list[Tensor]:
    """The numbers of the rows in each fold; one row is enough for none."""
    if rows < 2:
        return []
    parts = np.array_split(rng.permutation(rows), min(folds, rows))
    return [torch.as_tensor(part) for part in parts]


def _without(part: Tensor, changes: Changes) -> Changes:
    """Changes without the rows numbered in ``part``."""
    kept = torch.ones(len(changes.rows), dtype=torch.bool)
    kept[part] = False
    kept = kept.to(changes.rows.device)
    return Changes.of(changes.rows[kept], changes.changes[kept], changes.moves)


def _read_errors(others: list[_Learnt], column: int) -> dict[str, Tensor]:
    """How far scores move that are read from the two scores when a fold is left out.

    This is the jackknife over groups of rows.
    """
    if not others:
        return {}
    errors = {}
    for name in _READ:
        scores = torch.stack([slalom_score(other.two, name, column) for other in others])
        spread = (scores - scores.mean(dim=0)).pow(2).mean(dim=0)
        errors[name] = ((len(others) - 1) * spread).sqrt()
    return errors


def _process_errors(known: Conditioned, column: int) -> dict[str, Tensor]:
    """How sure the process is of single units."""
    only = torch.eye(known.process.units).to(known.rows)
    return {
        "alone": known.standard_errors(only)[:, column],
        "removal": known.standard_errors(1 - only)[:, column],
    }


def _fidelity(
    asked: AnsweredRows, parts: list[Tensor], others: list[_Learnt]
) -> tuple[Fidelity, ...] | None:
    """How well each fold was predicted from the others, per column; None without folds.

    Few rows cannot tell few deletions from many, so both have the same number.
    """
    if not parts:
        return None
    rows, outputs, full = asked.table[1:], asked.outputs[1:], asked.outputs[0]
    predicted = torch.empty(2, *outputs.shape, dtype=outputs.dtype)
    for part, other in zip(parts, others, strict=True):
        table = rows[part.to(rows.device)]
        whole = torch.ones_like(table[:1])
        predicted[0, part] = (other.known.process.predict(table) - full).cpu()
        two = other.two.predict(table) - other.two.predict(whole)
        predicted[1, part] = two.cpu()
    true = (outputs - full).cpu()
    found = []
    for column, level in enumerate(outputs.abs().amax(dim=0).tolist()):
        own, of_two = agreements(predicted[..., column], true[:, column], level, (0.0, 0.0))
        found.append(Fidelity(own, own, two_scores=FewAndMany(of_two, of_two)))
    return tuple(found)


def _note(folds: int) -> str:
    if not folds:
        return "The text has so few distinct rows that none are left to test on."
    return (
        "Every call was learnt from. The test is cross-validation: each row was predicted from "
        "others, and few and many deletions are tested together."
    )
