"""Everything that can go wrong, as one family of exceptions.

::

    SlalomError                 catch this to catch them all
    ├── InputError              the caller's text, option or file cannot be used (also a ValueError)
    │   ├── BudgetError         fewer model calls allowed than the text needs
    │   └── CannotHideError     removal="hide" for a model that can only delete
    └── ModelError              the model cannot be loaded, or answered something unusable
        └── ServiceError        the server that runs the model does not serve us any more
            └── CapError        a cap on what it may cost is reached (also a BudgetError)

Each message says what was given, what was expected and what to do.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from importlib import import_module
from numbers import Integral
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slalom_xai.explanation import Explanation


_LONG_NUMBER = 30  # digits; longer ones are not repeated in a message
_SHOWN_NUMBERS = 6  # of a row in a message


class SlalomError(Exception):
    """The root of the family.

    Attributes:
        finished: explanations that were complete when a list of texts failed half way.
    """

    finished: list[Explanation]

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.finished = []


class InputError(SlalomError, ValueError):
    """A text, an option or a file that cannot be used."""


class BudgetError(InputError):
    """The budget of model calls is too small for the text."""


class CannotHideError(InputError):
    """Tokens were to be hidden from a model that allows no such thing.

    Attributes:
        reason: why not.
    """

    reason: str = ""

    @classmethod
    def because(cls, reason: str) -> CannotHideError:
        """The error with its message."""
        advice = 'use removal="delete", or "auto"'
        error = cls(f'removal="hide" was asked for, but {reason}: {advice}')
        error.reason = reason
        return error


class MissingPackageError(InputError):
    """A package that is not installed, or cannot be imported."""


class ModelError(SlalomError):
    """A model that cannot be loaded, or an answer that cannot be used."""


class ServiceError(ModelError):
    """A server that cannot be reached, or serves us no more: no further row will be answered."""


class CapError(BudgetError, ServiceError):
    """A cap on calls or money is reached: no further row will be asked."""


def one_of(what: str, given: object, valid: Iterable[str]) -> InputError:
    """The error for a name that is not in a list of names."""
    return InputError(f"unknown {what} {given!r}: choose one of {', '.join(valid)}")


def check_seed(name: str, given: Any, most: int = 2**63 - 1) -> None:
    """Refuses a seed that some random number generator cannot take.

    Args:
        name: of the option, as the caller gave it.
        given: the seed.
        most: the largest that can be used.
    """
    is_whole = isinstance(given, Integral) and not isinstance(given, bool)
    if is_whole and 0 <= int(given) <= most:
        return
    raise InputError(f"{name} is {quote_number(given)}: give a whole number from 0 to {most}")


def quote_number(given: Any) -> str:
    """What was given instead of a number, or a number however long, for a one-line message."""
    if isinstance(given, Integral) and abs(int(given)) >= 10**_LONG_NUMBER:
        return f"a number of more than {_LONG_NUMBER} digits"
    return quote_text(repr(given), 60)[1:-1]


def quote_text(text: str, limit: int = 120) -> str:
    """A text quoted for a one-line message."""
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    return repr(text)


def few_numbers(numbers: Sequence[float]) -> str:
    """A row of numbers for a one-line message."""
    shown = [f"{number:.4g}" for number in numbers[:_SHOWN_NUMBERS]]
    if len(numbers) > _SHOWN_NUMBERS:
        shown.append("…")
    return f"[{', '.join(shown)}]"


def optional_package(name: str, what: str, extra: str | None = None) -> Any:
    """A module of a package that may be missing, imported without its warnings.

    Args:
        name: of the module.
        what: needs it, for the message.
        extra: of this package that installs it; None: it is installed by its own name.
    """
    return optional_packages([name], what, extra)[0]


def optional_packages(names: Sequence[str], what: str, extra: str | None = None) -> list[Any]:
    """Modules of packages that may be missing; all that are missing are named in one line."""
    modules: list[Any] = []
    missing: dict[str, ImportError] = {}
    for name in names:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                modules.append(import_module(name))
        except ImportError as error:
            missing.setdefault(name.partition(".")[0], error)
    if not missing:
        return modules
    packages = f"package{'s' * (len(missing) > 1)} {' and '.join(missing)}"
    reasons = "; ".join(" ".join(str(error).split()) for error in missing.values())
    wanted = " ".join(missing) if extra is None else f"'.[{extra}]'"
    raise MissingPackageError(
        f"{what} needs the {packages}, which cannot be imported ({reasons}): pip install {wanted}"
    ) from next(iter(missing.values()))
