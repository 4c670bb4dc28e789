"""The published package ``slalom-explanations`` 0.1.2, repaired where it is broken."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
import torch
from slalom_explanations import SLALOMLocalExplanantions, slalom_explainer

from research.benchmarks.published.texts import AnsweredRows, Array, Predict, Text
from slalom_xai.models import Row

PAD = 0  # the id with which the published code fills up rows
PUBLISHED_EPOCHS, PUBLISHED_BATCH = 60, 128  # its default training
TOKENS_FROM = 1000  # our ids for the distinct tokens of a text, clear of the ids that it writes


@dataclass(frozen=True)
class Scores:
    """An explanation over the K distinct tokens of a text, in order of appearance.

    Attributes:
        values: (K,).
        importances: (K,).
        predict: the log odds that it predicts for counts.
    """

    values: Array
    importances: Array
    predict: Predict


class AsPublished(torch.nn.Module):
    """The model as the published code wants it: ids in, logits of two classes out.

    Repairs three faults. The special tokens of every model are taken to be 101 and 102, so a model
    with others (or with words of these ids) was asked other texts than it should be; a model
    without any fails with an IndexError; and one with a single logit is not recognised (``==`` for
    ``=``). Here the code's own 101 and 102 are dropped and the model's special tokens put around
    the rest.

    Attributes:
        asked: what the model was asked, batch by batch.

    Args:
        text: what is explained.
    """

    def __init__(self, text: Text) -> None:
        super().__init__()
        self.text = text
        self.asked: list[AnsweredRows] = []

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        """Logits 0 and the log odds, (m, 2)."""
        rows: list[Row] = []
        counts = np.zeros((len(input_ids), len(self.text.first_positions)))
        masks = attention_mask.cpu().numpy().astype(bool)
        for ids, mask in zip(input_ids.cpu().numpy(), masks, strict=True):
            tokens = ids[mask][1:-1] - TOKENS_FROM
            np.add.at(counts[len(rows)], tokens, 1)
            rows.append(self.text.reading.compose(self.text.first_positions[tokens]))
        answers = self.text.log_odds(rows)
        self.asked.append(AnsweredRows(counts, answers))
        log_odds = torch.as_tensor(answers, dtype=torch.float32, device=input_ids.device)
        return {"logits": torch.stack([torch.zeros_like(log_odds), log_odds], dim=1)}


@contextlib.contextmanager
def repaired() -> Iterator[None]:
    """The published package with its crash mended, and silent.

    The explainer hands ``batch_size`` to the iterative fit, which has no such parameter and raises
    a TypeError every time.
    """
    fit = slalom_explainer.fit_iter_rand

    def without_batch_size(*arguments: Any, batch_size: int, **options: Any) -> Any:
        return fit(*arguments, **options)

    quiet = io.StringIO()
    with (
        mock.patch.object(slalom_explainer, "fit_iter_rand", without_batch_size),
        contextlib.redirect_stdout(quiet),
        contextlib.redirect_stderr(quiet),
    ):
        yield


def published(
    text: Text, method: str, calls: int, seed: int, epochs: int = PUBLISHED_EPOCHS
) -> tuple[Scores, AnsweredRows]:
    """What the published package finds, with its default settings, and the rows it drew.

    Args:
        text: what is explained.
        method: "eff" or "fidel".
        calls: of the model; the package rounds up to a multiple of 16.
        seed: of torch, as the package takes no seed of its own.
        epochs: of gradient descent, for "eff".
    """
    torch.manual_seed(seed)
    model = AsPublished(text)
    sampling = {"eff": "short", "fidel": "deletion"}[method]
    explainer = SLALOMLocalExplanantions(
        model,
        n_samples=calls,
        sgd_epochs=epochs,
        device="cpu",
        modes=["value", "imp"],
        sampling_strategy=sampling,
        fit_sgd=method == "eff",
        pad_token_id=PAD,
    )
    ids = (text.codes + TOKENS_FROM).tolist()
    with repaired():
        values, importances = explainer.get_signed_importance_for_tokens(ids)
    scores = Scores(
        values[text.first_positions].astype(np.float64),
        importances[text.first_positions].astype(np.float64),
        _prediction(explainer.curr_slalom_model),
    )
    drawn = model.asked[1:]  # the first is the whole text, to see what the model answers
    counts = np.concatenate([part.counts for part in drawn])
    log_odds = np.concatenate([part.log_odds for part in drawn])
    return scores, AnsweredRows(counts, log_odds)


def _prediction(fitted: Any) -> Predict:
    """How a fitted model of the published package predicts log odds."""

    def predict(counts: Array) -> Array:
        vectors = torch.as_tensor(counts, dtype=torch.float32)
        with torch.no_grad():
            log_odds = fitted.forward_feature_vects(vectors)[:, 1]
        predicted: Array = log_odds.double().numpy()
        return predicted

    return predict
