"""What every explanation promises, whatever was explained."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
from rich.console import Console

from fuzz.words import contradiction
from slalom_xai.errors import InputError
from slalom_xai.explanation import Explanation
from slalom_xai.models.text import Unit
from slalom_xai.reports.html import fragment, page
from slalom_xai.reports.terminal import render

EXACT = 1e-6  # of the outputs' size: what double precision and single-precision models leave
ROUNDING = 1e-9  # the same numbers, added up in another order
FITTED = ("bounded", "slalom")  # formulas that come near the whole text as near any other
MARKER = "<slalom-fuzz"  # hostile strings hold it; no page may hold it as markup
ALLOWED = {"\n"}  # of control characters, in a terminal


def broken(explanation: Explanation) -> Iterator[str]:
    """What does not hold for an explanation that was just made; nothing where all is well."""
    yield from unusable(explanation)
    yield from _spans(explanation)
    yield from _added_up(explanation)
    found = contradiction(explanation)
    if found:
        yield found
    if explanation.calls != explanation.calls_fit + explanation.calls_check:
        yield "calls are not those to fit and to check"
    bars = explanation.standard_errors.values()
    if any((errors < 0).any() or np.isinf(errors).any() for errors in bars):
        yield "standard errors are negative or infinite"


def unusable(explanation: Explanation) -> Iterator[str]:
    """What does not work; a file whose numbers were changed may be wrong, but may not do this."""
    yield from _scores(explanation)
    yield from _inside(explanation)
    yield from _predictions(explanation)
    yield from _ranges(explanation)
    yield from _targets(explanation)
    yield from _shown(explanation)
    yield from _kept(explanation)


def _scores(explanation: Explanation) -> Iterator[str]:
    units = len(explanation.units)
    for name in explanation.score_names:
        scores = explanation.scores(name)
        if scores.shape != (units,):
            yield f"score {name} has the wrong length"
        elif not np.isfinite(scores).all():
            yield f"score {name} is not finite"
    importances = explanation.importances
    if importances is not None:
        size = 1 + np.abs(importances).max()
        if not abs(importances.sum()) <= 1e-9 * units * size:
            yield "importances do not sum to 0"
    for name, errors in explanation.standard_errors.items():
        if errors.shape != (units,):
            yield f"standard errors of {name} have the wrong length"


def _inside(explanation: Explanation) -> Iterator[str]:
    texts = (explanation.text, explanation.text_pair or "")
    if not all(0 <= unit.start <= unit.end <= len(texts[unit.part]) for unit in explanation.units):
        yield "a unit lies outside its text"


def _spans(explanation: Explanation) -> Iterator[str]:
    texts = (explanation.text, explanation.text_pair or "")
    for unit in explanation.units:
        if texts[unit.part][unit.start : unit.end] != unit.text:
            yield "a unit's text is not what stands at its place"
        elif unit.start == unit.end:
            yield "a unit is empty"
    for one, other in pairwise(explanation.units):
        if (one.part, one.start) > (other.part, other.start):
            yield "units are not in reading order"
        elif explanation.granularity != "type" and _overlap(one, other):
            whole = explanation.granularity != "token"
            if whole or not _share_characters(one, other):
                yield f"two {explanation.granularity} units overlap"


def _overlap(one: Unit, other: Unit) -> bool:
    return one.part == other.part and other.start < one.end


def _share_characters(one: Unit, other: Unit) -> bool:
    """Tokens of bytes, or of what one character became: each has that character's span."""
    shared = one.text[max(0, other.start - one.start) :]
    return (one.start, one.end) == (other.start, other.end) or not shared.isascii()


def _predictions(explanation: Explanation) -> Iterator[str]:
    units = len(explanation.units)
    for rows in (
        np.ones((1, units)),
        deletions(units),
        deletions(units) * 2,
        0.3 + deletions(units) / 2,
    ):
        predicted = explanation.predict(rows)
        if predicted.shape != (len(rows),):
            yield "predictions have the wrong length"
        elif not np.isfinite(predicted).all():
            yield "a prediction is not finite"
    try:
        empty = explanation.predict(np.zeros((1, units)))
    except InputError:  # a SLALOM without a sink does not know
        return
    if not np.isfinite(empty).all():
        yield "a prediction is not finite"


def _ranges(explanation: Explanation) -> Iterator[str]:
    """What is printed and predicted lies inside the range."""
    if explanation.range is None or explanation.sink is None:
        return
    low, high = explanation.range
    size = ROUNDING * (1 + max(abs(low), abs(high)))
    rows = deletions(len(explanation.units))
    shown = [*explanation.values, explanation.sink[0], *explanation.predict(rows)]
    shown += [pair.value for pair in explanation.interactions]
    if not low - size <= min(shown) <= max(shown) <= high + size:
        yield "a value or a prediction lies outside the range"


def deletions(units: int, rows: int = 20) -> np.ndarray:
    """Rows that keep at least one unit, always the same for a number of units."""
    rng = np.random.default_rng(units)
    kept = rng.random((rows, units)) < rng.random((rows, 1))
    kept[np.arange(rows), rng.integers(units, size=rows)] = True
    return kept


def _added_up(explanation: Explanation) -> Iterator[str]:
    size = 1 + max(abs(number) for number in explanation.full)
    whole = float(explanation.predict(np.ones((1, len(explanation.units))))[0])
    fitted = explanation.surrogate in FITTED
    if not fitted and not abs(whole - explanation.prediction) <= EXACT * size:
        yield f"predict(all) is not the prediction ({explanation.method})"
    shares, base = explanation.scores("shapley"), explanation.base_value
    scale = size + float(np.abs(shares).sum()) + abs(base)
    if not abs(float(shares.sum()) - (whole - base)) <= EXACT * scale:
        yield "Shapley values do not sum to what they share out"


def _targets(explanation: Explanation) -> Iterator[str]:
    for index, label in enumerate(explanation.outputs.labels[:6]):
        other = explanation.for_target(index)
        if other.target != label or not np.isfinite(other.prediction):
            yield "for_target gives another class than asked for"


def _shown(explanation: Explanation) -> Iterator[str]:
    """The views: none may fail, and no string may leave its place."""
    html = page(explanation) + fragment(explanation)
    if MARKER in html.lower():
        yield "a string of the result is markup in the page"
    screen = io.StringIO()
    console = Console(file=screen, width=80, force_terminal=False, legacy_windows=False)
    console.print(render(explanation))
    if any(ord(character) < 32 and character not in ALLOWED for character in screen.getvalue()):
        yield "a control character reaches the terminal"
    if len(repr(explanation).splitlines()) != 1:
        yield "the representation is not one line"
    if not len(explanation.to_frame()) == len(explanation.as_list()) == len(explanation.units):
        yield "a table has the wrong length"


def _kept(explanation: Explanation) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        path = explanation.save(Path(folder) / "result.json")
        again = Explanation.load(path)
    if again != explanation:
        yield "a saved explanation comes back different"
    rows = deletions(len(explanation.units))
    before, after = explanation.predict(rows), again.predict(rows)
    if not np.abs(before - after).max() <= ROUNDING * np.abs(before).max():
        yield "a saved explanation predicts something else"
