"""The study behind Tables 1b, 10, 11b and 11c and Fig. 11: explanations of Yelp reviews.

A cell is one review and one model: every method explains it once, and its scores are held against
the words that all annotators marked and, in the first reviews, against the model's answers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from slalom_xai.errors import InputError, SlalomError
from slalom_xai.experiments.base import DataFile
from slalom_xai.experiments.cells import Cells, Numbers, Work
from slalom_xai.experiments.mamba import FAMILY as MAMBA
from slalom_xai.experiments.mamba import mamba_model
from slalom_xai.experiments.marked_reviews import MARKED, MarkedReview, marked_reviews
from slalom_xai.experiments.review_methods import (
    EFF,
    FIDEL,
    GRADIENT_PRINTED,
    IG_PRINTED,
    LIME,
    LIME_PRINTED,
    LRP,
    LRP_PRINTED,
    OURS,
    SHAP,
    SHAP_PRINTED,
    Recipe,
    case_of,
)
from slalom_xai.experiments.review_models import (
    EMBEDDED,
    ModelSpec,
    Request,
    ReviewModel,
    ReviewModels,
    available,
    drawn,
    left_out,
)
from slalom_xai.metrics import Case, measure, to_units
from slalom_xai.theory.base import Settings

STUDY = "yelp"
HOURS = 60.0  # of the full size on two cores
REVIEWS = DataFile(
    "yelp_train",
    "Yelp reviews (Asghar 2016), label 1 for more than three stars and 0 for fewer, none of which "
    "is in Yelp-HAT",
)
DATA = (REVIEWS, MARKED)

PLAIN = (OURS, EFF, LIME, SHAP, LRP, LIME_PRINTED, SHAP_PRINTED, LRP_PRINTED)
CURVES = (*PLAIN, FIDEL, IG_PRINTED, GRADIENT_PRINTED)  # where AOPC is measured, too
LARGE = (OURS, EFF)  # of the models for which the paper has no other method
MAPS = (EFF, SHAP, LIME, LRP, OURS)  # of Fig. 11, and ours
STEAK = "The most delicious steak I've ever had!"  # how the review of Fig. 11 begins

BERT, DISTILBERT, GPT2 = "BERT type", "DistilBERT type", "GPT-2 type"
SMOLLM2, MAMBA_TYPE = "SmolLM2", "Mamba type"
CLASSICAL = (BERT, DISTILBERT, GPT2)


@dataclass(frozen=True)
class Size:
    """How much is computed.

    Attributes:
        models: those of the paper's upper rows; the first is indispensable.
        large: those that stand for BLOOM and Mamba.
        texts: reviews that are explained.
        large_texts: of the large models.
        curves: reviews in which AOPC is measured.
        calls: of each explanation at most.
    """

    models: tuple[ModelSpec, ...]
    large: tuple[ModelSpec, ...]
    texts: int
    large_texts: int
    curves: int
    calls: int


_SCRATCH = ModelSpec(
    GPT2, family="gpt2", width=64, layers=2, vocabulary=4096, epochs=5, rate=1e-3, batch=32,
    limit=256,
)  # fmt: skip
_MAMBA = replace(_SCRATCH, name=MAMBA_TYPE, family=MAMBA, epochs=3)

SMALL = Size(
    models=(ModelSpec(BERT, init=EMBEDDED), _SCRATCH),
    large=(_MAMBA,),
    texts=20,
    large_texts=5,
    curves=20,
    calls=1000,
)
FULL = Size(
    models=(
        ModelSpec(BERT, init="minilm", layers=6),
        ModelSpec(DISTILBERT, init="mpnet", layers=6),
        replace(_SCRATCH, layers=6, width=256, vocabulary=8192, epochs=10, rate=5e-4, limit=510),
    ),
    large=(
        ModelSpec(SMOLLM2, init="smollm2", layers=None, epochs=2, rate=2e-5, batch=16),
        replace(_MAMBA, layers=6, width=256, vocabulary=8192, epochs=8, batch=64),
    ),
    texts=500,
    large_texts=50,
    curves=100,
    calls=5000,
)


@dataclass(frozen=True)
class Found:
    """What the study measured.

    Attributes:
        scores: a row per model, review, method and score, with ``auroc``, ``insertion`` and
            ``deletion``, NaN where there is no such number.
        reviews: a row per model and review: whether the model was ``right``, and its ``units``.
        origins: what each model is, by its name.
        remarks: which models are left out, and which methods a model refused.
    """

    scores: pd.DataFrame
    reviews: pd.DataFrame
    origins: Mapping[str, str]
    remarks: tuple[str, ...]


def size_of(settings: Settings) -> Size:
    """How much settings ask for."""
    return FULL if settings.full else SMALL


def study(settings: Settings, experiment: str, size: Size | None = None) -> Found:
    """Explains and measures every review that is not finished yet, model by model.

    Args:
        settings: seed, data and folder.
        experiment: that needs it: "table-11" is content with the reviews that have curves.
        size: None: by the settings.
    """
    bench = _Bench(settings, experiment, size or size_of(settings))
    specs = bench.specs(curves_only=experiment == "table-11")
    work: dict[str, Work] = {}
    for spec, texts in specs.items():
        for index in range(texts):
            work[f"{spec.key}/review-{index}"] = partial(bench.measured, spec, index)
    found = bench.cells.fill(work, settings, "explaining reviews")
    cells = []
    for spec, texts in specs.items():
        for index in range(texts):
            numbers = found.get(f"{spec.key}/review-{index}")
            if numbers is not None:
                cells.append((spec, index, numbers))
    return bench.gathered(cells)


def steak_maps(settings: Settings, experiment: str, size: Size | None = None) -> Numbers:
    """The review of Fig. 11 explained by each method, in one cell of the same folder."""
    bench = _Bench(settings, experiment, size or size_of(settings))
    work: dict[str, Work] = {"figure": bench.maps}
    found: Numbers = bench.cells.fill(work, settings, "explaining the review")["figure"]
    return found


class _Bench:
    """The models and the reviews of the study."""

    def __init__(self, settings: Settings, experiment: str, size: Size) -> None:
        self._size, self._data, self._seed = size, settings.data, settings.seed
        self._experiment = experiment
        self._models = _Models(
            REVIEWS.read(experiment, settings.data), settings.data, settings.store, settings.seed
        )
        self._marked = marked_reviews(experiment, settings.data)
        self._order = drawn(len(self._marked), size.texts, settings.seed)
        self._request = Request(size.calls, settings.seed)
        identity = {"study": STUDY, "seed": settings.seed, "size": asdict(size)}
        self.cells = Cells.open(settings.store, identity)

    def specs(self, *, curves_only: bool) -> dict[ModelSpec, int]:
        """The models that can be made, each with the number of its reviews."""
        size = self._size
        most = min(size.texts, len(self._order))
        wanted = dict.fromkeys(size.models, min(most, size.curves if curves_only else most))
        if not curves_only:
            wanted |= dict.fromkeys(size.large, min(most, size.large_texts))
        return {spec: wanted[spec] for spec in available(tuple(wanted), self._data)}

    def measured(self, spec: ModelSpec, index: int) -> Numbers:
        """All numbers of one review and one model."""
        recipes: tuple[Recipe, ...] = PLAIN
        curves = spec in self._size.models and index < self._size.curves
        if curves:
            recipes = CURVES
        if spec in self._size.large:
            recipes = LARGE
        review = self._marked[self._order[index]]
        model = self._models.get(spec)
        found: dict[str, Any] = {"scores": {}, "refused": {}}
        for recipe in recipes:
            try:
                case = _judged(recipe, model, review, self._request)
            except SlalomError as error:
                found["refused"][recipe.name] = str(error)
                continue
            found |= _about(case)
            found["scores"][recipe.name] = {
                score: _numbers(replace(case, score=score), curves) for score in recipe.scores
            }
        return found

    def maps(self) -> Numbers:
        """The scores of each method in the review of Fig. 11, with the marks."""
        steak = [review for review in self._marked if review.text.startswith(STEAK)]
        if not steak:
            raise InputError(
                f"{self._experiment} shows the review that begins with {STEAK!r}, but "
                f"{MARKED.find(self._experiment, self._data)} has none: give all of Yelp-HAT"
            )
        spec = available(self._size.models, self._data)[0]
        model = self._models.get(spec)
        found: dict[str, Any] = {"text": steak[0].text, "model": spec.name, "origin": spec.origin}
        found |= {"scores": {}, "auroc": {}, "refused": {}}
        for recipe in MAPS:
            try:
                case = _judged(recipe, model, steak[0], self._request)
            except SlalomError as error:
                found["refused"][recipe.name] = str(error)
                continue
            case = replace(case, score=map_score(recipe))
            units = case.explanation.units
            found["spans"] = [[unit.start, unit.end] for unit in units]
            found["marks"] = np.asarray(case.rationale, dtype=float).tolist()
            found["scores"][recipe.name] = case.scores().tolist()
            found["auroc"][recipe.name] = _numbers(case, curves=False)["auroc"]
        return found

    def gathered(self, cells: list[tuple[ModelSpec, int, Numbers]]) -> Found:
        """The cells as tables."""
        scores, reviews, refused = [], [], {}
        for spec, index, numbers in cells:
            place = {"model": spec.name, "review": index}
            known = {name: numbers.get(name, math.nan) for name in ("right", "units")}
            reviews.append(place | known)
            for method, by_score in numbers["scores"].items():
                for score, values in by_score.items():
                    scores.append(place | {"method": method, "score": score} | values)
            for method, reason in numbers["refused"].items():
                refused[spec.name, method] = reason
        everything = (*self._size.models, *self._size.large)
        remarks = [
            f"{method} did not explain every review of the {name}: {reason}"
            for (name, method), reason in refused.items()
        ]
        return Found(
            pd.DataFrame(scores),
            pd.DataFrame(reviews),
            {spec.name: spec.origin for spec in everything},
            (*left_out(everything, self._data), *remarks),
        )


class _Models(ReviewModels):
    """The models of reviews, and Mambas among them."""

    def _trained(self, spec: ModelSpec, folder: Path) -> ReviewModel:
        if spec.family != MAMBA:
            return super()._trained(spec, folder)
        learnt, validation = self._drawn(spec)
        return mamba_model(spec, learnt, validation, folder / spec.key, self._seed)


def map_score(recipe: Recipe) -> str:
    """The score that Fig. 11 shows: importances of SLALOM-eff; of others, the first."""
    if recipe == EFF:
        return "importance"
    return recipe.scores[0]


def _judged(recipe: Recipe, model: ReviewModel, review: MarkedReview, request: Request) -> Case:
    """A review explained by a method, with what it is judged by."""
    case = replace(case_of(recipe, model, review.text, request), label=review.label)
    rationale = to_units(case.explanation, review.marks, review.words, at_least="all")
    return replace(case, rationale=rationale.marks)


def _about(case: Case) -> dict[str, float]:
    """What is known of the review beside the scores: its length, and whether the model is right."""
    assert case.ask is not None
    answer = case.ask(np.ones((1, case.units), dtype=bool))[0] > 0
    return {
        "units": float(case.units),
        "right": float(answer == (case.label == case.explanation.target)),
    }


def _numbers(case: Case, curves: bool) -> dict[str, float]:
    """AU-ROC and, if wanted, AOPC of one score."""
    found = {"auroc": measure(case, ["human-distinct"])["human-distinct"]["auroc"]}
    if curves:
        found |= measure(case, ["aopc"])["aopc"].values
    return found
