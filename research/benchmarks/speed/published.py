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

from research.benchmarks.speed.methods import Asked, Method, Predict
from research.benchmarks.speed.others import quietly
from research.benchmarks.speed.record import Recorder
from research.benchmarks.speed.subjects import Array, Lab, Masks, Subject


class Framed(torch.nn.Module):
    """A model with its own special tokens, where the published code always writes 101 and 102.

    Args:
        model: ids and mask to an object with logits.
        lab: says which special tokens there are.
    """

    def __init__(self, model: Any, lab: Lab) -> None:
        super().__init__()
        self.model = model
        self.pad = lab.pad
        self.before, self.after = lab.frame

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> dict[str, Tensor]:
        """Logits (rows, classes)."""
        ids, mask = input_ids.clone(), attention_mask.clone()
        lines, last = torch.arange(len(ids), device=ids.device), mask.sum(dim=1) - 1
        if self.after:
            ids[lines, last] = self.after[0]
        else:
            ids[lines, last] = self.pad
            mask[lines, last] = 0
        if self.before:
            ids[:, 0] = self.before[0]
        else:
            ids, mask = ids[:, 1:], mask[:, 1:]
        return {"logits": self.model(input_ids=ids, attention_mask=mask).logits.float()}


class Published(Method):
    """SLALOM-eff or SLALOM-fidel as published, with default settings.

    Args:
        lab: the model, with at most one special token at either end.
        name: "published-eff" or "published-fidel".
        calls: rows; the code rounds up to a multiple of 16.
    """

    def __init__(self, lab: Lab, name: str, calls: int) -> None:
        if max(map(len, lab.frame)) > 1:
            raise SystemExit(
                f"error: {lab.name} puts several special tokens at an end: the published code "
                "knows one"
            )
        self.name = name
        self._lab = lab
        self._calls = calls

    def explain(self, subject: Subject) -> Predict:
        """Explains a text."""
        return self._run(subject, self._lab.model)

    def asked(self, subject: Subject) -> Asked:
        """What it asks, from an extra run."""
        recorder = Recorder(self._lab.model)
        self._run(subject, recorder)
        return Asked(recorder.calls, list(recorder.rows))

    def _run(self, subject: Subject, model: Any) -> Predict:
        package = _package()
        torch.manual_seed(0)  # it takes no seed of its own
        sampling = {"published-eff": "short", "published-fidel": "deletion"}[self.name]
        explainer = package.SLALOMLocalExplanantions(
            Framed(model, self._lab),
            n_samples=self._calls,
            device=str(self._lab.device),
            modes=["value", "imp"],
            sampling_strategy=sampling,
            fit_sgd=self.name == "published-eff",
            pad_token_id=self._lab.pad,
        )
        with quietly(), _repaired():
            explainer.get_signed_importance_for_tokens(subject.ids.tolist())
        fitted = explainer.curr_slalom_model
        kinds = np.unique(subject.ids)

        def predict(masks: Masks) -> Array:
            counts = np.asarray(masks, dtype=np.float64) @ (subject.ids[:, None] == kinds)
            vectors = torch.as_tensor(counts, dtype=torch.float32, device=self._lab.device)
            with torch.no_grad():
                log_odds = fitted.forward_feature_vects(vectors)[:, 1]
            predicted: Array = log_odds.double().cpu().numpy()
            return predicted

        return predict


def _package() -> Any:
    """The published package.

    It imports matplotlib, which is not needed here: where there is none, something of that name
    will do.
    """
    names: tuple[str, ...] = ()
    if importlib.util.find_spec("matplotlib") is None:
        names = ("matplotlib", "matplotlib.pyplot", "matplotlib.colors")
    for name in names:
        sys.modules[name] = mock.MagicMock()
    try:
        return importlib.import_module("slalom_explanations")
    finally:
        for name in names:
            del sys.modules[name]


@contextlib.contextmanager
def _repaired() -> Iterator[None]:
    """Takes back the ``batch_size`` that the explainer hands to a fit without such a parameter."""
    slalom_explainer = _package().slalom_explainer
    fit = slalom_explainer.fit_iter_rand

    def without_batch_size(*arguments: Any, batch_size: int, **options: Any) -> Any:
        return fit(*arguments, **options)

    with mock.patch.object(slalom_explainer, "fit_iter_rand", without_batch_size):
        yield
