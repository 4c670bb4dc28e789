"""An explanation as HTML that runs no script and loads nothing; every character of the text is escaped."""

from __future__ import annotations

from html import escape

from slalom_xai.explanation import Explanation
from slalom_xai.reports.colour import DOWN, UP, pieces, printable, strongest_units

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(explanation: Explanation) -> str:
    """A complete, self-contained page."""
    return (
        "<!doctype html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(printable(explanation.target))}: an explanation</title></head>\n"
        f'<body style="max-width:48rem;margin:2rem auto;padding:0 1rem">{fragment(explanation)}</body></html>\n'
    )


def fragment(explanation: Explanation, rows: int = 10) -> str:
    """What a notebook shows."""
    heading = f"<p><strong>{escape(printable(explanation.target))}</strong>: {explanation.prediction:+.2f}</p>"
    left_out = f"<p>Left out: the last {len(explanation.left_out)} characters.</p>" if explanation.left_out else ""
    text = "".join(_span(characters, intensity) for characters, intensity in pieces(explanation))
    body = f'<p dir="auto" style="line-height:1.8;white-space:pre-wrap">{text}</p>'
    trust = f"<p><strong>{escape(explanation.trust)}</strong></p>" + "".join(f"<p>{escape(note)}</p>" for note in explanation.notes)
    return f'<div style="font-family:system-ui,sans-serif">{heading}{body}{left_out}{_table(explanation, rows)}{trust}</div>'


def _span(characters: str, intensity: float | None) -> str:
    if intensity is None or abs(intensity) < 0.04:
        return escape(characters)
    red, green, blue = UP if intensity > 0 else DOWN
    alpha = abs(intensity) ** 0.6 * 0.75
    return f'<span style="background:rgba({red},{green},{blue},{alpha:.2f});border-radius:3px">{escape(characters)}</span>'


def _table(explanation: Explanation, rows: int) -> str:
    names = {"value": "value", "importance": "importance", "removal": "lost without it"}
    if explanation.importances is None:
        names = {"value": "score"}
    scores = {name: explanation.scores(name) for name in names}
    head = "".join(f"<th>{title}</th>" for title in (explanation.granularity, *names.values()))
    lines = []
    for place in strongest_units(explanation, rows):
        cells = "".join(f'<td style="text-align:right">{scores[name][place]:+.2f}</td>' for name in names)
        lines.append(f'<tr><td dir="auto">{escape(printable(explanation.units[place].text))}</td>{cells}</tr>')
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
