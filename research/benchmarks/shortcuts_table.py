"""The tables of ``research.benchmarks.shortcuts``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from research.benchmarks.recount import agreement

Results = Mapping[str, dict[str, Any]]

WAYS = ("audit", "z", "SHAP", "LIME")


def tables(results: Results) -> list[str]:
    """Lines of Markdown about all models, and what they come to."""
    plants = {name: one for name, one in results.items() if one["plant"] is not None}
    clean = {name: one for name, one in results.items() if one["plant"] is None}
    lines = [""]
    if plants:
        lines += [*_plants(plants), "", *_summary(plants), ""]
    if clean:
        lines += [*_clean(clean), ""]
    counted = [each for one in results.values() for each in one["recount"]]
    return [*lines, f"Recount of flips: {agreement(counted)}."]


def _plants(plants: Results) -> list[str]:
    lines = [
        "| planted | correlation | share of texts | accuracy | flip rate (random words) | findings "
        "| place in the audit | by z | by SHAP | by LIME |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for one in plants.values():
        plant = one["plant"]
        tried = next((each for each in one["planted"] if each["label"] == plant["label"]), None)
        flips = "not tried"
        if tried is not None:
            rate = tried["effect"]["flips"] / tried["effect"]["texts"]
            flips = f"{rate:.0%} ({tried['control']:.1%})"
        named = "" if plant["word"] in one["findings"] else ", not found"
        places = [_place(one["ranks"], way) for way in WAYS]
        cells = [
            plant["word"],
            f"{plant['correlation']:g}",
            f"1/{round(1 / plant['share'])}",
            f"{one['accuracy']:.2f}",
            flips,
            str(len(one["findings"])),
            places[0] + named,
            *places[1:],
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _summary(plants: Results) -> list[str]:
    lines = ["| planted word | audit | z | SHAP | LIME |", "| --- | ---: | ---: | ---: | ---: |"]
    of = len(plants)
    for most in (1, 3, 10):
        within = [_within(plants, way, most) for way in WAYS]
        what = "in first place" if most == 1 else f"among the first {most}"
        lines.append(f"| {what} | " + " | ".join(within) + " |")
    hits = [one["findings"][:1] == [one["plant"]["word"]] for one in plants.values()]
    by_z = [one["plant"]["word"] in one["z findings"] for one in plants.values()]
    found = [one["plant"]["word"] in one["findings"] for one in plants.values()]
    others = [len(set(one["findings"]) - {one["plant"]["word"]}) for one in plants.values()]
    others_z = [len(set(one["z findings"]) - {one["plant"]["word"]}) for one in plants.values()]
    return [
        *lines,
        f"| a finding | {sum(found)} of {of} | {sum(by_z)} of {of} | – | – |",
        f"| the first finding | {sum(hits)} of {of} | – | – | – |",
        f"| other findings, mean | {sum(others) / of:.1f} | {sum(others_z) / of:.1f} | – | – |",
    ]


def _clean(clean: Results) -> list[str]:
    with_findings = sum(bool(one["findings"]) for one in clean.values())
    by_z = sum(bool(one["z findings"]) for one in clean.values())
    mean_z = sum(len(one["z findings"]) for one in clean.values()) / len(clean)
    named = "; ".join(", ".join(one["findings"]) for one in clean.values() if one["findings"])
    return [
        f"Clean models with findings: {with_findings} of {len(clean)}"
        + (f" ({named})" if named else "")
        + f"; by z alone {by_z} of {len(clean)}, {mean_z:.1f} words on average."
    ]


def _within(plants: Results, way: str, most: int) -> str:
    """How many plants are among the first few, of those that were looked at in this way."""
    found = [one["ranks"][way] for one in plants.values() if way in one["ranks"]]
    hits = sum(place is not None and place <= most for place in found)
    return f"{hits} of {len(found)}" if found else "–"


def _place(ranks: Mapping[str, int | None], way: str) -> str:
    if way not in ranks:
        return "–"
    return "not seen" if ranks[way] is None else str(ranks[way])
