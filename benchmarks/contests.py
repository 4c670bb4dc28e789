"""Which of two words wins? What two printed scores say, beside the model's own answers.

    python benchmarks/contests.py
    python benchmarks/contests.py --text "A slow start, but a wonderful film."
    python benchmarks/contests.py --data imdb_test.jsonl.gz --texts 12

A contest fills the text half with one token i and half with another one, j. Values v and
importances s, rounded as they are printed, say what comes out:

    (w_i v_i + w_j v_j) / (w_i + w_j),    w = exp(s)

The model is then asked, with i in the first half and with j in the first half. Its answer is the
mean of the two. No explanation has seen such a text.

The contestants are the five tokens of a text with the largest Shapley values and the five with the
smallest, each token once; each of them meets each of the others. Without ``--text``, there are the
review and the short reviews in ``examples/``: one table with a line per text, and the full tables
of one of them. With ``--data``, there are reviews of at most 200 tokens, drawn from a table.
``--page docs/contests.md`` also writes the tables into that page, between their marks.
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
from slalom_xai.tables import read_table

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
SHOWN_IN_FULL = "I wanted to like it."  # how the text with full tables begins
ON_EACH_SIDE = 5  # tokens that argue for, and as many that argue against
CONTESTANTS = 2 * ON_EACH_SIDE
LONGEST = 200  # tokens of a text that is drawn from a table
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
        tokens: the contestants, from the one that argues most for the label to the one that
            argues most against it.
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
    """The distinct tokens that argue most for the label, and most against it."""
    value, importance, removal = (
        np.round(explanation.scores(name), DIGITS) for name in ("value", "importance", "removal")
    )
    texts = unit_texts(explanation)
    best_first = np.argsort(-explanation.scores("shapley"), kind="stable").tolist()
    argue_for = _distinct(best_first, question, set())
    taken = {int(question.codes[unit]) for unit in argue_for}
    argue_against = _distinct(best_first[::-1], question, taken)
    tokens = []
    for unit in (*argue_for, *reversed(argue_against)):
        scores = (float(score[unit]) for score in (value, importance, removal))
        tokens.append(Token(unit, texts[unit], *scores))
    return tuple(tokens)


def _distinct(units: Sequence[int], question: Prompt, taken: set[int]) -> list[int]:
    """The first few units that read differently from each other and from those taken."""
    chosen: dict[int, int] = {}
    for unit in units:
        code = int(question.codes[unit])
        if code not in taken and len(chosen) < ON_EACH_SIDE:
            chosen.setdefault(code, unit)
    return list(chosen.values())


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


def drawn_texts(explainer: Explainer, path: Path, count: int) -> list[str]:
    """So many texts of a table, none of them long."""
    texts = [str(text) for text in read_table(path).cells("text")]
    chosen: list[str] = []
    for index in np.random.default_rng(0).permutation(len(texts)):
        if len(chosen) == count:
            break
        reading = explainer.model.read(texts[index], truncation=True)
        if CONTESTANTS <= len(reading.pieces) <= LONGEST:
            chosen.append(texts[index])
    return chosen


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


def scores_table(found: Results) -> str:
    """The scores of the contestants, as a Markdown table."""
    lines = ["| token | value | importance | removal |", "| --- | --- | --- | --- |"]
    for token in found.tokens:
        lines.append(
            f"| {token.text} | {token.value:+.2f} | {token.importance:+.2f} | "
            f"{token.removal:+.2f} |"
        )
    return "\n".join(lines)


def contests_table(found: Results) -> str:
    """Contests between the two sides: what the scores say, and what the model says."""
    answers = {}
    for contest in found.contests:
        said = f"{contest.predicted:+.2f} / {contest.answered:+.2f}"
        answers[contest.one.unit, contest.other.unit] = said
    half = len(found.tokens) // 2
    argue_for, argue_against = found.tokens[:half], found.tokens[half:]
    lines = [f"| | {' | '.join(token.text for token in argue_against)} |"]
    lines.append(f"| --- |{' --- |' * len(argue_against)}")
    for one in argue_for:
        cells = (answers[one.unit, other.unit] for other in argue_against)
        lines.append(f"| {one.text} | {' | '.join(cells)} |")
    return "\n".join(lines)


def write_into(page: Path, tables: dict[str, str]) -> None:
    """Replaces tables of a page, each between its two marks."""
    text = page.read_text(encoding="utf-8")
    for name, table in tables.items():
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        before, found, rest = text.partition(begin)
        _, found_too, after = rest.partition(end)
        if not (found and found_too):
            raise SystemExit(f"{page} does not have the marks {begin} and {end}")
        text = f"{before}{begin}\n\n{table}\n\n{end}{after}"
    page.write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--text", help="a text of your own; by default those in examples/")
    parser.add_argument("--data", type=Path, help="a table with a column named text")
    parser.add_argument("--texts", type=int, default=12, help="how many texts of --data")
    parser.add_argument("--page", type=Path, help="a page whose tables are written again")
    parser.add_argument("--model", help="a hub id or a folder; by default the embedded model")
    given = parser.parse_args()
    explainer = Explainer(given.model, show_progress=False)
    if given.text:
        texts = [given.text]
    elif given.data:
        texts = drawn_texts(explainer, given.data, given.texts)
    else:
        texts = example_texts()
    results = [hold_contests(explainer, text) for text in texts]
    tables = {}
    for found in results:
        if given.text or found.explanation.text.startswith(SHOWN_IN_FULL):
            tables["scores"] = scores_table(found)
            tables["contests"] = contests_table(found)
    tables["drawn texts" if given.data else "texts"] = summary(results)
    print("\n\n".join(tables.values()))
    if given.page:
        write_into(given.page, tables)


if __name__ == "__main__":
    main()
