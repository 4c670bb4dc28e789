"""Figure 13: a language model behind an API, asked for a label and explained by its log odds."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from research.base import PAPER, DataFile, Outcome, Settings, at_least, reproduction
from research.cells import Cells, Numbers
from research.paper.fig_5 import NEGATIVE, POSITIVE, named_words
from research.paper.imdb_sizes import REVIEW
from slalom_xai.data.tables.examples import Examples
from slalom_xai.errors import InputError
from slalom_xai.explainer import Explainer
from slalom_xai.explanation import Explanation
from slalom_xai.metrics.statistics import auroc
from slalom_xai.models.remote import Connection, RemoteClassifier, Spending
from slalom_xai.reports.figures import highlighted

if TYPE_CHECKING:
    import httpx

STUDY = "black-box"
REVIEWS = DataFile("imdb_test", "IMDB test reviews, such as those of the Hugging Face Hub")
LABELS = {"negative": "0", "positive": "1"}
# As printed in Appendix F.7, its slips included; a prompt decides the answers.
SYSTEM = (
    "You are assessing movie reviews in an online forum. Your goal is to assess the reviews' "
    "overall sentiment as 'overall negative' (label '0') or 'overall positive' (label '1'). Your "
    "will see a review now and you will output a label. Make sure to only answer with either '0' "
    "or '1'."
)
_PATIENT = Connection(concurrency=2, timeout=600)  # a server on a small machine is slow


@dataclass(frozen=True)
class Size:
    """How much is asked.

    Attributes:
        reviews: that the model classifies.
        words: of these reviews at most: a small server reads long prompts slowly.
        calls: for the printed review, as in the paper.
    """

    reviews: int = 40
    words: int = 150
    calls: int = 500

    @property
    def most_calls(self) -> int:
        """Requests that may be billed; half of them are left for those that are tried again."""
        return 2 * (self.reviews + self.calls)


SMALL = Size()
FULL = Size(reviews=400, words=400)


@reproduction(
    name="black-box",
    title="A language model behind an API is explained by the words of a review",
    source=f"{PAPER}, Appendix F.7, Figure 13",
    study=STUDY,
    hours=2,
    data=(REVIEWS,),
    server=True,
)
def black_box(settings: Settings) -> Outcome:
    """How well the model classifies, and the words of the printed review."""
    return outcome(study(settings))


def study(
    settings: Settings,
    size: Size | None = None,
    transport: httpx.AsyncBaseTransport | None = None,
) -> dict[str, Numbers]:
    """Asks the model behind the API, and keeps what it answered.

    Args:
        settings: with the address and the model's name.
        size: None: the small or the full one, as the settings say.
        transport: takes the place of the network, in tests.
    """
    if size is None:
        size = FULL if settings.full else SMALL
    identity = {
        "study": STUDY,
        "seed": settings.seed,
        "size": vars(size),
        "model": settings.api_model,
        "top": settings.api_top,
    }
    cells = Cells.open(settings.store, identity)
    model = cache(partial(_classifier, settings, size, transport))
    chosen = cache(partial(_chosen, settings, size))
    work: dict[str, Any] = {
        f"review {number}": lambda number=number: _classified(model(), *chosen()[number])
        for number in range(size.reviews)
    }
    work["printed"] = lambda: _explained(model(), size, settings.seed)
    return cells.fill(work, settings, "asking the model behind the API")


def _classifier(
    settings: Settings, size: Size, transport: httpx.AsyncBaseTransport | None
) -> RemoteClassifier:
    if settings.api is None or settings.api_model is None:
        raise InputError(
            "black-box asks a model on a server, and none was named: give --api URL and "
            "--api-model NAME"
        )
    return RemoteClassifier(
        settings.api,
        settings.api_model,
        LABELS,
        "{text}",
        kind="chat",
        system=SYSTEM,
        top=settings.api_top,
        connection=_PATIENT,
        spending=Spending(max_calls=size.most_calls),
        transport=transport,
    )


def _chosen(settings: Settings, size: Size) -> list[tuple[str, int]]:
    """Reviews with their classes, 0 or 1."""
    examples: Examples = REVIEWS.read("black-box", settings.data)
    order = np.random.default_rng(settings.seed).permutation(len(examples)).tolist()
    classes = sorted(set(examples.labels))
    short = [
        (examples.texts[index], classes.index(examples.labels[index]))
        for index in order
        if len(examples.texts[index].split()) <= size.words
    ]
    if len(classes) != 2 or len(short) < size.reviews:
        raise InputError(
            f"black-box needs {size.reviews} reviews of at most {size.words} words and two "
            f"classes: the table has {len(short)} and {len(classes)}; give a larger one"
        )
    return short[: size.reviews]


def _classified(model: RemoteClassifier, text: str, label: int) -> Numbers:
    negative, positive = model.answer([text])[0].tolist()
    return {"log odds": positive - negative, "label": label}


def _explained(model: RemoteClassifier, size: Size, seed: int) -> Numbers:
    explainer = Explainer(
        model, method="slalom-eff", budget=size.calls, target=1, random_state=seed
    )
    return {"explanation": json.dumps(explainer(REVIEW).to_dict())}


def outcome(found: dict[str, Numbers]) -> Outcome:
    """Accuracy first, then the named words; see ``study``."""
    answered = [numbers for name, numbers in found.items() if name.startswith("review")]
    explanation = Explanation.from_dict(json.loads(found["printed"]["explanation"]))
    log_odds = np.array([numbers["log odds"] for numbers in answered])
    labels = np.array([numbers["label"] for numbers in answered], dtype=bool)
    accuracy = float(((log_odds > 0) == labels).mean())
    ranked = auroc(log_odds, labels)
    words = pd.DataFrame(named_words(explanation))
    good, bad = (words[words["word"].isin(part)]["value"].mean() for part in (POSITIVE, NEGATIVE))
    said = pd.DataFrame([_accuracy_row(accuracy, len(answered)), _ranked_row(ranked, labels)])
    return Outcome(
        checks=(
            at_least("AU-ROC of its log odds on reviews", ranked, 0.5 + _error_of_chance(labels)),
            at_least("value of the good words less that of the bad ones, mean", good - bad, 0.0),
        ),
        tables={"model": said, "words": words},
        figures={"text": partial(highlighted, explanation, score="linearized")},
        remarks=(
            "The paper asks GPT-4-turbo and GPT-4o-mini, shows coloured words and prints no "
            "number. The model here is the one that was named with --api-model.",
            f"Without examples in the prompt, the model classifies {100 * accuracy:.0f}% of "
            f"{len(answered)} reviews correctly, all answers above even odds taken for positive.",
            *explanation.notes,
        ),
        finding=(
            f"The model classifies {100 * accuracy:.0f}% of {len(answered)} reviews correctly "
            f"(AU-ROC {ranked:.2f}). In the printed review, good words have a mean value of "
            f"{good:.2f} and bad words of {bad:.2f}."
        ),
    )


def _accuracy_row(accuracy: float, reviews: int) -> dict[str, object]:
    error = math.sqrt(accuracy * (1 - accuracy) / reviews)
    return {
        "quantity": "accuracy without examples",
        "paper": float("nan"),
        "ours": accuracy,
        "s.e.": error,
        "reviews": reviews,
    }


def _ranked_row(ranked: float, labels: NDArray[np.bool_]) -> dict[str, object]:
    return {
        "quantity": "AU-ROC of its log odds",
        "paper": float("nan"),
        "ours": ranked,
        "s.e.": _error_of_chance(labels),
        "reviews": len(labels),
    }


def _error_of_chance(labels: NDArray[np.bool_]) -> float:
    """The standard error of an AU-ROC where there is nothing to find."""
    positive, negative = int(labels.sum()), int((~labels).sum())
    if positive == 0 or negative == 0:
        return math.nan
    return math.sqrt((positive + negative + 1) / (12 * positive * negative))
