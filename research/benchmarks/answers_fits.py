"""Other methods that say which sources an answer comes from, fitted to rows that were asked.

Each takes the rows of a prompt and a number of calls, and gives scores for the sources and a
prediction of the logit for any row. None means that it cannot do with so few calls.

    contextcite  LASSO on standardised masks with penalty 0.01, the response divided by the number
                 of tokens (Cohen-Wang and others 2024); all calls keep half of the sources
    ridge        the same rows, with a penalty chosen by cross-validation
    kernel-shap  Shapley values by regression, on rows drawn by its weights; of those with fewer
                 calls than sources, the smallest ones that fit
    leave-one-out  what is lost without each source; needs a call for each of them and one more
    gp           a Gaussian process on the rows of the first two and the whole text
    two-scores   the formula of ``slalom``: three quarters of its rows keep half of the sources, the
                 others any number
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from research.benchmarks.answers_rows import Array, Masks, Rows
from slalom_xai.methods.gaussian_process import fit_process
from slalom_xai.slalom.fit import FitRequest, fit_forms
from slalom_xai.slalom.rows import DESIGN
from slalom_xai.slalom.shapley import compute_shapley, fit_rest

ALPHA = 0.01  # of the published LASSO
PENALTIES = np.logspace(-2, 4, 25)


@dataclass(frozen=True)
class Fitted:
    """What a method found.

    Attributes:
        scores: (units,), larger for sources that made the answer likelier.
        predict: masks (m, units) to logits (m,).
    """

    scores: Array
    predict: Callable[[Masks], Array]


def _linear(scores: Array, bias: float) -> Fitted:
    return Fitted(scores, lambda masks: np.asarray(masks @ scores + bias))


def contextcite(rows: Rows, calls: int) -> Fitted | None:
    """The published LASSO."""
    from sklearn.linear_model import Lasso

    masks, logits = rows.of("half", calls)
    tokens = rows.tokens.shape[1]
    mean, scale = masks.mean(axis=0), masks.std(axis=0)
    scale = np.where(scale == 0, 1.0, scale)  # as scikit-learn's StandardScaler does
    lasso = Lasso(alpha=ALPHA).fit((masks - mean) / scale, logits / tokens)
    scores = np.asarray(lasso.coef_) / scale
    bias = float(lasso.intercept_) - float(mean @ scores)
    return _linear(scores * tokens, bias * tokens)


def ridge(rows: Rows, calls: int) -> Fitted | None:
    """A ridge regression, whose penalty leaves out one row at a time."""
    from sklearn.linear_model import RidgeCV

    masks, logits = rows.of("half", calls)
    fitted = RidgeCV(alphas=PENALTIES).fit(masks.astype(float), logits)
    return _linear(np.asarray(fitted.coef_), float(fitted.intercept_))


def kernel_shap(rows: Rows, calls: int) -> Fitted | None:
    """Shapley values: rows are drawn by their weights, so that all count alike.

    The scores sum to what all sources do together, of which each first gets an equal part.
    """
    masks, logits = rows.of("shap", calls - 2)
    change, units = rows.whole - rows.empty, masks.shape[1]
    even = np.full(units, change / units)
    centred = masks - masks.mean(axis=1, keepdims=True)  # directions that keep the sum
    left = logits - rows.empty - masks @ even
    rest = np.linalg.lstsq(centred, left, rcond=None)[0]
    return _linear(even + rest - rest.mean(), rows.empty)


def leave_one_out(rows: Rows, calls: int) -> Fitted | None:
    """What is lost without each source."""
    masks, logits = rows.of("without")
    if len(masks) + 1 > calls:
        return None
    lost = rows.whole - logits
    return _linear(lost, rows.whole - float(lost.sum()))


def gaussian_process(rows: Rows, calls: int) -> Fitted | None:
    """The package's Gaussian process; a score is what it predicts to be lost without a source."""
    masks, logits = rows.of("half", calls - 1)
    full = torch.tensor([rows.whole], dtype=torch.float64)
    table, outputs = torch.as_tensor(masks).double(), torch.as_tensor(logits)[:, None]
    process = fit_process(table, outputs, full, torch.Generator().manual_seed(0))

    def predict(asked: Masks) -> Array:
        return np.asarray(process.predict(torch.as_tensor(asked).double())[:, 0].numpy())

    return Fitted(rows.whole - predict(~np.eye(masks.shape[1], dtype=bool)), predict)


def two_scores(rows: Rows, calls: int) -> Fitted | None:
    """The formula of ``slalom``, fitted to the kinds of calls that it draws with so few."""
    few = round(DESIGN.halved_share * (calls - 1))
    parts = [rows.of("whole"), rows.of("half", few), rows.of("size", calls - 1 - few)]
    table = torch.as_tensor(np.concatenate([masks for masks, _ in parts])).double()
    outputs = torch.as_tensor(np.concatenate([logits for _, logits in parts])).double()[:, None]
    ends = outputs.amin(dim=0), outputs.amax(dim=0)
    even = torch.zeros(table.shape[1], dtype=torch.float64)
    [fitted] = fit_forms([FitRequest(table, outputs, even, *ends)])
    left = outputs - fitted.form.predict(table)
    shares = compute_shapley(fitted.form.split()).T + fit_rest(table, left)

    def predict(asked: Masks) -> Array:
        return np.asarray(fitted.form.predict(torch.as_tensor(asked).double())[:, 0].numpy())

    return Fitted(shares[:, 0].numpy(), predict)


FITS: dict[str, Callable[[Rows, int], Fitted | None]] = {
    "contextcite": contextcite,
    "ridge": ridge,
    "kernel-shap": kernel_shap,
    "leave-one-out": leave_one_out,
    "gp": gaussian_process,
    "two-scores": two_scores,
}
