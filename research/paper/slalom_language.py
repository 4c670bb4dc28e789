"""A language whose log odds are a SLALOM (Sec. 6.2), and what surrogates find again in its models.

Each word has a value v, twice its Naive-Bayes weight in IMDB, and an importance
s = 5 |v|^1.5 + N(0, 1) / 2. The log odds of a text are the average of its words' values, weighted
by exp(s). A cell is a trained model with the SLALOMs that are fitted to its answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache, partial

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from research.base import DataFile, Settings
from research.cells import Cells, Numbers
from research.paper.language import FAMILIES
from research.paper.language_models import Language, Learner, Pupil, Size
from research.theory.paper.synthetic import LONGEST
from research.theory.paper.transformer import random_rows, row_counts
from slalom_xai.data.tables.examples import Examples
from slalom_xai.data.training.data import ordered_classes
from slalom_xai.methods.naive_bayes import NaiveBayes
from slalom_xai.methods.paper.fit import fit_slalom
from slalom_xai.methods.paper.formula import SlalomSurrogate
from slalom_xai.metrics.statistics import spearman
from slalom_xai.models.load import choose_device
from slalom_xai.models.outputs import Outputs

STUDY = "slalom-language"
SWEPT = 2  # layers of the model that also learns smaller vocabularies, as in Fig. 4c-d
SMOOTHING = 40.0  # of the Naive-Bayes weights, as in the paper
MATTERS = 0.5  # values of at least this size are asked for their importance's rank
_COMMON = 2000  # words are drawn from so many of the commonest
_CORPUS = 5000  # reviews that weights are taken from
_SHORT = 8  # words of the rows that surrogates are fitted to and tested on
_PRIOR = 1e-5  # of the SLALOMs: small, as thousands of rows settle few numbers


@dataclass(frozen=True)
class SlalomSize:
    """How much is computed.

    Attributes:
        words: of the language.
        models: the transformers, their training and the rows that surrogates see.
        fewer: smaller vocabularies, the first words of the language, for the DistilBERT type of
            ``SWEPT`` layers.
    """

    words: int
    models: Size
    fewer: tuple[int, ...] = ()


SMALL = SlalomSize(
    32,
    Size(layers=(2,), rate=5e-4, runs=1, texts=120_000, epochs=1, batch=64, tested=200),
    fewer=(16,),
)
# The paper trains on 20 times 20,000 texts. All are fresh here: texts that are read again are
# learnt by heart, with their drawn classes. Its batches of 20 would take three times as many steps.
FULL = SlalomSize(
    200,
    Size(width=768, layers=(1, 2, 6, 12), rate=1e-4, texts=400_000, epochs=1, batch=64, tested=200),
    fewer=(16, 32, 64, 128),
)


def planted(reviews: Examples, words: int, seed: int) -> tuple[tuple[str, ...], SlalomSurrogate]:
    """Words of the reviews with values and importances.

    Args:
        reviews: of two classes.
        words: how many, drawn from the commonest.
        seed: of the draws.
    """
    rng = np.random.default_rng(seed)
    some = reviews.chosen(sorted(rng.permutation(len(reviews))[:_CORPUS].tolist()))
    classes = ordered_classes(some, None, "the reviews")
    corpus = NaiveBayes(some.texts, classes.indices(some), SMOOTHING)
    counts = corpus.by_class(Outputs("binary", classes.names))
    common = [word for word, _ in sum(counts, start=Counter[str]()).most_common(_COMMON)]
    chosen = [common[index] for index in rng.permutation(len(common))[:words]]
    values = 2 * torch.from_numpy(corpus.weights(counts, chosen)[:, 0])
    noise = torch.from_numpy(rng.normal(size=len(chosen)))
    importances = 5 * values.abs() ** 1.5 + noise / 2
    truth = SlalomSurrogate(values[None, :, None], importances[None]).normalise()
    return tuple(chosen), truth


def first_words(
    words: tuple[str, ...], truth: SlalomSurrogate, count: int
) -> tuple[tuple[str, ...], SlalomSurrogate]:
    """The first words of a language, with their values, and importances up to a shift."""
    kept = SlalomSurrogate(truth.values[:, :count], truth.importances[:, :count]).normalise()
    return words[:count], kept


def study(
    settings: Settings, reviews: DataFile, name: str, size: SlalomSize | None = None
) -> pd.DataFrame:
    """Trains every model that is not finished yet, and fits SLALOMs to it.

    Args:
        settings: seed, size, data, store and progress.
        reviews: the table that the words come from.
        name: of the experiment, for messages.
        size: None: the small or the full one, as the settings say.

    Returns:
        One row per model: the fields of ``Pupil``, words, the variance of its log odds, and the
        numbers of ``measured``.
    """
    if size is None:
        size = FULL if settings.full else SMALL
    examples = cache(partial(reviews.read, name, settings.data))  # read when first needed
    identity = {"study": STUDY, "seed": settings.seed, "size": asdict(size)}
    cells = Cells.open(settings.store, identity)
    pupils: list[tuple[Pupil, int]] = []
    for run in range(size.models.runs):  # a run that is stopped has the first of everything
        pupils += [
            (Pupil(family, layers, size.models.epochs, run), size.words)
            for layers in size.models.layers
            for family in FAMILIES
        ]
        pupils += [
            (Pupil("distilbert", SWEPT, size.models.epochs, run), words) for words in size.fewer
        ]
    named = {f"{pupil}-words-{words}": (pupil, words) for pupil, words in pupils}
    work = {
        name: partial(measured, pupil, size, examples, settings.seed, words)
        for name, (pupil, words) in named.items()
    }
    rows = []
    for name, numbers in cells.fill(work, settings, "training on a SLALOM's language").items():
        pupil, words = named[name]
        variance = numbers["sd"] ** 2
        rows.append(asdict(pupil) | {"words": words, "variance": variance} | numbers)
    return pd.DataFrame(rows)


def main_models(models: pd.DataFrame) -> pd.DataFrame:
    """The models of a study that learnt the whole vocabulary."""
    kept: pd.DataFrame = models[models["words"] == models["words"].max()]
    return kept


def measured(
    pupil: Pupil,
    size: SlalomSize,
    reviews: Callable[[], Examples],
    seed: int,
    fewer: int | None = None,
) -> Numbers:
    """Trains one model and fits SLALOMs, without a sink and with one, to its answers.

    Args:
        pupil: the model.
        size: of the study.
        reviews: where the words come from.
        seed: of everything.
        fewer: words of the language, the first of all; None: all.

    Returns:
        accuracy, sd (of the log odds on the rows tested) and, for "plain" and "sink", the numbers
        of ``_recovered``. Of the plain one also what is drawn: "true" and "fitted" values and
        importances, and on the rows tested "log odds" of the language, the model and the SLALOM.
    """
    seeds = np.random.SeedSequence([seed, pupil.run]).generate_state(5).tolist()
    words, truth = first_words(*planted(reviews(), size.words, seeds[0]), fewer or size.words)
    language = Language(
        words,
        lambda count, draw: random_rows(count, len(words), LONGEST, draw),
        lambda rows: truth.predict(row_counts(rows, len(words)))[:, 0],
        framed=True,
    )
    device = choose_device(None)
    gpus = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=gpus):
        torch.manual_seed(seeds[1])
        learner = Learner(pupil, size.models, device, language)
        accuracy = learner.learn(seeds[2])
    seen = random_rows(size.models.fitted, len(words), _SHORT, seeds[3])
    fresh = random_rows(size.models.tested, len(words), _SHORT, seeds[4])
    answers, right = learner.log_odds(seen)[:, None], learner.log_odds(fresh)
    numbers: Numbers = {"accuracy": accuracy, "sd": float(right.std())}
    for name, sink in (("plain", False), ("sink", True)):
        fitted = fit_slalom(row_counts(seen, len(words)), answers, sink=sink, prior=_PRIOR)
        surrogate = fitted.surrogate.normalise()
        differences = surrogate.predict(row_counts(fresh, len(words)))[:, 0] - right
        for number, value in _recovered(surrogate, truth, differences).items():
            numbers[f"{name} {number}"] = value
        if not sink:
            numbers["true"], numbers["fitted"] = _listed(truth), _listed(surrogate)
            numbers["log odds"] = {
                "language": language.log_odds(fresh).tolist(),
                "model": right.tolist(),
                "SLALOM": (differences + right).tolist(),
            }
    return numbers


def _listed(slalom: SlalomSurrogate) -> dict[str, list[float]]:
    """Values and importances as lists."""
    return {
        "values": slalom.values[0, :, 0].tolist(),
        "importances": slalom.importances[0].tolist(),
    }


def _recovered(
    surrogate: SlalomSurrogate, truth: SlalomSurrogate, differences: Tensor
) -> dict[str, float]:
    """How near a surrogate is to its model, and to the SLALOM that the model learnt.

    Returns:
        rmse: the root of the mean squared difference of log odds.
        mean difference: the size of their mean difference, which the authors' notebook prints.
        value mse, importance mse: of the values and of the importances, which sum to 0.
        rank: Spearman's correlation of the importances of values of at least ``MATTERS``.
    """
    values, importances = surrogate.values[0, :, 0], surrogate.importances[0]
    true_values, true_importances = truth.values[0, :, 0], truth.importances[0]
    large = true_values.abs() > MATTERS
    return {
        "rmse": float(differences.square().mean().sqrt()),
        "mean difference": float(differences.mean().abs()),
        "value mse": float((values - true_values).square().mean()),
        "importance mse": float((importances - true_importances).square().mean()),
        "rank": spearman(importances[large].numpy(), true_importances[large].numpy()),
    }
