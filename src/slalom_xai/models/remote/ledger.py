"""What asking a server has cost in several runs, kept in a file, so that caps hold for all of them.

A request is written down before it is sent, with the most that it can cost, and once more when it
is answered or refused. A request that a kill left without an answer may have been billed: the next
run counts it with the most that it can have cost.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from slalom_xai.errors import InputError, ServiceError, shown_number
from slalom_xai.models.remote.spending import Price, Reservation, Spending
from slalom_xai.system.files import append_line, write_file
from slalom_xai.system.result_folder import read_lines

_MOST = 10**15  # tokens or calls of all runs; more is no count
_TOTALS = ("calls", "read", "written", "guessed")


class Ledger(Spending):
    """Counts what was asked in this run and those before it; refuses what would pass a cap.

    Only one process at a time may use a file.

    Args:
        path: of the file; None: nothing is kept.
        price: of tokens, now; what earlier runs took counts at this price.
        max_calls: requests of all runs that may be billed, at most.
        max_cost: what all of them may cost, at most.
        most_lines: of the file, after which it is written anew.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        price: Price | None = None,
        max_calls: int | None = None,
        max_cost: float | None = None,
        most_lines: int = 10_000,
    ) -> None:
        super().__init__(price=price, max_calls=max_calls, max_cost=max_cost)
        self._path = path
        self._most_lines = self._lines = most_lines  # it is written anew before something is added
        if path is not None:
            self._read_again(path)

    def settle(self, reserved: Reservation, usage: tuple[int, int] | None) -> None:
        """A request was answered, or was lost on the way."""
        super().settle(reserved, usage)
        read, written = usage or (reserved.read, reserved.written)
        self._write("answered", reserved, {"took": [read, written], "guessed": usage is None})

    def release(self, reserved: Reservation) -> None:
        """A request was refused, so that it costs nothing."""
        super().release(reserved)
        self._write("refused", reserved, {})

    def _try_to_reserve(self, wanted: Reservation) -> str | None:
        cap = super()._try_to_reserve(wanted)
        if cap is None:
            try:
                self._write("sent", wanted, {})
            except ServiceError:
                super().release(wanted)
                raise
        return cap

    def _write(self, what: str, reserved: Reservation, more: dict[str, Any]) -> None:
        if self._path is None:
            return
        line = {what: [reserved.read, reserved.written], **more}
        try:
            if what == "sent" and self._lines >= self._most_lines:
                self._shorten(self._path, without=reserved)
            append_line(self._path, json.dumps(line))
            self._lines += 1
        except InputError as error:  # what is not written down must not be spent
            raise ServiceError(str(error)) from error

    def _read_again(self, path: Path) -> None:
        """Adds up what earlier runs spent."""
        unanswered: Counter[tuple[int, int]] = Counter()
        for line in read_lines(path):
            try:
                self._count(line, unanswered)
            except (KeyError, TypeError, ValueError) as error:
                raise InputError(
                    f"{path} cannot be read ({' '.join(str(error).split())}), so that nobody knows "
                    "what was spent: bring it back, or give another --out"
                ) from error
        for (read, written), times in unanswered.items():
            self.calls += times
            self.guessed += times
            self.read += times * read
            self.written += times * written

    def _count(self, line: dict[str, Any], unanswered: Counter[tuple[int, int]]) -> None:
        if "total" in line:
            self.calls, self.read, self.written, self.guessed = (
                _count(line["total"][name]) for name in _TOTALS
            )
        elif "sent" in line:
            read, written = map(_count, line["sent"])
            unanswered[read, written] += 1
        elif "refused" in line:
            read, written = map(_count, line["refused"])
            unanswered[read, written] -= 1
        else:
            read, written = map(_count, line["answered"])
            unanswered[read, written] -= 1
            self.calls += 1
            self.guessed += bool(line["guessed"])
            self.read += _count(line["took"][0])
            self.written += _count(line["took"][1])

    def _shorten(self, path: Path, without: Reservation) -> None:
        """Writes the file anew: a line for all that is settled, and those of what is in flight."""
        totals = (self.calls, self.read, self.written, self.guessed)
        lines: list[dict[str, Any]] = [{"total": dict(zip(_TOTALS, totals, strict=True))}]
        in_flight = [*self._reserved]
        in_flight.remove(without)  # it is added afterwards
        lines += [{"sent": [each.read, each.written]} for each in in_flight]
        write_file(path, "".join(json.dumps(line) + "\n" for line in lines))
        self._lines = len(lines)


def _count(given: Any) -> int:
    """A number of calls or tokens.

    Raises:
        ValueError: it is none, so that what was spent would be wrong.
    """
    if type(given) is not int or not 0 <= given <= _MOST:
        raise ValueError(f"{shown_number(given)} is no number of calls or tokens")
    return given
