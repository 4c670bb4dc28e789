"""What leaving out a unit means for a model: as was asked for, or as suits it."""

from __future__ import annotations

from dataclasses import replace

from slalom_xai.errors import CannotHideError
from slalom_xai.models import Prompt, TextModel, prompt
from slalom_xai.models.base import AnswersQuestion, HidesTokens

OPPOSED = (
    "Hiding words moves this model's output another way than deleting them: compare with"
    ' removal="delete" before you rely on one of the two.'
)


def read_for_removal(
    model: TextModel,
    text: str,
    text_pair: str | None = None,
    *,
    granularity: str,
    removal: str,
    usual: str | None = None,
    truncation: bool = False,
) -> Prompt:
    """A text as a model reads it, ready for units to be left out in one way.

    Args:
        model: reads the text.
        text: as the user gave it.
        text_pair: the second text of a pair.
        granularity: what the units are.
        removal: "hide", "delete", "mask", "unk" or "auto": hidden where the model allows it and
            deleted otherwise. What a language model answers is explained by deleting.
        usual: what "auto" means to a method; None: what suits the model.
        truncation: cut a text that is too long, instead of refusing it.

    Raises:
        CannotHideError: "hide", for a model that cannot.
    """

    def read(chosen: str) -> Prompt:
        reading = model.read(text, text_pair, truncation=truncation, removal=chosen)
        question = prompt(reading, granularity, chosen)
        if chosen != "hide" or not isinstance(model, HidesTokens):
            return question
        if model.hiding_opposes_deleting:
            return replace(question, notes=(*question.notes, OPPOSED))
        return question

    may_hide = isinstance(model, HidesTokens) and model.hides
    if removal != "auto":
        if removal == "hide" and not isinstance(model, HidesTokens):
            raise CannotHideError.because(
                f"{model.name} is not a model of the transformers library"
            )
        return read(removal)
    if usual is not None or not may_hide or isinstance(model, AnswersQuestion):
        return read(usual or "delete")
    try:
        return read("hide")
    except CannotHideError as error:
        deleted = read("delete")
        note = f"Units are deleted and not hidden: {error.reason}."
        return replace(deleted, notes=(*deleted.notes, note))
