"""Quick questions to a worker: what the model answers, and results in other forms."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slalom_xai.errors import InputError, SlalomError
from slalom_xai.explainer import read_for_removal
from slalom_xai.explanation import Explanation
from slalom_xai.methods import estimator
from slalom_xai.models import Prompt, TextModel, prompt
from slalom_xai.models.base import SaysItsLimit
from slalom_xai.models.rows import Rows
from slalom_xai.queries import Batches
from slalom_xai.reports.html import page
from slalom_xai.reports.wording import label_shares


class QuickAnswers:
    """Answers questions while jobs are under way.

    Args:
        model: as loaded.
        file: finds the saved file of a result by its key.
    """

    def __init__(self, model: TextModel, file: Callable[[str], str | None]) -> None:
        self._model, self._file = model, file
        self._batches = Batches(model)

    def answer(self, kind: str, body: dict[str, Any]) -> Any:
        """The answer to one kind of question.

        Raises:
            SlalomError: what cannot be answered.
        """
        kinds: dict[str, Callable[..., Any]] = {
            "predict": self._predict,
            "report": self._report,
            "figure": self._figure,
        }
        return kinds[kind](**body)

    def predictions(self, texts: list[str]) -> list[dict[str, Any]]:
        """What the model answers to texts; one that it cannot read has an error instead."""
        readable: list[Rows] = []
        answers: list[dict[str, Any]] = []
        for text in texts:
            try:
                question = prompt(self._model.read(text), "token")
            except SlalomError as error:
                answers.append({"error": str(error)})
            else:
                readable.append(question.rows(question.whole))
                answers.append({})
        try:
            columns = iter(self._batches.columns(readable) if readable else [])
        except SlalomError as error:
            if len(texts) == 1:
                return [{"error": str(error)}]
            return [self.predictions([text])[0] for text in texts]
        return [entry or self._answer(next(columns)[0].tolist()) for entry in answers]

    def _predict(
        self,
        text: str,
        text_pair: str | None,
        granularity: str,
        removal: str,
        method: str,
        as_new_text: bool,
        counts: list[list[int]] | None,
    ) -> dict[str, Any]:
        question = read_for_removal(
            self._model,
            text,
            text_pair,
            granularity=granularity,
            removal=removal,
            usual=estimator(method).removal,
        )
        asked = [question.whole[0].astype(int)]
        if counts is not None:
            asked = [_check_counts(question, row) for row in counts]
        written: list[tuple[str, ...]] = []
        if as_new_text:
            written = [edit_texts(question, row) for row in asked]
            rows = [self._as_new(*texts) for texts in written]
        else:
            rows = [edit_row(question, row) for row in asked]
        for row in rows:
            self._check_length(row)
        columns = self._batches.columns(rows)
        outputs = self._model.outputs
        answers = [self._answer(answer[0].tolist()) for answer in columns]
        for answer, texts in zip(answers, written, strict=False):
            answer |= zip(("text", "text_pair"), texts, strict=False)
        return {
            "kind": outputs.kind,
            "labels": list(outputs.labels),
            "removal": question.removal,
            "as_new_text": as_new_text,
            "answers": answers,
        }

    def _as_new(self, text: str, text_pair: str | None = None) -> Rows:
        """The row of a text as it would be read by itself."""
        question = prompt(self._model.read(text, text_pair), "token")
        return question.rows(question.whole)

    def _check_length(self, row: Rows) -> None:
        limit = self._model.limit if isinstance(self._model, SaysItsLimit) else None
        size = self._model.size(row.row(0))
        if limit is not None and size > limit:
            raise InputError(
                f"the edited text has {size} tokens, but the model reads at most {limit}: "
                "repeat less"
            )

    def _answer(self, full: list[float]) -> dict[str, Any]:
        outputs = self._model.outputs
        shares = label_shares(outputs.kind, full)
        label = None
        if shares is not None and outputs.kind in ("binary", "multiclass"):
            label = outputs.labels[shares.index(max(shares))]
        return {"full": full, "probabilities": shares, "label": label}

    def _explanation(self, key: str) -> Explanation:
        file = self._file(key)
        if file is None:
            raise InputError(f"there is no explanation {key}: ask again")
        return Explanation.from_dict(json.loads(file))

    def _report(self, keys: list[str]) -> str:
        return page([self._explanation(key) for key in keys])

    def _figure(self, key: str, kind: str, ending: str) -> str:
        """A picture, as text whose characters are its bytes."""
        from slalom_xai.reports import figures

        draw: dict[str, Callable[[Explanation], Any]]
        draw = {"scatter": figures.scatter, "text": figures.highlighted, "bars": figures.bars}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"figure.{ending}"
            figures.save(draw[kind](self._explanation(key)), path)
            return path.read_bytes().decode("latin-1")


def edit_row(question: Prompt, counts: NDArray[np.int64]) -> Rows:
    """The row that holds each unit so many times, copies side by side.

    At type granularity, a count is of the word wherever it stands: its occurrences go, stay, or
    are each repeated.
    """
    if counts.max() <= 1:
        return question.rows(counts[None].astype(bool))
    if question.reading.in_place:
        raise InputError(
            "a repeated unit was given, but removed ones leave a mark in their place: "
            "explain with removal 'delete' to repeat units"
        )
    if question.reading.keeps_places and counts.min() == 0:
        raise InputError(
            "units were removed and others repeated, but removed ones are hidden and leave their "
            "places empty: ask with as_new_text, or with removal 'delete'"
        )
    if (question.occurrences > 1).any():
        pieces = np.repeat(np.arange(len(question.owner)), counts[question.owner])
        return question.reading.rows_of(pieces[None], np.array([len(pieces)]))
    units = np.repeat(np.arange(len(counts)), counts)  # all pieces of a copy stay together
    return question.sequences(units[None])


def edit_texts(question: Prompt, counts: NDArray[np.int64]) -> tuple[str, ...]:
    """The text, and its pair, with each unit so many times, as somebody would write it.

    What stands before a unit goes with it; copies that begin a word are set apart by a space.
    """
    written = ["" for _ in question.reading.texts]
    behind = [0 for _ in written]
    pieces, owner = question.units, np.arange(len(question.units))
    if (question.occurrences > 1).any():
        pieces, owner = question.reading.pieces, question.owner
    for unit, count in zip(pieces, counts[owner].tolist(), strict=True):
        text = question.reading.texts[unit.part]
        gap, word = text[behind[unit.part] : unit.start], text[unit.start : unit.end]
        space = gap if gap or behind[unit.part] else " "
        behind[unit.part] = unit.end
        if count:
            written[unit.part] += gap + word + (space + word) * (count - 1)
    return tuple(text.strip() for text in written)


def _check_counts(question: Prompt, counts: list[int]) -> NDArray[np.int64]:
    if len(counts) != len(question.units):
        raise InputError(
            f"{len(counts)} counts were given, but the text has {len(question.units)} units: "
            "give one for each"
        )
    if not any(counts):
        raise InputError("every unit was removed: keep at least one")
    return np.array(counts, dtype=np.int64)
