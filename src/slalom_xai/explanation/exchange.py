"""Explanations for and from other libraries: shap, captum and lime, tied to the text by character spans.

Every import ends in ``from_scores``: a text, its units and one score per unit, with no more said about the model. Objects of
other libraries are known by their attributes, so only the exports import the package they export to.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slalom_xai.errors import InputError, one_of, optional_package
from slalom_xai.outputs import Outputs
from slalom_xai.spans import has_place, placed, read_tokens, tiles, units_in_tiles
from slalom_xai.surrogates.additive import AdditiveSurrogate
from slalom_xai.text import Unit

if TYPE_CHECKING:
    from slalom_xai.explanation import Explanation

Fields = dict[str, Any]  # what an Explanation is made from, by name

_PLACELESS = "The scores of {count} input pieces without a place in the text, such as special tokens, are part of the base value."


def to_shap(explanation: Explanation) -> Any:
    """The exact Shapley values as a ``shap.Explanation`` that adds up to the surrogate's prediction for the whole text."""
    shap = optional_package("shap", "this export")
    values, base = np.array(explanation.scores("shapley")), explanation.base_value
    # Quadrature leaves 1e-9 between the values' sum and what they share out; a plot should add up.
    values += (_whole(explanation) - base - values.sum()) / len(values)
    names = [unit.text for unit in explanation.units]
    exported = shap.Explanation(
        values=values,
        base_values=base,
        data=np.array(tiles(explanation), dtype=object),
        feature_names=names,
    )
    exported.output_names = (
        explanation.target
    )  # not in the constructor, which takes names for a list of outputs only
    return exported


def to_captum(explanation: Explanation, score: str = "shapley") -> Any:
    """One score as a ``captum.attr.visualization.VisualizationDataRecord``."""
    captum = optional_package("captum.attr", "this export")
    scores = np.array(explanation.scores(score))
    label, probability = _predicted(explanation)
    return captum.visualization.VisualizationDataRecord(
        word_attributions=torch.from_numpy(scores),
        pred_prob=probability,
        pred_class=label,
        true_class="unknown",
        attr_class=explanation.target,
        attr_score=float(scores.sum()),
        raw_input_ids=[unit.text for unit in explanation.units],
        convergence_score=_whole(explanation) - explanation.prediction,
    )


def from_scores(
    text: str,
    units: Sequence[Any],
    scores: Any,
    *,
    prediction: Any = None,
    base_value: Any = None,
    label: str | Sequence[str] = "output",
    method: str = "imported",
    model: str = "",
    target: int | None = None,
    granularity: str = "token",
    removal: str = "unknown",
    occurrences: Sequence[int] = (),
    notes: tuple[str, ...] = (),
) -> Fields:
    """The fields of an additive explanation; ``Explanation.from_scores`` says what the arguments are."""
    _check_text(text)
    labels = (
        tuple(str(name) for name in label) if isinstance(label, (list, tuple)) else (str(label),)
    )
    columns = _columns(units, scores, labels)
    found = placed(text, units)
    order = sorted(range(len(found)), key=lambda place: (found[place].start, found[place].end))
    columns = columns[order]
    base = None if base_value is None else _per_label(base_value, "base_value", labels)
    full = None if prediction is None else _per_label(prediction, "prediction", labels)
    sums = (
        full
        if base is None and full is not None
        else columns.sum(axis=0) + (0.0 if base is None else base)
    )
    full = sums if full is None else full
    outputs = Outputs("regression", labels)
    return {
        "text": text,
        "units": tuple(found[place] for place in order),
        "method": method,
        "model": model,
        "granularity": granularity,
        "removal": removal,
        "outputs": outputs,
        "target_index": outputs.target(target, full.tolist()).index,
        "full": tuple(full.tolist()),
        "function": AdditiveSurrogate(torch.tensor(columns), torch.tensor(sums)),
        "column_errors": ({},) * len(labels),
        "column_fidelity": None,
        "calls_fit": 0,
        "calls_check": 0,
        "occurrences": tuple(int(occurrences[place]) for place in order) if occurrences else (),
        "notes": (*notes, *_gaps(labels, full, sums)),
    }


