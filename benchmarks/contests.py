"""Which of two words wins? What two printed scores say, beside the model's own answers.

    python benchmarks/contests.py
    python benchmarks/contests.py --text "A slow start, but a wonderful film."

A contest fills the text half with one token i and half with another one, j. Values v and
importances s, rounded as they are printed, say what comes out:

    (w_i v_i + w_j v_j) / (w_i + w_j),    w = exp(s)

The model is then asked, with i in the first half and with j in the first half. Its answer is the
mean of the two. No explanation has seen such a text.

The contestants are the ten distinct tokens of a text whose removal changes most, and each of them
meets each of the others. Without ``--text``, there are the review and the short reviews in
``examples/``: one table with a line per text, and the full tables of one of them.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from slalom_xai import Explainer, Explanation
from slalom_xai.models import Prompt, prompt
from slalom_xai.outputs import Target
from slalom_xai.queries import Queries
from slalom_xai.reports.wording import unit_texts

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
SHOWN_IN_FULL = "I wanted to like it."  # how the text with full tables begins
CONTESTANTS = 10  # tokens of a text
DIGITS = 2  # of printed scores
CLEAR = 0.5  # log odds; a prediction nearer to zero names no winner


@dataclass(frozen=True)
class Token:
    """A token as a reader sees it.

    Attributes:
        unit: its place among the units.
        text: its characters.
        value: rounded, as the others are.
        importance: the log of its weight.
        removal: what is lost without it.
    """

    unit: int
    text: str
    value: float
    importance: float
    removal: float


@dataclass(frozen=True)
class Contest:
    """Two tokens that fill half of a text each.

    Attributes:
        one: a token.
        other: another token.
        predicted: from the printed scores.
        of_values: the same if both weighed alike.
        answered: by the model, the mean of both orders.
    """

    one: Token
    other: Token
    predicted: float
    of_values: float
    answered: float

    @property
    def disputed(self) -> bool:
        """Whether the two speak for different classes, and the scores name a winner."""
        return self.one.value * self.other.value < 0 and abs(self.predicted) > CLEAR

    @property
    def won_as_predicted(self) -> bool:
        """Whether the model sides with the token that was to win."""
        return self.predicted * self.answered > 0


@dataclass(frozen=True)
class Results:
    """All contests of one text.

    Attributes:
        explanation: of the text.
        tokens: the contestants, the one whose removal changes most first.
        contests: all pairs.
    """

    explanation: Explanation
    tokens: tuple[Token, ...]
    contests: tuple[Contest, ...]

    @property
    def r2(self) -> float:
        """The share of the answers' variance that was predicted."""
        return self._r2([contest.predicted for contest in self.contests])

    @property
    def r2_of_values(self) -> float:
        """The same without importances: both tokens weigh alike."""
        return self._r2([contest.of_values for contest in self.contests])

    @property
    def error(self) -> float:
        """The mean distance between prediction and answer."""
        return float(np.mean([abs(each.predicted - each.answered) for each in self.contests]))

    @property
    def disputed(self) -> list[Contest]:
        """The contests with a winner to name."""
        return [contest for contest in self.contests if contest.disputed]

    @property
    def won(self) -> int:
        """Disputed contests that the predicted winner won."""
        return sum(contest.won_as_predicted for contest in self.disputed)

    def _r2(self, predicted: Sequence[float]) -> float:
        answered = np.array([contest.answered for contest in self.contests])
        return float(1 - np.mean((np.array(predicted) - answered) ** 2) / answered.var())


def hold_contests(explainer: Explainer, text: str) -> Results:
    """Explains a text, and lets its strongest tokens meet in pairs."""
    explanation = explainer(text)
    question = prompt(explainer.model.read(text), "token")
    tokens = _contestants(explanation, question)
    pairs = list(combinations(tokens, 2))
    target = explainer.model.outputs.target(explanation.target_index, list(explanation.full))
    answers = _answers(explainer, question, pairs, target)
    contests = []
    for (one, other), answered in zip(pairs, answers, strict=True):
        middle = (one.value + other.value) / 2
        contests.append(Contest(one, other, _predicted(one, other), middle, answered))
    return Results(explanation, tokens, tuple(contests))


