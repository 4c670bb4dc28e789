"""The linear language (Table 3): models that learn it, and what is measured in each of them.

A text is 1 to 30 words drawn from ten. Its log odds are the sum of its words' weights, and its
class is drawn with them. Transformers and fully connected nets learn the classes; a cell is one
trained model with everything that Fig. 3, Fig. 7 and Table 6 need of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial

import numpy as np
import pandas as pd
import torch

from research.base import Settings
from research.cells import Cells, Numbers
from research.paper.language_fits import surrogate_predictions
from research.paper.language_models import NET, WORD, Learner, Pupil, Size
from research.theory.paper.synthetic import WORDS, linear_log_odds, sample_rows
from slalom_xai.models.load import choose_device

STUDY = "linear-language"
HOURS = 50  # of the full size on two cores: some 10^16 operations
STYLES = ("-", "--", ":", "-.")  # of curves, five colours each
WEIGHT = 1.5  # of the repeated word, in the language
MODEL = "model"  # the model's own log odds, beside its surrogates'
SCATTERED = 100  # fresh rows that are kept for a scatter plot
LEAST_VARIANCE = 1e-8  # of the log odds on fresh texts; a model with less has learnt nothing
FAMILIES = {"bert": "BERT", "distilbert": "DistilBERT", "gpt2": "GPT-2"}


SMALL = Size()
FULL = Size(width=768, layers=(1, 2, 4, 6, 8, 12), rate=5e-5, runs=5, net_width=64)


def pupils(size: Size) -> list[Pupil]:
    """Every model of the study."""
    kinds = [(family, depth, size.epochs) for family in FAMILIES for depth in size.layers]
    kinds += [("bert", 2, epochs) for epochs in size.longer if 2 in size.layers]
    kinds += [(NET, hidden, size.net_epochs) for hidden in size.hidden]
    return [Pupil(*kind, run) for run in range(size.runs) for kind in kinds]


def study(settings: Settings, size: Size | None = None) -> pd.DataFrame:
    """Trains every model that is not finished yet, and measures it.

    Args:
        settings: seed, size, store and progress.
        size: None: the small or the full one, as the settings say.

    Returns:
        One row per model: the fields of ``Pupil`` and the numbers of ``measured``.
    """
    if size is None:
        size = FULL if settings.full else SMALL
    identity = {"study": STUDY, "seed": settings.seed, "size": asdict(size)}
    cells = Cells.open(settings.store, identity)
    named = {str(pupil): pupil for pupil in pupils(size)}
    work = {name: partial(measured, pupil, size, settings.seed) for name, pupil in named.items()}
    found = cells.fill(work, settings, "training on the linear language")
    return pd.DataFrame([asdict(named[name]) | numbers for name, numbers in found.items()])


def measured(pupil: Pupil, size: Size, seed: int) -> Numbers:
    """Trains one model and measures it.

    Returns:
        accuracy: on fresh texts.
        repeats: log odds of 1 to 20 times ``WORD``.
        shap: Kernel SHAP's value of each copy of ``WORD``, mean over the copies, of 1 to 10.
        truth: mean squared distance to the language's own log odds on fresh rows.
        variance: of the model's log odds there.
        and of transformers the mean squared error of each surrogate on fresh rows, by its name,
        and its predictions: "copies" for the rows of repeats, "scatter" for some fresh rows, with
        the model's own log odds as ``MODEL``.
    """
    seeds = np.random.SeedSequence([seed, pupil.run]).generate_state(4).tolist()
    device = choose_device(None)
    gpus = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=gpus):
        torch.manual_seed(seeds[0])
        learner = Learner(pupil, size, device)
        accuracy = learner.learn(seeds[1])
    fresh = sample_rows(size.tested, seeds[2])
    log_odds = learner.log_odds(fresh)
    repeats = [[WORDS.index(WORD)] * copies for copies in range(1, 21)]
    numbers: Numbers = {
        "accuracy": accuracy,
        "repeats": learner.log_odds(repeats).tolist(),
        "shap": [learner.shap(copies, seed) for copies in range(1, 11)],
        "truth": float((log_odds - linear_log_odds(fresh)).square().mean()),
        "variance": float(log_odds.var()),
    }
    if pupil.kind != NET:
        seen = sample_rows(size.fitted, seeds[3])
        asked = [*fresh, *repeats]
        found = surrogate_predictions(seen, learner.log_odds(seen), asked)
        sizes = [len(fresh), len(repeats)]
        parts = {name: torch.split(each, sizes) for name, each in found.items()}
        numbers |= {
            name: float((part - log_odds).square().mean()) for name, (part, _) in parts.items()
        }
        numbers["copies"] = {name: copies.tolist() for name, (_, copies) in parts.items()}
        shown = {MODEL: log_odds} | {name: part for name, (part, _) in parts.items()}
        numbers["scatter"] = {name: part[:SCATTERED].tolist() for name, part in shown.items()}
    return numbers


def regular(models: pd.DataFrame) -> pd.DataFrame:
    """The models of a study that learnt something, and as long as the paper's."""
    kept: pd.DataFrame = _usual(models)
    return kept[kept["variance"] > LEAST_VARIANCE]


def unlearnt(models: pd.DataFrame) -> tuple[str, ...]:
    """A sentence for each sort of model of which some learnt nothing, for the remarks."""
    told = []
    for (kind, depth), group in _usual(models).groupby(["kind", "depth"], sort=False):
        failed = int((group["variance"] <= LEAST_VARIANCE).sum())
        if failed:
            name = _name(str(kind), int(str(depth)))
            told.append(
                f"{name}: {failed} of {len(group)} models learnt nothing, as they answer all "
                "texts alike. They are left out."
            )
    return tuple(told)


def _usual(models: pd.DataFrame) -> pd.DataFrame:
    """The models that learnt as long as the paper's."""
    transformers = models[models["kind"] != NET]
    if "gpt2" in set(transformers["kind"]):
        transformers = transformers[transformers["kind"] == "gpt2"]
    usual = transformers["epochs"].max()
    kept: pd.DataFrame = models[(models["kind"] == NET) | (models["epochs"] == usual)]
    return kept


def kinds_of(models: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """The regular models of a study: the name and the kind of each sort, and its runs."""
    for (kind, depth), group in regular(models).groupby(["kind", "depth"], sort=False):
        yield _name(str(kind), int(str(depth))), str(kind), group


def _name(kind: str, depth: int) -> str:
    """A sort of model for tables: "BERT, 2 layers", "net, 200 ReLUs"."""
    if kind == NET:
        return f"net, {depth} ReLUs"
    if depth == 1:
        return f"{FAMILIES[kind]}, 1 layer"
    return f"{FAMILIES[kind]}, {depth} layers"


def standard_error(numbers: Sequence[float]) -> float:
    """Of the mean of independent runs; NaN for a single one."""
    if len(numbers) < 2:
        return math.nan
    return float(np.std(numbers, ddof=1) / math.sqrt(len(numbers)))
