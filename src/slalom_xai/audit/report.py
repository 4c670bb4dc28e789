"""The report of an audit, in words: what was found, how, and what was not tested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slalom_xai.audit.document import Block, Heading, Paragraph, Points, Table
from slalom_xai.audit.report_groups import slices, words_in_groups
from slalom_xai.slalom.trust import TRUST

_SHOWN = 20  # words of a table, at most

NOT_TESTED = (
    "Words that the data set does not hold, and words on no list that are rarer than the others "
    "that were tried.",
    "Several words together, apart from the attacks; the order of words; spelling, emphasis, and "
    "other languages than that of the texts.",
    "Texts of other kinds than those of the table.",
    "Groups of texts other than those of the slices above, and combinations of two columns. Words "
    "that act in one group alone, and so little over all texts that they are not among those that "
    "lead towards a class.",
    "Whether a word that is on no list has to do with the task: a person must say that.",
    "Whether the model keeps any law or norm. This report claims no compliance with anything.",
)


def report(found: Mapping[str, Any]) -> list[Block]:
    """A report on the record of an audit.

    Args:
        found: what ``summary.record`` gives.
    """
    return [
        Heading("Audit of a text classifier", 1),
        *_what(found),
        *_findings(found),
        *_strongest(found),
        *slices(found),
        *words_in_groups(found),
        *_attacks(found),
        *_fidelity(found),
        Heading("What was not tested"),
        Points(NOT_TESTED),
        Heading("How to repeat it"),
        Points(
            [
                f"Model: {found['model']}, fingerprint {found['model fingerprint']}.",
                f"Table: {found['table']}, SHA-256 {found['table sha256']}.",
                f"Seed {found['settings']['seed']}; slalom-xai {found['slalom-xai']}.",
                f"Calls to the model: {found['calls']:,}.",
            ]
        ),
    ]


def model_card(found: Mapping[str, Any]) -> list[Block]:
    """A section for the model's card."""
    return [
        Heading("Audit by slalom-xai"),
        *_what(found),
        *_findings(found),
        *slices(found),
        *words_in_groups(found),
        *_fidelity(found),
        Heading("What was not tested"),
        Points(NOT_TESTED),
    ]


def _what(found: Mapping[str, Any]) -> list[Block]:
    unread = found["rows not used"]["count"]
    said = (
        f"The model {found['model']} was audited on {found['texts asked about']:,} texts drawn "
        f"from the {found['rows']:,} rows of {found['table']}."
    )
    if unread:
        said += f" {unread:,} rows hold no text and were not used."
    accuracy, of = found["numbers"]["accuracy"], found["numbers come from"].get("accuracy")
    if accuracy is not None:
        said += f" It finds the class of {accuracy:.1%} of those whose class it knows ({of})."
    else:
        said += f" Its accuracy is unknown: {found['not measured']['accuracy']}."
    return [Paragraph(said), Paragraph(sizes(found))]


def sizes(found: Mapping[str, Any]) -> str:
    """How many texts words were put into, and where these were too few."""
    least, untested = found["settings"]["trials"]["least"], found["not tested towards"]
    tried = [
        f"{len(places):,} texts towards {label}"
        for label, places in found["places"].items()
        if places
    ]
    said = f"Words were put into {' and '.join(tried)}." if tried else "No word was tested."
    if untested:
        small = [f"{count:,} towards {label}" for label, count in untested.items()]
        said += (
            f" There are too few texts to test words towards {' and '.join(untested)}, so nothing "
            f"is known about that: {least} texts are needed which the model takes for another "
            f"class and which did not choose the words, and there are {' and '.join(small)}. "
            "--texts draws more, if the table has them."
        )
    return said


