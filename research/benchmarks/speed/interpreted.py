"""Interpreto, which takes a transformers model as it is and puts a mask token for what goes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from research.benchmarks.speed.methods import Asked, Method, Predict
from research.benchmarks.speed.others import quietly
from research.benchmarks.speed.record import Recorder
from research.benchmarks.speed.subjects import Array, Lab, Masks, Subject

BATCH_ROWS = 64  # its default of 4 would be slow


class Interpreted(Method):
    """LIME or Kernel SHAP of Interpreto.

    Args:
        lab: the model.
        name: "interpreto-lime" or "interpreto-kernel-shap".
        calls: perturbations.
    """

    def __init__(self, lab: Lab, name: str, calls: int) -> None:
        import interpreto

        self.name = name
        self._lab = lab
        kinds = {
            "interpreto-lime": interpreto.Lime,
            "interpreto-kernel-shap": interpreto.KernelShap,
        }
        with quietly():
            self._explainer = kinds[name](
                lab.model,
                lab.tokenizer,
                batch_size=BATCH_ROWS,
                granularity=interpreto.Granularity.TOKEN,
                n_perturbations=calls,
                device=lab.device,
            )

    def explain(self, subject: Subject) -> Predict:
        """Explains both classes of a text from one set of calls."""
        torch.manual_seed(0)
        targets = torch.tensor([[subject.target]])
        if self._lab.model.config.num_labels == 2:
            targets = torch.tensor([[0, 1]])
        with quietly():
            explanation = self._explainer(subject.text, targets=targets)[0]
        by_class = explanation.attributions.double().cpu().numpy()  # (targets, n)
        scores: Array = by_class[0]
        if len(by_class) == 2:
            scores = by_class[1] - by_class[0]

        def predict(masks: Masks) -> Array:
            predicted: Array = np.asarray(masks, dtype=np.float64) @ scores  # up to a constant
            return predicted

        return predict

    def asked(self, subject: Subject) -> Asked:
        """What it asks, from an extra run."""
        recorder = Recorder(self._lab.model)

        def note(_: Any, __: Any, inputs: dict[str, Any]) -> None:
            recorder.note(inputs["input_ids"], inputs["attention_mask"])

        hook = self._lab.model.register_forward_pre_hook(note, with_kwargs=True)
        try:
            self.explain(subject)
        finally:
            hook.remove()
        return Asked(recorder.calls, list(recorder.rows))
