"""Rules that a model must keep, such as "flip_rate>0.1", for the use in CI."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

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

    def broken_by(self, found: Mapping[str, Any]) -> str | None:
        """Why an audit breaks the rule; None where it keeps it.

        What was not measured breaks it: nobody knows whether the model keeps it.

        Args:
            found: what ``summary.record`` gives.
        """
        number = found["numbers"][self.name]
        if number is not None and _COMPARE[self.compare](number, self.bound):
            by = found["numbers come from"].get(self.name)
            return f"{self.name} is {number:.4g}" + (f" ({by})" if by else "")
        missing = found["not measured"].get(self.name)
        if number is None or missing:
            return f"{self.name} was not measured ({missing or 'there is none'})"
        return None


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
    if not math.isfinite(bound):
        raise InputError(f"the rule {said!r} compares with infinity: give a finite number")
    return Rule(said, found[1], found[2], bound)
