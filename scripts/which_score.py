"""Prints the table of docs/which-score.md: what each score tells, with real numbers.

    python scripts/which_score.py

The bundled model explains one sentence, for the class "positive". The last columns are two of its
words. A test compares the page with what this prints.
"""

from __future__ import annotations

from slalom_xai import Explainer

TEXT = "A slow start, but a wonderful film."
SHOWN = ("slow", "wonderful")
MEANINGS = {
    "shapley": "Which words matter most, and which way? (one number, to rank and to colour)",
    "removal": "What is lost if this word is removed, and nothing else?",
    "value": "What does this word argue for?",
    "importance": "How strongly is it heard against the others? (log scale; read it with `value`)",
    "alone": "What is the prediction from this word by itself?",
    "slope": "What does one more copy of it add?",
    "linearized": "What is the single score of the paper? (`value` times exp of `importance`)",
}


def table_lines() -> list[str]:
    """The table in Markdown, a line each."""
    explanation = Explainer(target="positive")(TEXT)
    texts = [unit.text for unit in explanation.units]
    places = [texts.index(word) for word in SHOWN]
    words = " | ".join(f'"{word}"' for word in SHOWN)
    lines = [f"| you want to know | read | it is | {words} |", "| --- | --- | --- | --- | --- |"]
    for name, meaning in MEANINGS.items():
        scores = explanation.scores(name)
        numbers = " | ".join(f"{scores[place]:+.2f}".replace("-", "−") for place in places)
        lines.append(f"| {meaning} | `{name}` | {explanation.source(name)} | {numbers} |")
    return lines


if __name__ == "__main__":
    print("\n".join(table_lines()))
