"""The report of an audit, in words: what was found, how, and what was not tested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slalom_xai.data.audit.files import Block, Heading, Paragraph, Points, Table
from slalom_xai.data.audit.groups import RANDOM
from slalom_xai.slalom.trust import TRUST

# The parts of a report that are about slices and groups of texts.


_GROUPS_SHOWN = 40  # rows of a table, at most; all of them are in audit.json
_NAMED = 30  # small groups that are named in a sentence


def slices(found: Mapping[str, Any]) -> list[Block]:
    """How the model does on slices of the texts, and where it differs."""
    rows = []
    for one in found["groups"]:
        if one["enough"]:
            rows.append([one["by"], one["group"], f"{one['texts']:,}", *_does(one)])
    head = ["by", "group", "texts", "accuracy (95%)", "errors by class (95%)", "mean prediction"]
    blocks: list[Block] = [Heading("Slices: how the model does on groups of texts")]
    blocks += _small(found)
    if rows:
        blocks.append(Table([*head, "predicted"], rows))
    return [*blocks, *_compared(found)]


def _does(one: Mapping[str, Any]) -> list[str]:
    right = "unknown"
    if one["accuracy"] is not None:
        right = _share(one["accuracy"], one["accuracy_low"], one["accuracy_high"])
    wrong = [
        f"{label} {_share(error['rate'], error['low'], error['high'])} of {error['texts']:,}"
        for label, error in one["errors"].items()
    ]
    means = [f"{label} {mean['mean']:.2f}" for label, mean in one["mean_prediction"].items()]
    shares = [f"{label} {share:.0%}" for label, share in one["predicted"].items()]
    return [right, "; ".join(wrong) or "unknown", ", ".join(means), ", ".join(shares)]


def _compared(found: Mapping[str, Any]) -> list[Block]:
    """Which slices differ from the other texts of their column."""
    tests = [
        (slice_, name, one) for slice_ in found["groups"] for name, one in slice_["against"].items()
    ]
    if not tests:
        return []
    rate = found["settings"]["trials"]["rate"]
    said = (
        f"Accuracy and error rates of each slice were compared with those of the other texts of "
        f"its column, by Fisher's exact test at a false discovery rate of {rate:.0%} over all "
        f"{len(tests)} comparisons. "
    )
    differing = [test for test in tests if test[2]["differs"]]
    if not differing:
        return [Paragraph(said + "None differs.")]
    rows = [
        [
            slice_["by"],
            slice_["group"],
            name,
            f"{one['here']:.1%}",
            f"{one['elsewhere']:.1%}",
            _chance(one["q"]),
        ]
        for slice_, name, one in sorted(differing, key=lambda test: test[2]["q"])
    ]
    head = ["by", "group", "what", "here", "other texts", "adjusted p"]
    return [Paragraph(said + f"{_count(len(rows), 'differs', 'differ')}:"), Table(head, rows)]


def _small(found: Mapping[str, Any]) -> list[Block]:
    """Slices with too few texts, each with its number."""
    small = [one for one in found["groups"] if not one["enough"]]
    if not small:
        return []
    least = found["settings"]["groups"]["least"]
    named = [f"{one['by']} {one['group']}: {_texts(one)}" for one in small[:_NAMED]]
    said = f"Too few texts to say anything (fewer than {least}): {'; '.join(named)}"
    if len(small) > _NAMED:
        texts = sum(one["texts"] for one in small[_NAMED:])
        said += f"; and {len(small) - _NAMED:,} more, {texts:,} texts together (see audit.json)"
    return [Paragraph(said + ". --texts draws more.")]


def _texts(one: Mapping[str, Any]) -> str:
    rows = "" if one["rows"] is None else f" of {one['rows']:,} in the table"
    return f"{one['texts']:,}{rows}"


def words_in_groups(found: Mapping[str, Any]) -> list[Block]:
    """What words do in each group, and where that differs."""
    if not found["group columns"]:
        return []
    effects = found["subgroups"]["effects"]
    blocks: list[Block] = [Heading("Words in groups of texts"), *_small_trials(found)]
    if not effects:
        said = "No column has a group with enough texts to put words into."
        return [*blocks, Paragraph(said)]
    tests = [one for one in effects if one["q"] is not None]
    differing = [one for one in tests if one["differs"]]
    settings = found["settings"]
    said = (
        f"Findings, and the {settings['groups']['words']} words that come next towards each class, "
        f"were put into up to {settings['groups']['texts']} texts of each group by real calls, "
        f"beside {settings['groups']['control']} random words. A word differs in a group if it "
        "moves the texts there otherwise than the other texts of the column, beyond what random "
        "words do in the same places: a permutation test, at a false discovery rate of "
        f"{settings['trials']['rate']:.0%} over all {len(tests)} pairs of a word and a group. "
        + _verdict(tests, differing)
    )
    listed = {one["word"] for one in found["findings"] if one["found"]} | {RANDOM}
    shown = [*differing, *(one for one in effects if one["word"] in listed and not one["differs"])]
    blocks.append(Paragraph(said))
    if shown:
        blocks.append(Table(_GROUP_HEAD, [_group_cells(one) for one in shown[:_GROUPS_SHOWN]]))
    left = len(effects) - len(shown[:_GROUPS_SHOWN])
    if left:
        blocks.append(Paragraph(f"The {left:,} other pairs of a word and a group: audit.json."))
    return blocks


def _verdict(tests: Sequence[Any], differing: Sequence[Mapping[str, Any]]) -> str:
    if not tests:
        return "No column has two groups with enough texts, so that nothing was compared."
    if not differing:
        return "No word differs between groups."
    return f"{_count(len(differing), 'pair differs', 'pairs differ')}. It does not say why."


_GROUP_HEAD = [
    "word",
    "towards",
    "by",
    "group",
    "texts",
    "flip rate (95%)",
    "random words flip",
    "change of log odds (95%)",
    "random words change",
    "more than elsewhere (95%)",
    "adjusted p",
    "differs",
]


def _group_cells(one: Mapping[str, Any]) -> list[str]:
    return [
        one["word"],
        one["label"],
        one["by"],
        one["group"],
        f"{one['texts']:,}",
        _share(one["flip_rate"], one["flip_rate_low"], one["flip_rate_high"]),
        f"{one['control']:.1%}",
        _ends(one, "change"),
        f"{one['control_change']:+.2f}",
        _ends(one, "beyond"),
        "not tested" if one["q"] is None else _chance(one["q"]),
        "yes" if one["differs"] else "no",
    ]


def _small_trials(found: Mapping[str, Any]) -> list[Block]:
    """Groups in which too few texts could be tried, each with its number."""
    small = found["subgroups"]["too small"]
    if not small:
        return []
    least = found["settings"]["groups"]["least"]
    named = [
        f"{one['by']} {one['group']} towards {one['label']}: {one['texts']:,}"
        for one in small[:_NAMED]
    ]
    said = (
        f"Words were not put into these groups, which have fewer than {least} texts that the model "
        f"does not take for the class: {'; '.join(named)}"
    )
    if len(small) > _NAMED:
        said += f"; and {len(small) - _NAMED:,} more (see audit.json)"
    return [Paragraph(said + ".")]


def _ends(one: Mapping[str, Any], name: str) -> str:
    """A number with its interval."""
    low, high = one[f"{name}_low"], one[f"{name}_high"]
    if one[name] is None or low is None:
        return "unknown"
    return f"{one[name]:+.2f} ({low:+.2f} to {high:+.2f})"


def _share(share: float, low: float, high: float) -> str:
    return f"{share:.1%} ({low:.1%} to {high:.1%})"


def _chance(q: float) -> str:
    return "below 0.001" if q < 0.001 else f"{q:.3f}"


def _count(number: int, one: str, several: str) -> str:
    return f"{number:,} {one if number == 1 else several}"


# The report of an audit, in words: what was found, how, and what was not tested.


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