def _contestants(explanation: Explanation, question: Prompt) -> tuple[Token, ...]:
    """The distinct tokens whose removal changes most."""
    value, importance, removal = (
        np.round(explanation.scores(name), DIGITS) for name in ("value", "importance", "removal")
    )
    texts = unit_texts(explanation)
    chosen: dict[int, Token] = {}
    for unit in np.argsort(-np.abs(explanation.scores("removal")), kind="stable"):
        code = int(question.codes[unit])
        if code not in chosen and len(chosen) < CONTESTANTS:
            chosen[code] = Token(
                int(unit),
                texts[unit],
                float(value[unit]),
                float(importance[unit]),
                float(removal[unit]),
            )
    return tuple(chosen.values())


def _predicted(one: Token, other: Token) -> float:
    """The average of two values under their weights."""
    weights = np.exp([one.importance, other.importance])
    return float(np.average([one.value, other.value], weights=weights))


def _answers(
    explainer: Explainer,
    question: Prompt,
    pairs: Sequence[tuple[Token, Token]],
    target: Target,
) -> list[float]:
    """The model's answers to texts that are filled with two tokens, the mean of both orders."""
    half = max(1, len(question.units) // 2)
    rows = []
    for one, other in pairs:
        rows.append([one.unit] * half + [other.unit] * half)
        rows.append([other.unit] * half + [one.unit] * half)
    queries = Queries(explainer.batches, question, budget=len(rows))
    columns = queries.ask_sequences(np.array(rows), "check").cpu().numpy()
    answers = columns[:, target.column] * target.sign
    both_orders: list[float] = answers.reshape(len(pairs), 2).mean(axis=1).tolist()
    return both_orders


def example_texts() -> list[str]:
    """The review in ``examples/`` and the short reviews."""
    short = (EXAMPLES / "reviews.txt").read_text(encoding="utf-8").splitlines()
    return [(EXAMPLES / "review.txt").read_text(encoding="utf-8").strip(), *short]


def summary(results: Sequence[Results]) -> str:
    """One line per text, as a Markdown table."""
    lines = [
        "| text | tokens | R² | R² without importances | mean error | won as predicted |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for found in results:
        begins = found.explanation.text[:32].rsplit(" ", 1)[0]
        lines.append(
            f"| {begins} … | {len(found.explanation)} | {found.r2:.2f} | "
            f"{found.r2_of_values:.2f} | {found.error:.2f} | {found.won} of {len(found.disputed)} |"
        )
    disputed = sum(len(found.disputed) for found in results)
    won = sum(found.won for found in results)
    median = np.median([found.r2 for found in results])
    of_values = np.median([found.r2_of_values for found in results])
    error = np.median([found.error for found in results])
    lines.append(
        f"| median, and all contests | | {median:.2f} | {of_values:.2f} | {error:.2f} | "
        f"{won} of {disputed} |"
    )
    return "\n".join(lines)


def in_full(found: Results) -> str:
    """The scores of the contestants, and their contests, as Markdown tables."""
    lines = [f"> {found.explanation.text}", "", "| token | value | importance | removal |"]
    lines.append("| --- | --- | --- | --- |")
    for token in found.tokens:
        lines.append(
            f"| {token.text} | {token.value:+.2f} | {token.importance:+.2f} | "
            f"{token.removal:+.2f} |"
        )
    lines += ["", "| half | other half | the scores say | the model says |"]
    lines.append("| --- | --- | --- | --- |")
    for contest in found.contests:
        lines.append(
            f"| {contest.one.text} | {contest.other.text} | {contest.predicted:+.2f} | "
            f"{contest.answered:+.2f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--text", help="a text of your own; by default those in examples/")
    parser.add_argument("--model", help="a hub id or a folder; by default the embedded model")
    given = parser.parse_args()
    explainer = Explainer(given.model, show_progress=False)
    texts = [given.text] if given.text else example_texts()
    results = [hold_contests(explainer, text) for text in texts]
    for found in results:
        if given.text or found.explanation.text.startswith(SHOWN_IN_FULL):
            print(in_full(found), end="\n\n")
    print(summary(results))


if __name__ == "__main__":
    main()
