"""What every report says in the same words: the prediction, the model's name, pieces of words."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence

from slalom_xai.explanation import Explanation
from slalom_xai.models.text import Unit, is_unspaced
from slalom_xai.reports.colour import printable

_REPLY = 120  # characters of an answer in a heading
_PATH = re.compile(r"[/\\.~]|[A-Za-z]:[/\\]")  # how a path begins; a hub id begins with a name


def probabilities(explanation: Explanation) -> list[float] | None:
    """The model's probability of each label for the whole text; None for outputs that are none."""
    return label_shares(explanation.outputs.kind, explanation.full)


def label_shares(kind: str, full: Sequence[float]) -> list[float] | None:
    """The probability of each label; None for outputs that are none.

    Args:
        kind: of the outputs.
        full: the explained columns of a text, (C,).
    """
    if kind == "regression":
        return None
    if kind == "binary":
        share = _logistic(full[0])
        return [1 - share, share]
    if kind != "multiclass":
        return [_logistic(output) for output in full]
    largest = max(full)
    weights = [math.exp(output - largest) for output in full]
    return [weight / sum(weights) for weight in weights]


def predicted_index(explanation: Explanation) -> int | None:
    """The index of the class that the model predicts; None where it chooses none of several."""
    shares = probabilities(explanation)
    if shares is None or explanation.outputs.kind not in ("binary", "multiclass"):
        return None
    return shares.index(max(shares))


def predicted_class(explanation: Explanation) -> tuple[str | None, float | None]:
    """The class that the model predicts, with its probability; None where it chooses none."""
    index, shares = predicted_index(explanation), probabilities(explanation)
    if index is None or shares is None:
        return None, None
    return explanation.outputs.labels[index], shares[index]


def question(explanation: Explanation) -> str:
    """The heading of a page.

    It says what was predicted, where that is another class than the explained one.
    """
    if explanation.reply is not None:
        return f"{explanation.question} Why “{shorten_reply(explanation)}”?"
    target = explanation.target
    index, shares = predicted_index(explanation), probabilities(explanation)
    if index is None or shares is None or index == explanation.target_index:
        return f"Why “{target}”?"
    prediction = f"“{explanation.outputs.labels[index]}” ({shares[index]:.1%})"
    return f"Predicted {prediction}: what speaks for “{target}”?"


def answer(explanation: Explanation) -> str:
    """The prediction first, then what is explained, on one line of printable characters."""
    index, shares = predicted_index(explanation), probabilities(explanation)
    target, labels = explanation.target_index, explanation.outputs.labels
    output = f"{scale(explanation)} {explanation.prediction:+.2f}"
    if explanation.outputs.kind == "answers":
        return f"Explained: {printable(labels[target])} ({output})"
    if shares is None:
        return f"{printable(labels[target])}: {output}"
    explained = f"{printable(labels[target])}, {shares[target]:.1%} ({output})"
    if index is None:
        return explained
    if index == target:
        return f"Predicted: {explained}"
    return f"Predicted: {printable(labels[index])}, {shares[index]:.1%}. Explained: {explained}"


def shorten_reply(explanation: Explanation) -> str:
    """The answer of a language model, or its beginning, on one line."""
    reply = " ".join((explanation.reply or "").split())
    return reply if len(reply) <= _REPLY else f"{reply[: _REPLY - 1]}…"


def scale(explanation: Explanation) -> str:
    """What the output is measured in."""
    kind = explanation.outputs.kind
    if kind == "regression":
        return "output"
    if kind == "multiclass":
        return "centred log probability"
    return "log odds"


def source(explanation: Explanation, score: str) -> str | None:
    """Whether a score was measured or fitted.

    None for additive methods: neither word tells how a gradient or an attention weight is made.
    """
    if explanation.importances is None:
        return None
    return explanation.source(score)


def with_source(explanation: Explanation, score: str, title: str) -> str:
    """The title of a score, and whether it was measured or fitted."""
    found = source(explanation, score)
    if found is None:
        return title
    return f"{title}, {found}"


def error_of(explanation: Explanation, score: str, index: int) -> float | None:
    """The standard error of a unit's score.

    None where it is not known, and for an exact answer of the model.
    """
    errors = explanation.standard_errors.get(score)
    if errors is None or math.isnan(errors[index]):
        return None
    if errors[index] == 0 and explanation.source(score) == "measured":
        return None
    return float(errors[index])


def left_out_sentence(explanation: Explanation) -> str:
    """What truncation cut off."""
    return (
        f"The last {len(explanation.left_out)} characters are left out: "
        "the model does not read that far."
    )


def model_name(name: str) -> str:
    """The name of a model for a reader: of a path only its end.

    The result itself keeps the whole.
    """
    if _PATH.match(name) is None and name.count("/") < 2:
        return name
    parts = [part for part in re.split(r"[/\\]", name) if part]
    if not parts:
        return name
    if parts[-1].endswith(".onnx"):  # a file, whose folder has the name
        return "/".join(parts[-2:])
    return parts[-1]


def unit_texts(explanation: Explanation) -> list[str]:
    """Every unit as a reader should see it: a piece of a word has dots where the word goes on."""
    if explanation.granularity not in ("token", "type"):
        return [printable(unit.text) for unit in explanation.units]
    texts = (explanation.text, explanation.text_pair or "")
    return [_mark_cuts(unit, texts[unit.part]) for unit in explanation.units]


def _mark_cuts(unit: Unit, text: str) -> str:
    """A piece of a text with dots on each side where its word goes on."""
    marked = printable(unit.text)
    if unit.start > 0 and _joins(text[unit.start - 1 : unit.start + 1]):
        marked = "…" + marked
    if unit.start < unit.end and _joins(text[unit.end - 1 : unit.end + 1]):
        marked += "…"
    return marked


def _joins(pair: Sequence[str]) -> bool:
    """Whether two neighbours stand in one word, in a script that has spaces between words."""
    return len(pair) == 2 and all(each.isalnum() and not is_unspaced(each) for each in pair)


def runs_leftwards(text: str, otherwise: bool = False) -> bool:
    """Whether the first letter of a text belongs to a script that runs from right to left.

    Args:
        text: any.
        otherwise: the answer for a text without letters.
    """
    for character in text:
        kind = unicodedata.bidirectional(character)
        if kind in ("L", "R", "AL"):
            return kind != "L"
    return otherwise


def _logistic(odds: float) -> float:
    return 1 / (1 + math.exp(-max(min(odds, 700.0), -700.0)))
