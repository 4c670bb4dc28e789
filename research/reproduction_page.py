"""Writes docs/reproduction.md from the stored results of the paper's experiments.

    python -m research table-6 --full --finished --out docs/reproduction
    python -m research.reproduction_page

The first command makes the tables and figures of an experiment from its finished cells, which are
stored in docs/reproduction; it measures nothing. The second puts all of them on one page. A test
compares the page with what this writes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from research.base import Reproduction
from research.registry import experiments
from research.report import number, table_lines

DOCS = Path(__file__).parents[1] / "docs"
STORED = DOCS / "reproduction"
PAGE = DOCS / "reproduction.md"

# What stands for an experiment in the overview: in words, and the row of its first table.
HEADLINES: dict[str, tuple[str, dict[str, object]]] = {
    "fig-1": ("log odds of both texts, BERT type", {"model": "BERT type", "log odds": "f([t, u])"}),
    "fig-3": (
        "range over 2 to 20 copies, BERT type of 2 layers",
        {"model": "BERT, 2 layers"},
    ),
    "fig-5": (
        'value of "bad", slalom-eff, BERT type',
        {"model": "BERT type", "method": "slalom-eff", "word": "bad"},
    ),
    "fig-6": (
        "error of 10 deletions that slalom-fidel saves against AttnLRP, GPT-2 type",
        {
            "model": "GPT-2 type",
            "quantity": "1 − error of slalom-fidel / error of attn-lrp, 10 deletions",
        },
    ),
    "fig-7": (
        "value of 10 copies over that of 2, BERT type of 2 layers",
        {"model": "BERT, 2 layers"},
    ),
    "fig-8": ("correlation, DistilBERT type of 2 layers", {"model": "DistilBERT, layers: 2"}),
    "fig-10": (
        "error on copies, SLALOM, BERT type of 2 layers",
        {"model": "BERT, 2 layers", "surrogate": "SLALOM"},
    ),
    "fig-11": ("AU-ROC, importances of slalom-eff", {"method": "slalom-eff"}),
    "fig-14": (
        "log odds before any word is put in",
        {"words": "flagged words", "edits": 0},
    ),
    "case-study": (
        "log odds after four words, embedded model",
        {"model": "Embedded model", "words": "flagged words", "edits": 4},
    ),
    "table-1a": (
        "rank correlation, values of slalom-eff, GPT-2 type",
        {"model": "GPT-2 type", "method": "slalom-eff", "score": "value"},
    ),
    "table-1b": (
        "AU-ROC, importances of slalom-eff, BERT type",
        {"model": "BERT type", "method": "slalom-eff", "score": "importance"},
    ),
    "table-1c": (
        "insertion, linearized scores of slalom-fidel, BERT type",
        {"model": "BERT type", "method": "slalom-fidel", "score": "linearized"},
    ),
    "table-2": ("seconds, slalom-eff, 5,000 calls", {"method": "slalom-eff", "calls": 5000}),
    "table-6": (
        "error × 100, SLALOM, BERT type of 2 layers",
        {"model": "BERT, 2 layers", "surrogate": "SLALOM"},
    ),
    "tables-7-8": (
        "squared error of log odds × 100, SLALOM, DistilBERT type of 2 layers",
        {"model": "DistilBERT, layers: 2", "surrogate": "SLALOM", "quantity": "mean of squares"},
    ),
    "table-11": (
        "insertion, linearized scores of slalom-eff, BERT type",
        {"model": "BERT type", "method": "slalom-eff", "score": "linearized"},
    ),
    "table-12": ("deletion, slalom-eff", {"number": "deletion", "method": "slalom-eff"}),
    "table-13b": ("seconds, slalom-eff", {"method": "slalom-eff"}),
    "table-14": (
        "deletion, slalom-eff, 500 calls",
        {"method": "slalom-eff", "calls": "500"},
    ),
    "black-box": ("accuracy without examples", {"quantity": "accuracy without examples"}),
}
# Data and models, where they are not the paper's.
LANGUAGE = "the paper's language; models from scratch"
IMDB = "IMDB; first two layers of MiniLM for BERT, of MPNet for DistilBERT; GPT-2 type from scratch"
YELP = (
    "Yelp-HAT; MiniLM for BERT, MPNet's first six layers for DistilBERT, SmolLM2 for BLOOM; GPT-2 "
    "type and Mamba from scratch"
)
MATERIAL = {
    "fig-1": IMDB,
    "fig-3": LANGUAGE,
    "fig-5": IMDB,
    "fig-6": IMDB,
    "fig-7": LANGUAGE,
    "fig-8": "words and weights of IMDB; models from scratch",
    "fig-10": LANGUAGE,
    "fig-11": YELP,
    "fig-14": IMDB,
    "case-study": "IMDB; the embedded model, and MiniLM's first two layers",
    "table-1a": IMDB,
    "table-1b": YELP,
    "table-1c": IMDB,
    "table-2": "IMDB; DistilBERT's shape, random weights",
    "table-6": LANGUAGE,
    "tables-7-8": "words and weights of IMDB; models from scratch",
    "table-11": YELP,
    "table-12": "IMDB; the paper's net, trained here",
    "table-13b": "IMDB; BLOOM-7B's shape, random weights",
    "table-14": IMDB,
    "black-box": "IMDB; SmolLM2-135M behind a llama.cpp server",
}
INTRODUCTION = """# Every table and figure, beside its number

