"""Prints the table of docs/which-score.md: which score answers which question, with real numbers.

    python scripts/which_score.py

The embedded model explains one sentence with default settings. The last columns are two of its
words. A test compares the page with what this prints.
"""

from __future__ import annotations

from slalom_xai import Explainer

TEXT = "A slow start, but a wonderful film."
SHOWN = ("slow", "wonderful")
QUESTIONS = {
    "shapley": "Which tokens matter most, and which way? (one number, to rank and to colour)",
    "removal": "What is lost if I leave out this token, and nothing else?",
    "value": "What does this token stand for? What would the model answer if it filled the text?",
    "importance": "How loudly does it speak against the others? (log scale; read it with `value`)",
    "alone": "What does the model answer to this token by itself?",
    "slope": "What would saying it once more do?",
    "linearized": "What is the single score of the paper? (`value` times exp of `importance`)",
}


def table_lines() -> list[str]:
    """The table in Markdown, a line each."""
    explanation = Explainer()(TEXT)
    texts = [unit.text for unit in explanation.units]
    places = [texts.index(word) for word in SHOWN]
    words = " | ".join(f'"{word}"' for word in SHOWN)
    lines = [f"| you ask | read | it is | {words} |", "| --- | --- | --- | --- | --- |"]
    for name, question in QUESTIONS.items():
        scores = explanation.scores(name)
        numbers = " | ".join(f"{scores[place]:+.2f}".replace("-", "−") for place in places)
        lines.append(f"| {question} | `{name}` | {explanation.source(name)} | {numbers} |")
    return lines


if __name__ == "__main__":
    print("\n".join(table_lines()))
