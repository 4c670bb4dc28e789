"""What every loader of the transformers library needs.

No questions are asked, nothing is printed, and there is one line for whatever goes wrong.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from slalom_xai.errors import ModelError, SlalomError
from slalom_xai.models.bundled import bundled_folder, is_bundled
from slalom_xai.system.switches import Switch

GIVE_MODEL = "give a folder saved with save_pretrained, or a hub id"
TRUST = "pass trust_remote_code=True (--trust-remote-code) if you trust it"

_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
# Special tokens, and the markers of a word's beginning.
_NO_WORD = re.compile(r"<.*>|\[.*\]|[\u2581\u0120\s]*")


@contextmanager
def load_quietly(what: str, source: str, instead: str) -> Iterator[dict[str, bool]]:
    """Runs a loader of the transformers library quietly.

    Args:
        what: is loaded, for the message.
        source: a folder or a hub id.
        instead: what to give.

    Yields:
        Options for the loader: where the hub cannot be reached, it must not try for half a minute.

    Raises:
        ModelError: it failed. Damaged files, odd configurations and refused pickles each raise
            something else, so that all of it is caught here.
    """
    _check_files(source)
    unreachable = None if os.path.exists(source) else _hub_problem()
    try:
        with hide_loading_messages():
            yield {} if unreachable is None else {"local_files_only": True}
    except SlalomError:
        raise
    except Exception as error:
        if unreachable is not None and isinstance(error, OSError):
            raise ModelError(
                f"cannot load {what} from {source!r}: there is no such folder, no copy of such a "
                f"model from the hub, and {unreachable}; {instead} that can be reached"
            ) from error
        if "trust_remote_code" in str(error):
            raise ModelError(f"{source!r} has its own code: {TRUST}") from error
        raise ModelError(
            f"cannot load {what} from {source!r} ({reason(error)}): {instead}"
        ) from error


def _check_files(source: str) -> None:
    """Refuses files of other libraries, which transformers refuses without saying what to do.

    Raises:
        ModelError: it is such a file, or a folder of such files only.
    """
    place = Path(source)
    found = [place] if place.is_file() else []
    if place.is_dir() and not (place / "config.json").exists():
        found = sorted(place.glob("*.gguf"))
    if found and found[0].suffix.lower() == ".gguf":
        raise ModelError(
            f"{source!r} holds a model for llama.cpp ({found[0].name}): give the folder of the "
            "model that it was made from, or run it with llama-server and pass its address "
            "(--api; slalom_xai.models.remote)"
        )
    if found:
        raise ModelError(
            f"{source!r} is a file: {GIVE_MODEL}; or load it yourself and pass the object"
        )


def _hub_problem() -> str | None:
    """Why the hub cannot be reached; None where it can."""
    from huggingface_hub import constants

    hub: Any = import_module("huggingface_hub.utils")
    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE says not to use the hub"
    try:
        hub.get_session().head(constants.ENDPOINT, timeout=constants.HF_HUB_ETAG_TIMEOUT)
    except Exception as error:  # which kind depends on the version of the hub's library
        return f"the hub cannot be reached ({constants.ENDPOINT}: {reason(error)[:100]})"
    return None


def reason(error: BaseException) -> str:
    """What an exception says, in one line, behind its name where it says little."""
    said = " ".join(str(error).split())[:300]
    if isinstance(error, (OSError, ValueError, ImportError)) and len(said) > 10:
        return said
    return f"{type(error).__name__}: {said}".rstrip(": ")


def locate_model(name: str | Path) -> str:
    """A folder or a hub id, with ``~`` and the names of the bundled model spelled out.

    Raises:
        ModelError: a path to nothing, or a name that no hub can have. Only a plain name, or one
            with a single slash, may be a hub id.
    """
    given = str(name)
    if is_bundled(name):
        return str(bundled_folder())
    source = os.path.expanduser(given)
    if (isinstance(name, Path) or _is_path(given)) and not os.path.exists(source):
        raise ModelError(f"there is no folder {given!r}: {GIVE_MODEL}")
    if not os.path.exists(source):
        _check_hub_id(source)
    return source


def _check_hub_id(name: str) -> None:
    from huggingface_hub.errors import HFValidationError

    hub: Any = import_module("huggingface_hub.utils")
    try:
        hub.validate_repo_id(name)
    except HFValidationError as error:
        raise ModelError(
            f"there is no folder {name!r}, and it cannot be a hub id, which is letters, digits and "
            f"-_. behind an optional owner and slash: {GIVE_MODEL}"
        ) from error


def _is_path(name: str) -> bool:
    starts = name.startswith((".", "/", "~", "\\")) or _DRIVE.match(name) is not None
    return starts or name.endswith(("/", "\\")) or "\\" in name or name.count("/") > 1


def load_tokenizer(
    name: str | Path, *, revision: str | None = None, trust_remote_code: bool = False
) -> Any:
    """A tokenizer from a folder or the hub, with words in it.

    Raises:
        ModelError: it cannot be loaded, or its files are missing.
    """
    from transformers import AutoTokenizer

    source = locate_model(name)
    with load_quietly("a tokenizer", source, "give a tokenizer, its folder or its hub id") as hub:
        if not trust_remote_code:
            _check_own_code(source)
        tokenizer = AutoTokenizer.from_pretrained(
            source, revision=revision, trust_remote_code=bool(trust_remote_code), **hub
        )
    check_words(tokenizer, source)
    return tokenizer


def _check_own_code(source: str) -> None:
    """Refuses a folder whose tokenizer is a class of its own.

    The library might take another class for it.

    Raises:
        ModelError: the tokenizer names code in the folder, and no class of the library.
    """
    import transformers

    file = Path(source) / "tokenizer_config.json"
    if not file.is_file():
        return
    stated = json.loads(file.read_text(encoding="utf-8"))
    if not isinstance(stated, dict) or "AutoTokenizer" not in (stated.get("auto_map") or ()):
        return
    if not hasattr(transformers, str(stated.get("tokenizer_class"))):
        raise ModelError(f"the tokenizer in {source!r} has its own code: {TRUST}")


def check_words(tokenizer: Any, source: str) -> None:
    """Refuses a tokenizer that was made up because its files are missing.

    Raises:
        ModelError: the vocabulary has special tokens only.
    """
    if not hasattr(tokenizer, "get_vocab"):
        return
    special = set(getattr(tokenizer, "all_special_tokens", ()))
    if all(token in special or _NO_WORD.fullmatch(token) for token in tokenizer.get_vocab()):
        raise ModelError(
            f"the tokenizer files are missing in {source!r}, so every word would be unknown: "
            "save the tokenizer there with save_pretrained, or pass tokenizer="
        )


@contextmanager
def hide_loading_messages() -> Iterator[None]:
    """Keeps progress bars, loading reports and retries off the screen: what matters is raised."""
    with ExitStack() as stack:
        for switch in _silencers():
            stack.enter_context(switch.held())
        yield


@functools.cache
def _silencers() -> tuple[Switch[int], Switch[int], Switch[bool]]:
    """What transformers says, what the hub's library says, and the bars that both show."""
    library: Any = import_module("transformers.utils.logging")
    hub: Any = import_module("huggingface_hub.utils.logging")

    def show_bars(shown: bool) -> None:
        if shown:
            library.enable_progress_bar()
        else:
            library.disable_progress_bar()

    return (
        Switch(library.get_verbosity, library.set_verbosity, logging.ERROR),
        Switch(hub.get_verbosity, hub.set_verbosity, logging.ERROR),
        Switch(library.is_progress_bar_enabled, show_bars, False),
    )
