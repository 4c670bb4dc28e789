"""The parts of a report that are about slices and groups of texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slalom_xai.audit.document import Block, Heading, Paragraph, Table
from slalom_xai.audit.subgroups import RANDOM

_SHOWN = 40  # rows of a table, at most; all of them are in audit.json
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
        blocks.append(Table(_HEAD, [_cells(one) for one in shown[:_SHOWN]]))
    left = len(effects) - len(shown[:_SHOWN])
    if left:
        blocks.append(Paragraph(f"The {left:,} other pairs of a word and a group: audit.json."))
    return blocks


def _verdict(tests: Sequence[Any], differing: Sequence[Mapping[str, Any]]) -> str:
    if not tests:
        return "No column has two groups with enough texts, so that nothing was compared."
    if not differing:
        return "No word differs between groups."
    return f"{_count(len(differing), 'pair differs', 'pairs differ')}. It does not say why."


_HEAD = [
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


def _cells(one: Mapping[str, Any]) -> list[str]:
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
