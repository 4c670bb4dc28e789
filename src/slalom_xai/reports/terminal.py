"""An explanation in a terminal: the coloured text, its scores, and how far to trust them."""

from __future__ import annotations

import math

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
    unit_texts,
)
from slalom_xai.slalom.trust import Agreement, Fidelity, percent

# Intensities, from 0 to 1, below which a unit has no colour, and only coloured letters; and above
# which its letters are bold.
_PLAIN, _LETTERS, _BOLD = 0.12, 0.35, 0.7
_PRELIMINARY = "A first result, which is being refined; Ctrl-C keeps it."


def render(explanation: Explanation, rows: int = 10, verbose: bool = False) -> RenderableType:
    """What ``slalom explain`` prints.

    Args:
        explanation: the result.
        rows: units in the table.
        verbose: with all scores, how the test went in numbers, and the baselines.
    """
    title = Text(answer(explanation), style="bold")
    panel = Panel(_colour(explanation), title=title, title_align="left", padding=(1, 2))
    parts: list[RenderableType] = [panel, _legend(explanation)]
    if explanation.reply is not None:
        parts.insert(0, _conversation(explanation))
    if explanation.left_out:
        parts.append(Text(left_out_sentence(explanation), style="yellow"))
    parts.append(_table(explanation, rows, verbose))
    if explanation.interactions:
        parts.append(_interactions(explanation))
    if len(explanation.full) > 1:
        parts.append(_all_outputs(explanation))
    parts.append(Text(explanation.trust, style="bold"))
    if verbose and explanation.fidelity is not None:
        parts.append(_test(explanation.fidelity, explanation.granularity))
    parts.extend(Text(f"Note: {printable(note)}", style="yellow") for note in explanation.notes)
    parts.append(Text(_calls(explanation), style="dim"))
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
    wide, local = percent(fidelity.any.r2), percent(fidelity.few.r2)
    return (
        f"{explanation.calls} calls: reproduces {wide} of what removing any number does, "
        f"{local} of what removing a few does"
    )


def _colour(explanation: Explanation) -> Text:
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
        return Style(color=_mix_with_white(colour, 0.25))
    ground = _mix_with_white(colour, 0.45 * (1 - strength))
    return Style(color="#ffffff", bgcolor=ground, bold=strength > _BOLD)


def _mix_with_white(colour: tuple[int, int, int], white: float) -> str:
    """A colour with a share of white."""
    channels = [round(channel + (255 - channel) * white) for channel in colour]
    return "#" + "".join(f"{channel:02x}" for channel in channels)


def _legend(explanation: Explanation) -> Text:
    legend = Text("  ")
    legend.append(" pulls towards ", style=_style(0.9))
    legend.append(f" {printable(explanation.target)}   ")
    legend.append(" pulls away ", style=_style(-0.9))
    return legend


def _table(explanation: Explanation, rows: int, verbose: bool = False) -> Table:
    """The strongest units with their scores, the largest Shapley value first."""
    indices = strongest_units(explanation, rows)
    unit = explanation.granularity
    table = _empty_table(f"The {len(indices)} strongest of {len(explanation)} {unit}s")
    table.add_column(unit, overflow="fold")
    titles = {"value": "score"}
    if explanation.importances is not None:
        titles = {"value": "value", "importance": "importance", HIGHLIGHT: "Shapley value"}
        if verbose:
            titles |= {name: name for name in explanation.score_names if name not in titles}
    for title in titles.values():
        table.add_column(title, justify="right")
    texts, effect = unit_texts(explanation), explanation.has_effect
    for index in indices:
        numbers = [_number(explanation, name, index, verbose) for name in titles]
        if not effect[index]:
            numbers = ["no effect", *[""] * (len(numbers) - 1)]
        table.add_row(Text(texts[index]), *numbers, style=None if effect[index] else "dim")
    return table


def _interactions(explanation: Explanation) -> Table:
    """The units that are heard together, as part of the formula."""
    table = _empty_table("Heard together")
    for title in (f"two {explanation.granularity}s", "value", "importance"):
        table.add_column(title, justify="left" if title.startswith("two") else "right")
    texts = unit_texts(explanation)
    for pair in explanation.interactions:
        first, second = pair.units
        table.add_row(
            Text(f"{texts[first]} {texts[second]}"), f"{pair.value:+.2f}", f"{pair.importance:+.2f}"
        )
    return table


def _test(fidelity: Fidelity, unit: str) -> Table:
    """How well the formula and its baselines predict calls that were not used, with intervals."""
    table = _empty_table("Share of what removals do that is reproduced (90% interval)")
    table.add_column("")
    for title in (f"1 to 10 {unit}s removed", "any number removed"):
        table.add_column(title, justify="right")
    rows = {"this explanation": (fidelity.few, fidelity.any)}
    if fidelity.one_score is not None:
        rows["one score with the same range"] = (fidelity.one_score.few, fidelity.one_score.any)
    if fidelity.linear is not None:
        rows["linear"] = (fidelity.linear.few, fidelity.linear.any)
    for name, parts in rows.items():
        table.add_row(name, *(_interval(part) for part in parts))
    table.caption = f"{fidelity.few.rows} and {fidelity.any.rows} perturbed texts"
    return table


def _interval(found: Agreement) -> str:
    if math.isnan(found.r2_low):
        return percent(found.r2)
    return f"{percent(found.r2)} ({percent(found.r2_low)} to {percent(found.r2_high)})"


def _empty_table(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="", header_style="bold")


def _all_outputs(explanation: Explanation) -> Table:
    """Every class or label with how much its explanation reproduces: all from the same calls."""
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
    """How much of what removals do is reproduced, by what."""
    fidelity = explanation.fidelity
    if fidelity is None:
        return {}
    shares = {"reproduced": percent(fidelity.any.r2)}
    if fidelity.one_score is not None:
        shares["by one score"] = percent(fidelity.one_score.any.r2)
    return shares


def _number(explanation: Explanation, name: str, index: int, verbose: bool) -> str:
    """One score of a unit; the Shapley value, or all of them, with its standard error."""
    number = f"{explanation.scores(name)[index]:+.2f}"
    error = error_of(explanation, name, index)
    if error is None or not (verbose or name == HIGHLIGHT or explanation.importances is None):
        return number
    return f"{number} ± {error:.2f}"


_REMOVED = {
    "hide": "removed words are hidden and the others keep their positions",
    "delete": "removed words are deleted",
    "mask": "removed words are masked",
    "unk": "removed words are unknown tokens",
    "unknown": "how words were removed is not known",
}


def _calls(explanation: Explanation) -> str:
    made_by = printable(explanation.method)
    if explanation.model:
        made_by += f" on {printable(model_name(explanation.model))}"
    return (
        f"{made_by}: {explanation.calls} model calls, {explanation.calls_check} of them only for "
        f"the test; {_REMOVED[explanation.removal]}; ± is one standard error"
    )