def from_shap(values: Any, text: str | None = None, output: str | int | None = None) -> Fields:
    """The fields of one text's ``shap.Explanation``."""
    data = getattr(values, "data", None)
    if not hasattr(values, "base_values") or data is None or isinstance(data, str) or not len(data):
        raise InputError(
            f"expected the shap.Explanation of a text, with its tokens as data, got {type(values).__name__}"
        )
    if not isinstance(data[0], str):
        if not isinstance(data[0], (list, tuple, np.ndarray)):
            raise InputError(
                f"the data of this shap.Explanation should be tokens and are {type(data[0]).__name__}: give the explanation of a text"
            )
        if len(data) > 1:
            raise InputError(
                f"this shap.Explanation holds {len(data)} texts: give one of them, as in Explanation.from_shap(values[0])"
            )
        return from_shap(values[0], text, output)
    pieces = [str(piece) for piece in data]
    numbers = _numbers(values.values, "the shap values")
    if len(numbers) != len(pieces) or numbers.ndim > 2:
        raise InputError(
            f"shap values of shape {numbers.shape} were given for {len(pieces)} tokens: give the explanation of one text"
        )
    columns = numbers.reshape(len(pieces), -1)
    labels = _output_names(values.output_names, columns.shape[1])
    base = _per_label(
        0.0 if values.base_values is None else values.base_values, "base_values", labels
    )
    units = list(units_in_tiles(pieces, values.feature_names))
    kept = [place for place, unit in enumerate(units) if unit is not None]
    found: list[Any] = [unit for unit in units if unit is not None]
    joined = "".join(pieces)
    if text is not None:
        offset = text.find(joined.rstrip())
        moved = [
            Unit(text=unit.text, start=unit.start + offset, end=unit.end + offset) for unit in found
        ]
        found = moved if offset >= 0 else [unit.text for unit in found]
    target = None if output is None else Outputs("regression", labels).index(output)
    lost = np.delete(columns, kept, axis=0)
    notes = (_PLACELESS.format(count=len(lost)),) if lost.any() else ()
    joined = joined if text is None else text
    return from_scores(
        joined,
        found,
        columns[kept],
        base_value=base + lost.sum(axis=0),
        label=labels,
        method="shap",
        target=target,
        notes=notes,
    )


def from_captum(record: Any, text: str | None = None) -> Fields:
    """The fields of a captum record, an ``LLMAttributionResult`` or a pair (tokens, attributions)."""
    label = "output"
    if hasattr(record, "raw_input_ids") and hasattr(record, "word_attributions"):
        tokens, attributions, label = (
            record.raw_input_ids,
            record.word_attributions,
            str(record.attr_class),
        )
    elif hasattr(record, "input_tokens") and hasattr(record, "seq_attr"):
        tokens, attributions, label = (
            record.input_tokens,
            record.seq_attr,
            read_tokens(record.output_tokens) or label,
        )
    elif isinstance(record, (tuple, list)) and len(record) == 2:
        tokens, attributions = record
    else:
        raise InputError(
            f"expected a captum VisualizationDataRecord, an LLMAttributionResult or a pair (tokens, attributions), got {type(record).__name__}"
        )
    if not isinstance(tokens, (list, tuple, np.ndarray)) or not all(
        isinstance(token, str) for token in tokens
    ):
        raise InputError(
            "the tokens of this captum record are not a list of strings: convert token ids to tokens first"
        )
    numbers = _numbers(attributions, "attributions")
    if numbers.shape != (len(tokens),):
        raise InputError(
            f"attributions have shape {numbers.shape} for {len(tokens)} tokens: give one number for each token, summed over the embedding dimension"
        )
    kept = [place for place, token in enumerate(tokens) if has_place(token, text or "")]
    found = [tokens[place] for place in kept]
    lost = np.delete(numbers, kept)
    notes = [
        "captum does not say what the model's output was: the prediction shown is the sum of the attributions."
    ]
    if lost.any():
        notes.append(_PLACELESS.format(count=len(lost)))
    text = read_tokens(found) if text is None else text
    return from_scores(
        text,
        found,
        numbers[kept],
        base_value=lost.sum(),
        label=label,
        method="captum",
        notes=tuple(notes),
    )


def from_lime(explanation: Any, text: str | None = None, label: str | int | None = None) -> Fields:
    """The fields of an explanation by ``LimeTextExplainer``."""
    indexed = getattr(getattr(explanation, "domain_mapper", None), "indexed_string", None)
    if indexed is None or not getattr(explanation, "local_exp", None):
        raise InputError(
            f"expected an explanation by lime's LimeTextExplainer, got {type(explanation).__name__}"
        )
    raw = str(indexed.raw_string())
    if text is not None and text != raw:
        raise InputError(
            "the text is not the one that lime explained: leave text out, because lime's explanation holds it"
        )
    keys = sorted(explanation.local_exp)
    labels = [str(explanation.class_names[key]) for key in keys]
    wanted = (
        label
        if isinstance(label, str) or label is None
        else labels[keys.index(label)]
        if label in keys
        else label
    )
    if wanted is not None and wanted not in labels:
        raise one_of(
            "label", label, [f"{name} ({key})" for name, key in zip(labels, keys, strict=True)]
        )
    scores = np.zeros((indexed.num_words(), len(keys)))
    for column, key in enumerate(keys):
        for word, weight in explanation.local_exp[key]:
            scores[word, column] = weight
    starts = [0, *accumulate(len(piece) for piece in indexed.as_list)]
    places = [list(np.atleast_1d(entry)) for entry in indexed.positions]
    words = [(str(indexed.word(index)), starts[entry[0]]) for index, entry in enumerate(places)]
    silent = len(words) - max(len(explanation.local_exp[key]) for key in keys)
    notes = [
        "The scores are on the scale of probabilities, not of log odds: lime explains what the function it was given returns."
    ]
    if silent:
        notes.append(
            f"{silent} of {len(words)} words have no weight because lime was asked for fewer features; their score is 0."
        )
    if len(keys) == 1 and explanation.score is not None:
        notes.append(
            f"lime's own weighted R² on the texts it was fitted to is {float(explanation.score):.2f}."
        )
    return from_scores(
        raw,
        [Unit(text=word, start=start, end=start + len(word)) for word, start in words],
        scores,
        prediction=[explanation.predict_proba[key] for key in keys],
        base_value=[explanation.intercept[key] for key in keys],
        label=labels,
        method="lime",
        target=None if wanted is None else labels.index(wanted),
        granularity="type" if indexed.bow else "token",
        removal="delete" if indexed.bow else "mask",
        occurrences=[len(entry) for entry in places] if indexed.bow else (),
        notes=tuple(notes),
    )


