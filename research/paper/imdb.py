"""IMDB reviews: models that learnt them, and every method's explanation of the same reviews.

A cell is one review and one model with everything that Tables 1a, 1c, 9 and 11a and Fig. 6 need of
all methods. Further cells hold the accuracies of Table 4, the printed review of Fig. 5 and 12, and
the numbers of calls of Table 14. Cells come model by model, so that a run that is stopped has the
first models whole; a model whose pretrained folder is not in --data is left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from typing import Any

import pandas as pd

from research.base import DataFile, Settings
from research.cells import Cells, Numbers, Work
from research.paper.imdb_methods import (
    EFF,
    FIDEL_ALTERNATING,
    OURS,
    SHAP,
    SHAP_UNK,
    WAYS,
    Review,
)
from research.paper.imdb_sizes import FULL, REVIEW, SMALL, Size
from research.paper.review_models import (
    EMBEDDED,
    LABELS,
    REVIEWS,
    TEST_REVIEWS,
    ModelSpec,
    Request,
    ReviewModel,
    ReviewModels,
    available,
    drawn,
    finished,
    is_missing,
    label_of,
    left_out,
)
from research.paper.slalom_language import SMOOTHING
from slalom_xai.data.tables.examples import Examples
from slalom_xai.errors import InputError
from slalom_xai.methods import NaiveBayes
from slalom_xai.metrics import measure
from slalom_xai.models.outputs import Outputs
from slalom_xai.models.text import words

STUDY = "imdb"
DATA: tuple[DataFile, ...] = (REVIEWS, TEST_REVIEWS)
HOURS = 40  # of the full size on two cores: 100 reviews of 3 models, 8 methods with 5,000 calls
_LATER = "alternating "  # begins the names of cells that are read together with a review's
AUTO_SAMPLES = 2048  # shap's nsamples="auto" beside two for each unit


@dataclass(frozen=True)
class Found:
    """What cells hold, by model.

    Attributes:
        models: those that were measured, or are to be.
        rows: numbers by model's key, then by the rest of the cell's name.
        remarks: which models are left out, and what stands in.
    """

    models: tuple[ModelSpec, ...]
    rows: Mapping[str, Mapping[str, Numbers]]
    remarks: tuple[str, ...] = ()


class Study:
    """The models, the reviews and the finished cells of the IMDB experiments.

    Args:
        settings: seed, size, data, store and progress.
        experiment: the name of what is run, for messages.
        size: None: the small or the full one, as the settings say.
    """

    def __init__(self, settings: Settings, experiment: str, size: Size | None = None) -> None:
        self._settings = settings
        self._size = size or (FULL if settings.full else SMALL)
        self._experiment = experiment
        identity = {"study": STUDY, "seed": settings.seed, "size": asdict(self._size)}
        self._cells = Cells.open(settings.store, identity)
        self.models = tuple(self._usable())

    def _usable(self) -> list[ModelSpec]:
        """The models that can be made; at the small size the embedded one may stand for the first.

        The full size needs the pretrained model of the first.
        """
        first, *others = self._size.models
        stand_in = replace(first, init=EMBEDDED, limit=512)
        if self._settings.finished:
            known = dict.fromkeys((first, stand_in, *others))
            return finished(list(known), self._cells) or [first]
        if not self._settings.full and is_missing(first, self._settings.data):
            first = stand_in
        return available([first, *others], self._settings.data)

    def explanations(self) -> Found:
        """Every method on every review, and the accuracy of every model."""
        work: dict[str, Work] = {}
        for spec in self.models:
            work[f"{spec.key} accuracy"] = partial(self._accuracy, spec)
            for index in range(self._size.texts):
                work[f"{spec.key} review-{index}"] = partial(self._explained, spec, index)
            for index in range(self._size.texts):
                work[f"{spec.key} {_LATER}review-{index}"] = partial(self._alternating, spec, index)
        return self._filled(work, "explaining IMDB reviews")

    def samples(self) -> Found:
        """slalom-eff with more and more calls, and Kernel SHAP, on the reviews of one model."""
        spec = self.models[0]
        work: dict[str, Work] = {
            f"{spec.key} samples-{index}": partial(self._sampled, spec, index)
            for index in range(self._size.texts)
        }
        return self._filled(work, "explaining with more and more calls")

    def printed(self) -> Found:
        """The review of Fig. 5, explained for every model."""
        work: dict[str, Work] = {
            f"{spec.key} printed": partial(self._printed, spec) for spec in self.models
        }
        return self._filled(work, "explaining the printed review")

    def answers(self, name: str, texts: Sequence[str]) -> Found:
        """What the first model answers to texts, and the sums of their Naive-Bayes weights.

        Args:
            name: of the cell.
            texts: any.
        """
        spec = self.models[0]
        work: dict[str, Work] = {f"{spec.key} {name}": partial(self._answers, spec, texts)}
        return self._filled(work, "asking about texts")

    def _filled(self, work: Mapping[str, Work], label: str) -> Found:
        rows: dict[str, dict[str, Numbers]] = {spec.key: {} for spec in self.models}
        for name, numbers in self._cells.fill(work, self._settings, label).items():
            key, _, rest = name.partition(" ")
            cell = rows[key].setdefault(rest.removeprefix(_LATER), {})
            cell |= numbers
        reached = tuple(spec for spec in self.models if rows[spec.key])
        return Found(reached, rows, self._remarks(reached))

    def _remarks(self, reached: Sequence[ModelSpec]) -> tuple[str, ...]:
        """What the models are, and which are left out."""
        told = [f"The {spec.name} is {spec.origin}." for spec in reached]
        names = {spec.name for spec in self.models}
        missing = [spec for spec in self._size.models if spec.name not in names]
        return (*told, *left_out(missing, self._settings.data))

    def _accuracy(self, spec: ModelSpec) -> Numbers:
        test = self._test
        some = test.chosen(drawn(len(test), self._size.tested, self._settings.seed))
        return {"accuracy": self._model(spec).accuracy(some), "texts": len(some)}

    def _explained(self, spec: ModelSpec, index: int) -> Numbers:
        """All methods on one review, but that of ``_alternating``."""
        review = self._review(spec, index, self._corpus)
        ways = {label: way for label, way in WAYS.items() if label != FIDEL_ALTERNATING}
        return {label: review.measured(way) for label, way in ways.items()} | {
            "units": review.units
        }

    def _alternating(self, spec: ModelSpec, index: int) -> Numbers:
        """The authors' solver on one review, in a cell of its own: others were finished without."""
        review = self._review(spec, index, self._corpus)
        return {FIDEL_ALTERNATING: review.measured(WAYS[FIDEL_ALTERNATING])}

    def _sampled(self, spec: ModelSpec, index: int) -> Numbers:
        """Deletion by the number of calls; NaN where a review has too many tokens for so few."""
        review = self._review(spec, index, None)
        numbers: Numbers = {}
        for calls in self._size.samples:
            numbers[f"{EFF} {calls}"] = _deletion(review, EFF, calls, "linearized")
        for way in (SHAP, SHAP_UNK):
            calls = 2 * review.units + AUTO_SAMPLES
            numbers[f"{way} auto"] = _deletion(review, way, calls, None)
        return numbers | {"units": review.units}

    def _printed(self, spec: ModelSpec) -> Numbers:
        """Explanations of the printed review as JSON, for the figures."""
        request = Request(self._size.calls, self._settings.seed)
        review = Review(self._model(spec), REVIEW, "negative", request, rows=1)
        made = {way: review.case(WAYS[way]).explanation for way in (EFF, OURS)}
        return {way: json.dumps(explanation.to_dict()) for way, explanation in made.items()}

    def _answers(self, spec: ModelSpec, texts: Sequence[str]) -> Numbers:
        counts = self._corpus.by_class(Outputs("binary", LABELS))
        sums = []
        for text in texts:
            given = [word.text.lower() for word in words(text)]
            sums.append(float(self._corpus.weights(counts, given).sum()))
        return {"log odds": self._model(spec).log_odds(texts), "naive-bayes": sums}

    def _review(self, spec: ModelSpec, index: int, corpus: NaiveBayes | None) -> Review:
        text, label = self._explained_reviews.texts[index], self._explained_reviews.labels[index]
        request = Request(self._size.calls, self._settings.seed)
        return Review(self._model(spec), text, label_of(label), request, corpus, self._size.rows)

    def _model(self, spec: ModelSpec) -> ReviewModel:
        return self._models.get(spec)

    @cached_property
    def _models(self) -> ReviewModels:
        settings = self._settings
        return ReviewModels(self._learnt, settings.data, settings.store, settings.seed)

    @cached_property
    def _learnt(self) -> Examples:
        return REVIEWS.read(self._experiment, self._settings.data)

    @cached_property
    def _test(self) -> Examples:
        return TEST_REVIEWS.read(self._experiment, self._settings.data)

    @cached_property
    def _explained_reviews(self) -> Examples:
        """The reviews that are explained, of those that are short enough."""
        test, size = self._test, self._size
        short = test
        if size.words is not None:
            most = size.words
            kept = [index for index, text in enumerate(test.texts) if len(text.split()) <= most]
            short = test.chosen(kept)
        if len(short) < size.texts:
            raise InputError(
                f"{self._experiment} explains {size.texts} reviews, but {TEST_REVIEWS.name} has "
                f"{len(short)} that are short enough: give a table with more rows"
            )
        return short.chosen(drawn(len(short), size.texts, self._settings.seed + 1))

    @cached_property
    def _corpus(self) -> NaiveBayes:
        learnt, size = self._learnt, self._size
        some = learnt.chosen(drawn(len(learnt), size.corpus, self._settings.seed))
        return NaiveBayes(some.texts, [label_of(label) for label in some.labels], SMOOTHING)


def _deletion(review: Review, way: str, calls: int, score: str | None) -> float:
    """The deletion number of AOPC; NaN where there are too few calls for the method."""
    try:
        case = replace(review.case(WAYS[way], calls), score=score)
    except InputError:
        return float("nan")
    return float(measure(case, ["aopc"])["aopc"].values["deletion"])


def table_of(found: Found) -> pd.DataFrame:
    """One row per model, review, way and score, with the numbers of ``Review.measured``."""
    rows = []
    for spec in found.models:
        for name, numbers in found.rows[spec.key].items():
            if not name.startswith("review-"):
                continue
            for label, way in WAYS.items():
                if label not in numbers:
                    continue  # not measured yet
                rows += [
                    {"model": spec.name, "review": name, "method": label, "score": score}
                    | _of_score(numbers[label], score)
                    for score in way.scores
                ]
    return pd.DataFrame(rows)


def _of_score(measured: Mapping[str, Any], score: str) -> dict[str, float]:
    """The numbers of one score; NaN where the method did not work."""
    numbers = ("spearman", "insertion", "deletion")
    return {number: measured.get(number, {}).get(score, float("nan")) for number in numbers}
