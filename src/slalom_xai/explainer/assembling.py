"""Puts together what was found out about a text: its ``Explanation``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slalom_xai.explanation import Explanation
from slalom_xai.methods import Findings
from slalom_xai.models import TextModel
from slalom_xai.models.base import AnswersQuestion, SaysNotes
from slalom_xai.queries import Queries


@dataclass(frozen=True)
class AskedAs:
    """How a text was asked about.

    Attributes:
        model: what was asked.
        method: the name of the method.
        granularity: what the units are.
        removal: what leaving out a unit means.
        random_state: the seed.
    """

    model: TextModel
    method: str
    granularity: str
    removal: str
    random_state: int


def assemble(
    queries: Queries, findings: Findings, target: int, asked_as: AskedAs, notes: tuple[str, ...]
) -> Explanation:
    """The explanation of a text.

    Args:
        queries: what was asked about it.
        findings: what the method found.
        target: the index of the label to explain.
        asked_as: how it was asked.
        notes: what else a reader should know, a sentence each.
    """
    question, model = queries.prompt, asked_as.model
    answered = model if isinstance(model, AnswersQuestion) else None
    occurrences: tuple[int, ...] = ()
    if asked_as.granularity == "type":
        occurrences = tuple(question.occurrences.tolist())
    errors = [
        {name: error.cpu().numpy() for name, error in of_column.items()}
        for of_column in findings.standard_errors
    ]
    measured: list[dict[str, Any]] = [{} for _ in errors]
    for name, scores in findings.measured.items():
        for of_column, numbers in zip(measured, scores.cpu().numpy().T, strict=True):
            of_column[name] = numbers
    return Explanation(
        text=question.reading.text,
        text_pair=question.reading.text_pair,
        units=question.units,
        method=asked_as.method,
        model=model.name,
        granularity=asked_as.granularity,
        removal=asked_as.removal,
        outputs=model.outputs,
        target_index=target,
        full=tuple(queries.ask_whole("check").tolist()),
        function=findings.surrogate.cpu(),
        column_errors=tuple(errors),
        column_fidelity=findings.fidelity,
        column_measured=tuple(measured),
        notes=(() if answered is None else answered.notes)
        + question.notes
        + findings.notes
        + notes
        + _notes_on_calls(queries, asked_as),
        calls_fit=queries.calls_fit,
        calls_check=queries.calls_check,
        passes=findings.passes,
        left_out=question.reading.left_out,
        random_state=asked_as.random_state,
        occurrences=occurrences,
        question=None if answered is None else answered.question,
        reply=None if answered is None else answered.reply,
    )


def _notes_on_calls(queries: Queries, asked_as: AskedAs) -> tuple[str, ...]:
    """What a reader should know of the rows that were asked."""
    question, model = queries.prompt, asked_as.model
    notes: tuple[str, ...] = ()
    if isinstance(model, SaysNotes):
        notes += model.notes_on(queries.asked.tolist())
    if question.reading.in_place and queries.asked_sequences:
        notes += (
            f"{asked_as.method} asks short sequences in which nothing is replaced: "
            f"removal={asked_as.removal!r} applies only to the test.",
        )
    return notes
