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
from slalom_xai.system.switches import Switch

TRUST = "pass trust_remote_code=True (--trust-remote-code) if you trust it"

_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
# Special tokens, and the markers of a word's beginning.
_NO_WORD = re.compile(r"<.*>|\[.*\]|[\u2581\u0120\s]*")


@contextmanager
def loading(what: str, source: str, instead: str) -> Iterator[None]:
    """Runs a loader of the transformers library quietly.

    Args:
        what: is loaded, for the message.
        source: a folder or a hub id.
        instead: what to give.

    Raises:
        ModelError: it failed. Damaged files, odd configurations and refused pickles each raise
            something else, so that all of it is caught here.
    """
    try:
        with quiet():
            yield
    except SlalomError:
        raise
    except Exception as error:
        if "trust_remote_code" in str(error):
            raise ModelError(f"{source!r} has its own code: {TRUST}") from error
        raise ModelError(
            f"cannot load {what} from {source!r} ({reason(error)}): {instead}"
        ) from error


def reason(error: BaseException) -> str:
    """What an exception says, in one line, behind its name where it says little."""
    said = " ".join(str(error).split())[:300]
    if isinstance(error, (OSError, ValueError, ImportError)) and len(said) > 10:
        return said
    return f"{type(error).__name__}: {said}".rstrip(": ")


def located(name: str | Path) -> str:
    """A folder or a hub id, with ``~`` spelled out.

    Raises:
        ModelError: a path to nothing. Only a plain name, or one with a single slash, may be a hub
            id.
    """
    given = str(name)
    source = os.path.expanduser(given)
    if (isinstance(name, Path) or _is_path(given)) and not os.path.exists(source):
        raise ModelError(
            f"there is no folder {given!r}: give a folder saved with save_pretrained, or a hub id"
        )
    return source


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

    source = located(name)
    with loading("a tokenizer", source, "give a tokenizer, its folder or its hub id"):
        if not trust_remote_code:
            _check_own_code(source)
        tokenizer = AutoTokenizer.from_pretrained(
            source, revision=revision, trust_remote_code=bool(trust_remote_code)
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
def quiet() -> Iterator[None]:
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
