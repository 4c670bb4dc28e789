"""Rules that a model must keep, such as "flip_rate>0.1", for the use in CI."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from slalom_xai.errors import InputError

_RULE = re.compile(r"\s*([a-z_]+)\s*(<=|>=|<|>)\s*([-+0-9.eE]+)\s*")
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Rule:
    """A rule that says when an audit fails.

    Attributes:
        said: as given.
        name: of the number that is looked at.
        compare: "<", "<=", ">" or ">=".
        bound: what it is compared with.
    """

    said: str
    name: str
    compare: str
    bound: float

    def broken_by(self, numbers: Mapping[str, float | None]) -> bool:
        """Whether the numbers of an audit are as the rule forbids."""
        number = numbers[self.name]
        return number is not None and _COMPARE[self.compare](number, self.bound)


def rule(said: str, names: Collection[str]) -> Rule:
    """Reads a rule.

    Args:
        said: such as "flip_rate>0.1".
        names: of the numbers there are.

    Raises:
        InputError: it is none.
    """
    found = _RULE.fullmatch(said)
    if found is None or found[1] not in names:
        raise InputError(
            f"the rule is {said!r}: give one of {', '.join(names)}, compared by <, <=, > or >= "
            'with a number, such as "flip_rate>0.1"'
        )
    try:
        bound = float(found[3])
    except ValueError as error:
        raise InputError(f"the rule {said!r} ends with {found[3]!r}: give a number") from error
    return Rule(said, found[1], found[2], bound)
