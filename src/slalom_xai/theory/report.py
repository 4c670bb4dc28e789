"""An outcome for people and for programs: Markdown, JSON, and files with figures and tables."""

from __future__ import annotations

import io
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slalom_xai.errors import InputError, optional_package
from slalom_xai.system.files import cannot_write, write_file
from slalom_xai.theory.drawing import STYLE

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from slalom_xai.theory.base import Outcome, Reproduction


def markdown(found: Reproduction, outcome: Outcome, *, heading: bool = True) -> str:
    """The claim, its checks, its tables and remarks."""
    lines = (
        [f"# {found.name}: {found.title}", "", f"Source: {found.source}.", ""] if heading else []
    )
    lines += ["| check | found | | bound | |", "| --- | --- | --- | --- | --- |"]
    for check in outcome.checks:
        verdict = "holds" if check.holds else "**FAILS**"
        lines.append(
            f"| {_cell(check.statement)} | {_number(check.value)} | {check.relation} | "
            f"{_number(check.bound)} | {verdict} |"
        )
    for name, frame in outcome.tables.items():
        lines += ["", f"**{name.replace('-', ' ').capitalize()}**", "", *_table(frame)]
    for remark in outcome.remarks:
        lines += ["", remark]
    return "\n".join([*lines, ""])


def as_dict(
    found: Reproduction, outcome: Outcome, seconds: float, files: list[Path]
) -> dict[str, Any]:
    """The same for programs."""
    return {
        "name": found.name,
        "title": found.title,
        "source": found.source,
        "holds": outcome.holds,
        "checks": [
            {
                "statement": check.statement,
                "value": check.value if math.isfinite(check.value) else None,
                "relation": check.relation,
                "bound": check.bound,
                "holds": check.holds,
            }
            for check in outcome.checks
        ],
        "tables": {
            name: json.loads(frame.to_json(orient="records"))
            for name, frame in outcome.tables.items()
        },
        "remarks": list(outcome.remarks),
        "seconds": round(seconds, 2),
        "files": [str(path) for path in files],
    }


def prepare(folder: Path) -> None:
    """Makes the folder and looks for what drawing needs: better known before a run than after it."""
    optional_package("matplotlib", "drawing figures into --out")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"--out is {folder}, which cannot be created ({error.strerror or error}): give a folder"
        ) from error
    if not os.access(folder, os.W_OK):
        raise InputError(f"--out is {folder}, which cannot be written to: give another folder")


def save(found: Reproduction, outcome: Outcome, folder: Path) -> list[Path]:
    """Writes NAME.md, a CSV file for each table and an SVG file for each figure; returns the files."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from error
    made = [write_file(folder / f"{found.name}.md", markdown(found, outcome, heading=False))]
    for name, frame in outcome.tables.items():
        table = frame.to_csv(index=False, float_format="%.6g", lineterminator="\n")
        made.append(write_file(folder / f"{found.name}-{name}.csv", table))
    for name, draw in outcome.figures.items():
        made.append(folder / f"{found.name}-{name}.svg")
        _save_figure(draw, made[-1])
    return made


def _save_figure(draw: Callable[[], Figure], path: Path) -> None:
    """Draws it into an SVG file that is the same every time: no date, fixed ids."""
    matplotlib = optional_package("matplotlib", "drawing a figure")
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": path.stem}):
        drawn = io.BytesIO()
        draw().savefig(drawn, format="svg", metadata={"Date": None})
    write_file(path, drawn.getvalue())


def _table(frame: pd.DataFrame) -> list[str]:
    names = [_cell(name) for name in frame.columns]
    lines = [f"| {' | '.join(names)} |", f"| {' | '.join('---' for _ in names)} |"]
    return lines + [
        f"| {' | '.join(_cell(cell) for cell in row)} |" for row in frame.itertuples(index=False)
    ]


def _cell(cell: object) -> str:
    return _number(cell) if isinstance(cell, float) else str(cell).replace("|", "\\|")


def _number(number: float) -> str:
    """Four digits, and two of small numbers: 3.142, 2.5e−6, 1e−9."""
    if math.isnan(number):
        return "–"
    shown = f"{number:.4g}" if number == 0 or abs(number) >= 1e-3 else f"{number:.1e}"
    mantissa, _, power = shown.partition("e")
    return (mantissa.removesuffix(".0") + (f"e{int(power)}" if power else "")).replace("-", "−")
