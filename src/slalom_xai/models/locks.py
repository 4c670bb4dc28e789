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
