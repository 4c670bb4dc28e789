"""Options that several commands share: those of an explanation, and a few of files."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer
from pydantic import BaseModel

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


@dataclass(frozen=True)
class Offer:
    """Which options of a set a command offers; a note in ``Annotated``.

    Attributes:
        without: fields that it leaves out.
        only: the fields that it offers, if they are few.
        help: help in other words than those of the set.
        usual: defaults other than those of the set.
    """

    without: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    help: Mapping[str, str] = field(default_factory=dict)
    usual: Mapping[str, Any] = field(default_factory=dict)

    def names(self, kind: type[BaseModel]) -> list[str]:
        """The fields of the set that become options."""
        told = [name for name, each in kind.model_fields.items() if each.description is not None]
        return [name for name in self.only or told if name not in self.without]


def spread_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command an option for each field of the sets of options that it takes.

    A parameter whose type is a pydantic model becomes one option per field, with the field's
    default and help.

    Example:
        >>> @spread_options
        ... def command(options: Annotated[ExplainOptions, Offer(without=("target",))]) -> None:
        ...     ...
    """
    hints = get_type_hints(command, include_extras=True)
    sets: dict[str, tuple[BaseModel, list[str]]] = {}
    options: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        kind, *notes = get_args(hints[name]) or (hints[name],)
        if not (inspect.isclass(kind) and issubclass(kind, BaseModel)):
            own = parameter.replace(annotation=hints[name], kind=parameter.KEYWORD_ONLY)
            options.append(own)
            continue
        offer = next((note for note in notes if isinstance(note, Offer)), Offer())
        usual = kind(**offer.usual)
        sets[name] = usual, offer.names(kind)
        options += [_option(usual, each, offer) for each in offer.names(kind)]

    def run(**given: Any) -> Any:
        for name, (usual, fields) in sets.items():
            chosen = {each: given.pop(each) for each in fields}
            given[name] = type(usual)(**{**dict(usual), **_read(type(usual), chosen)})
        return command(**given)

    run.__doc__ = command.__doc__
    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    run.__annotations__ = {option.name: option.annotation for option in options}
    return run


def _option(usual: BaseModel, name: str, offer: Offer) -> inspect.Parameter:
    """One field as typer takes it."""
    told, default = type(usual).model_fields[name], getattr(usual, name)
    shown = default is not None and not isinstance(default, bool)
    option = typer.Option(
        f"--{name.replace('_', '-')}",
        help=offer.help.get(name, told.description),
        show_default=shown,
    )
    kind: Any = Annotated[_as_typed(told.annotation), option]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _as_typed(kind: Any) -> Any:
    """What somebody types for a field of this type: names for choices, a list with commas."""
    origin = get_origin(kind)
    if origin is Annotated:
        return _as_typed(get_args(kind)[0])
    if origin in (Union, UnionType):
        parts = [_as_typed(part) for part in get_args(kind)]
        if str in parts:  # what may be a path or a name is typed as a name
            parts = [part for part in parts if part is not Path]
        return Union[tuple(parts)]  # noqa: UP007
    return str if origin in (Literal, tuple) else kind


def _read(kind: type[BaseModel], given: Mapping[str, Any]) -> dict[str, Any]:
    """What was typed, lists split at their commas."""
    lists = {name for name, each in kind.model_fields.items() if "tuple" in str(each.annotation)}
    return {
        name: names(value) if name in lists and isinstance(value, str) else value
        for name, value in given.items()
    }


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
Shards = Annotated[
    str,
    without_default(
        f"{SHARD_HELP} So several jobs can fill one folder; at the end, the same command without "
        "it shows the whole."
    ),
]
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
