"""What asking a server costs, and caps that are never passed.

A request reserves the most that it can cost before it is sent. When it is answered, the reservation
gives way to what the server says it took. So the sum of what was spent and what is reserved never
passes a cap, however many requests are in flight.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slalom_xai.errors import CapError, InputError, ServiceError, quote_number
from slalom_xai.models.remote.settings import check_number
from slalom_xai.system.files import append_line, write_file
from slalom_xai.system.result_folder import read_lines

_MILLION = 1_000_000
# A chat template adds tokens that we do not see: names of roles, a date, a system prompt.
_HIDDEN_TOKENS = 256
_CHARACTERS_PER_TOKEN = 4  # of English, about
_SOON = 0.005  # seconds until a request looks again whether others cost less than they might have


@dataclass(frozen=True)
class Price:
    """What a million tokens cost, in whatever currency the caps are in.

    Attributes:
        read: a million tokens of the prompt.
        written: a million tokens of the answer; None: as much as those of the prompt.
    """

    read: float
    written: float | None = None

    def __post_init__(self) -> None:
        for number in (self.read, self.written):
            if number is not None:
                check_number("price", number, 0)

    @classmethod
    def parsed(cls, given: str) -> Price:
        """A price as the command line takes it: ``IN`` or ``IN,OUT``."""
        try:
            numbers = [float(part) for part in given.split(",")]
            if not 1 <= len(numbers) <= 2:
                raise ValueError
        except ValueError:
            raise InputError(
                f"price is {given!r}: give the price of a million tokens as IN or IN,OUT, "
                "such as 0.15,0.60"
            ) from None
        return cls(*numbers)

    def of(self, read: float, written: float) -> float:
        """The cost of so many tokens."""
        each = self.read if self.written is None else self.written
        return (read * self.read + written * each) / _MILLION


@dataclass(frozen=True)
class Reservation:
    """What one request may cost at most."""

    read: int
    written: int
    cost: float


class Spending:
    """Counts what was asked and what it cost; refuses what would pass a cap.

    One object may serve several models: the caps then hold for all of them together.

    Args:
        price: of tokens; needed for a cost.
        max_calls: requests that may be billed, at most. Requests that are tried again count, unless
            the server refused them (a status of 400 to 499).
        max_cost: what all of them may cost, at most. A request that was sent and not answered may
            have been billed: it counts with the most that it can have cost.

    Attributes:
        calls: requests that were or may have been billed.
        read: tokens of prompts.
        written: tokens of answers.
        retries: requests that were tried again.
        guessed: calls for which the server did not say how many tokens they took; they count with
            the most that it can have been.
    """

    def __init__(
        self,
        *,
        price: Price | None = None,
        max_calls: int | None = None,
        max_cost: float | None = None,
    ) -> None:
        if max_calls is not None:
            check_number("max_calls", max_calls, 1, whole=True)
        if max_cost is not None:
            check_number("max_cost", max_cost, 0, above=True)
            if price is None:
                raise InputError("max_cost is given without a price: give the price of tokens too")
        self.price = price
        self.max_calls = max_calls
        self.max_cost = max_cost
        self.calls = self.read = self.written = self.retries = self.guessed = 0
        self._reserved: list[Reservation] = []
        self._lock = threading.Lock()  # models in several threads may share one purse

    @property
    def cost(self) -> float | None:
        """What was spent; None without a price."""
        return None if self.price is None else self.price.of(self.read, self.written)

    @property
    def in_short(self) -> str:
        """The calls so far and what they cost, in a few words."""
        cost = "" if self.cost is None else f", cost {shown_cost(self.cost)}"
        return f"{self.calls} calls{cost}"

    async def reserve(self, prompt: str, most_written: int) -> Reservation:
        """Reserves what a request may cost; waits for others in flight where they decide.

        Raises:
            CapError: it would pass a cap.
        """
        # A token holds at least one byte, whatever the tokenizer.
        read = len(prompt.encode()) + _HIDDEN_TOKENS
        cost = 0.0 if self.price is None else self.price.of(read, most_written)
        wanted = Reservation(read, most_written, cost)
        while (cap := self._try_to_reserve(wanted)) is not None:
            if not self._reserved:
                raise CapError(
                    f"{cap} allows no further call after {self}: raise it to go on; answers that "
                    "are kept are not paid again"
                )
            await asyncio.sleep(_SOON)
        return wanted

    def settle(self, reserved: Reservation, usage: tuple[int, int] | None) -> None:
        """A request was answered, or was lost on the way.

        Args:
            reserved: for it.
            usage: tokens read and written, as the server says; None where it does not say.
        """
        read, written = usage or (reserved.read, reserved.written)
        with self._lock:
            self._reserved.remove(reserved)
            self.calls += 1
            self.guessed += usage is None
            self.read += read
            self.written += written

    def release(self, reserved: Reservation) -> None:
        """A request was refused, so that it costs nothing."""
        with self._lock:
            self._reserved.remove(reserved)

    def _try_to_reserve(self, wanted: Reservation) -> str | None:
        """Reserves what a request may cost, or gives the cap that forbids it."""
        with self._lock:
            cap = self._passed_by(wanted)
            if cap is None:
                self._reserved.append(wanted)
            return cap

    def _passed_by(self, wanted: Reservation) -> str | None:
        """The cap that one more request might pass."""
        if self.max_calls is not None and self.calls + len(self._reserved) >= self.max_calls:
            return f"max_calls={self.max_calls}"
        reserved = sum(each.cost for each in self._reserved)
        spent = self.cost or 0.0
        if self.max_cost is not None and spent + reserved + wanted.cost > self.max_cost:
            return f"max_cost={self.max_cost:g}"
        return None

    def __str__(self) -> str:
        most = "at most " if self.guessed else ""
        parts = [f"{self.calls} calls", f"{most}{self.read} tokens read and {self.written} written"]
        if self.cost is not None:
            parts.append(f"a cost of {most}{shown_cost(self.cost)}")
        if self.retries:
            parts.append(f"{self.retries} requests tried again")
        return ", ".join(parts)


@dataclass(frozen=True)
class Estimate:
    """What an explanation may take.

    Attributes:
        calls: at most, without those that are tried again.
        tokens: read, about.
        cost: about; None without a price.
    """

    calls: int
    tokens: int
    cost: float | None

    @classmethod
    def of(cls, calls: int, prompt: str, written: int, price: Price | None) -> Estimate:
        """For so many calls that each read about as much as one prompt."""
        tokens = calls * max(1, len(prompt) // _CHARACTERS_PER_TOKEN)
        cost = None if price is None else price.of(tokens, calls * written)
        return cls(calls, tokens, cost)

    def __str__(self) -> str:
        cost = "" if self.cost is None else f", a cost of about {shown_cost(self.cost)}"
        return f"up to {self.calls} calls, about {self.tokens} tokens{cost}"


def shown_cost(cost: float) -> str:
    """A cost, with two decimals where that says enough."""
    return f"{cost:.2f}" if cost >= 1 or cost == 0 else f"{cost:.3g}"


# What asking a server has cost in several runs, kept in a file, so that caps hold for all of
# them.
#
# A request is written down before it is sent, with the most that it can cost, and once more when
# it is answered or refused. A request that a kill left without an answer may have been billed:
# the next run counts it with the most that it can have cost.


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
        raise ValueError(f"{quote_number(given)} is no number of calls or tokens")
    return given
