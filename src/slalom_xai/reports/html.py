"""Explanations as one page that works offline.

The page holds the interactive view, and without scripts a coloured text and a table. Texts reach
the page only as JSON in which no character can end the script element, and as escaped characters.
The policy in the page allows its own script and style, by their hashes, and nothing else: no
request leaves the page. It is put together by hand, as little of it is more than data: a template
would stand beside the same code that chooses and formats what it shows.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from slalom_xai.errors import InputError, quote_text
from slalom_xai.explanation import Explanation
from slalom_xai.reports.colour import HIGHLIGHT, pieces, printable, strongest_units
from slalom_xai.reports.view import explanation_data, index_data, printable_lines, to_json
from slalom_xai.reports.wording import (
    answer,
    left_out_sentence,
    question,
    runs_leftwards,
    unit_texts,
)
from slalom_xai.system.files import write_file

_HEIGHT = 720  # of a view in a notebook, in pixels; its lower edge can be dragged
_STATIC = 20  # texts that are also shown without scripts
_STRENGTHS = 5  # of colour, each a class in the style sheet


def write_report(
    explanations: Explanation | Sequence[Explanation], path: str | Path, *, title: str | None = None
) -> Path:
    """Writes one self-contained page with several explanations; returns the path.

    Explanations of the same text (by several methods or models, or of several seeds) stand side by
    side; several texts get a list with a filter.

    Args:
        explanations: at least one.
        path: of the HTML file.
        title: heading of the page.
    """
    return write_file(path, page(explanations, title=title))


def page(explanations: Explanation | Sequence[Explanation], *, title: str | None = None) -> str:
    """A complete, self-contained page; ``write_report`` says what it shows."""
    given = _check_explanations(explanations)
    heading = title or f"{len(given)} explanations"
    if not title and len(given) == 1:
        heading = question(given[0])
    script, style = _asset("view.js"), _asset("view.css")
    blocks = [_json_block('id="slalom-index"', index_data(given, heading))]
    for each in given:
        blocks.append(_json_block('class="slalom-data"', explanation_data(each)))
    lines = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(script, style)}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">',
        f"<title>{escape(printable(heading))}</title>",
        f"<style>{style}</style></head>",
        f'<body><div id="slalom-view">{_without_scripts(given, heading)}</div>',
        *blocks,
        f"<script>{script}</script></body></html>",
    ]
    return "\n".join(lines) + "\n"


def _policy(script: str, style: str) -> str:
    """What the page may do: run this script, use this style, and nothing else."""
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _json_block(attribute: str, data: Any) -> str:
    """Data for the script, in an element with this id or class."""
    return f'<script type="application/json" {attribute}>{to_json(data)}</script>'


def fragment(explanation: Explanation) -> str:
    """What a notebook shows: the page in a frame of its own.

    A frame keeps several views on one page apart, styles, ids and scripts alike. Its sandbox lets
    the script run without access to the notebook.
    """
    title = f"Explanation of {escape(quote_text(printable(explanation.text), 60))}"
    style = f"width:100%;height:{_HEIGHT}px;border:0;resize:vertical;overflow:auto"
    return (
        f'<iframe sandbox="allow-scripts" title="{title}" loading="lazy" '
        f'style="{style}" srcdoc="{escape(page(explanation))}"></iframe>'
    )


def _check_explanations(explanations: Explanation | Sequence[Explanation]) -> list[Explanation]:
    if isinstance(explanations, Explanation):
        return [explanations]
    given = list(explanations)
    if not given:
        raise InputError("there are no explanations to report: give at least one")
    for index, each in enumerate(given):
        if not isinstance(each, Explanation):
            raise InputError(
                f"entry {index} of the report is of type {type(each).__name__}: "
                "give explanations, as Explanation.load returns"
            )
    return given


@functools.cache
def _asset(name: str) -> str:
    """A file that the front end's build wrote."""
    return files("slalom_xai.reports").joinpath("static", name).read_text(encoding="utf-8")


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def _without_scripts(explanations: Sequence[Explanation], heading: str) -> str:
    """What is seen before the script has run, or where it may not.

    Mail programs, previews and strict servers allow no scripts.
    """
    shown = "".join(map(_static, explanations[:_STATIC]))
    rest = ""
    if len(explanations) > _STATIC:
        rest = f"<p>The interactive view shows {len(explanations) - _STATIC} more.</p>"
    hint = "<p>For the interactive view, open this page in a browser that allows scripts.</p>"
    return f'<div class="plain"><h1>{escape(printable(heading))}</h1>{shown}{rest}{hint}</div>'


def _static(explanation: Explanation, rows: int = 10) -> str:
    """One explanation: its answer, the coloured text, the strongest units, and how far to trust."""
    text = "".join(_span(characters, intensity) for characters, intensity in pieces(explanation))
    parts = []
    if explanation.reply is not None:
        for who, words in (("Question", explanation.question), ("Answer", explanation.reply)):
            parts.append(f"<p>{who}: {escape(printable_lines(words or ''))}</p>")
    parts += [
        f"<p><strong>{escape(answer(explanation))}</strong></p>",
        f'<p dir="{_direction(explanation.text)}" class="words">{text}</p>',
    ]
    if explanation.left_out:
        parts.append(f"<p>{left_out_sentence(explanation)}</p>")
    parts.append(_table(explanation, rows))
    parts.append(f"<p><strong>{escape(printable(explanation.trust))}</strong></p>")
    for note in explanation.notes:
        parts.append(f"<p>{escape(printable(note))}</p>")
    return f"<section>{''.join(parts)}</section>"


def _direction(text: str) -> str:
    """Where a text begins, by its first letter.

    ``dir="auto"`` does the same, but slowly while a long text is being read.
    """
    if runs_leftwards(text):
        return "rtl"
    return "ltr"


def _span(characters: str, intensity: float | None) -> str:
    """A word in one of five strengths: the policy allows no styles of its own."""
    clean = escape(printable_lines(characters))
    if intensity is None:
        return clean
    strength = round(_STRENGTHS * abs(intensity) ** 0.6)
    if strength == 0:
        return clean
    direction = "down"
    if intensity > 0:
        direction = "up"
    return f'<span class="{direction} s{strength}">{clean}</span>'


def _table(explanation: Explanation, rows: int) -> str:
    names = {"value": "value", "importance": "importance", HIGHLIGHT: "Shapley value"}
    if explanation.importances is None:
        names = {"value": "score"}
    scores = {name: explanation.scores(name) for name in names}
    titles = [explanation.granularity, *names.values()]
    head = "".join(f"<th>{escape(printable(title))}</th>" for title in titles)
    lines = []
    texts, effect = unit_texts(explanation), explanation.has_effect
    for index in strongest_units(explanation, rows):
        cells = "".join(f"<td>{scores[name][index]:+.2f}</td>" for name in names)
        if not effect[index]:
            cells = f'<td colspan="{len(names)}">no effect</td>'
        lines.append(f'<tr><td dir="auto">{escape(texts[index])}</td>{cells}</tr>')
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
