"""An explanation in a terminal: the coloured text, the two scores, and how far to trust them."""

from __future__ import annotations

import math

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.style import Style
from rich.table import Table
from rich.text import Text

from slalom_xai.explanation import Explanation
from slalom_xai.reports.colour import DOWN, HIGHLIGHT, UP, pieces, printable, strongest_units
from slalom_xai.reports.wording import answer, model_name, probabilities, scale, unit_texts
from slalom_xai.surrogates.quality import percent


def render(explanation: Explanation, rows: int = 10) -> RenderableType:
    """What ``slalom explain`` prints."""
    parts: list[RenderableType] = [
        Panel(
            _coloured(explanation), title=_headline(explanation), title_align="left", padding=(1, 2)
        )
    ]
    parts.append(_legend(explanation))
    if explanation.left_out:
        parts.append(
            Text(
                f"The last {len(explanation.left_out)} characters are left out: the model does not read that far.",
                style="yellow",
            )
        )
    parts.append(_table(explanation, rows))
    if len(explanation.full) > 1:
        parts.append(_all_outputs(explanation))
    parts.append(Text(explanation.trust, style="bold"))
    parts.extend(Text(f"Note: {printable(note)}", style="yellow") for note in explanation.notes)
    parts.append(Text(_calls(explanation), style="dim"))
    return Group(*parts)


def _headline(explanation: Explanation) -> Text:
    return Text(answer(explanation), style="bold")


def _coloured(explanation: Explanation) -> Text:
    text = Text()
    for characters, intensity in pieces(explanation):
        clean = "".join(
            c if c == "\n" else " " if c.isspace() else printable(c) for c in characters
        )
        text.append(clean, style=None if intensity is None else _style(intensity))
    text.rstrip()
    return text


def _style(intensity: float) -> Style | None:
    """Weak units have coloured letters, strong ones a coloured ground: both show on dark and on light terminals."""
    strength = abs(intensity)
    colour = UP if intensity > 0 else DOWN
    if strength < 0.12:
        return None
    if strength < 0.35:
        return Style(color=_mixed(colour, 0.25))
    return Style(
        color="#ffffff", bgcolor=_mixed(colour, 0.45 * (1 - strength)), bold=strength > 0.7
    )


def _mixed(colour: tuple[int, int, int], white: float) -> str:
    return "#" + "".join(f"{round(channel + (255 - channel) * white):02x}" for channel in colour)


def _legend(explanation: Explanation) -> Text:
    legend = Text("  ")
    legend.append(" pulls towards ", style=_style(0.9))
    legend.append(f" {printable(explanation.target)}   ")
    legend.append(" pulls away ", style=_style(-0.9))
    return legend


def _table(explanation: Explanation, rows: int) -> Table:
    places = strongest_units(explanation, rows)
    unit = f"{explanation.granularity}s"
    table = Table(
        title=f"The {len(places)} strongest of {len(explanation)} {unit}",
        title_justify="left",
        title_style="",
        header_style="bold",
    )
    table.add_column(explanation.granularity, overflow="fold")
    slalom = explanation.importances is not None
    names = ("value", "importance", HIGHLIGHT) if slalom else ("value",)
    titles = {
        "value": "value" if slalom else "score",
        "importance": "importance",
        HIGHLIGHT: "lost without it",
    }
    for name in names:
        table.add_column(titles[name], justify="right")
    shown = unit_texts(explanation)
    for place in places:
        numbers = [_number(explanation, name, place) for name in names]
        table.add_row(Text(shown[place]), *numbers)
    return table


def _all_outputs(explanation: Explanation) -> Table:
    """Every class or label with how far its explanation predicts: all were fitted to the same calls."""
    table = Table(
        title=f"All {explanation.outputs.width} outputs, from the same calls",
        title_justify="left",
        title_style="",
        header_style="bold",
    )
    found = probabilities(explanation)
    probability = () if found is None else ("probability",)
    for title in ("output", *probability, scale(explanation), "predicts", "linear predicts"):
        table.add_column(title, justify="left" if title == "output" else "right")
    for index, label in enumerate(explanation.outputs.labels):
        other = explanation.for_target(index)
        shares = (
            ["", ""]
            if other.fidelity is None
            else [percent(found.r2) for found in (other.fidelity.wide, other.fidelity.linear_wide)]
        )
        style = "bold" if index == explanation.target_index else None
        share = [] if found is None else [f"{found[index]:.1%}"]
        table.add_row(
            Text(printable(label)), *share, f"{other.prediction:+.2f}", *shares, style=style
        )
    return table


def _number(explanation: Explanation, name: str, place: int) -> str:
    number = f"{explanation.scores(name)[place]:+.2f}"
    error = explanation.standard_errors.get(name)
    if error is None or math.isnan(error[place]):
        return number
    return f"{number} ± {error[place]:.2f}"


def _calls(explanation: Explanation) -> str:
    model = f" on {printable(model_name(explanation.model))}" if explanation.model else ""
    return f"{printable(explanation.method)}{model}: {explanation.calls} model calls, {explanation.calls_check} of them only for the test; ± is one standard error"
