"""Yelp reviews: models that learnt them, and every method's explanation of the same reviews.

A cell is one review and one model: every method explains it once, and its scores are held against
the words that all annotators marked and, in the first reviews, against the model's answers. Cells
come review by review, so that a run that is stopped has as many reviews of each model.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from research.base import DataFile, Settings
from research.cells import Cells, Numbers, Work
from research.paper.imdb_methods import (
    EFF,
    FIDEL,
    GRAD,
    GRAD_LOGIT,
    IG,
    IG_LOGIT,
    LIME,
    LIME_CHANCE,
    LRP,
    OURS,
    SHAP,
    SHAP_UNK,
    WAYS,
    Review,
    gives,
)
from research.paper.mamba import FAMILY as MAMBA
from research.paper.mamba import mamba_model
from research.paper.marked_reviews import MARKED, MarkedReview, marked_reviews
from research.paper.review_cases import Request
from research.paper.review_models import (
    ModelSpec,
    ReviewModel,
    ReviewModels,
    available,
    drawn,
    finished,
    left_out,
)
from research.paper.yelp_sizes import FULL, SMALL, Size
from slalom_xai.data.tables.examples import Examples
from slalom_xai.errors import InputError, MissingPackageError, SlalomError
from slalom_xai.metrics import Case, measure, to_units

STUDY = "yelp"
HOURS = 100  # of the full size on two cores: 500 reviews of 3 models, 6 methods with 5,000 calls
REVIEWS = DataFile(
    "yelp_train",
    "Yelp reviews (Asghar 2016), label 1 for more than three stars and 0 for fewer, none of which "
    "is in Yelp-HAT",
)
DATA: tuple[DataFile, ...] = (REVIEWS, MARKED)
STEAK = "The most delicious steak I've ever had!"  # how the review of Fig. 11 begins

PLAIN = (OURS, EFF, LIME, LIME_CHANCE, SHAP, SHAP_UNK, LRP)
CURVES = (*PLAIN, FIDEL, IG, IG_LOGIT, GRAD, GRAD_LOGIT)  # where AOPC is measured, too
LARGE = (OURS, EFF)  # of the large models, for which the paper has no other method
MORE = {OURS: ("removal", "alone", "slope")}  # scores that only these experiments rank words by
MAPS = {EFF: "importance", SHAP: "shapley", LIME: "shapley", LRP: "shapley", OURS: "shapley"}


@dataclass(frozen=True)
class Found:
    """What the study measured.

    Attributes:
        scores: a row per model, review, method and score, with ``auroc``, ``insertion`` and
            ``deletion``, NaN where there is no such number.
        reviews: a row per model and review, with its ``units``.
        accuracies: by model, with the number of reviews.
        remarks: what the models are, which are left out, and which methods a model refused.
    """

    scores: pd.DataFrame
    reviews: pd.DataFrame
    accuracies: Mapping[str, tuple[float, int]] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


class Study:
    """The models, the reviews and the finished cells of the Yelp experiments.

    Args:
        settings: seed, size, data, store and progress.
        experiment: the name of what is run, for messages.
        size: None: the small or the full one, as the settings say.
    """

    def __init__(self, settings: Settings, experiment: str, size: Size | None = None) -> None:
        self._settings, self._experiment = settings, experiment
        self._size = size or (FULL if settings.full else SMALL)
        self._request = Request(self._size.calls, settings.seed)
        identity = {"study": STUDY, "seed": settings.seed, "size": asdict(self._size)}
        self._cells = Cells.open(settings.store, identity)

    @cached_property
    def _models(self) -> _Models:
        settings = self._settings
        learnt = REVIEWS.read(self._experiment, settings.data)
        return _Models(learnt, settings.data, settings.store, settings.seed)

    @cached_property
    def _marked(self) -> list[MarkedReview]:
        return marked_reviews(self._experiment, self._settings.data)

    @cached_property
    def _order(self) -> list[int]:
        """Which of them are explained."""
        return drawn(len(self._marked), self._size.texts, self._settings.seed)

    def _usable(self, specs: tuple[ModelSpec, ...]) -> list[ModelSpec]:
        """The models that can be made, or those that are finished if no more is wanted."""
        if self._settings.finished:
            return finished(specs, self._cells)
        return available(specs, self._settings.data)

    def explanations(self) -> Found:
        """Every method on every review, and the accuracy of every model."""
        size = self._size
        wanted = dict.fromkeys(size.models, size.texts) | dict.fromkeys(
            size.large, size.large_texts
        )
        return self._filled(wanted, accuracies=True)

    def curves(self) -> Found:
        """The same for the reviews in which AOPC is measured."""
        return self._filled(dict.fromkeys(self._size.models, self._size.curves))

    def maps(self) -> Numbers:
        """The review of Fig. 11, explained for the first model."""
        work: dict[str, Work] = {"maps": self._mapped}
        found: Numbers = self._cells.fill(work, self._settings, "explaining the review")["maps"]
        return found

    def _filled(self, wanted: Mapping[ModelSpec, int], *, accuracies: bool = False) -> Found:
        """The cells of the models that can be made.

        Args:
            wanted: the number of reviews of each model.
            accuracies: whether those of the models are wanted, too.

        Raises:
            InputError: no review is finished, and no more is wanted.
        """
        work: dict[str, Work] = {}
        models = self._usable(tuple(wanted))
        if accuracies:
            work = {_accuracy_of(spec): partial(self._accuracy, spec) for spec in models}
        places = {
            f"{spec.key} review-{index}": (spec, index)
            for index in range(max(wanted.values()))
            for spec in models
            if index < self._reached(wanted[spec])
        }
        work |= {name: partial(self._explained, *place) for name, place in places.items()}
        found = self._cells.fill(work, self._settings, "explaining Yelp reviews")
        missing = [spec for spec in wanted if spec not in models]
        remarks = left_out(missing, self._settings.data)
        cells = [(*places[name], numbers) for name, numbers in found.items() if name in places]
        if not cells:
            raise InputError("no review is finished: leave --finished out, or wait for the first")
        reached = {
            spec.name: (found[_accuracy_of(spec)]["accuracy"], found[_accuracy_of(spec)]["texts"])
            for spec in models
            if _accuracy_of(spec) in found
        }
        return replace(_gathered(cells, remarks), accuracies=reached)

    def _reached(self, wanted: int) -> int:
        """So many reviews, or all there are; finished ones are looked up without their table."""
        if self._settings.finished:
            return wanted
        return min(wanted, len(self._order))

    def _accuracy(self, spec: ModelSpec) -> Numbers:
        """How often a model is right, on all marked reviews."""
        texts = tuple(review.text for review in self._marked)
        labels = tuple(review.label for review in self._marked)
        accuracy = self._models.get(spec).accuracy(Examples(texts, None, labels))
        return {"accuracy": accuracy, "texts": len(texts)}

    def _explained(self, spec: ModelSpec, index: int) -> Numbers:
        """All numbers of one review and one model."""
        curves = spec in self._size.models and index < self._size.curves
        ways: tuple[str, ...] = CURVES if curves else PLAIN
        if spec in self._size.large:
            ways = LARGE
        marked = self._marked[self._order[index]]
        review = self._review(spec, marked)
        found: dict[str, Any] = {"scores": {}, "refused": {}, "units": float(review.units)}
        for way in ways:
            try:
                case = _judged(review, way, marked)
            except MissingPackageError:  # installed, and the run goes on from here
                raise
            except SlalomError as error:
                found["refused"][way] = str(error)
                continue
            found["scores"][way] = {
                score: _numbers(replace(case, score=score), curves=curves)
                for score in (*WAYS[way].scores, *MORE.get(way, ()))
                if gives(case.explanation, score)
            }
        return found

    def _mapped(self) -> Numbers:
        """The explanations of the review of Fig. 11 as JSON, with the marks."""
        steak = [review for review in self._marked if review.text.startswith(STEAK)]
        if not steak:
            path = MARKED.find(self._experiment, self._settings.data)
            raise InputError(
                f"{self._experiment} shows the review that begins with {STEAK!r}, "
                f"but {path} has none: give all of Yelp-HAT"
            )
        spec = available(self._size.models, self._settings.data)[0]
        review = self._review(spec, steak[0])
        found: dict[str, Any] = {"model": spec.name, "origin": spec.origin}
        found |= {"explanations": {}, "auroc": {}, "refused": {}}
        for way, score in MAPS.items():
            try:
                case = replace(_judged(review, way, steak[0]), score=score)
            except MissingPackageError:  # installed, and the run goes on from here
                raise
            except SlalomError as error:
                found["refused"][way] = str(error)
                continue
            found["marks"] = np.asarray(case.rationale, dtype=float).tolist()
            found["explanations"][way] = json.dumps(case.explanation.to_dict())
            found["auroc"][way] = _numbers(case, curves=False)["auroc"]
        return found

    def _review(self, spec: ModelSpec, marked: MarkedReview) -> Review:
        model = self._models.get(spec)
        return Review(model, marked.text, marked.label, self._request, rows=1)


class _Models(ReviewModels):
    """The models of reviews, and Mambas among them."""

    def _trained(self, spec: ModelSpec, folder: Path) -> ReviewModel:
        if spec.family != MAMBA:
            return super()._trained(spec, folder)
        learnt, validation = self._drawn(spec)
        return mamba_model(spec, learnt, validation, folder / spec.key, self._seed)


def _judged(review: Review, way: str, marked: MarkedReview) -> Case:
    """A review explained in one way, with the words that all annotators marked."""
    case = review.case(WAYS[way])
    rationale = to_units(case.explanation, marked.marks, marked.words, at_least="all")
    return replace(case, rationale=rationale.marks)


def _numbers(case: Case, *, curves: bool) -> dict[str, float]:
    """AU-ROC and, if wanted, AOPC of one score."""
    found = {"auroc": measure(case, ["human-distinct"])["human-distinct"]["auroc"]}
    found |= {"insertion": math.nan, "deletion": math.nan}
    if curves:
        found |= measure(case, ["aopc"])["aopc"].values
    return found


def _accuracy_of(spec: ModelSpec) -> str:
    """The name of a cell."""
    return f"{spec.key} accuracy"


def _gathered(cells: list[tuple[ModelSpec, int, Numbers]], remarks: tuple[str, ...]) -> Found:
    """Cells as tables."""
    scores, reviews = [], []
    models: dict[str, str] = {}
    refused: dict[tuple[str, str], list[str]] = {}
    for spec, index, numbers in cells:
        models[spec.name] = f"The {spec.name} is {spec.origin}."
        place = {"model": spec.name, "review": index}
        reviews.append(place | {"units": numbers["units"]})
        for method, by_score in numbers["scores"].items():
            for score, values in by_score.items():
                scores.append(place | {"method": method, "score": score} | values)
        for method, reason in numbers["refused"].items():
            refused.setdefault((spec.name, method), []).append(reason)
    told = [
        f"{method} has no numbers for {len(reasons)} reviews of the {name}: {reasons[0]}."
        for (name, method), reasons in refused.items()
    ]
    told = [*models.values(), *remarks, *told]
    return Found(pd.DataFrame(scores), pd.DataFrame(reviews), remarks=tuple(told))
