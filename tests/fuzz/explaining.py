"""Cases of kind ``text``: hostile texts, every method, every option."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from tiny import SHAPIQ

from fuzz.cases import Outcome
from fuzz.promises import broken, deletions
from fuzz.subjects import Subject, subject
from fuzz.texts import hostile
from fuzz.words import claimed, unclear
from slalom_xai import Explainer, methods
from slalom_xai.errors import SlalomError
from slalom_xai.explainer import REMOVALS
from slalom_xai.explanation import Explanation
from slalom_xai.methods import Estimator, NaiveBayes, Slalom
from slalom_xai.models.text import GRANULARITIES

LONG = 2000  # characters from which only small budgets are given
ROUNDED = 2e-3  # of the outputs' size: what rounding in other batches may do to a prediction
CLOSE = 1e-4  # the same where the answers are equal to the last digit: fits are batched otherwise
LOOSE = 1e-3  # of the largest value: calls may determine values so loosely that rounding shows
CORPUS = (["a warm film", "a good story", "dull and loud", "a bad end"], ["1", "1", "0", "0"])
CONFIGURED: tuple[Estimator, ...] = (
    Slalom(pairs=0),
    Slalom(filled=True),
    Slalom(tolerance=0.1),
    NaiveBayes(*CORPUS),
)


@dataclass(frozen=True)
class Question:
    """Texts, a model, and the options they are explained with."""

    subject: Subject
    texts: tuple[str, ...]
    pairs: tuple[str, ...] | None
    options: dict[str, Any]
    twice: bool

    def explainer(self) -> Explainer:
        """A new one."""
        given = self.subject
        options = {"output": given.output, "show_progress": False, **self.options}
        return Explainer(given.model, given.tokenizer, **options)

    def ask(self, explainer: Explainer, place: int) -> Explanation:
        """Explains one of the texts."""
        return explainer(self.texts[place], self.pairs[place] if self.pairs else None)

    def __str__(self) -> str:
        texts = [text if len(text) < 200 else f"{text[:60]}…({len(text)})" for text in self.texts]
        return f"{self.subject.name}, {self.options}, {texts!a}, pairs {self.pairs!a}"


def question(seed: int) -> Question:
    """Draws one."""
    rng = np.random.default_rng([1, seed])
    about = subject(rng)
    count = int(rng.integers(2, 5)) if rng.random() < 0.2 else 1
    removal = _removal(rng, about)
    texts = tuple(_marked(rng, hostile(rng), about, removal) for _ in range(count))
    pairs = tuple(hostile(rng) for _ in texts) if about.pairs and rng.random() < 0.25 else None
    long = max(map(len, (*texts, *(pairs or ())))) > LONG
    options = {
        "method": _method(rng, about, long),
        "budget": _budget(rng, long),
        "granularity": str(rng.choice(GRANULARITIES, p=[0.4, 0.15, 0.25, 0.1, 0.05, 0.05])),
        "removal": removal,
        "target": _target(rng),
        "truncation": bool(rng.random() < 0.7),
        "random_state": int(rng.integers(4)),
    }
    return Question(about, texts, pairs, options, twice=bool(rng.random() < 0.2))


def _removal(rng: np.random.Generator, about: Subject) -> str:
    """Mostly one that the model has a token for."""
    wanted = str(rng.choice(REMOVALS, p=[0.4, 0.2, 0.2, 0.1, 0.1]))
    return wanted if about.mark(wanted) is not None or rng.random() < 0.05 else "delete"


def _marked(rng: np.random.Generator, text: str, about: Subject, removal: str) -> str:
    """Now and then with the very token that stands for what is removed."""
    mark = about.mark(removal)
    if not mark or rng.random() > 0.2 or len(text) > LONG:
        return text
    pieces = text.split(" ")
    for place in rng.integers(len(pieces) + 1, size=int(rng.integers(1, 4))):
        pieces.insert(int(place), mark)
    return " ".join(pieces)


def _method(rng: np.random.Generator, about: Subject, long: bool) -> Any:
    draw = rng.random()
    if draw < 0.35 and not long:
        return "slalom"
    if draw < 0.45 and not long:
        return CONFIGURED[rng.integers(len(CONFIGURED))]
    names = [name for name in methods() if name not in SHAPIQ]
    if not about.opens and rng.random() > 0.05:
        names = [name for name in names if name not in _INSIDE]
    return str(rng.choice(names))


_NEEDS = ("torch", "attention weights")
_INSIDE = {name for name, told in methods().items() if any(need in told for need in _NEEDS)}


def _budget(rng: np.random.Generator, long: bool) -> int | None:
    if long:
        return int(rng.integers(20, 60))
    low, high = [(1, 40), (40, 120), (120, 400), (0, 1)][rng.choice(4, p=[0.1, 0.35, 0.35, 0.2])]
    return None if high == 1 else int(rng.integers(low, high))


def _target(rng: np.random.Generator) -> str | int | None:
    wanted = [0, 1, "1", "good", 7, "nope", -1]
    return wanted[rng.integers(len(wanted))] if rng.random() < 0.12 else None


def run(seed: int, outcome: Outcome) -> None:
    """Explains, and notes what breaks."""
    asked = question(seed)
    outcome.told = str(asked)
    outcome.counts["texts"] += len(asked.texts)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            found = _explained(asked)
        except SlalomError as error:
            outcome.counts["texts refused"] += len(asked.texts)
            outcome.told += f"\n  {type(error).__name__}: {error}"
            problem = unclear(error, *asked.texts, *(asked.pairs or ()))
            outcome.problems += [f"{problem}: {str(error)[:200]!r}"] if problem else []
            return
        outcome.counts["texts explained"] += len(found)
        for place, explanation in enumerate(found):
            outcome.problems += broken(explanation)
            outcome.problems += _of_question(asked, explanation)
            if len(found) > 1:
                outcome.problems += differing(asked, place, explanation)
        if asked.twice and asked.subject.steady:
            again = _explained(asked)
            if again != found:
                outcome.problems.append("the same seed gives another explanation")
    ours = {str(warning.message)[:120] for warning in warned if _ours(warning)}
    outcome.problems += [f"a warning: {message}" for message in sorted(ours)]


def _explained(asked: Question) -> list[Explanation]:
    explainer = asked.explainer()
    if len(asked.texts) == 1:
        return [asked.ask(explainer, 0)]
    return explainer(list(asked.texts), list(asked.pairs) if asked.pairs else None)


def _ours(warning: warnings.WarningMessage) -> bool:
    return "slalom_xai" in warning.filename or issubclass(warning.category, RuntimeWarning)


def _of_question(asked: Question, explanation: Explanation) -> Iterator[str]:
    """What holds between a question and its answer."""
    budget = asked.options["budget"]
    if budget is not None and explanation.calls > budget:
        yield "more calls than the budget"
    if explanation.granularity != asked.options["granularity"]:
        yield "another granularity than asked for"
    said = "unknown" in " ".join([explanation.trust, *explanation.notes]).lower()
    if _unknown_share(asked.subject.unknown, explanation) >= 0.5 and not said:
        yield "half of the tokens are unknown, and nothing says so"


def _unknown_share(unknown: int | None, explanation: Explanation) -> float:
    """The share of the text's tokens that the tokenizer does not know."""
    occurrences = explanation.occurrences or (1,) * len(explanation.units)
    tokens = [
        token
        for unit, times in zip(explanation.units, occurrences, strict=True)
        for token in unit.token_ids * times
    ]
    if unknown is None or not tokens:
        return 0.0
    return tokens.count(unknown) / len(tokens)


def differing(asked: Question, place: int, explanation: Explanation) -> Iterator[str]:
    """A text in a list is explained as it is alone."""
    if not asked.subject.steady:
        return
    single = asked.ask(asked.explainer(), place)
    size = 1 + max(abs(number) for number in single.full)
    units = len(single.units)
    if units != len(explanation.units) or single.calls != explanation.calls:
        yield "a list asks other questions than single texts"
        return
    if claimed(single) is None:  # such a fit is not determined, and rounding decides
        return
    ours, theirs = single.predict(deletions(units)), explanation.predict(deletions(units))
    allowed = CLOSE if asked.subject.rowwise else ROUNDED
    spread = size + float(np.abs(ours).max())
    if not np.abs(ours - theirs).max() <= allowed * spread:
        yield "a list predicts otherwise than single texts"
    values = np.abs(single.values - explanation.values).max()
    if asked.subject.rowwise and not values <= LOOSE * (spread + np.abs(single.values).max()):
        yield "a list gives other values than single texts"
