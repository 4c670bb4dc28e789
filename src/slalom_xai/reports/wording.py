"""What every report says in the same words: the prediction, the model's name, and pieces of words."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from slalom_xai.explanation import Explanation
from slalom_xai.reports.colour import printable
from slalom_xai.text import is_unspaced

_PATH = re.compile(r"[/\\.~]|[A-Za-z]:[/\\]")  # how a path begins; a hub id begins with a name


def probabilities(explanation: Explanation) -> list[float] | None:
    """The model's probability of each label for the whole text; None for outputs that are none."""
    kind, full = explanation.outputs.kind, explanation.full
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


def predicted(explanation: Explanation) -> int | None:
    """The place of the class that the model predicts; None where it chooses none of several."""
    found = probabilities(explanation)
    if found is None or explanation.outputs.kind not in ("binary", "multiclass"):
        return None
    return max(range(len(found)), key=lambda place: found[place])


def question(explanation: Explanation) -> str:
    """The heading of a page: what was predicted, where that is another class than the explained one."""
    target = explanation.target
    place, found = predicted(explanation), probabilities(explanation)
    if place is None or found is None or place == explanation.target_index:
        return f"Why “{target}”?"
    answer = f"“{explanation.outputs.labels[place]}” ({found[place]:.1%})"
    return f"Predicted {answer}: what speaks for “{target}”?"


def answer(explanation: Explanation) -> str:
    """The prediction first, then what is explained, on one line of printable characters."""
    place, found = predicted(explanation), probabilities(explanation)
    target, labels = explanation.target_index, explanation.outputs.labels
    output = f"{scale(explanation)} {explanation.prediction:+.2f}"
    if found is None:
        return f"{printable(labels[target])}: {output}"
    if place is None or place == target:
        start = "" if place is None else "Predicted: "
        return f"{start}{printable(labels[target])}, {found[target]:.1%} ({output})"
    first = f"Predicted: {printable(labels[place])}, {found[place]:.1%}"
    return f"{first}. Explained: {printable(labels[target])}, {found[target]:.1%} ({output})"


def scale(explanation: Explanation) -> str:
    """What the output is measured in."""
    kind = explanation.outputs.kind
    if kind == "regression":
        return "output"
    return "centred log probability" if kind == "multiclass" else "log odds"


def model_name(name: str) -> str:
    """The name of a model for a reader: of a path only its end; the result itself keeps the whole."""
    if _PATH.match(name) is None and name.count("/") < 2:
        return name
    parts = [part for part in re.split(r"[/\\]", name) if part]
    if not parts:
        return name
    is_file = parts[-1].endswith(".onnx") and len(parts) > 1
    return "/".join(parts[-2:]) if is_file else parts[-1]


def unit_texts(explanation: Explanation) -> list[str]:
    """Every unit as a reader should see it: a piece of a word has dots where the word goes on."""
    texts = (explanation.text, explanation.text_pair or "")
    if explanation.granularity not in ("token", "type"):
        return [printable(unit.text) for unit in explanation.units]
    return [
        _marked(unit.text, texts[unit.part], unit.start, unit.end) for unit in explanation.units
    ]


def _marked(piece: str, text: str, start: int, end: int) -> str:
    before = "…" if _joins(text[start - 1 : start + 1]) and start > 0 else ""
    after = "…" if _joins(text[end - 1 : end + 1]) and start < end else ""
    return f"{before}{printable(piece)}{after}"


def _joins(pair: Sequence[str]) -> bool:
    """Whether two neighbours stand in one word, in a script that has spaces between words."""
    return len(pair) == 2 and all(each.isalnum() and not is_unspaced(each) for each in pair)


def _logistic(odds: float) -> float:
    return 1 / (1 + math.exp(-max(min(odds, 700.0), -700.0)))
