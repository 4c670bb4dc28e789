"""What a metric is computed from: an explanation, a way to ask the model, and data about the text."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slalom_xai.designs import Pool
from slalom_xai.errors import InputError, one_of
from slalom_xai.explainer import REMOVALS, Explainer
from slalom_xai.explanation import Explanation
from slalom_xai.models import prompt
from slalom_xai.outputs import Outputs, Target
from slalom_xai.queries import Queries
from slalom_xai.surrogates.scores import SCORES
from slalom_xai.text import GRANULARITIES, Unit

Array = NDArray[np.float64]
Masks = NDArray[np.bool_]

_UNBOUNDED = (
    2**62
)  # metrics count their calls; what they may cost is set by each metric's own number of rows
_SAME = 0.05  # answers of one model differ by less, relative to their size, whatever the batch and the precision


class Ask(Protocol):
    """Anything that answers masks."""

    def __call__(self, masks: Masks, /) -> Array:
        """The model's outputs (m,) for rows of masks (m, n), on the scale of ``explanation.prediction``."""


class Asker:
    """A model's own answers about one text, each distinct row asked once; made by ``asker``.

    Attributes:
        outputs: what the model's numbers mean.
        target: the explained label.
    """

    def __init__(self, queries: Queries, target: Target) -> None:
        self.outputs = queries.model.outputs
        self.target = target
        self._queries = queries

    def __call__(self, masks: Masks, /) -> Array:
        """The explained output (m,) for rows of masks (m, n)."""
        return self.columns(masks)[:, self.target.column] * self.target.sign

    def columns(self, masks: Masks) -> Array:
        """All columns of the outputs, (m, C)."""
        columns: Array = self._queries.ask(np.asarray(masks, dtype=bool), "check").cpu().numpy()
        return columns

    @property
    def calls(self) -> int:
        """Distinct rows asked so far."""
        return self._queries.calls

    def pool(self) -> Pool:
        """Hands out rows that the model can tell apart."""
        return Pool(self._queries.prompt.interchangeable, self._queries.prompt.keys)


def asker(explainer: Explainer, explanation: Explanation, *, same_scale: bool = True) -> Asker:
    """Asks an explainer's model about the text of an explanation, in its units and with its kind of removal.

    Args:
        explainer: holds the model; its method does not matter.
        explanation: made by it, or elsewhere and brought over with the same units.
        same_scale: refuse an explanation whose ``prediction`` is not what the model answers. False takes one on another scale
            (probabilities, say): its rankings can be judged, its fidelity cannot.

    Raises:
        InputError: the model reads other units, does not have the label, or answers something else for the whole text.
    """
    granularity = (
        explanation.granularity
        if explanation.granularity in GRANULARITIES
        else explainer.granularity
    )
    removal = explanation.removal if explanation.removal in REMOVALS else explainer.removal
    truncation = explainer.truncation or bool(explanation.left_out)
    model = explainer.model
    question = prompt(
        model.read(explanation.text, explanation.text_pair, truncation=truncation, removal=removal),
        granularity,
    )
    _check_units(explanation.units, question.units)
    queries = Queries(explainer._batches, question, budget=_UNBOUNDED)
    full = queries.ask(np.ones((1, len(question.units)), dtype=bool), "check")[0].tolist()
    wanted = (
        explanation.target_index if explanation.outputs == model.outputs else explanation.target
    )
    target = model.outputs.target(wanted, full)
    answer = full[target.column] * target.sign
    if same_scale and abs(answer - explanation.prediction) > _SAME * (1 + abs(answer)):
        raise InputError(
            f"the explanation's prediction is {explanation.prediction:.4g}, but {model.name} answers {answer:.4g} for {target.label!r}: give an "
            "explanation of this model on the same scale, or pass same_scale=False to judge only the ranking"
        )
    return Asker(queries, target)


def _check_units(given: tuple[Unit, ...], read: tuple[Unit, ...]) -> None:
    """Refuses units that are not those the model reads."""
    spans = [[(unit.part, unit.start, unit.end) for unit in units] for units in (given, read)]
    if spans[0] == spans[1]:
        return
    place = next(
        (place for place, (one, other) in enumerate(zip(*spans, strict=False)) if one != other),
        min(map(len, spans)),
    )
    names = [
        repr(units[place].text) if place < len(units) else "nothing" for units in (given, read)
    ]
    raise InputError(
        f"the explanation has {len(given)} units, but the model reads {len(read)}; unit {place} is {names[0]} in the explanation and {names[1]} in the model: "
        "explain with the same tokenizer, granularity and truncation"
    )


