"""Explains one text by both sides and measures the explanations on the same fresh rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr

from research.benchmarks.published.package import PUBLISHED_BATCH, Scores, published
from research.benchmarks.published.texts import LOCAL, SHORT_ROW, AnsweredRows, Array, Text
from slalom_xai import Explainer, Explanation
from slalom_xai.methods import SlalomEff, SlalomFidel
from slalom_xai.methods.paper.fit import fit_slalom
from slalom_xai.models import TextModel
from slalom_xai.models.reading import AnyReading


@dataclass(frozen=True)
class TextComparison:
    """One text. Errors are mean squares; ranks are Spearman's correlations with the published.

    Attributes:
        text: its number.
        tokens: how many it has.
        distinct: how many distinct ones.
        values_rank: of our values.
        importances_rank: of our importances.
        values_rank_reseeded: of the published values with another seed.
        importances_rank_reseeded: the same of importances.
        values_rank_trained: of the published values after a long training, with our solver.
        importances_rank_trained: the same of importances.
        eff_short: our error on rows of three tokens.
        eff_short_published: the published one.
        eff_deletions: our error on deletions.
        eff_deletions_published: the published one.
        fidel: our error on deletions.
        fidel_published: the published one.
        fidel_ratio: the first over the second.
    """

    text: int
    tokens: int
    distinct: int
    values_rank: float
    importances_rank: float
    values_rank_reseeded: float
    importances_rank_reseeded: float
    values_rank_trained: float
    importances_rank_trained: float
    eff_short: float
    eff_short_published: float
    eff_deletions: float
    eff_deletions_published: float
    fidel: float
    fidel_published: float
    fidel_ratio: float


def ours(text: Text, explanation: Explanation) -> Scores:
    """One of our explanations, over distinct tokens."""
    assert explanation.importances is not None

    def predict(counts: Array) -> Array:
        keep = np.zeros((len(counts), len(text.codes)))
        # Equal tokens have equal scores, so one position may stand for all.
        keep[:, text.first_positions] = counts
        return explanation.predict(keep)

    first = text.first_positions
    return Scores(explanation.values[first], explanation.importances[first], predict)


def error(scores: Scores, rows: AnsweredRows) -> float:
    """Mean squared error of the predicted log odds."""
    return float(np.mean((scores.predict(rows.counts) - rows.log_odds) ** 2))


def error_of_change(scores: Scores, rows: AnsweredRows) -> float:
    """Mean squared error of the predicted change against the first row, which is the whole text."""
    predicted = scores.predict(rows.counts)
    changes = (predicted - predicted[0]) - (rows.log_odds - rows.log_odds[0])
    return float(np.mean(changes[1:] ** 2))


def rank_correlations(first: Scores, second: Scores) -> tuple[float, float]:
    """Spearman's, of values and of importances."""
    values = spearmanr(first.values, second.values).statistic
    importances = spearmanr(first.importances, second.importances).statistic
    return float(values), float(importances)


def trained(text: Text, calls: int, seed: int, steps: int) -> tuple[float, float]:
    """Rank correlations of the published code, trained for long, with our solver on its rows."""
    if not steps:
        return float("nan"), float("nan")
    # The package keeps every third epoch, so their number is a multiple of three.
    third = math.ceil(steps / 3 / math.ceil(calls / PUBLISHED_BATCH))
    scores, rows = published(text, "eff", calls, seed, epochs=3 * third)
    counts = torch.as_tensor(rows.counts)
    log_odds = torch.as_tensor(rows.log_odds)[:, None]
    fit = fit_slalom(counts, log_odds, sink=False, prior=1e-6).surrogate
    solved = Scores(fit.values[0, :, 0].numpy(), fit.importances[0].numpy(), scores.predict)
    return rank_correlations(scores, solved)


def compare(
    model: TextModel, number: int, reading: AnyReading, calls: int, seed: int, rows: int, steps: int
) -> TextComparison:
    """Explains one text by both sides and measures.

    Args:
        model: with two classes.
        number: of the text.
        reading: the text.
        calls: of the model, for each side and method.
        seed: of all draws.
        rows: fresh rows of either kind.
        steps: of the long training of the published code; 0 leaves it out.
    """
    text = Text(model, reading)
    rng = np.random.default_rng([seed, number])
    short = text.short(rows, rng)
    deletions = text.answered(text.deletion_masks(rows, rng, LOCAL))
    options: dict[str, Any] = {"budget": calls, "random_state": seed, "show_progress": False}
    eff = ours(text, Explainer(model, method=SlalomEff(length=SHORT_ROW), **options)(reading.text))
    fidel = ours(text, Explainer(model, method=SlalomFidel(), **options)(reading.text))
    eff_published, _ = published(text, "eff", calls, seed)
    fidel_published, _ = published(text, "fidel", calls, seed)
    reseeded, _ = published(text, "eff", calls, seed + 1)
    fidel_error = error_of_change(fidel, deletions)
    fidel_published_error = error_of_change(fidel_published, deletions)
    return TextComparison(
        number,
        len(text.codes),
        len(text.first_positions),
        *rank_correlations(eff, eff_published),
        *rank_correlations(reseeded, eff_published),
        *trained(text, calls, seed, steps),
        error(eff, short),
        error(eff_published, short),
        error_of_change(eff, deletions),
        error_of_change(eff_published, deletions),
        fidel_error,
        fidel_published_error,
        fidel_error / fidel_published_error,
    )
