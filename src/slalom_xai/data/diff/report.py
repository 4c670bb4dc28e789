"""A diff as files and in a terminal: Markdown, JSON, a figure and a table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from slalom_xai import __version__
from slalom_xai.data.diff.run import Diff
from slalom_xai.data.diff.words import Change, TextChange, WordChange
from slalom_xai.reports.colour import printable
from slalom_xai.reports.figures.canvas import FAINT, WIDTH, label, look, new_figure, save, strong
from slalom_xai.reports.figures.points import Points, limit_plane, name_points
from slalom_xai.slalom.trust import TRUST
from slalom_xai.system.files import write_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VERSION = 1
_FEWEST = 20  # texts: of fewer, hardly any word can be told to have changed
_ROWS = 20  # words and texts in the terminal
_LISTED = 200  # words and texts in Markdown
_NAMED = 25  # words in the figure
_SHOWN = 160  # characters of a text


def write_json(diff: Diff, path: Path) -> Path:
    """Writes everything as JSON; returns the path.

    Raises:
        InputError: it cannot be written.
    """
    return write_file(path, json.dumps(as_data(diff), ensure_ascii=False) + "\n")


def write_markdown(diff: Diff, path: Path) -> Path:
    """Writes a report for people; returns the path.

    Raises:
        InputError: it cannot be written.
    """
    return write_file(path, markdown(diff))


def draw_diff(diff: Diff, path: Path) -> Path:
    """Writes the figure; returns the path.

    Raises:
        InputError: it cannot be written, or matplotlib is not installed.
    """
    return save(diff_figure(diff), path)


def as_data(diff: Diff) -> dict[str, Any]:
    """A diff as JSON has it."""
    return {
        "format": "slalom-diff",
        "version": VERSION,
        "slalom-xai": __version__,
        **asdict(diff),
    }


def summary(diff: Diff) -> list[str]:
    """What was found, in sentences: how much there was to see first."""
    lines = [_sizes(diff), *_doubts(diff), *_words(diff), _texts(diff)]
    for score, drift in diff.drift.items():
        lines.append(
            f"Words in general: {score} after = {drift.slope:.2f} × before "
            f"{'-' if drift.shift < 0 else '+'} {abs(drift.shift):.2f}, ± {drift.spread:.2f}."
        )
    if diff.failed:
        lines.append(
            f"{diff.failed:,} texts could not be explained: before/errors.jsonl and "
            "after/errors.jsonl say why."
        )
    return lines


def _sizes(diff: Diff) -> str:
    said = (
        f"{diff.compared:,} texts were compared; {len(diff.words):,} words stand in at least "
        f"{diff.least} of them."
    )
    if diff.compared < _FEWEST:
        said += (
            f" Fewer than {_FEWEST} texts are too few to tell most words that changed from chance: "
            "give more."
        )
    return said


def _doubts(diff: Diff) -> list[str]:
    """Where explanations predict so little that their scores say little."""
    lines = []
    for name, trust in zip(diff.models, diff.trust, strict=True):
        if trust.median is None:
            lines.append(f"How far to trust the explanations of {name} is not known.")
        elif trust.poor:
            below = f" ({trust.below_zero:,} of them below 0)" if trust.below_zero else ""
            lines.append(
                f"Do not trust {trust.poor:,} of {trust.checked:,} explanations of {name}: they "
                f"predict less than {TRUST.doubtful:.0%} of what deletions do{below}. Words may "
                "seem to change there because the explanations fail."
            )
    before, after = (trust.median for trust in diff.trust)
    if lines and before is not None and after is not None:
        lines.append(f"The median R² of explanations was {before:.2f} and is {after:.2f}.")
    return lines


def _words(diff: Diff) -> list[str]:
    """Which words changed; where none can be told, how far they moved all the same."""
    changed = diff.changed
    if not changed:
        return [_no_words(diff)]
    values = sum(word.value.changed for word in changed)
    importances = sum(word.importance.changed for word in changed if word.importance is not None)
    lines = [
        f"{len(changed):,} of {len(diff.words):,} words changed (false discovery rate "
        f"{diff.rate:g}): {values:,} their value, {importances:,} their importance."
    ]
    unheard = sum(word.moved and not word.changed for word in diff.words)
    if unheard:
        lines.append(
            f"{unheard:,} more words have another value or importance, but do in these texts what "
            "they did before."
        )
    return lines


def _no_words(diff: Diff) -> str:
    if not diff.words:
        return "No word stands in enough texts, so that nothing is known about words."
    if not any(score.difference for word in diff.words for score in word.scores):
        return "The scores of all words are the same."
    furthest = max(diff.words, key=lambda word: abs(word.value.difference))
    most = (
        f"the value of “{furthest.word}” moved most, by {furthest.value.difference:+.2f} ± "
        f"{furthest.value.error:.2f} in {furthest.texts:,} texts"
    )
    rate = f"(false discovery rate {diff.rate:g})"
    moved = sum(word.moved for word in diff.words)
    if moved:
        return (
            f"No word can be told to do something else in these texts {rate}, but {moved:,} of "
            f"{len(diff.words):,} have another value or importance: {most}."
        )
    return (
        f"No word can be told to have changed {rate}. That does not say that none did: {most}, "
        "which may be chance or what words in general did."
    )


def _texts(diff: Diff) -> str:
    said = f"{len(diff.texts):,} of {diff.compared:,} texts are predicted otherwise."
    if diff.texts and not diff.changed:
        said += (
            " The words beside each are those whose effect differs most in that one text; no test "
            "says that they changed."
        )
    return said


def render(diff: Diff) -> RenderableType:
    """What ``slalom diff`` prints."""
    title = f"{printable(diff.models[0])} → {printable(diff.models[1])}"
    if diff.target is not None:
        title += f", values argue for {printable(diff.target)}"
    parts: list[RenderableType] = [Text(title, style="bold")]
    parts.extend(Text(printable(line)) for line in summary(diff))
    if diff.changed:
        parts.append(_word_table(diff.changed[:_ROWS]))
    if diff.texts:
        parts.append(_text_table(diff.texts[: _ROWS // 2]))
    parts.append(Text(f"{diff.calls:,} model calls; a * marks what changed", style="dim"))
    return Group(*parts)


def markdown(diff: Diff) -> str:
    """A report for people."""
    lines = [f"# {_cell(diff.models[0])} → {_cell(diff.models[1])}", ""]
    lines += [f"- {_cell(line)}" for line in summary(diff)]
    lines += [
        "",
        "A word is called changed where its effect (its Shapley value, or what is lost without it "
        "where the method has none) moved otherwise than that of words in general. A \\* marks "
        "each score that did; ± is a standard error. Words are in lower case.",
        "",
        "## Words" if diff.changed else "## Words, of which none can be told to have changed",
        "",
        "| word | texts | value | | change | importance | | change | effect | | change |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for word in diff.words[:_LISTED]:
        lines.append(f"| {' | '.join([_cell(word.word), *_row(word)])} |")
    if len(diff.words) > _LISTED:
        lines += ["", f"{len(diff.words) - _LISTED:,} more words are in diff.json."]
    lines += ["", "## Texts with another answer", ""]
    if not diff.texts:
        lines.append("None.")
    for text in diff.texts[:_LISTED]:
        lines += [
            f"- **{_cell(text.id)}**: {_cell(str(text.before))} ({text.output_before:+.2f}) → "
            f"{_cell(str(text.after))} ({text.output_after:+.2f}) by {_cell(_by(text))}. "
            f"“{_cell(_shorten(text.text))}”",
        ]
    if len(diff.texts) > _LISTED:
        lines += ["", f"{len(diff.texts) - _LISTED:,} more texts are in diff.json."]
    return "\n".join(lines) + "\n"


def diff_figure(diff: Diff) -> Figure:
    """Words before and after: an arrow for each that changed."""
    everything = _select_points(diff.words)
    words = [pair for pair in everything if pair[0].changed]
    names = [label(word.word) for word, _ in words]
    with look(names):
        figure = new_figure(f"{diff.models[0]} and {diff.models[1]}", WIDTH, 4.8, outlines=False)
        axes = figure.add_subplot()
        points = _points(everything)
        limit_plane(axes, points)
        axes.scatter(points.values, points.importances, s=6, color=FAINT, zorder=1)
        for word, importance in words:
            arrow = {"arrowstyle": "->", "linewidth": 0.9, "shrinkA": 0, "shrinkB": 0}
            axes.annotate(
                "",
                (word.value.after, importance.after),
                (word.value.before, importance.before),
                arrowprops={**arrow, "color": strong(word.value.difference >= 0)},
                zorder=3,
            )
        axes.set_xlabel("value")
        axes.set_ylabel("importance (log scale)")
        axes.set_title(
            "Words that changed, from before to after"
            if words
            else "No word can be told to have changed",
            fontsize="medium",
        )
        figure.draw_without_rendering()  # settles where the axes are
        figure.set_layout_engine("none")
        name_points(figure, axes, _points(words), range(min(_NAMED, len(words))))
    return figure


def _select_points(words: Sequence[WordChange]) -> list[tuple[WordChange, Change]]:
    """Words with their importances, where these are known."""
    return [(word, word.importance) for word in words if word.importance is not None]


def _points(words: Sequence[tuple[WordChange, Change]]) -> Points:
    """Where words are after the change."""
    return Points(
        values=np.array([word.value.after for word, _ in words]),
        importances=np.array([importance.after for _, importance in words]),
        effects=np.array([word.value.difference for word, _ in words]),
        labels=[label(word.word) for word, _ in words],
    )


def _word_table(words: Sequence[WordChange]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("word")
    names = ("texts", "value", "→", "change", "importance", "→", "change", "effect", "→", "change")
    for name in names:
        table.add_column(name, justify="right")
    for word in words:
        table.add_row(Text(printable(word.word)), *_row(word))
    return table


def _row(word: WordChange) -> list[str]:
    cells = [_cells(change) for change in (word.value, word.importance, word.effect)]
    return [f"{word.texts:,}", *(cell for three in cells for cell in three)]


def _text_table(texts: Sequence[TextChange]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("text", "answer", "by", ""):
        table.add_column(name)
    for text in texts:
        answer = f"{text.before} {text.output_before:+.2f} → {text.after} {text.output_after:+.2f}"
        table.add_row(
            Text(printable(text.id)),
            Text(printable(answer)),
            Text(printable(_by(text))),
            Text(printable(_shorten(text.text, 60)), style="dim"),
        )
    return table


def _cells(change: Change | None) -> list[str]:
    if change is None:
        return ["–", "–", "–"]
    mark = "*" if change.changed else ""
    return [
        f"{change.before:+.2f}",
        f"{change.after:+.2f}",
        f"{mark}{change.difference:+.2f} ± {change.error:.2f}",
    ]


def _by(text: TextChange) -> str:
    return ", ".join(f"{word.unit} {word.difference:+.2f}" for word in text.words) or "no one word"


def _shorten(text: str, limit: int = _SHOWN) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _cell(text: str) -> str:
    """A text that Markdown does not take for something else."""
    clean = printable(" ".join(text.split()))
    for mark in "\\|*_`[]<>#":
        clean = clean.replace(mark, f"\\{mark}")
    return clean
