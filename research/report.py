"""An outcome for people and for programs: Markdown, JSON, and files with figures and tables."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slalom_xai.errors import InputError, optional_package
from slalom_xai.reports.figures import canvas
from slalom_xai.system.files import cannot_write, write_file

if TYPE_CHECKING:
    import pandas as pd

    from research.base import Check, Outcome, Reproduction


def markdown(claim: Reproduction, outcome: Outcome, *, heading: bool = True) -> str:
    """The claim, its checks, its tables and remarks."""
    lines = []
    if heading:
        lines += [f"# {claim.name}: {claim.title}", "", f"Source: {claim.source}.", ""]
    if outcome.finding:
        verdict = outcome.verdict.capitalize()
        lines += [f"**{verdict}.** {outcome.finding}", ""]
    lines += ["| check | found | | bound | |", "| --- | --- | --- | --- | --- |"]
    lines += [_check_line(check) for check in outcome.checks]
    for name, frame in outcome.tables.items():
        title = name.replace("-", " ").capitalize()
        lines += ["", f"**{title}**", "", *table_lines(frame)]
    for remark in outcome.remarks:
        lines += ["", remark]
    return "\n".join([*lines, ""])


def _check_line(check: Check) -> str:
    verdict = "**FAILS**"
    if check.holds:
        verdict = "holds"
    value, bound = number(check.value), number(check.bound)
    return f"| {_cell(check.statement)} | {value} | {check.relation} | {bound} | {verdict} |"


def as_dict(
    claim: Reproduction, outcome: Outcome, seconds: float, files: list[Path]
) -> dict[str, Any]:
    """The same for programs."""
    tables = {
        name: json.loads(frame.to_json(orient="records")) for name, frame in outcome.tables.items()
    }
    record = {
        "name": claim.name,
        "title": claim.title,
        "source": claim.source,
        "holds": outcome.holds,
        "checks": [_check_dict(check) for check in outcome.checks],
        "tables": tables,
        "remarks": list(outcome.remarks),
        "seconds": round(seconds, 2),
        "files": [str(path) for path in files],
    }
    if outcome.finding:
        record |= {"verdict": outcome.verdict, "finding": outcome.finding}
    return record


def _check_dict(check: Check) -> dict[str, Any]:
    value = None  # JSON has no NaN
    if math.isfinite(check.value):
        value = check.value
    return {
        "statement": check.statement,
        "value": value,
        "relation": check.relation,
        "bound": check.bound,
        "holds": check.holds,
    }


def prepare(folder: Path) -> None:
    """Makes the folder and looks for what drawing needs, so that a run does not end in vain."""
    optional_package("matplotlib", "drawing figures into --out")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"--out is {folder}, which cannot be created ({error.strerror or error}): give a folder"
        ) from error
    if not os.access(folder, os.W_OK):
        raise InputError(f"--out is {folder}, which cannot be written to: give another folder")


def save(claim: Reproduction, outcome: Outcome, folder: Path) -> list[Path]:
    """Writes NAME.md, a CSV file for each table and an SVG file for each figure.

    Returns:
        The files.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from error
    made = [write_file(folder / f"{claim.name}.md", markdown(claim, outcome, heading=False))]
    for name, frame in outcome.tables.items():
        table = frame.to_csv(index=False, float_format="%.6g", lineterminator="\n")
        made.append(write_file(folder / f"{claim.name}-{name}.csv", table))
    for name, draw in outcome.figures.items():
        path = folder / f"{claim.name}-{name}.svg"
        with canvas.look(()):
            canvas.save(draw(), path)
        made.append(path)
    return made


def save_record(record: Mapping[str, Any], folder: Path) -> Path:
    """Writes NAME.json, the numbers of an experiment for other programs; returns the file."""
    kept = {name: value for name, value in record.items() if name not in ("seconds", "files")}
    content = json.dumps(kept, ensure_ascii=False, indent=1) + "\n"
    return write_file(folder / f"{record['name']}.json", content)


def table_lines(frame: pd.DataFrame) -> list[str]:
    """A table in Markdown, a line each."""
    names = [_cell(name) for name in frame.columns]
    lines = [_line(names), _line(["---"] * len(names))]
    for row in frame.itertuples(index=False):
        lines.append(_line([_cell(cell) for cell in row]))
    return lines


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: object) -> str:
    if isinstance(cell, float):
        return number(cell)
    return str(cell).replace("|", "\\|")


def number(given: float) -> str:
    """Four digits, and two of small numbers: 3.142, 2.5e−6, 1e−9."""
    if math.isnan(given):
        return "–"
    shown = f"{given + 0.0:.4g}"  # no minus before 0
    if given != 0 and abs(given) < 1e-3:
        shown = f"{given:.1e}"
    mantissa, _, power = shown.partition("e")
    mantissa = mantissa.removesuffix(".0")
    if power:
        mantissa += f"e{int(power)}"
    return mantissa.replace("-", "−")
