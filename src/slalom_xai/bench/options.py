"""What a benchmark can be told."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from slalom_xai.errors import InputError, check_seed, one_of
from slalom_xai.estimators import estimator, methods
from slalom_xai.explainer import REMOVALS
from slalom_xai.metrics import metrics
from slalom_xai.surrogates.scores import SCORES
from slalom_xai.text import GRANULARITIES


@dataclass(frozen=True)
class BenchOptions:
    """Everything ``slalom bench`` can be told apart from the model, the table and the folder.

    Attributes:
        methods: names in ``methods()``; "slalom:shapley" is the explanation of slalom, ranked by that score.
        metrics: names in ``metrics()``; "fidelity" stands for all that begin with it.
        texts: how many texts, drawn from the table; None: all of them.
        budget: model calls for each explanation; None: chosen from the text.
        text: column of the texts.
        label: column of the classes, for a corpus.
        rationale: column of a mark, or a number of annotators, for each word.
        words: column of the words the marks belong to; None: the text split at white space.
        at_least: annotators that make a word marked.
        corpus: table of texts and classes, for Naive Bayes.
        score: the score that ranks units; None: each method's own.
        granularity: what gets a score.
        removal: what leaving out a unit means.
        truncation: explain the beginning of texts that are too long.
        seed: draws the texts and seeds the methods and metrics.
        retry: try again what failed in an earlier run.
        part: (2, 4) works on the second of four shares of the texts, for processes that fill one folder together; None: on all.
    """

    methods: tuple[str, ...] = ("slalom", "linear")
    metrics: tuple[str, ...] = ("fidelity",)
    texts: int | None = 100
    budget: int | None = 1000
    text: str = "text"
    label: str = "label"
    rationale: str | None = None
    words: str | None = None
    at_least: float | None = None
    corpus: str | Path | None = None
    score: str | None = None
    granularity: str = "token"
    removal: str = "delete"
    truncation: bool = False
    seed: int = 0
    retry: bool = False
    part: tuple[int, int] | None = None

    def settled(self) -> BenchOptions:
        """The options checked, with groups of metrics spelled out.

        Raises:
            InputError: a name that is not known, or options that lack each other.
        """
        chosen = replace(
            self, methods=_methods(self.methods), metrics=_chosen("metric", self.metrics, metrics())
        )
        chosen._check_names()
        check_seed("--seed", chosen.seed)
        if chosen.budget is not None and chosen.budget < 1:
            raise InputError(
                f"--budget is {chosen.budget}: give a whole number of at least 1, or 0 to choose by the text's length"
            )
        if chosen.at_least is not None and not math.isfinite(chosen.at_least):
            raise InputError(
                f"--at-least is {chosen.at_least}: give how many annotators must mark a word, such as 2"
            )
        if chosen.texts is not None and chosen.texts < 1:
            raise InputError(f"--texts is {chosen.texts}: give a whole number of at least 1")
        if chosen.part is not None and not 1 <= chosen.part[0] <= chosen.part[1]:
            raise InputError(
                f"--part is {chosen.part[0]}/{chosen.part[1]}: give the number of the part and how many parts there are, such as 2/4"
            )
        if "human" in chosen.metrics and chosen.rationale is None:
            raise InputError(
                "the metric human compares scores with people's marks: name the column of the marks with --rationale"
            )
        if "naive-bayes" in (*chosen.methods, *chosen.metrics) and chosen.corpus is None:
            raise InputError(
                "naive-bayes learns from a corpus: give a table of texts and classes with --corpus"
            )
        return chosen

    def _check_names(self) -> None:
        if self.score is not None and self.score not in SCORES:
            raise one_of("score", self.score, SCORES)
        if self.granularity not in GRANULARITIES:
            raise one_of("granularity", self.granularity, GRANULARITIES)
        if self.removal not in REMOVALS:
            raise one_of("removal", self.removal, REMOVALS)
        for label in self.methods:
            if (ranking_score(label) or self.score) == "importance" and estimator(
                base_method(label)
            ).additive:
                raise InputError(
                    f"method {base_method(label)!r} has no importances to rank by: leave the method out, or give another --score"
                )

    def fixed(self) -> dict[str, object]:
        """What must not change between runs into one folder."""
        names = (
            "texts",
            "budget",
            "text",
            "rationale",
            "words",
            "at_least",
            "score",
            "granularity",
            "removal",
            "truncation",
            "seed",
        )
        return {name: getattr(self, name) for name in names}


def base_method(label: str) -> str:
    """The method behind a label such as "slalom:shapley"."""
    return label.partition(":")[0]


def ranking_score(label: str) -> str | None:
    """The score in a label such as "slalom:shapley"; None where it names none."""
    return label.partition(":")[2] or None


def _methods(wanted: Iterable[str]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for label in wanted:
        if ":" not in label:
            found |= dict.fromkeys(_chosen("method", [label], methods()))
            continue
        if base_method(label) not in methods():
            raise one_of("method", base_method(label), methods())
        if ranking_score(label) not in SCORES:
            raise one_of("score", ranking_score(label), SCORES)
        found[label] = None
    if not found:
        raise InputError(f"no method was named: choose from {', '.join(methods())}")
    return tuple(found)


def _chosen(what: str, wanted: Iterable[str], known: Mapping[str, str]) -> tuple[str, ...]:
    """Names in the order given, each once; a group's name stands for its members."""
    found: dict[str, None] = {}
    for name in wanted:
        members = (
            [name] if name in known else [other for other in known if other.startswith(f"{name}-")]
        )
        if not members:
            raise one_of(what, name, known)
        found |= dict.fromkeys(members)
    if not found:
        raise InputError(f"no {what} was named: choose from {', '.join(known)}")
    return tuple(found)
