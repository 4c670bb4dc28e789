"""Options that several commands share, each with its type and its help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from slalom_xai.system.shards import SHARD_HELP


def without_default(help_text: str) -> Any:
    """An option whose help says itself what holds where the option is not given."""
    return typer.Option(help=help_text, show_default=False)


def argument(help_text: str) -> Any:
    """An argument without a default in its help."""
    return typer.Argument(help=help_text, show_default=False)


def switch(name: str, help_text: str) -> Any:
    """An option that is on or off, without a second name for off."""
    return typer.Option(name, help=help_text)


Model = Annotated[
    str | None,
    without_default(
        "Folder or hub id of a classifier. Default: embedded, the bundled movie-review model."
    ),
]
Device = Annotated[
    str | None,
    without_default("Where to run, such as cpu or cuda. Default: a GPU if there is one."),
]
Dtype = Annotated[
    str | None,
    without_default("Precision, such as bfloat16. Default: as saved, float32 on a CPU."),
]
Granularity = Annotated[
    str, typer.Option(help="What gets a score: token, type, word, phrase, sentence or passage.")
]
Removal = Annotated[
    str,
    typer.Option(
        help="How to leave out a unit: hide it from the attention, delete it, or put the mask or "
        "unk token in its place; auto hides where the model allows it."
    ),
]
TrustRemoteCode = Annotated[
    bool, switch("--trust-remote-code", "Let a hub model run its own code.")
]
UseCache = Annotated[
    bool | None,
    typer.Option(
        "--cache/--no-cache",
        help="Keep the model's answers on disk for later runs. Default: only for models behind an "
        "API.",
        show_default=False,
    ),
]
CacheFolder = Annotated[
    Path | None,
    without_default("Keep the model's answers in this folder. Default: your cache folder."),
]
Tokenizer = Annotated[
    str | None,
    without_default("Folder or hub id of its tokenizer. Default: the model's own."),
]
Method = Annotated[str, typer.Option(help="How to explain; see `slalom methods`.")]
Budget = Annotated[
    int | None,
    without_default("Most model calls to use. Default: chosen by the text's length."),
]
Target = Annotated[str | None, without_default("Label or index of the class to explain.")]
Labels = Annotated[
    str | None,
    without_default("Names for classes that a model only numbers, such as negative,positive."),
]
Truncation = Annotated[
    bool, switch("--truncation", "Explain the beginning of a text that is too long.")
]
Seed = Annotated[int, typer.Option(help="The same seed gives the same explanation.")]
Shards = Annotated[
    str,
    without_default(
        f"{SHARD_HELP} So several jobs can fill one folder; at the end, the same command without "
        "it shows the whole."
    ),
]
Revision = Annotated[str | None, without_default("Branch, tag or commit of a hub id.")]
TextField = Annotated[str, typer.Option(help="Column of the texts.")]
AsJson = Annotated[bool, switch("--json", "Print as JSON.")]


def names(given: str) -> tuple[str, ...]:
    """What an option lists, separated by commas."""
    return tuple(name.strip() for name in given.split(","))


def cache_option(use: bool | None, folder: Path | None) -> bool | Path | None:
    """The cache that the two options ask for, as ``Explainer`` takes it."""
    if use is False and folder is not None:
        from slalom_xai.errors import InputError

        raise InputError(
            f"--cache-folder is {folder}, and --no-cache wants no cache: give one of them"
        )
    return use if folder is None else folder
