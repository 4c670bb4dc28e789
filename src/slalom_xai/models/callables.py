"""Functions and scikit-learn models that take texts, explained by words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slalom_xai.errors import InputError, ModelError, shortened
from slalom_xai.models.answers import Answers, check_convention
from slalom_xai.models.base import Reading, lock_of, unit_codes
from slalom_xai.models.token_rows import Row
from slalom_xai.outputs import Outputs
from slalom_xai.text import is_unspaced, words

MARKS = {
    "mask": "[MASK]",
    "unk": "[UNK]",
}  # what stands for a removed word: a function has no tokenizer to ask


class CallableModel:
    """A function ``list[str] -> (n, classes)``.

    Args:
        function: answers a list of texts with one row of numbers each.
        output: "probabilities" ("auto" means the same), or "logits".
        name: how it is called in results.
        outputs: what its numbers mean, where that is known.
        owner: the object that calls take turns with; the function itself by default.
        labels: the names of the classes, where the caller gave some.
    """

    device = torch.device("cpu")
    probe_calls = 0

    def __init__(
        self,
        function: Callable[[list[str]], Any],
        output: str = "auto",
        *,
        name: str | None = None,
        outputs: Outputs | None = None,
        owner: Any = None,
        labels: tuple[str, ...] | None = None,
    ) -> None:
        check_convention(output)
        self.name = str(name or getattr(function, "__qualname__", type(function).__name__))
        self._function = function
        self._lock = lock_of(function if owner is None else owner)
        self._answers = Answers(
            self.name, probabilities=output != "logits", outputs=outputs, labels=labels
        )

    @property
    def outputs(self) -> Outputs:
        """What the answers mean; known once the function has answered a text."""
        return self._answers.outputs

    def read(
        self,
        text: str,
        text_pair: str | None = None,
        *,
        truncation: bool = False,
        removal: str = "delete",
    ) -> Reading:
        """Splits a text into words."""
        if text_pair is not None:
            raise InputError(
                f"a pair of texts was given, but {self.name} takes single texts: join the two as it expects them"
            )
        units = words(text)
        if not units:
            raise InputError(f"there is no word in {shortened(text)}: give a text with words in it")
        starts = [0, *(unit.end for unit in units[:-1])]
        gaps = [text[start : unit.start] for start, unit in zip(starts, units, strict=True)]
        rest = text[units[-1].end :]

        def compose(places: NDArray[np.int64]) -> Row:
            if np.array_equal(places, np.arange(len(units))):
                return text
            if bool((np.diff(places) > 0).all()):
                return "".join(gaps[place] + units[place].text for place in places).strip()
            return _joined(
                [units[place].text for place in places]
            )  # words in another order than the text's

        def shorten(keep: NDArray[np.bool_]) -> Row:
            if removal == "delete":
                return compose(np.flatnonzero(keep))
            shown = [
                unit.text if kept else MARKS[removal]
                for unit, kept in zip(units, keep, strict=True)
            ]
            return "".join(gap + word for gap, word in zip(gaps, shown, strict=True)) + rest

        return Reading(
            text,
            units,
            unit_codes([unit.text for unit in units]),
            "",
            compose,
            shorten,
            in_place=removal != "delete",
        )

    def size(self, row: Row) -> int:
        """Words in a row, about."""
        return cast(str, row).count(" ") + 1

    def show(self, row: Row) -> str:
        """The row is a text."""
        return cast(str, row)

    def answer(self, rows: Sequence[Row]) -> Tensor:
        """Logits for a batch of texts."""
        texts = cast(list[str], list(rows))
        with self._lock:
            raw = self._function(list(texts))
        return self._answers.logits(raw, len(texts), lambda place: texts[place]).cpu().double()


def sklearn_model(
    model: Any, output: str = "auto", given: tuple[str, ...] | None = None
) -> CallableModel:
    """A fitted scikit-learn classifier or regressor that takes texts, such as a pipeline with a vectorizer.

    Log probabilities are taken where the model has them, then probabilities, then its decision function;
    ``output="logits"`` takes the decision function, ``output="probabilities"`` the probabilities. Names that are ``given`` take the
    place of numbered classes.
    """
    check_convention(output)
    name = type(model[-1] if hasattr(model, "steps") else model).__name__
    classes = getattr(model, "classes_", None)
    if (
        classes is None
        and not hasattr(model, "predict_proba")
        and not hasattr(model, "decision_function")
    ):
        outputs: Outputs | None = Outputs("regression", ("prediction",))
        return CallableModel(
            lambda texts: _ask_sklearn(model, "predict", name, texts),
            "logits",
            name=name,
            outputs=outputs,
            owner=model,
            labels=given,
        )
    wanted = {
        "auto": ("predict_log_proba", "predict_proba", "decision_function"),
        "probabilities": ("predict_proba",),
        "logits": ("decision_function",),
    }
    found = next((way for way in wanted[output] if hasattr(model, way)), None)
    if found is None:
        raise InputError(
            f'{name} has no {wanted[output][0]}, which output="{output}" needs: use output="auto"'
        )
    labels = tuple(str(label) for label in classes) if classes is not None else None
    outputs = (
        None if labels is None else Outputs("binary" if len(labels) == 2 else "multiclass", labels)
    )
    return CallableModel(
        lambda texts: _ask_sklearn(model, found, name, texts),
        "probabilities" if found == "predict_proba" else "logits",
        name=name,
        outputs=outputs,
        owner=model,
        labels=given,
    )


def _ask_sklearn(model: Any, way: str, name: str, texts: list[str]) -> NDArray[np.float64]:
    try:
        with np.errstate(divide="ignore"):
            answers = np.asarray(getattr(model, way)(texts), dtype=np.float64)
    except (ValueError, TypeError, AttributeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ModelError(
            f"{name} failed on {shortened(texts[0])} ({reason}): it must be fitted and take a list of texts, "
            "as make_pipeline(TfidfVectorizer(), LogisticRegression()) does"
        ) from error
    if way == "predict_log_proba" and np.isneginf(answers).any():
        text = texts[int(np.flatnonzero(np.isneginf(answers).any(axis=1))[0])]
        raise ModelError(
            f"{name} returned a probability of exactly 0 or 1 for {shortened(text)}, and its log odds are infinite: "
            'pass output="logits" if it has a decision function, or use a model with smooth probabilities'
        )
    return _two_columns(answers) if way == "decision_function" else answers


def _two_columns(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """A decision function of two classes has one column: the log odds of the second."""
    return np.stack([np.zeros_like(scores), scores], axis=1) if scores.ndim == 1 else scores


def _joined(pieces: Sequence[str]) -> str:
    """Words in a row, with spaces where their script has them."""
    text = pieces[0]
    for before, piece in pairwise(pieces):
        text += piece if is_unspaced(before[-1]) and is_unspaced(piece[0]) else f" {piece}"
    return text
