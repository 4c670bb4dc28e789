"""An explanation in a terminal: the coloured text, its scores, and how far to trust them."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.style import Style
from rich.table import Table
from rich.text import Text

from slalom_xai.explanation import Explanation
from slalom_xai.reports.colour import DOWN, HIGHLIGHT, UP, pieces, printable, strongest_units
from slalom_xai.reports.wording import (
    answer,
    error_of,
    left_out_sentence,
    model_name,
    probabilities,
    scale,
    source,
    unit_texts,
)
from slalom_xai.surrogates.quality import percent

# Intensities, from 0 to 1, below which a unit has no colour, and only coloured letters; and above
# which its letters are bold.
_PLAIN, _LETTERS, _BOLD = 0.12, 0.35, 0.7
_PAIRS = 3  # that are printed
_PRELIMINARY = "A first result, which is being refined; Ctrl-C keeps it."
_SOURCES = "measured: the model's own answer; fitted: estimated from its answers to other texts"


def render(explanation: Explanation, rows: int = 10) -> RenderableType:
    """What ``slalom explain`` prints."""
    title = Text(answer(explanation), style="bold")
    panel = Panel(_coloured(explanation), title=title, title_align="left", padding=(1, 2))
    parts: list[RenderableType] = [panel, _legend(explanation)]
    if explanation.reply is not None:
        parts.insert(0, _conversation(explanation))
    if explanation.left_out:
        parts.append(Text(left_out_sentence(explanation), style="yellow"))
    parts.append(_table(explanation, rows))
    if explanation.interactions:
        parts.append(_interactions(explanation))
    if len(explanation.full) > 1:
        parts.append(_all_outputs(explanation))
    parts.append(Text(explanation.trust, style="bold"))
    parts.extend(Text(f"Note: {printable(note)}", style="yellow") for note in explanation.notes)
    parts.append(Text(_calls(explanation), style="dim"))
    if explanation.surrogate == "slalom":
        parts.append(Text(_SOURCES, style="dim"))
    return Group(*parts)


def _conversation(explanation: Explanation) -> Panel:
    """The question and the answer to it."""
    said = Text()
    for who, words in (("Question", explanation.question), ("Answer", explanation.reply)):
        said.append(f"{who}: ", style="bold")
        said.append("".join(map(_clean, words or "")) + "\n")
    said.rstrip()
    return Panel(said, padding=(0, 2))


def brief(explanation: Explanation, rows: int) -> RenderableType:
    """The prediction and the strongest units, for a result that will be replaced."""
    title = Text(answer(explanation), style="bold")
    return Group(title, _table(explanation, rows), Text(_PRELIMINARY, style="dim"))


def in_one_line(explanation: Explanation) -> str:
    """What the calls of an explanation bought."""
    fidelity = explanation.fidelity
    if fidelity is None:
        return f"{explanation.calls} calls"
    wide, local = percent(fidelity.wide.r2), percent(fidelity.local.r2)
    return (
        f"{explanation.calls} calls: predicts {wide} of what deletions do and {local} of what a "
        "few do"
    )


def _coloured(explanation: Explanation) -> Text:
    text = Text()
    for characters, intensity in pieces(explanation):
        style = None
        if intensity is not None:
            style = _style(intensity)
        text.append("".join(map(_clean, characters)), style=style)
    text.rstrip()
    return text


def _clean(character: str) -> str:
    """A character that moves the cursor by one cell, or to the next line."""
    if character == "\n":
        return character
    if character.isspace():
        return " "
    return printable(character)


def _style(intensity: float) -> Style | None:
    """Weak units have coloured letters, strong ones a coloured ground.

    Both show on dark and on light terminals.
    """
    strength = abs(intensity)
    if strength < _PLAIN:
        return None
    colour = DOWN
    if intensity > 0:
        colour = UP
    if strength < _LETTERS:
        return Style(color=_mixed(colour, 0.25))
    ground = _mixed(colour, 0.45 * (1 - strength))
    return Style(color="#ffffff", bgcolor=ground, bold=strength > _BOLD)


def _mixed(colour: tuple[int, int, int], white: float) -> str:
    """A colour with a share of white."""
    channels = [round(channel + (255 - channel) * white) for channel in colour]
    return "#" + "".join(f"{channel:02x}" for channel in channels)


def _legend(explanation: Explanation) -> Text:
    legend = Text("  ")
    legend.append(" pulls towards ", style=_style(0.9))
    legend.append(f" {printable(explanation.target)}   ")
    legend.append(" pulls away ", style=_style(-0.9))
    return legend


def _table(explanation: Explanation, rows: int) -> Table:
    """The strongest units with their scores."""
    indices = strongest_units(explanation, rows)
    unit = explanation.granularity
    table = _empty_table(f"The {len(indices)} strongest of {len(explanation)} {unit}s")
    table.add_column(unit, overflow="fold")
    titles = {"value": "score"}
    if explanation.importances is not None:
        titles = {
            "value": "value",
            "importance": "importance",
            "removal": "lost without it",
            HIGHLIGHT: "its share",
        }
    for name, title in titles.items():
        table.add_column(_header(explanation, name, title), justify="right")
    texts = unit_texts(explanation)
    for index in indices:
        numbers = [_number(explanation, name, index) for name in titles]
        table.add_row(Text(texts[index]), *numbers)
    return table


def _interactions(explanation: Explanation) -> Table:
    """The strongest pairs of units whose joint effect the two scores miss."""
    pairs = explanation.interactions[:_PAIRS]
    table = _empty_table("Together they do more than their scores tell")
    if explanation.interaction_share > 0:
        taken = percent(explanation.interaction_share)
        table.caption = f"They take {taken} of the error that the two scores leave."
        table.caption_justify = "left"
    table.add_column(f"two {explanation.granularity}s", overflow="fold")
    table.add_column(Text("together\n").append("measured", style="not bold dim"), justify="right")
    texts = unit_texts(explanation)
    for pair in pairs:
        first, second = pair.units
        number = f"{pair.strength:+.2f}"
        if pair.error > 0:
            number += f" ± {pair.error:.2f}"
        table.add_row(Text(f"{texts[first]} … {texts[second]}"), number)
    return table


def _header(explanation: Explanation, name: str, title: str) -> Text:
    """The title of a column, and below it where its numbers come from."""
    header = Text(title)
    found = source(explanation, name)
    if found is not None:
        header.append(f"\n{found}", style="not bold dim")
    return header


def _empty_table(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="", header_style="bold")


def _all_outputs(explanation: Explanation) -> Table:
    """Every class or label with how far its explanation predicts: all from the same calls."""
    table = _empty_table(f"All {explanation.outputs.width} outputs, from the same calls")
    shares = probabilities(explanation)
    table.add_column("output", justify="left")
    if shares is not None:
        table.add_column("probability", justify="right")
    table.add_column(scale(explanation), justify="right")
    predictors = list(_predicted_shares(explanation))
    for title in predictors:
        table.add_column(title, justify="right")
    for index, label in enumerate(explanation.outputs.labels):
        cells: list[str | Text] = [Text(printable(label))]
        if shares is not None:
            cells.append(f"{shares[index]:.1%}")
        one = explanation.for_target(index)
        cells.append(f"{one.prediction:+.2f}")
        found = _predicted_shares(one)
        cells += [found.get(title, "") for title in predictors]
        style = None
        if index == explanation.target_index:
            style = "bold"
        table.add_row(*cells, style=style)
    return table


def _predicted_shares(explanation: Explanation) -> dict[str, str]:
    """How much of what deletions do is predicted, by the name of what predicts it."""
    fidelity = explanation.fidelity
    if fidelity is None:
        return {}
    shares = {}
    if fidelity.two_scores is not None:
        shares["the two scores predict"] = percent(fidelity.two_scores.wide.r2)
    shares["the explanation predicts"] = percent(fidelity.wide.r2)
    if fidelity.linear_wide is not None:
        shares["linear predicts"] = percent(fidelity.linear_wide.r2)
    return shares


def _number(explanation: Explanation, name: str, index: int) -> str:
    """One score of a unit, with its standard error where there is one."""
    number = f"{explanation.scores(name)[index]:+.2f}"
    error = error_of(explanation, name, index)
    if error is None:
        return number
    return f"{number} ± {error:.2f}"


def _calls(explanation: Explanation) -> str:
    made_by = printable(explanation.method)
    if explanation.model:
        made_by += f" on {printable(model_name(explanation.model))}"
    return (
        f"{made_by}: {explanation.calls} model calls, {explanation.calls_check} of them only for "
        "the test; ± is one standard error"
    )
