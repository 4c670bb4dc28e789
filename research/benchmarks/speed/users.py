"""Methods as a user runs them: with their defaults, on a transformers pipeline."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import torch

from research.benchmarks.speed.measure import ours
from research.benchmarks.speed.others import additive, quietly
from research.benchmarks.speed.subjects import Array, Lab, Masks, Predict, random_removals

Check = Callable[[], float]  # how much of what removals do is predicted


def pipeline_of(lab: Lab) -> Any:
    """The model and its tokenizer as a pipeline."""
    make = import_module("transformers").pipeline
    return make("text-classification", model=lab.model, tokenizer=lab.tokenizer, device=lab.device)


def shap(lab: Lab) -> Callable[[str], Check]:
    """``shap.Explainer(pipeline)``: it puts mask tokens for tokens."""
    import shap as library

    with quietly():
        explainer = library.Explainer(pipeline_of(lab))

    def explain(text: str) -> Check:
        with quietly():
            scores = explainer([text]).values[0]  # (tokens, classes)
        predicted = int(scores.sum(axis=0).argmax())

        def answers(masks: Masks) -> Array:
            with quietly():
                texts = [str(explainer.masker(mask, text)[0][0]) for mask in masks]
                found: Array = np.asarray(explainer.model(texts))[:, predicted]
            return found

        return lambda: share(additive(scores[:, predicted]), answers, len(scores))

    return explain


def lime(lab: Lab) -> Callable[[str], Check]:
    """``LimeTextExplainer().explain_instance``: it deletes words, everywhere in the text."""
    from lime.lime_text import LimeTextExplainer

    pipeline = pipeline_of(lab)
    explainer = LimeTextExplainer()

    def predict_proba(texts: list[str]) -> Array:
        outputs = pipeline(list(texts), top_k=None)
        by_label = [sorted(output, key=lambda one: str(one["label"])) for output in outputs]
        return np.array([[one["score"] for one in output] for output in by_label])

    def explain(text: str) -> Check:
        with quietly():
            found = explainer.explain_instance(text, predict_proba)
        words = found.domain_mapper.indexed_string
        scores = np.zeros(words.num_words())
        for index, score in found.as_map()[1]:
            scores[index] = score

        def answers(masks: Masks) -> Array:
            texts = [words.inverse_removing(np.flatnonzero(~mask)) for mask in masks]
            return predict_proba(texts)[:, 1]

        return lambda: share(additive(scores), answers, len(scores))

    return explain


def slalom(lab: Lab) -> Callable[[str], Check]:
    """``Explainer(model, tokenizer)``: it hides words from the attention."""
    explainer = ours(lab)

    def explain(text: str) -> Check:
        explanation = explainer(text)
        encoded = lab.tokenizer(text, return_offsets_mapping=True, return_tensors="pt")
        ids = encoded["input_ids"].to(lab.device)
        starts = np.array([unit.start for unit in explanation.units])
        offsets = encoded["offset_mapping"][0].numpy()
        unit_of = np.where(offsets[:, 1] > 0, starts.searchsorted(offsets[:, 0], "right") - 1, -1)
        sign = 1 if explanation.target == lab.model.config.id2label[1] else -1

        def answers(masks: Masks) -> Array:
            kept = np.where(unit_of < 0, True, masks[:, unit_of])
            mask = torch.as_tensor(kept, dtype=torch.long, device=lab.device)
            with torch.inference_mode():
                output = lab.model(input_ids=ids.expand(len(mask), -1), attention_mask=mask)
            logits = output.logits.double().cpu().numpy()
            odds: Array = sign * (logits[:, 1] - logits[:, 0])
            return odds

        return lambda: share(explanation.predict, answers, len(starts))

    return explain


USERS = {"slalom": slalom, "shap": shap, "lime": lime}


def share(predict: Predict, answers: Predict, n: int) -> float:
    """R² of predicted changes, any number of features removed in the method's own way."""
    masks = random_removals(n, n - 1, np.random.default_rng(77))
    whole = np.ones((1, n), dtype=bool)
    changes = answers(masks) - answers(whole)
    errors = predict(masks) - predict(whole) - changes
    return float(1 - np.mean(errors**2) / np.var(changes))
