"""The command ``slalom serve``."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slalom_xai.cli.options import Device, Dtype, TextField, TrustRemoteCode, switch, without_default

if TYPE_CHECKING:
    from slalom_xai.app.dataset import Dataset
    from slalom_xai.app.worker import WorkerSpec

_EPILOG = """\
Examples:

    slalom serve --open

    slalom serve --model mine=./my-classifier --model embedded --data reviews.parquet

    slalom serve --host 0.0.0.0 --allow-host explain.example.org --base-path /slalom
"""

_EMBEDDED = "embedded"

_Models = Annotated[
    list[str] | None,
    without_default(
        "A model to explain, as NAME=FOLDER or NAME=HUB-ID; can be given several times. "
        "Default: embedded, the movie-review model."
    ),
]
_Data = Annotated[Path | None, without_default("A table of texts: .csv, .tsv, .jsonl or .parquet.")]
_LabelField = Annotated[str | None, without_default("Column of the labels. Default: label, if any.")]
_Port = Annotated[int, typer.Option(help="Port to listen on; 0: any free one.", min=0, max=65535)]
_Host = Annotated[str, typer.Option(help="Network interface; 0.0.0.0: all, for other machines.")]
_BasePath = Annotated[str, without_default("What a proxy puts before every address, as /slalom.")]
_Token = Annotated[
    str | None,
    typer.Option(
        help="What visitors must know. Default: none on this machine, else a new one, which is "
        "printed.",
        show_default=False,
        envvar="SLALOM_TOKEN",
    ),
]
_AllowHost = Annotated[
    list[str] | None,
    without_default("A name that the server is reached by; can be given several times."),
]
_Open = Annotated[bool, switch("--open", "Open the page in a browser.")]
_Store = Annotated[
    Path | None,
    without_default("Keep jobs and results here. Default: a file in your home folder."),
]
_Workers = Annotated[int, typer.Option(help="Processes for each model.", min=1, max=64)]
_Queue = Annotated[int, typer.Option(help="Jobs that may wait for each model.", min=1)]
_LogTexts = Annotated[bool, switch("--log-texts", "Let the log hold the texts that are asked.")]


def register(app: typer.Typer) -> None:
    """Adds the command to the command line."""
    app.command("serve", epilog=_EPILOG)(_serve)


def _serve(
    model: _Models = None,
    data: _Data = None,
    text_field: TextField = "text",
    label_field: _LabelField = None,
    port: _Port = 8765,
    host: _Host = "127.0.0.1",
    base_path: _BasePath = "",
    token: _Token = None,
    allow_host: _AllowHost = None,
    open_page: _Open = False,
    store: _Store = None,
    workers: _Workers = 1,
    queue: _Queue = 256,
    device: Device = None,
    dtype: Dtype = None,
    trust_remote_code: TrustRemoteCode = False,
    log_texts: _LogTexts = False,
) -> None:
    """Opens a page where people explain texts, compare models and ask what if."""
    from slalom_xai.errors import optional_package

    for package in ("fastapi", "uvicorn"):
        optional_package(package, "slalom serve")
    from slalom_xai.app.limits import Limits
    from slalom_xai.app.service import Service
    from slalom_xai.app.serving import Address, access, default_store, listening, serve
    from slalom_xai.app.store import Store

    place = Address(host, port, _checked_path(base_path))
    file = store or default_store()
    limits = Limits(queue=queue)
    opened = Store(file)
    dataset = None
    if data is not None:
        dataset = _dataset(data, file.parent, text_field, label_field)
    specs = _specs(model or [_EMBEDDED], file, device, dtype, trust_remote_code)
    if data is not None:
        how = {"source": str(data.absolute()), "folder": str(file.parent.absolute())}
        given = how | {"text_field": text_field, "label_field": label_field}
        specs = [replace(spec, data=given) for spec in specs]
    service = Service(
        specs,
        opened,
        access(place, token, allow_host or []),
        limits,
        workers,
        dataset,
        log_texts,
    )
    serve(service, place, listening(place), open_page=open_page, out=sys.stdout)


def _checked_path(given: str) -> str:
    """A sub-path with a slash before it and none after it."""
    import re

    from slalom_xai.errors import InputError

    path = given.strip("/")
    if not path:
        return ""
    if not re.fullmatch(r"[\w.~-]+(/[\w.~-]+)*", path, re.ASCII):
        raise InputError(f"--base-path is {given!r}: give letters and slashes, such as /slalom")
    return f"/{path}"


def _specs(
    given: list[str], store: Path, device: str | None, dtype: str | None, trust: bool
) -> list[WorkerSpec]:
    """The models by their names."""
    from slalom_xai.app.worker import WorkerSpec
    from slalom_xai.errors import InputError

    specs: list[WorkerSpec] = []
    for entry in given:
        name, equals, source = entry.partition("=")
        if not equals:
            name, source = Path(entry).name or entry, entry
        if not name or not source or not name.isprintable() or len(name) > 200:
            raise InputError(f"--model is {entry!r}: give NAME=FOLDER, NAME=HUB-ID, or embedded")
        if any(spec.name == name for spec in specs):
            raise InputError(f"--model names {name!r} twice: give every model its own name")
        specs.append(
            WorkerSpec(
                name=name,
                source=None if source == _EMBEDDED else source,
                store=str(store.absolute()),
                owner="",
                device=device,
                dtype=dtype,
                trust_remote_code=trust,
            )
        )
    return specs


def _dataset(data: Path, folder: Path, text_field: str, label_field: str | None) -> Dataset:
    from slalom_xai.app.dataset import Dataset

    dataset = Dataset(data, folder, text_field=text_field, label_field=label_field)
    dataset.prepare()
    return dataset
