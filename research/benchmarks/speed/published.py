"""The paper's own package, ``slalom-explanations`` 0.1.2, repaired where it crashes.

Its algorithm and batches are left alone, as they are what is timed.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor

from research.benchmarks.speed.others import Explain
from research.benchmarks.speed.subjects import Array, Lab, Masks, Predict, Subject


class Framed(torch.nn.Module):
    """A model with its own special tokens, where the published code always writes 101 and 102.

    Args:
        lab: the model, with one special token at either end.
    """

    def __init__(self, lab: Lab) -> None:
        super().__init__()
        self.model = lab.model
        (self.before,), (self.after,) = lab.frame

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> dict[str, Tensor]:
        """Logits (rows, classes)."""
        ids = input_ids.clone()
        ids[torch.arange(len(ids), device=ids.device), attention_mask.sum(dim=1) - 1] = self.after
        ids[:, 0] = self.before
        return {"logits": self.model(input_ids=ids, attention_mask=attention_mask).logits.float()}


def published(lab: Lab, name: str, calls: int) -> Explain:
    """SLALOM-eff or SLALOM-fidel as published, with default settings.

    Args:
        lab: the model, with one special token at either end.
        name: "published-eff" or "published-fidel".
        calls: rows; the code rounds up to a multiple of 16.
    """
    package = _package()

    def explain(subject: Subject) -> Predict:
        explainer = package.SLALOMLocalExplanantions(
            Framed(lab),
            n_samples=calls,
            device=str(lab.device),
            modes=["value", "imp"],
            sampling_strategy="short" if name == "published-eff" else "deletion",
            fit_sgd=name == "published-eff",
            pad_token_id=lab.pad,
        )
        with _repaired(package.slalom_explainer):
            explainer.get_signed_importance_for_tokens(subject.ids.tolist())
        fitted = explainer.curr_slalom_model
        kinds = np.unique(subject.ids)

        def predict(masks: Masks) -> Array:
            counts = np.asarray(masks, dtype=np.float64) @ (subject.ids[:, None] == kinds)
            vectors = torch.as_tensor(counts, dtype=torch.float32, device=lab.device)
            with torch.no_grad():
                log_odds = fitted.forward_feature_vects(vectors)[:, 1]
            predicted: Array = log_odds.double().cpu().numpy()
            return predicted

        return predict

    return explain


def _package() -> Any:
    """The published package.

    It imports matplotlib, which is not needed here: where there is none, something of that name
    will do.
    """
    names: tuple[str, ...] = ()
    if importlib.util.find_spec("matplotlib") is None:
        names = ("matplotlib", "matplotlib.pyplot", "matplotlib.colors")
    sys.modules.update((name, mock.MagicMock()) for name in names)
    try:
        return importlib.import_module("slalom_explanations")
    finally:
        for name in names:
            del sys.modules[name]


@contextlib.contextmanager
def _repaired(slalom_explainer: Any) -> Iterator[None]:
    """Takes back the ``batch_size`` that the explainer hands to a fit without such a parameter."""
    fit = slalom_explainer.fit_iter_rand

    def without_batch_size(*arguments: Any, batch_size: int, **options: Any) -> Any:
        return fit(*arguments, **options)

    with mock.patch.object(slalom_explainer, "fit_iter_rand", without_batch_size):
        yield
