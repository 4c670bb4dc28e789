"""One lock for each model object, so that calls to one model take turns, whoever makes them."""

from __future__ import annotations

import threading
from typing import Any
from weakref import WeakKeyDictionary

_locks: WeakKeyDictionary[Any, threading.RLock] = WeakKeyDictionary()
_guard = threading.Lock()


def lock_of(model: Any) -> threading.RLock:
    """The one lock of a model object; calls to one model take turns."""
    with _guard:
        try:
            return _locks.setdefault(model, threading.RLock())
        except TypeError:  # an object that cannot be referred to weakly has a lock per explainer
            return threading.RLock()


# Which models several threads may ask at once.


LIBRARIES = ("torch", "transformers")
RECORDS = ("output_attentions", "output_hidden_states")


def is_stateless(model: Any) -> bool:
    """Whether forward passes of a transformers model in several threads do not touch each other.

    They do not where every part is transformers' own or torch's, as the library made it. Other
    code, and hooks, may keep something from one step of a pass to the next. A model that has no
    token to pad with, or that records what it does, changes while it is asked.
    """
    config = model.config
    pad = getattr(config, "pad_token_id", None)
    if pad is None or pad < 0 or any(getattr(config, name, False) for name in RECORDS):
        return False
    return all(_is_as_made(part) for part in model.modules())


def _is_as_made(part: Any) -> bool:
    """Whether a module is one of a library's, without hooks and with the forward of its class."""
    if type(part).__module__.split(".")[0] not in LIBRARIES or "forward" in vars(part):
        return False
    return not part._forward_hooks and not part._forward_pre_hooks