def _whole(explanation: Explanation) -> float:
    """The surrogate's prediction for the whole text."""
    return float(explanation.predict(np.ones((1, len(explanation.units))))[0])


def _predicted(explanation: Explanation) -> tuple[str, float]:
    """The label the model predicts and its probability; NaN for a regression, which has none."""
    outputs, full = explanation.outputs, torch.tensor(explanation.full, dtype=torch.float64)
    if outputs.kind == "regression":
        return explanation.target, math.nan
    if outputs.kind == "binary":
        full = torch.cat([-full, full])
    chances = full.softmax(dim=0) if outputs.kind == "multiclass" else full.sigmoid()
    return outputs.labels[int(chances.argmax())], float(chances.max())


def _output_names(names: Any, count: int) -> tuple[str, ...]:
    if isinstance(names, str) and count == 1:
        return (str(names),)
    if names is None or isinstance(names, str) or len(names) != count:
        return ("output",) if count == 1 else tuple(f"output {index}" for index in range(count))
    return tuple(str(name) for name in names)


def _check_text(text: Any) -> None:
    if not isinstance(text, str) or not text.strip():
        raise InputError(
            f"the text is {'empty' if isinstance(text, str) else type(text).__name__}: give the text that was explained"
        )
    if any(0xD800 <= ord(character) <= 0xDFFF for character in text):
        raise InputError(
            "the text holds half a character (a lone surrogate): decode it as UTF-8 first"
        )


def _columns(units: Any, scores: Any, labels: Sequence[str]) -> NDArray[np.float64]:
    """Scores as (units, labels)."""
    numbers = _numbers(scores, "scores")
    if isinstance(units, (str, bytes)) or not hasattr(units, "__len__"):
        raise InputError(
            f"units are of type {type(units).__name__}: give a list of strings, of (start, end) spans or of Units"
        )
    if len(units) != len(numbers) or not len(units):
        raise InputError(
            f"{len(units)} units were given with {len(numbers)} scores: give at least one unit, and one score for each"
        )
    columns = numbers[:, None] if numbers.ndim == 1 else numbers
    if columns.ndim != 2 or columns.shape[1] != len(labels):
        raise InputError(
            f"scores have shape {numbers.shape}, but label names {len(labels)} outputs: give (units,) scores, or (units, labels) and a list as label"
        )
    return columns


def _numbers(given: Any, what: str) -> NDArray[np.float64]:
    try:
        numbers = np.asarray(
            given.detach().cpu().double() if isinstance(given, Tensor) else given, dtype=np.float64
        )
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{what}: cannot be read as numbers ({error}); give an array of numbers"
        ) from error
    if not numbers.ndim:
        numbers = numbers[None]
    if not np.isfinite(numbers).all():
        place = tuple(int(index) for index in np.argwhere(~np.isfinite(numbers))[0])
        raise InputError(
            f"{what}: {numbers[place]} at {', '.join(map(str, place))} is not a finite number; correct it, or leave that unit out"
        )
    return numbers


def _per_label(given: Any, what: str, labels: Sequence[str]) -> NDArray[np.float64]:
    numbers = _numbers(given, what)
    if numbers.shape not in ((1,), (len(labels),)):
        raise InputError(
            f"{what} has shape {numbers.shape} for {len(labels)} labels: give one number for each label"
        )
    return np.resize(numbers, len(labels))


def _gaps(labels: Sequence[str], full: NDArray[np.float64], sums: NDArray[np.float64]) -> list[str]:
    """A note for each label whose scores do not add up to the prediction."""
    return [
        f"The base value and the scores of {label} add up to {total:.4g}, while the model's own output is {own:.4g}."
        for label, own, total in zip(labels, full.tolist(), sums.tolist(), strict=True)
        if abs(own - total) > 1e-6 * max(1.0, abs(own))
    ]
