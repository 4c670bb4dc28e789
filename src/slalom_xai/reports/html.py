"""Explanations as one page that works offline: the interactive view, and without scripts a coloured text and a table.

Texts reach the page only as JSON in which no character can end the script element, and as escaped characters. The policy in the page
allows its own script and style, by their hashes, and nothing else: no request leaves the page.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import unicodedata
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

from slalom_xai.errors import InputError, shortened
from slalom_xai.explanation import Explanation
from slalom_xai.reports.colour import pieces, printable, strongest_units
from slalom_xai.reports.view import explanation_data, index_data, printable_lines, to_json
from slalom_xai.reports.wording import answer, question, unit_texts
from slalom_xai.system.files import write_file

_HEIGHT = 720  # of a view in a notebook, in pixels; its lower edge can be dragged
_STATIC = 20  # texts that are also shown without scripts


def write_report(
    explanations: Explanation | Sequence[Explanation], path: str | Path, *, title: str | None = None
) -> Path:
    """Writes one self-contained page with several explanations; returns the path.

    Explanations of the same text (by several methods or models, or of several seeds) stand side by side; several texts get a list
    with a filter.

    Args:
        explanations: at least one.
        path: of the HTML file.
        title: heading of the page.
    """
    return write_file(path, page(explanations, title=title))


def page(explanations: Explanation | Sequence[Explanation], *, title: str | None = None) -> str:
    """A complete, self-contained page; ``write_report`` says what it shows."""
    given = _checked(explanations)
    heading = title or (question(given[0]) if len(given) == 1 else f"{len(given)} explanations")
    script, style = _asset("view.js"), _asset("view.css")
    policy = f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; base-uri 'none'; form-action 'none'"
    blocks = "\n".join(
        f'<script type="application/json" class="slalom-data">{to_json(explanation_data(each))}</script>'
        for each in given
    )
    return (
        "<!doctype html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(printable(heading))}</title>\n<style>{style}</style></head>\n"
        f'<body><div id="slalom-view">{_without_scripts(given, heading)}</div>\n'
        f'<script type="application/json" id="slalom-index">{to_json(index_data(given, heading))}</script>\n'
        f"{blocks}\n<script>{script}</script></body></html>\n"
    )


def fragment(explanation: Explanation) -> str:
    """What a notebook shows: the page in a frame of its own.

    A frame keeps several views on one page apart, styles, ids and scripts alike, and its sandbox lets the script run without access to
    the notebook.
    """
    return (
        f'<iframe sandbox="allow-scripts" title="Explanation of {escape(shortened(printable(explanation.text), 60))}" loading="lazy" '
        f'style="width:100%;height:{_HEIGHT}px;border:0;resize:vertical;overflow:auto" srcdoc="{escape(page(explanation))}"></iframe>'
    )


def _checked(explanations: Explanation | Sequence[Explanation]) -> list[Explanation]:
    given = [explanations] if isinstance(explanations, Explanation) else list(explanations)
    if not given:
        raise InputError("there are no explanations to report: give at least one")
    for place, each in enumerate(given):
        if not isinstance(each, Explanation):
            raise InputError(
                f"entry {place} of the report is of type {type(each).__name__}: give explanations, as Explanation.load returns"
            )
    return given


@functools.cache
def _asset(name: str) -> str:
    """A file that the front end's build wrote."""
    return files("slalom_xai.reports").joinpath("static", name).read_text(encoding="utf-8")


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def _without_scripts(explanations: Sequence[Explanation], heading: str) -> str:
    """What is seen before the script has run, or where scripts may not: mail programs, previews, strict servers."""
    shown = "".join(map(_static, explanations[:_STATIC]))
    more = len(explanations) - _STATIC
    rest = f"<p>The interactive view shows {more} more.</p>" if more > 0 else ""
    hint = "<p>For the interactive view, open this page in a browser that allows scripts.</p>"
    return f'<div class="plain"><h1>{escape(printable(heading))}</h1>{shown}{rest}{hint}</div>'


def _static(explanation: Explanation, rows: int = 10) -> str:
    heading = f"<p><strong>{escape(answer(explanation))}</strong></p>"
    left_out = (
        f"<p>The last {len(explanation.left_out)} characters are left out: the model does not read that far.</p>"
        if explanation.left_out
        else ""
    )
    text = "".join(_span(characters, intensity) for characters, intensity in pieces(explanation))
    notes = "".join(f"<p>{escape(printable(note))}</p>" for note in explanation.notes)
    trust = f"<p><strong>{escape(printable(explanation.trust))}</strong></p>{notes}"
    return f'<section>{heading}<p dir="{_direction(explanation.text)}" class="words">{text}</p>{left_out}{_table(explanation, rows)}{trust}</section>'


def _direction(text: str) -> str:
    """Where a text begins, by its first letter; ``dir="auto"`` does the same, but slowly while a long text is being read."""
    letters = (unicodedata.bidirectional(character) for character in text)
    return next(
        ("rtl" if kind in ("R", "AL") else "ltr" for kind in letters if kind in ("L", "R", "AL")),
        "ltr",
    )


def _span(characters: str, intensity: float | None) -> str:
    """A word in one of five strengths: the policy allows no styles of its own."""
    clean = escape(printable_lines(characters))
    strength = 0 if intensity is None else round(5 * abs(intensity) ** 0.6)
    return (
        f'<span class="{"up" if (intensity or 0) > 0 else "down"} s{strength}">{clean}</span>'
        if strength
        else clean
    )


def _table(explanation: Explanation, rows: int) -> str:
    names = {"value": "value", "importance": "importance", "removal": "lost without it"}
    if explanation.importances is None:
        names = {"value": "score"}
    scores = {name: explanation.scores(name) for name in names}
    head = "".join(
        f"<th>{escape(printable(title))}</th>"
        for title in (explanation.granularity, *names.values())
    )
    lines = []
    shown = unit_texts(explanation)
    for place in strongest_units(explanation, rows):
        cells = "".join(f"<td>{scores[name][place]:+.2f}</td>" for name in names)
        lines.append(f'<tr><td dir="auto">{escape(shown[place])}</td>{cells}</tr>')
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
