"""Keys: read from the environment when a request is sent, and held nowhere else."""

from __future__ import annotations

import os
import re

from slalom_xai.errors import InputError

HIDDEN = "[key]"
_MASKED = re.compile(r"\S*\*{3,}\S*")  # how servers repeat a part of a key that they refuse


class EnvironmentKey:
    """A key in an environment variable. The object knows the variable's name, not the key.

    Args:
        variable: its name; None: there is no key.
        header: that carries the key.
    """

    def __init__(self, variable: str | None, header: str) -> None:
        self.variable = variable
        self.header = header

    @property
    def is_set(self) -> bool:
        """Whether there is a key."""
        return bool(self._key())

    def check(self) -> None:
        """Refuses a key that no header can hold, without repeating it."""
        if not all("!" <= character <= "~" for character in self._key()):
            raise InputError(
                f"the key in {self.variable} has characters that a header cannot hold, such as "
                "spaces or line breaks: set it again"
            )

    def headers(self) -> dict[str, str]:
        """What a request carries."""
        key = self._key()
        if not key:
            return {}
        return {self.header: f"Bearer {key}" if self.header == "Authorization" else key}

    def without(self, text: str) -> str:
        """What a server sent, without the key that it may repeat."""
        key = self._key()
        return text.replace(key, HIDDEN) if key else text

    def hidden(self, text: str) -> str:
        """A message of a server without the key, or the part of it that is not starred out."""
        return _MASKED.sub(HIDDEN, self.without(text))

    def _key(self) -> str:
        return os.environ.get(self.variable, "").strip() if self.variable else ""