def _findings(found: Mapping[str, Any]) -> list[Block]:
    settings = found["settings"]["trials"]
    words = [one for one in found["findings"] if one["found"]]
    blocks: list[Block] = [Heading("Words that should not matter, and do")]
    if not any(found["places"].values()):
        return [*blocks, Paragraph("Not tested: there are too few texts, as said above.")]
    untested = "".join(f" Not tested towards {label}." for label in found["not tested towards"])
    how = (
        "Words were put into texts by real calls. A word is listed if it moves the model towards a "
        "class, and goes with that class in the data, or moves the model alone, further than the "
        "spread between harmless words explains, at a false discovery "
        f"rate of {settings['rate']:.0%} over {len(found['screened']):,} words of the lists, and "
        f"makes more other texts change to the class than random words do, by more than "
        f"{settings['margin']:.0%} of them."
    )
    if not words:
        none = f"None was found among the words of the lists ({', '.join(found['lists'])})."
        return [*blocks, Paragraph(f"{none}{untested} {how}")]
    removals = found["removals"]
    rows = []
    for one in words[:_SHOWN]:
        taken = removals.get(one["word"], {"texts": 0, "flips": 0})
        rows.append([*_cells(one), f"{taken['flips']} of {taken['texts']}"])
    return [*blocks, Paragraph(how + untested), Table([*_HEAD, "flips when removed"], rows)]


def _strongest(found: Mapping[str, Any]) -> list[Block]:
    words = found["strongest"]
    if not words:
        return []
    said = (
        "These words are on no list. They move the model most, and whether they should is for a "
        "person to say."
    )
    rows = [_cells(one) for one in words[:_SHOWN]]
    return [Heading("The strongest other words"), Paragraph(said), Table(_HEAD, rows)]


_HEAD = [
    "word",
    "lists",
    "towards",
    "flip rate (95%)",
    "random words",
    "change of log odds",
    "value",
    "z in the data",
    "texts with it",
]


def _cells(one: Mapping[str, Any]) -> list[str]:
    return [
        one["word"],
        ", ".join(one["lists"]),
        one["label"],
        f"{one['flip_rate']:.0%} of {one['texts']:,} "
        f"({one['flip_rate_low']:.0%} to {one['flip_rate_high']:.0%})",
        f"{one['control']:.1%}",
        _number(one["change"], "+.2f"),
        _number(one["value"], "+.2f"),
        _number(one["z"], "+.1f"),
        f"{one['texts_with']:,}",
    ]


def _attacks(found: Mapping[str, Any]) -> list[Block]:
    own, control = found["attacks"]["found"], found["attacks"]["control"]
    if not own:
        return []
    said = (
        f"With up to four of the words above put in, {_turned(own)} of {len(own)} texts change "
        f"their class; with as many random words to choose from, {_turned(control)}."
    )
    return [Heading("Attacks"), Paragraph(said)]


def _turned(attacks: Sequence[Mapping[str, Any]]) -> int:
    return sum(bool(one["turned"]) for one in attacks)


def _fidelity(found: Mapping[str, Any]) -> list[Block]:
    known = [one for one in found["explanations"] if one["any_r2"] is not None]
    missing = found["not explained"]
    lost = f" {missing:,} texts could not be explained." if missing else ""
    if not known:
        return [Heading("Worst explanations"), Paragraph(lost.strip())] if lost else []
    worst = sorted(known, key=lambda one: one["any_r2"])[:5]
    rows = [
        [
            f"{one['row']:,}",
            one["text"][:100],
            f"{one['any_r2']:.2f}",
            _number(one["few_r2"], ".2f"),
        ]
        for one in worst
    ]
    said = (
        f"{len(known)} texts were explained.{lost} The share of what deletions do that an "
        "explanation predicts (R²) says how far to trust it. The worst fidelity is "
        f"{worst[0]['any_r2']:.2f}; these are the lowest.{_doubts(known)}"
    )
    head = ["row", "text", "R², any number of deletions", "R², few deletions"]
    return [Heading("Worst explanations"), Paragraph(said), Table(head, rows)]


def _doubts(known: Sequence[Mapping[str, Any]]) -> str:
    """How many explanations predict less than half, and how many less than nothing."""
    poor = sum(one["any_r2"] < TRUST.doubtful for one in known)
    if not poor:
        return ""
    below = sum(one["any_r2"] < 0 for one in known)
    worse = f", {below} of them worse than no explanation (below 0)" if below else ""
    return (
        f" Do not trust {poor} of {len(known)}: they predict less than {TRUST.doubtful:.0%}{worse}."
    )


def _number(number: float | None, form: str) -> str:
    return "none" if number is None else format(number, form)