<!-- Made by research/reproduction_page.py from docs/reproduction: change that, not this page. -->

These are the paper's experiments (Leemann et al. 2024), run again at the paper's size on one GPU,
except for the model behind an API, whose server ran on two cores.
[How to run them](experiments.md) says what each does and how to repeat it; [what we
learnt](learnt.md) tells what came out. *Holds* means that every check of order and shape holds.
The paper's absolute numbers are no check, because weights, and often data, are not the paper's. ±
is one standard error, over texts or trained models, as the tables say. The overview shows one
number for each; all of them follow.
"""


def page() -> str:
    """The page in Markdown."""
    known = experiments()
    records = {name: _record(name) for name in known}
    lines = [INTRODUCTION, "| item | one number | paper | ours | data and models | | why |"]
    lines.append("| --- | --- | --- | --- | --- | --- | --- |")
    for name, one in known.items():
        lines.append(_overview(one, records[name]))
    for name, one in known.items():
        record = records[name]
        if record is not None:
            lines += ["", *_section(one, record)]
    return "\n".join([*lines, ""])


def _record(name: str) -> dict[str, Any] | None:
    """What is stored of an experiment; None if nothing is."""
    path = STORED / f"{name}.json"
    if not path.is_file():
        return None
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return record


def _overview(one: Reproduction, record: Mapping[str, Any] | None) -> str:
    source = _source(one)
    if record is None:
        return f"| {source} | | | | {MATERIAL[one.name]} | not run at full size yet | |"
    what, wanted = HEADLINES[one.name]
    row = _headline(wanted, record)
    ours = _short(row["ours"])
    if row.get("s.e.") is not None:
        ours = f"{ours} ± {_short(row['s.e.'])}"
    link = f"[{source}](#{one.name})"
    paper, said = _shown(row["paper"]), f"{record['verdict']} | {_why(record['checks'])}"
    return f"| {link} | {what} | {paper} | {ours} | {MATERIAL[one.name]} | {said} |"


def _why(checks: Sequence[Mapping[str, Any]]) -> str:
    """A sentence on what a verdict rests on."""
    failed = [check for check in checks if not check["holds"]]
    if not failed:
        return f"All {len(checks)} checks hold." if len(checks) > 1 else "Its check holds."
    first = failed[0]
    found, bound = _short(first["value"]), _short(first["bound"])
    count = f"{len(failed)} of {len(checks)} checks"
    begun = f"{count} fail, the first being" if len(failed) > 1 else f"{count} fails:"
    wanted = f"where {first['relation']} {bound} was expected"
    return f'{begun} "{first["statement"]}" with {found}, {wanted}.'


def _source(one: Reproduction) -> str:
    return one.source.partition(", ")[2]


def _headline(wanted: Mapping[str, object], record: Mapping[str, Any]) -> dict[str, Any]:
    """The row of the overview: the first of all tables that has our number and these values."""
    for rows in record["tables"].values():
        for row in rows:
            if "ours" in row and all(row.get(name) == value for name, value in wanted.items()):
                return dict(row)
    raise LookupError(f"{record['name']} has no row with {wanted}: mend HEADLINES")


def _short(value: float | None) -> str:
    """A number with three digits, for the overview."""
    return "–" if value is None else number(float(f"{value:.3g}"))


def _shown(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return number(value)
    return str(value)


def _section(one: Reproduction, record: Mapping[str, Any]) -> list[str]:
    """An experiment: what it says, what was found, figures and tables."""
    verdict = str(record["verdict"]).capitalize()
    lines = [
        f"({one.name})=",
        f"## {_source(one)}",
        "",
        f"The claim: {one.title}.",
        "",
        f"**{verdict}.** {record['finding']}",
        "",
    ]
    for figure in sorted(STORED.glob(f"{one.name}-*.svg")):
        described = figure.stem.removeprefix(f"{one.name}-").replace("-", " ")
        lines += [f"![{_source(one)}: {described}](reproduction/{figure.name})", ""]
    lines += ["| check | found | | bound | |", "| --- | --- | --- | --- | --- |"]
    lines += [_check(check) for check in record["checks"]]
    for name, rows in record["tables"].items():
        title = name.replace("-", " ").capitalize()
        frame = pd.DataFrame(rows).replace({None: math.nan})  # JSON has no NaN
        lines += ["", f"**{title}**", "", *table_lines(frame)]
    for remark in record["remarks"]:
        lines += ["", remark]
    return [*lines, "", _origin(one, record["manifest"])]


def _check(check: Mapping[str, Any]) -> str:
    verdict = "holds" if check["holds"] else "**fails**"
    found, bound = _shown(check["value"]), _shown(check["bound"])
    return f"| {check['statement']} | {found} | {check['relation']} | {bound} | {verdict} |"


def _origin(one: Reproduction, manifest: Mapping[str, Any]) -> str:
    """Where the numbers come from, in a sentence."""
    made = manifest["made"]
    devices = ", ".join(dict.fromkeys(each["device"] for each in made))
    versions = ", ".join(dict.fromkeys(f"torch {each['torch']}" for each in made))
    hours = manifest["seconds"] / 3600
    return (
        f"`python -m research {one.name} --full`, seed {manifest['seed']}, {devices}, {versions}; "
        f"the study took {hours:.1f} hours of processes that shared the device."
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE)
