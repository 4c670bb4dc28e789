"""How the methods of the IMDB experiments are run, and what is measured of each on one review.

The authors of the paper run some methods on another scale than SLALOM: LIME explains
probabilities, gradients are those of the predicted class's logit, and Kernel SHAP puts [UNK] in the
place of words. These stand beside the same methods on the log odds, with words deleted. All are
judged alike: by deletions, and the model's log odds. slalom-fidel is fitted by our solver and by
theirs, which are rows of their own, too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from research.paper.review_models import LABELS, Request, ReviewModel, explained
from slalom_xai.errors import SlalomError
from slalom_xai.explainer import Explainer
from slalom_xai.explanation import Explanation
from slalom_xai.methods import Estimator, Gradient, IntegratedGradients, NaiveBayes, SlalomFidel
from slalom_xai.metrics import Asker, Case, asker, measure
from slalom_xai.metrics.model_answers import Array, Masks
from slalom_xai.metrics.statistics import spearman
from slalom_xai.models import TextModel
from slalom_xai.slalom.rows import RowPool, uniform_counts

MOST_DELETED = 10  # of Fig. 6
_TEST_CALLS = 200  # of methods that look inside: their calls only test
_STEPS = 30  # of integrated gradients, as in the paper
_TWO = ("value", "importance", "linearized")  # what the paper's SLALOMs are ranked by
_ONE = ("shapley",)  # the only score of an additive explanation


@dataclass(frozen=True)
class Way:
    """A method and how it is run.

    Attributes:
        label: its name in tables.
        method: a name, or an instance with settings.
        scores: those that rank units.
        output: what it explains: "log odds", the "probability" of the second class, or the
            predicted class's "logit".
        removal: what leaving out a unit means to it.
        inside: whether it looks inside the model, so that calls only test it.
        authors: whether it is run as the paper's authors run it.
    """

    label: str
    method: str | Estimator
    scores: tuple[str, ...] = _ONE
    output: str = "log odds"
    removal: str = "delete"
    inside: bool = False
    authors: bool = False

    @property
    def predicts(self) -> bool:
        """Whether it says what deletions do to the log odds."""
        return self.output == "log odds"


OURS, LINEAR, FIDEL, EFF = "slalom", "linear", "slalom-fidel", "slalom-eff"
LIME, SHAP, IG, GRAD, LRP = "lime", "kernel-shap", "integrated-gradients", "gradient", "attn-lrp"
FIDEL_ALTERNATING = "slalom-fidel, alternating"
LIME_CHANCE = "lime, probabilities"
SHAP_UNK = "kernel-shap, [UNK]"
IG_LOGIT = "integrated-gradients, logit"
GRAD_LOGIT = "gradient, sum, logit"

WAYS = {
    way.label: way
    for way in (
        Way(OURS, "slalom", (*_TWO, "shapley")),
        Way(LINEAR, "linear"),
        Way(FIDEL, "slalom-fidel", _TWO),
        Way(FIDEL_ALTERNATING, SlalomFidel(solver="alternating"), _TWO, authors=True),
        Way(EFF, "slalom-eff", _TWO, authors=True),
        Way(LIME, "lime"),
        Way(LIME_CHANCE, "lime", output="probability", authors=True),
        Way(SHAP, "kernel-shap"),
        Way(SHAP_UNK, "kernel-shap", removal="unk", authors=True),
        Way(IG, IntegratedGradients(steps=_STEPS), inside=True),
        Way(IG_LOGIT, IntegratedGradients(steps=_STEPS), output="logit", inside=True, authors=True),
        Way(GRAD, Gradient(), inside=True),
        Way(GRAD_LOGIT, Gradient(reduction="mean"), output="logit", inside=True, authors=True),
        Way(LRP, "attn-lrp", inside=True, authors=True),
    )
}


class Review:
    """One review that methods explain.

    Args:
        model: reads it.
        text: the review.
        label: its class, as the model calls it.
        request: calls and seed.
        corpus: for the Naive-Bayes weights; None where they are not wanted.
        rows: deletions of each number, and of any number, that errors are measured on.
    """

    def __init__(
        self,
        model: ReviewModel,
        text: str,
        label: str,
        request: Request,
        corpus: NaiveBayes | None = None,
        rows: int = 100,
    ) -> None:
        self._model, self._text, self._label = model, text, label
        self._request = request
        self._plain = Explainer(
            model.text_model,
            granularity="token",
            removal="delete",
            truncation=True,
            show_progress=False,
        )
        test = replace(request, calls=_TEST_CALLS)
        base = explained(model.text_model, text, corpus or "zero", test)
        assert isinstance(base.ask, Asker)
        self._ask = base.ask
        self._weights = base.explanation.scores()
        self._tokens = self._ask.codes
        self._rows = DeletedRows.drawn(self._ask.pool(), base.units, rows, request.seed)
        self._changes = self._rows.changes(self._ask)
        self.units = base.units

    def measured(self, way: Way) -> dict[str, Any]:
        """Everything that the tables need of one method.

        Returns:
            seconds, calls; spearman, insertion and deletion by score, without importance where
            the explanation has none; errors of 1 to 10 deletions, and wide, of any number. Only a
            reason where the method does not work.
        """
        try:
            case = self.case(way)
        except SlalomError as error:
            return {"reason": str(error)}
        found: dict[str, Any] = {
            "seconds": case.seconds,
            "calls": case.explanation.calls + case.explanation.passes,
            "spearman": {},
        }
        for score in way.scores:
            if not gives(case.explanation, score):
                continue
            found["spearman"][score] = self._correlation(case, score)
            values = measure(replace(case, score=score), ["aopc"])["aopc"].values
            for number, value in values.items():
                found.setdefault(number, {})[score] = value
        if way.predicts:
            found |= self._rows.errors(case, self._changes)
        return found

    def case(self, way: Way, calls: int | None = None) -> Case:
        """The review explained in one way.

        Args:
            way: how.
            calls: at most; None: as the review was given.
        """
        wanted = calls or self._request.calls
        if way.inside:
            wanted = min(wanted, _TEST_CALLS)
        request = replace(self._request, calls=wanted, removal=way.removal)
        model: TextModel = self._model.text_model
        if way.output == "probability":
            model = self._model.with_probability
        if way.output == "logit":
            model = self._model.with_logits
            request = replace(request, target=LABELS[int(self._answers_second())])
        case = explained(model, self._text, way.method, request, ask=self._ask, label=self._label)
        if case.explanation.target == LABELS[1]:
            return case
        # Scores argue for the other class, so the answers must be about it, too.
        return replace(case, ask=asker(self._plain, case.explanation, same_scale=False))

    def _answers_second(self) -> bool:
        whole = self._ask(np.ones((1, len(self._weights)), dtype=bool))
        return float(whole[0]) > 0

    def _correlation(self, case: Case, score: str) -> float:
        """Rank correlation with the Naive-Bayes weights over distinct tokens.

        The places of a token share the mean of their scores. Importances have no sign and are
        compared with the weights' size.
        """
        scores, weights = replace(case, score=score).scores(), self._weights
        if score == "importance":
            weights = np.abs(weights)
        elif case.explanation.target != LABELS[1]:
            scores = -scores
        return spearman(by_token(scores, self._tokens), by_token(weights, self._tokens))


def gives(explanation: Explanation, score: str) -> bool:
    """Whether there is such a score: `slalom` gives no importances where a linear fit is better."""
    return score != "importance" or score in explanation.score_names


def by_token(numbers: Array, tokens: NDArray[np.int64]) -> Array:
    """The mean over the places of each distinct token.

    Args:
        numbers: (n,).
        tokens: (n,), equal for equal tokens.
    """
    _, owner, counts = np.unique(tokens, return_inverse=True, return_counts=True)
    return np.asarray(np.bincount(owner, weights=numbers) / counts)


@dataclass(frozen=True)
class DeletedRows:
    """Deletions that errors are measured on.

    Attributes:
        few: masks with 1, 2, ... deletions, a block for each number.
        wide: masks with any number of deletions.
    """

    few: tuple[Masks, ...]
    wide: Masks

    @classmethod
    def drawn(cls, pool: RowPool, units: int, rows: int, seed: int) -> DeletedRows:
        """Draws as many distinct rows of each kind as there are, and at most ``rows``."""
        rng = np.random.default_rng([seed, 6])
        few = []
        for deleted in range(1, min(MOST_DELETED, units - 1) + 1):
            few.append(pool.draw(rows, uniform_counts(deleted, deleted, rng), rng))
        return cls(tuple(few), pool.draw(2 * rows, uniform_counts(1, units - 1, rng), rng))

    def changes(self, ask: Asker) -> Array:
        """What the deletions change in the log odds, (m,), first the few, then the wide."""
        masks = self._masks()
        answers = ask(np.concatenate([np.ones((1, masks.shape[1]), dtype=bool), masks]))
        return np.asarray(answers[1:] - answers[0])

    def errors(self, case: Case, changes: Array) -> dict[str, Any]:
        """Mean squared errors of the predicted changes."""
        masks = self._masks()
        whole = np.ones((1, case.units), dtype=bool)
        predicted = case.explanation.predict(masks) - case.explanation.predict(whole)
        squared = (predicted - changes) ** 2
        ends = np.cumsum([len(block) for block in self.few])
        *few, wide = np.split(squared, ends)
        return {
            "errors": [_mean(block) for block in few],
            "wide": _mean(wide),
            "wide variance": float(np.var(changes[ends[-1] :])) if len(wide) else float("nan"),
        }

    def _masks(self) -> Masks:
        return np.concatenate([*self.few, self.wide])


def _mean(numbers: Array) -> float:
    return float(numbers.mean()) if len(numbers) else float("nan")
