"""What a benchmark can be told."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from slalom_xai.errors import InputError, check_seed, one_of
from slalom_xai.explainer import REMOVALS
from slalom_xai.methods import NaiveBayes, estimator, methods
from slalom_xai.methods.scores import SCORES
from slalom_xai.metrics import AtLeast, Need, catalogue, metrics
from slalom_xai.models.text import GRANULARITIES
from slalom_xai.system.shards import WHOLE, Shard


@dataclass(frozen=True)
class BenchOptions:
    """Everything ``slalom bench`` can be told apart from the model, the table and the folder.

    Attributes:
        methods: names in ``methods()``; "slalom:shapley" is the explanation of slalom, ranked by
            that score.
        metrics: names in ``metrics()``; "fidelity" stands for all that begin with it.
        texts: how many texts, drawn from the table; None: all of them.
        budget: model calls for each explanation; None: chosen from the text.
        text: field of the texts in the table, and in the corpus.
        label: field of the classes, of a corpus and, if it has one, of the table.
        rationale: field of a mark, or a number of annotators, for each word; or of the marks of
            each annotator.
        words: field of the words the marks belong to; None: the text split at white space.
        at_least: annotators that make a word marked; "all" where each of them must mark it.
        corpus: table of texts and classes, for Naive Bayes.
        score: the score that ranks units; None: ``DEFAULT_SCORE``. Additive methods have one.
        granularity: what gets a score.
        removal: what leaving out a unit means.
        truncation: explain the beginning of texts that are too long.
        seed: draws the texts and seeds the methods and metrics.
        retry: try again what failed in an earlier run.
        shard: which share of the texts, for processes that fill one folder together.
    """

    methods: tuple[str, ...] = ("slalom", "linear")
    metrics: tuple[str, ...] = ("fidelity",)
    texts: int | None = 100
    budget: int | None = 1000
    text: str = "text"
    label: str = "label"
    rationale: str | None = None
    words: str | None = None
    at_least: AtLeast | None = None
    corpus: str | Path | None = None
    score: str | None = None
    granularity: str = "word"
    removal: str = "auto"
    truncation: bool = False
    seed: int = 0
    retry: bool = False
    shard: Shard = WHOLE

    def resolve(self) -> BenchOptions:
        """The options checked, with groups of metrics spelled out.

        Raises:
            InputError: a name that is not known, or options that lack each other.
        """
        settled = replace(
            self,
            methods=_choose_methods(self.methods),
            metrics=_choose_names("metric", self.metrics, metrics()),
        )
        settled._check_names()
        settled._check_ranking()
        settled._check_ranges()
        settled._check_needs()
        return settled

    def _check_names(self) -> None:
        """Refuses names that are not known."""
        if self.score is not None and self.score not in SCORES:
            raise one_of("score", self.score, SCORES)
        if self.granularity not in GRANULARITIES:
            raise one_of("granularity", self.granularity, GRANULARITIES)
        if self.removal not in REMOVALS:
            raise one_of("removal", self.removal, REMOVALS)

    def _check_ranking(self) -> None:
        """Refuses to rank by importances that a method does not have."""
        for label in self.methods:
            method = base_method(label)
            score = ranking_score(label) or self.score
            if score == "importance" and estimator(method).additive:
                raise InputError(
                    f"method {method!r} has no importances to rank by: "
                    "leave the method out, or give another --score"
                )

    def _check_ranges(self) -> None:
        """Refuses numbers out of range."""
        check_seed("--seed", self.seed)
        if self.budget is not None and self.budget < 1:
            raise InputError(
                f"--budget is {self.budget}: "
                "give a whole number of at least 1, or 0 to choose by the text's length"
            )
        if not _counts_annotators(self.at_least):
            raise InputError(
                f"--at-least is {self.at_least}: "
                "give how many annotators must mark a word, such as 2, or all"
            )
        if self.texts is not None and self.texts < 1:
            raise InputError(f"--texts is {self.texts}: give a whole number of at least 1")

    def _check_needs(self) -> None:
        """Refuses metrics and methods that need what no option gives."""
        for name in self.metrics:
            if Need.RATIONALE in catalogue()[name].needs and self.rationale is None:
                raise InputError(
                    f"the metric {name} compares scores with people's marks: "
                    "name the column of the marks with --rationale"
                )
        learning = [name for name in self.methods if name == NaiveBayes.name]
        learning += [name for name in self.metrics if Need.NAIVE_BAYES in catalogue()[name].needs]
        if learning and self.corpus is None:
            raise InputError(
                f"{learning[0]} learns from a corpus: "
                "give a table of texts and classes with --corpus"
            )

    def fixed(self) -> dict[str, object]:
        """What must not change between runs into one folder."""
        return {
            "texts": self.texts,
            "budget": self.budget,
            "text": self.text,
            "rationale": self.rationale,
            "words": self.words,
            "at_least": self.at_least,
            "score": self.score,
            "granularity": self.granularity,
            "removal": self.removal,
            "truncation": self.truncation,
            "seed": self.seed,
        }


def _counts_annotators(at_least: object) -> bool:
    """Whether it says how many annotators must mark a word."""
    if isinstance(at_least, (int, float)):
        return math.isfinite(at_least)
    return at_least is None or at_least == "all"


def base_method(label: str) -> str:
    """The method behind a label such as "slalom:shapley"."""
    return label.partition(":")[0]


def ranking_score(label: str) -> str | None:
    """The score in a label such as "slalom:shapley"; None where it names none."""
    return label.partition(":")[2] or None


def _choose_methods(wanted: Iterable[str]) -> tuple[str, ...]:
    """Labels of methods in the order given, each once; a group's name stands for its members."""
    labels: dict[str, None] = {}
    for label in wanted:
        if ":" not in label:
            labels |= dict.fromkeys(_choose_names("method", [label], methods()))
            continue
        if base_method(label) not in methods():
            raise one_of("method", base_method(label), methods())
        if ranking_score(label) not in SCORES:
            raise one_of("score", ranking_score(label), SCORES)
        labels[label] = None
    if not labels:
        raise InputError(f"no method was named: choose from {', '.join(methods())}")
    return tuple(labels)


def _choose_names(what: str, wanted: Iterable[str], known: Mapping[str, str]) -> tuple[str, ...]:
    """Names in the order given, each once; a group's name stands for its members."""
    names: dict[str, None] = {}
    for name in wanted:
        members = [name]
        if name not in known:
            members = [other for other in known if other.startswith(f"{name}-")]
        if not members:
            raise one_of(what, name, known)
        names |= dict.fromkeys(members)
    if not names:
        raise InputError(f"no {what} was named: choose from {', '.join(known)}")
    return tuple(names)
