"""captum: explanations as ``VisualizationDataRecord``, and its results as explanations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from slalom_xai.errors import InputError, optional_package
from slalom_xai.explanation.exchange.scores import (
    Fields,
    check_numbers,
    from_scores,
    without_place,
)
from slalom_xai.explanation.exchange.spans import has_place, read_tokens
from slalom_xai.methods.scores import DEFAULT_SCORE

if TYPE_CHECKING:
    from slalom_xai.explanation import Explanation

_NO_OUTPUT = (
    "captum does not say what the model's output was: "
    "the prediction shown is the sum of the attributions."
)


def to_captum(explanation: Explanation, score: str = DEFAULT_SCORE) -> Any:
    """One score as a ``captum.attr.visualization.VisualizationDataRecord``."""
    captum = optional_package("captum.attr", "this export")
    scores = np.array(explanation.scores(score))
    whole = float(explanation.predict(np.ones((1, len(explanation.units))))[0])
    label, probability = _predicted(explanation)
    return captum.visualization.VisualizationDataRecord(
        word_attributions=torch.from_numpy(scores),
        pred_prob=probability,
        pred_class=label,
        true_class="unknown",
        attr_class=explanation.target,
        attr_score=float(scores.sum()),
        raw_input_ids=[unit.text for unit in explanation.units],
        convergence_score=whole - explanation.prediction,
    )


def _predicted(explanation: Explanation) -> tuple[str, float]:
    """The label the model predicts and its probability; NaN for a regression, which has none."""
    outputs, full = explanation.outputs, torch.tensor(explanation.full, dtype=torch.float64)
    if outputs.kind == "regression":
        return explanation.target, math.nan
    if outputs.kind == "binary":
        full = torch.cat([-full, full])
    probabilities = full.sigmoid()
    if outputs.kind == "multiclass":
        probabilities = full.softmax(dim=0)
    return outputs.labels[int(probabilities.argmax())], float(probabilities.max())


def from_captum(record: Any, text: str | None = None) -> Fields:
    """The fields of a record, an ``LLMAttributionResult`` or a pair (tokens, attributions)."""
    tokens, attributions, label = _parts(record)
    if not _are_strings(tokens):
        raise InputError(
            "the tokens of this captum record are not a list of strings: "
            "convert token ids to tokens first"
        )
    numbers = check_numbers(attributions, "attributions")
    if numbers.shape != (len(tokens),):
        raise InputError(
            f"attributions have shape {numbers.shape} for {len(tokens)} tokens: "
            "give one number for each token, summed over the embedding dimension"
        )
    kept = [index for index, token in enumerate(tokens) if has_place(token, text or "")]
    units = [tokens[index] for index in kept]
    lost = np.delete(numbers, kept)
    if text is None:
        text = read_tokens(units)
    return from_scores(
        text,
        units,
        numbers[kept],
        base_value=lost.sum(),
        label=label,
        method="captum",
        notes=(_NO_OUTPUT, *without_place(lost)),
    )


def _parts(record: Any) -> tuple[Sequence[Any], Any, str]:
    """Tokens, attributions and the label they argue for."""
    if hasattr(record, "raw_input_ids") and hasattr(record, "word_attributions"):
        return record.raw_input_ids, record.word_attributions, str(record.attr_class)
    if hasattr(record, "input_tokens") and hasattr(record, "seq_attr"):
        label = read_tokens(record.output_tokens) or "output"
        return record.input_tokens, record.seq_attr, label
    if isinstance(record, (tuple, list)) and len(record) == 2:
        return record[0], record[1], "output"
    raise InputError(
        "expected a captum VisualizationDataRecord, an LLMAttributionResult or a pair "
        f"(tokens, attributions), got {type(record).__name__}"
    )


def _are_strings(tokens: Any) -> bool:
    if not isinstance(tokens, (list, tuple, np.ndarray)):
        return False
    return all(isinstance(token, str) for token in tokens)
