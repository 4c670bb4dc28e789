"""What a reproduction is: a claim as code, the checks that must hold, and its tables and figures.

A reproduction is a function that takes ``Settings`` and returns an ``Outcome``, made known by
``reproduction``:

    @reproduction(name="repeated-token", title="...", source="Leemann et al. 2024, Prop. 4.1")
    def repeated_token(settings: Settings) -> Outcome: ...
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeVar

from slalom_xai.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    from matplotlib.figure import Figure

    from slalom_xai.progress import Bar

_Item = TypeVar("_Item")


@dataclass(frozen=True)
class Check:
    """One statement that must hold.

    Attributes:
        statement: what is measured, in a sentence.
        value: the number found.
        bound: what it is held against.
        relation: whether the number must be at most or at least the bound.
    """

    statement: str
    value: float
    bound: float
    relation: Literal["≤", "≥"] = "≤"

    @property
    def holds(self) -> bool:
        """Whether the number keeps to its bound; a NaN never does."""
        if math.isnan(self.value):
            return False
        if self.relation == "≤":
            return self.value <= self.bound
        return self.value >= self.bound


def at_most(statement: str, value: float, bound: float) -> Check:
    """A number that must be small, such as the largest difference between two computations."""
    return Check(statement, float(value), float(bound), "≤")


def at_least(statement: str, value: float, bound: float) -> Check:
    """A number that must be large, such as the error of a formula that is claimed to be wrong."""
    return Check(statement, float(value), float(bound), "≥")


@dataclass(frozen=True)
class Outcome:
    """What a reproduction found.

    Attributes:
        checks: the statements, at least one.
        tables: by a short name in lower case.
        figures: by a short name in lower case; drawn only when somebody wants them.
        remarks: what a reader should know beside the checks, a sentence each.
        finding: of an experiment: in a sentence, what holds here and what does not; empty for
            other claims.
    """

    checks: tuple[Check, ...]
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    figures: Mapping[str, Callable[[], Figure]] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    finding: str = ""

    @property
    def holds(self) -> bool:
        """Whether every check holds."""
        return all(check.holds for check in self.checks)

    @property
    def verdict(self) -> str:
        """In words: "holds", "holds in part" or "does not hold here"."""
        if self.holds:
            return "holds"
        if any(check.holds for check in self.checks):
            return "holds in part"
        return "does not hold here"


@dataclass(frozen=True)
class Settings:
    """What a reproduction can be told.

    Attributes:
        seed: decides everything random.
        bar: shows how far it is; None shows nothing.
        small: the least that still shows the claim, in less time: what the tests run.
        full: of an experiment: the paper's size, instead of a small one.
        data: of an experiment: the folder with real data; None where none was given.
        store: of an experiment: the folder that keeps what is finished, so that a run that was
            killed goes on; None keeps nothing.
        share: of an experiment: (2, 8) measures the second of eight shares of its cells and no
            more; None measures all.
        finished: of an experiment: whether to measure nothing and show what is finished.
        api: of an experiment: the address of a server that holds a language model.
        api_model: of an experiment: the model's name there.
        api_top: of an experiment: how many of the likeliest tokens the server should list.
    """

    seed: int = 0
    bar: Bar | None = None
    small: bool = False
    full: bool = False
    data: Path | None = None
    store: Path | None = None
    share: tuple[int, int] | None = None
    finished: bool = False
    api: str | None = None
    api_model: str | None = None
    api_top: int = 20

    def track(self, items: Iterable[_Item], label: str) -> Iterator[_Item]:
        """Passes the items on and moves the bar: for loops of more than a second or two."""
        listed = list(items)
        if self.bar is not None:
            self.bar.start(len(listed), label, afresh=True)
        for item in listed:
            yield item
            if self.bar is not None:
                self.bar.advance(1)


@dataclass(frozen=True)
class Reproduction:
    """A claim that can be run.

    Attributes:
        name: what ``slalom reproduce`` takes.
        title: the claim in a sentence.
        source: where it is made.
        run: computes the outcome.
    """

    name: str
    title: str
    source: str
    run: Callable[[Settings], Outcome]


_register: dict[str, Reproduction] = {}
_Function = Callable[[Settings], Outcome]


def reproduction(*, name: str, title: str, source: str) -> Callable[[_Function], _Function]:
    """Function decorator: makes a reproduction known by its name."""

    def register(function: _Function) -> _Function:
        _register[name] = Reproduction(name, title, source, function)
        return function

    return register


def registered() -> dict[str, Reproduction]:
    """Every reproduction of the modules imported so far, in order."""
    return dict(_register)


_Known = TypeVar("_Known", bound=Reproduction)


def in_order(known: Iterable[_Known], modules: Iterable[str]) -> dict[str, _Known]:
    """Reproductions by name, in the order of their modules; those from elsewhere come last."""
    order = list(modules)

    def position(one: _Known) -> int:
        module = one.run.__module__
        return order.index(module) if module in order else len(order)

    return {one.name: one for one in sorted(known, key=position)}


def unknown_name(given: str, known: Iterable[str]) -> InputError:
    """The error for a name that no reproduction has, with the names it may have been meant for."""
    names = list(known)
    close = difflib.get_close_matches(given, names, n=3, cutoff=0.4)
    if not close and given:
        close = [name for name in names if given in name][:3]
    meant = ""
    if close:
        meant = f"did you mean {' or '.join(close)}? "
    return InputError(
        f"unknown reproduction {given!r}: {meant}slalom reproduce --list shows all names"
    )