@dataclass(frozen=True)
class Case:
    """One explanation with what metrics may need; a metric without what it needs answers NaN and says so.

    Attributes:
        explanation: what is judged.
        ask: the model's answers, from ``asker`` or any function from masks (m, n) to outputs (m,).
        rationale: (n,) zeros and ones, which units people marked; see ``rationale.to_units``.
        score: the score that ranks units; None: "removal" for SLALOM, "value" for additive explanations.
        others: explanations of the same text to compare with, by other methods, in other units or with other seeds.
        extras: "naive_bayes": (n,), weights that argue for the explained label; "seconds" and "calls": what it took;
            "seen": masks (m, n) that tests must not use.
        seed: of the random rows; each metric draws its own, the same for every explanation of a text in the same units.
    """

    explanation: Explanation
    ask: Ask | None = None
    rationale: ArrayLike | None = None
    score: str | None = None
    others: tuple[Explanation, ...] = ()
    extras: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0

    def __post_init__(self) -> None:
        if self.score is not None and self.score not in SCORES:
            raise one_of("score", self.score, SCORES)

    @property
    def units(self) -> int:
        """How many units have scores."""
        return len(self.explanation)

    @property
    def outputs(self) -> Outputs:
        """What the model's numbers mean: by the model where it can be asked properly, else by the explanation."""
        return self.ask.outputs if isinstance(self.ask, Asker) else self.explanation.outputs

    @property
    def unsigned(self) -> bool:
        """Whether the score says how much, and not in which direction."""
        return self.score == "importance"

    def scores(self, explanation: Explanation | None = None) -> Array:
        """The score that ranks, (n,), of this or another explanation."""
        return ranking_scores(explanation or self.explanation, self.score)

    def rng(self, name: str) -> np.random.Generator:
        """The random numbers of one metric; they depend on the seed and its name, not on what ran before."""
        return np.random.default_rng([self.seed, zlib.crc32(name.encode())])

    def pool(self) -> Pool:
        """Hands out distinct rows, those in ``extras["seen"]`` left out."""
        pool = self.ask.pool() if isinstance(self.ask, Asker) else Pool(np.arange(self.units))
        if "seen" in self.extras:
            seen = np.asarray(self.extras["seen"], dtype=bool)
            if seen.ndim != 2 or seen.shape[1] != self.units:
                raise InputError(
                    f"extras['seen'] has shape {seen.shape}: expected masks (rows, {self.units})"
                )
            pool.take(seen)
        return pool

    def probabilities(self, masks: Masks) -> Array | None:
        """The model's probability of the explained label, (m,); None where its outputs do not give one."""
        assert self.ask is not None
        if self.outputs.kind in ("binary", "single", "multilabel"):
            return np.asarray(np.exp(-np.logaddexp(0, -self.ask(masks))))
        if self.outputs.kind == "multiclass" and isinstance(self.ask, Asker):
            columns = self.ask.columns(masks)
            odds = np.exp(columns - columns.max(axis=1, keepdims=True))
            return np.asarray(odds[:, self.ask.target.column] / odds.sum(axis=1))
        return None

    def answered(self, masks: Masks) -> Masks | None:
        """Whether the model's answer is the explained label, (m,); None where its outputs do not say."""
        assert self.ask is not None
        if self.outputs.kind in ("binary", "single", "multilabel"):
            return np.asarray(self.ask(masks) > 0)
        if self.outputs.kind == "multiclass" and isinstance(self.ask, Asker):
            return np.asarray(self.ask.columns(masks).argmax(axis=1) == self.ask.target.column)
        return None

    def per_unit(self, numbers: ArrayLike, what: str) -> Array:
        """Numbers given per unit, (n,), checked."""
        try:
            found = np.asarray(numbers, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"the {what} has entries that are not numbers ({error}): give one number per unit"
            ) from error
        if found.shape != (self.units,):
            raise InputError(
                f"the {what} has shape {found.shape}: expected ({self.units},), one number per unit of the explanation"
            )
        if not np.isfinite(found).all():
            raise InputError(
                f"the {what} has entries that are not finite: give one number per unit"
            )
        return found


def ranking_scores(explanation: Explanation, score: str | None = None) -> Array:
    """The score that ranks units, (n,): by default what is lost when a unit goes ("removal"; additive: the score itself)."""
    return explanation.scores(
        score or ("removal" if explanation.surrogate == "slalom" else "value")
    )
