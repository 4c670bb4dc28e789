"""Shards: work that several processes, GPUs or jobs share without knowing of each other."""

from __future__ import annotations

import re
from dataclasses import dataclass

from slalom_xai.errors import InputError, quote_text

SHARD_HELP = "Do only share K of N of the work, such as --shard 3/16 for the third of sixteen."


@dataclass(frozen=True)
class Shard:
    """A share of numbered pieces of work: every ``count``-th, beginning with ``number - 1``.

    Attributes:
        number: from 1.
        count: of all shards.
    """

    number: int = 1
    count: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.count:
            raise _no_shard(str(self))

    @classmethod
    def read(cls, given: str) -> Shard:
        """Reads a shard as people write it, such as 3/16; raises ``InputError`` if it is none."""
        found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", given)
        if found is None:
            raise _no_shard(given)
        return cls(*map(int, found.groups()))

    def has(self, piece: int) -> bool:
        """Whether a piece of work, counted from 0, belongs to it."""
        return piece % self.count == self.number - 1

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


def _no_shard(given: str) -> InputError:
    return InputError(
        f"--shard is {quote_text(given)}: give which share of how many, from 1/N to N/N, "
        "such as 3/16 for the third of sixteen"
    )


WHOLE = Shard()
