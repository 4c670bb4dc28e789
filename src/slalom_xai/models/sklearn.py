"""Fitted scikit-learn classifiers and regressors that take texts, explained by words."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slalom_xai.errors import InputError, ModelError, quote_text
from slalom_xai.models.answers import check_convention
from slalom_xai.models.callables import CallableModel
from slalom_xai.models.outputs import Outputs

# What is asked of a model for each ``output``: the first of these methods that it has.
_WANTED = {
    "auto": ("predict_log_proba", "predict_proba", "decision_function"),
    "probabilities": ("predict_proba",),
    "logits": ("decision_function",),
}


def sklearn_model(
    model: Any, output: str = "auto", given: tuple[str, ...] | None = None
) -> CallableModel:
    """A fitted scikit-learn classifier or regressor that takes texts.

    A pipeline with a vectorizer is one. Log probabilities are taken where the model has them, then
    probabilities, then its decision function; ``output="logits"`` takes the decision function,
    ``output="probabilities"`` the probabilities. Names that are ``given`` take the place of
    numbered classes.
    """
    check_convention(output)
    name = type(model[-1] if hasattr(model, "steps") else model).__name__
    method, outputs = _method(model, output, name), _outputs(model)
    return CallableModel(
        lambda texts: _ask(model, method, name, texts),
        "probabilities" if method == "predict_proba" else "logits",
        name=name,
        outputs=outputs,
        owner=model,
        labels=given,
    )


def _is_regressor(model: Any) -> bool:
    signs = ("predict_proba", "decision_function")
    is_classifier = any(hasattr(model, sign) for sign in signs)
    return getattr(model, "classes_", None) is None and not is_classifier


def _method(model: Any, output: str, name: str) -> str:
    """The name of the method that answers."""
    if _is_regressor(model):
        return "predict"
    for method in _WANTED[output]:
        if hasattr(model, method):
            return method
    raise InputError(
        f'{name} has no {_WANTED[output][0]}, which output="{output}" needs: use output="auto"'
    )


def _outputs(model: Any) -> Outputs | None:
    """What the answers mean; None where the model does not say."""
    if _is_regressor(model):
        return Outputs("regression", ("prediction",))
    classes = getattr(model, "classes_", None)
    if classes is None:
        return None
    labels = tuple(str(label) for label in classes)
    return Outputs("binary" if len(labels) == 2 else "multiclass", labels)


def _ask(model: Any, method: str, name: str, texts: list[str]) -> NDArray[np.float64]:
    """Answers (n, width) of one of the model's methods."""
    try:
        with np.errstate(divide="ignore"):
            answers = np.asarray(getattr(model, method)(texts), dtype=np.float64)
    except (ValueError, TypeError, AttributeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ModelError(
            f"{name} failed on {quote_text(texts[0])} ({reason}): it must be fitted and take a "
            "list of texts, as make_pipeline(TfidfVectorizer(), LogisticRegression()) does"
        ) from error
    if method == "predict_log_proba" and np.isneginf(answers).any():
        text = texts[int(np.flatnonzero(np.isneginf(answers).any(axis=1))[0])]
        raise ModelError(
            f"{name} returned a probability of exactly 0 or 1 for {quote_text(text)}, and its log "
            'odds are infinite: pass output="logits" if it has a decision function, or use a model '
            "with smooth probabilities"
        )
    if method == "decision_function":
        return _of_both_classes(answers)
    return answers


def _of_both_classes(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logits (n, 2) where a decision function of two classes gives one: the second's log odds."""
    if scores.ndim != 1:
        return scores
    return np.stack([np.zeros_like(scores), scores], axis=1)
