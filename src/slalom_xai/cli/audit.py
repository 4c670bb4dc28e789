"""The command ``slalom audit``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slalom_xai.cli.options import (
    AsJson,
    Offer,
    TextField,
    argument,
    spread_options,
    without_default,
)
from slalom_xai.cli.output import echo_json
from slalom_xai.options import ExplainOptions
from slalom_xai.system.interrupts import exit_on_interrupt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from slalom_xai.data.audit import Rule

_HELP = (
    "Audits a classifier on a table: which words decide that should not, measured by putting them "
    "into texts; a report in the folder."
)
_EPILOG = """\
Examples:

    slalom audit reviews.csv --label label --out audit

    slalom audit reviews.parquet --text review --label stars --model ./my-classifier
        --group country --terms our-brands.txt --out audit

    slalom audit reviews.csv --out audit --fail-if "flip_rate>0.1"    (exit code 1, for CI)
"""

_Table = Annotated[Path, argument("CSV, TSV, JSON lines or Parquet with a text in each row.")]
_Out = Annotated[Path, without_default("Folder for the report.")]
_LabelField = Annotated[str | None, without_default("Column of the classes, if there is one.")]
_Group = Annotated[
    list[str] | None,
    without_default("Column by which texts are grouped, such as country; may be given repeatedly."),
]
_Terms = Annotated[
    list[Path] | None,
    without_default(
        "File with words that should not matter, beside the lists that come along; may be given "
        "repeatedly."
    ),
]
_OnlyTerms = Annotated[
    bool, typer.Option("--only-terms", help="Use the files of --terms alone, and no other list.")
]
_Texts = Annotated[int, typer.Option(help="Texts to ask about, drawn from the table.", min=20)]
_Fdr = Annotated[
    float, typer.Option(help="Share of false findings that is allowed, on average.", min=0, max=1)
]
_FailIf = Annotated[
    list[str] | None,
    without_default(
        'Rule such as "flip_rate>0.1": exit code 1 if it is so, or if that was not measured; may '
        "be repeated."
    ),
]

_Options = Annotated[
    ExplainOptions, Offer(without=("method", "budget", "granularity", "target", "removal"))
]


def register(app: typer.Typer) -> None:
    """Adds the command to the command line."""
    app.command("audit", help=_HELP, epilog=_EPILOG)(spread_options(_audit))


def _audit(
    *,
    table: _Table,
    out: _Out,
    text: TextField = "text",
    label: _LabelField = None,
    group: _Group = None,
    options: _Options,
    terms: _Terms = None,
    only_terms: _OnlyTerms = False,
    texts: _Texts = 1000,
    fdr: _Fdr = 0.05,
    fail_if: _FailIf = None,
    as_json: AsJson = False,
) -> int:
    with exit_on_interrupt():
        from slalom_xai.data.audit import (
            NUMBERS,
            AuditFields,
            AuditSettings,
            TrialSettings,
            read_word_lists,
            record,
            rule,
            run_audit,
            write_audit,
        )
        from slalom_xai.data.corpus.staging import model_fingerprint
        from slalom_xai.system.files import make_folder

    rules = [rule(said, NUMBERS) for said in fail_if or []]
    _check_rules(rules, group or [], label)
    lists = read_word_lists(terms or [], only_terms)
    make_folder("--out", out)
    settings = AuditSettings(texts=texts, trials=TrialSettings(rate=fdr), seed=options.seed)
    groups = tuple(group or ())
    audit = run_audit(table, options, AuditFields(text, label, groups), lists, settings)
    fingerprint = model_fingerprint(options)
    found = record(audit, options, settings, fingerprint, groups, list(lists))
    files = write_audit(out, found, audit.explanations)
    why = {one.said: reason for one in rules if (reason := one.broken_by(found)) is not None}
    if as_json:
        echo_json({**found["numbers"], "broken rules": list(why), "files": list(map(str, files))})
    else:
        _show(found, files)
    for said, reason in why.items():
        typer.echo(f"The rule {said} is broken: {reason}.", err=True)
    return 1 if why else 0


def _check_rules(rules: Sequence[Rule], groups: Sequence[str], label: str | None) -> None:
    """Refuses rules about what will not be measured, before the first call.

    Raises:
        InputError: there is one.
    """
    from slalom_xai.data.audit.rules import OF_GROUPS, OF_LABELS
    from slalom_xai.errors import InputError

    for one in rules:
        if one.name in OF_GROUPS and not groups:
            raise InputError(f"the rule {one.said!r} is about groups: give --group a column, too")
        if one.name in OF_LABELS and label is None:
            raise InputError(
                f"the rule {one.said!r} is about right and wrong classes: give --label their "
                "column, too"
            )


def _show(found: Mapping[str, Any], files: list[Path]) -> None:
    from slalom_xai.data.audit.report import sizes

    typer.echo(sizes(found))
    words = [one for one in found["findings"] if one["found"]]
    if any(found["places"].values()):
        typer.echo(f"{len(words)} words that should not matter change the model's mind.")
    for one in words[:10]:
        typer.echo(
            f"  {one['word']}: {one['flip_rate']:.0%} of {one['texts']:,} texts become "
            f"{one['label']} (95%: {one['flip_rate_low']:.0%} to {one['flip_rate_high']:.0%}; "
            f"random words {one['control']:.1%})"
        )
    if found["group columns"]:
        _show_groups(found)
    for path in files:
        typer.echo(f"Saved: {path}")


def _show_groups(found: Mapping[str, Any]) -> None:
    small = sum(not one["enough"] for one in found["groups"])
    if small:
        typer.echo(f"{small} groups have too few texts; the report names them.")
    differing = [one for one in found["subgroups"]["effects"] if one["differs"]]
    missing = found["not measured"].get("group_differences")
    said = f"{len(differing)} times a word does otherwise in a group than in other texts."
    typer.echo(said if missing is None else f"Words were not compared between groups: {missing}.")
    for one in differing[:10]:
        typer.echo(
            f"  {one['word']} in {one['by']} {one['group']}: {one['flip_rate']:.0%} of "
            f"{one['texts']:,} texts become {one['label']}; the log odds move by "
            f"{one['beyond']:+.2f} more than elsewhere"
        )
    slices = [one for one in found["groups"] if any(e["differs"] for e in one["against"].values())]
    for one in slices[:10]:
        names = [name for name, each in one["against"].items() if each["differs"]]
        typer.echo(f"  {one['by']} {one['group']} differs from other texts: {', '.join(names)}")
