"""The command ``slalom serve``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slalom_xai.cli.options import (
    Offer,
    TextField,
    names,
    spread_options,
    switch,
    without_default,
)
from slalom_xai.models.bundled import EMBEDDED, is_bundled
from slalom_xai.options import ExplainOptions

if TYPE_CHECKING:
    from slalom_xai.serve.work.spec import DataSpec

_EPILOG = """\
Examples:

    slalom serve --open

    slalom serve --model mine=./my-classifier --model embedded --data reviews.parquet

    slalom serve --model stars=./my-stars --labels bad,fair,good

    slalom serve --folder explanations --open

    slalom serve --host 0.0.0.0 --allow-host explain.example.org --base-path /slalom
"""

_NEEDED = ("fastapi", "prometheus_client", "uvicorn")

_Models = Annotated[
    list[str] | None,
    without_default(
        "A model to explain, as NAME=FOLDER or NAME=HUB-ID; can be given several times. "
        "Default: embedded, the movie-review model."
    ),
]
_ModelLabels = Annotated[
    list[str] | None,
    without_default(
        "Names for classes that a model only numbers, such as negative,positive; of several "
        "models, as NAME=negative,positive, for each."
    ),
]
_Data = Annotated[Path | None, without_default("A table of texts: .csv, .tsv, .jsonl or .parquet.")]
_LabelField = Annotated[
    str | None, without_default("Column of the labels. Default: label, if any.")
]
_Folder = Annotated[
    Path | None, without_default("A folder that slalom corpus or slalom audit filled, to look at.")
]
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

_Options = Annotated[ExplainOptions, Offer(only=("device", "dtype", "trust_remote_code"))]


def register(app: typer.Typer) -> None:
    """Adds the command to the command line."""
    app.command("serve", epilog=_EPILOG)(spread_options(_serve))


def _serve(
    *,
    model: _Models = None,
    labels: _ModelLabels = None,
    data: _Data = None,
    text_field: TextField = "text",
    label_field: _LabelField = None,
    folder: _Folder = None,
    port: _Port = 8765,
    host: _Host = "127.0.0.1",
    base_path: _BasePath = "",
    token: _Token = None,
    allow_host: _AllowHost = None,
    open_page: _Open = False,
    store: _Store = None,
    workers: _Workers = 1,
    queue: _Queue = 256,
    options: _Options,
    log_texts: _LogTexts = False,
) -> None:
    """Opens a page where people explain texts, compare models and ask what if."""
    _check_installed()
    from slalom_xai.serve.data import Dataset
    from slalom_xai.serve.folder import open_folder
    from slalom_xai.serve.service import Service
    from slalom_xai.serve.serving import Address, access, default_store, open_port, serve
    from slalom_xai.serve.store.file import Store
    from slalom_xai.serve.work.spec import DataSpec, Limits, WorkerSpec, bound_to

    shown = None if folder is None else open_folder(folder.absolute())
    place = Address(host, port, _check_sub_path(base_path))
    visitors = access(place, token, allow_host or [])
    file = (store or default_store()).absolute()
    limits = Limits(queue=queue)
    given: DataSpec | None = None
    if data is not None:
        given = DataSpec(str(data.absolute()), str(file.parent), text_field, label_field)
    sources = _parse_models(model or [EMBEDDED])
    called = _label_names(labels or [], list(sources))
    specs = [
        WorkerSpec(
            name,
            source,
            str(file),
            bound=bound_to(source, options.dtype, called.get(name)),
            device=options.device,
            dtype=options.dtype,
            trust_remote_code=options.trust_remote_code,
            labels=called.get(name),
            limits=limits,
            data=given,
            log_texts=log_texts,
        )
        for name, source in sources.items()
    ]
    opened = open_port(place)
    kept = Store(file)
    dataset = None
    if given is not None:
        dataset = Dataset.of(given)
        dataset.prepare()
    service = Service(specs, kept, visitors, limits, workers, dataset, shown, log_texts)
    serve(service, place, opened, open_page=open_page, out=sys.stdout)


def _check_installed() -> None:
    from importlib.util import find_spec

    from slalom_xai.errors import InputError

    missing = [package for package in _NEEDED if find_spec(package) is None]
    if missing:
        raise InputError(
            f"slalom serve needs {' and '.join(missing)}, not installed: "
            f"pip install {' '.join(missing)}, or install this package with its extra 'serve'"
        )


def _check_sub_path(given: str) -> str:
    """A sub-path with a slash before it and none after it."""
    import re

    from slalom_xai.errors import InputError

    path = given.strip("/")
    if not path:
        return ""
    if not re.fullmatch(r"[\w.~-]+(/[\w.~-]+)*", path, re.ASCII):
        raise InputError(f"--base-path is {given!r}: give letters and slashes, such as /slalom")
    return f"/{path}"


def _parse_models(given: list[str]) -> dict[str, str | None]:
    """What models are loaded from, by their names; None: the bundled model."""
    from slalom_xai.errors import InputError

    sources: dict[str, str | None] = {}
    for entry in given:
        name, equals, source = entry.partition("=")
        if not equals:
            name, source = Path(entry).name or entry, entry
        if not name or not source or not name.isprintable() or len(name) > 200:
            raise InputError(f"--model is {entry!r}: give NAME=FOLDER, NAME=HUB-ID, or embedded")
        if name in sources:
            raise InputError(f"--model names {name!r} twice: give every model its own name")
        sources[name] = None if is_bundled(source) else source
    return sources


def _label_names(given: list[str], models: list[str]) -> dict[str, tuple[str, ...]]:
    """Names of classes, by the model that they are for."""
    from slalom_xai.errors import InputError

    found: dict[str, tuple[str, ...]] = {}
    for entry in given:
        name, equals, listed = entry.partition("=")
        if not equals or name not in models:
            if len(models) > 1:
                raise InputError(
                    f"--labels is {entry!r}, and there are {len(models)} models: say whose names "
                    f"they are, as {models[0]}=negative,positive"
                )
            name, listed = models[0], entry
        if name in found:
            raise InputError(f"--labels names the classes of {name!r} twice: give them once")
        found[name] = names(listed)
        if not all(found[name]) or len(set(found[name])) < len(found[name]):
            raise InputError(
                f"--labels is {entry!r}: give every class a name of its own, such as "
                "negative,positive"
            )
    return found
