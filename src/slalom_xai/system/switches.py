"""Settings of the whole process, changed for a while and given back as they were.

Some libraries have settings that hold for every thread: how torch multiplies float32 matrices, how
much transformers says, how long a field the csv module reads. Code that changes one and puts it
back does harm when two threads do so at once: the second one reads the first one's value, takes it
for the user's, and leaves it behind.

A ``Switch`` counts who needs it. The first one in saves the user's value, the last one out puts it
back, and everybody in between finds the setting as they need it. Nobody waits for anybody.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

Value = TypeVar("Value")

_switching = threading.RLock()  # of all switches: taken only while one is set


class Switch(Generic[Value]):
    """One setting of the process, and the value it has while somebody needs it.

    Args:
        read: the setting as it is.
        write: changes it.
        wanted: its value while it is held.
    """

    def __init__(
        self, read: Callable[[], Value], write: Callable[[Value], object], wanted: Value
    ) -> None:
        self._read = read
        self._write = write
        self._wanted = wanted
        self._holders = 0
        self._users: Value | None = None  # the value from before; None while nobody holds it

    @contextmanager
    def held(self) -> Iterator[None]:
        """Holds the setting at the value wanted; may be nested, in one thread and in several."""
        self._enter()
        try:
            yield
        finally:
            self._leave()

    def _enter(self) -> None:
        with _switching:
            if self._holders == 0:
                self._users = self._read()
                self._write(self._wanted)
            self._holders += 1

    def _leave(self) -> None:
        with _switching:
            self._holders -= 1
            if self._holders:
                return
            users, self._users = self._users, None
            # Somebody else who changed the setting meanwhile keeps what they chose.
            if users is not None and users != self._wanted == self._read():
                self._write(users)
