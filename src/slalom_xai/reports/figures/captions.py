"""The words in figures: names of scores and scales, headlines, and short names."""

from __future__ import annotations

import math

from slalom_xai.explanation import Explanation
from slalom_xai.reports.colour import printable
from slalom_xai.reports.wording import with_source

TITLES = {
    "value": "value",
    "importance": "importance",
    "alone": "prediction from this alone",
    "linearized": "linearized score",
    "slope": "slope",
    "removal": "lost when removed",
    "shapley": "Shapley value",
    "filled": "output of the text filled with it",
}
SCALES = {
    "binary": "log odds",
    "multiclass": "centred log probability",
    "multilabel": "logit",
    "answers": "logit",
    "single": "logit",
    "regression": "output",
}


def score_title(explanation: Explanation, score: str) -> str:
    """The name of a score in a figure, and whether it was measured or fitted."""
    return with_source(explanation, score, TITLES[score])


def measured_in(explanation: Explanation) -> str:
    """What the numbers of an explanation are measured in."""
    return f"{SCALES[explanation.outputs.kind]} of {label(explanation.target)}"


def headline(explanation: Explanation) -> str:
    """The explained label and the model's output."""
    scale = SCALES[explanation.outputs.kind]
    return f"{label(explanation.target)}: {scale} {signed(explanation.prediction)}"


def signed(number: float) -> str:
    """A number with its sign, and with a minus that is as wide as the plus."""
    if not math.isfinite(number):
        return str(number)
    return f"{number:+.2f}".replace("-", "\N{MINUS SIGN}")


def label(text: str, limit: int = 24) -> str:
    """A text on one short line; nothing in it moves a cursor."""
    clean = printable(" ".join(text.split())) or "(blank)"
    if len(clean) <= limit:
        return clean
    return clean[: limit - 1].rstrip() + "…"
