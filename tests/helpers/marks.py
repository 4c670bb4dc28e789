"""Which cases of a test ``make test`` leaves to ``make test-long``."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def long_except(kept: Collection[Any], cases: Iterable[Any]) -> list[Any]:
    """Cases of a parametrised test, of which only those kept are run by ``make test``."""
    return [case if case in kept else pytest.param(case, marks=pytest.mark.long) for case in cases]


def long_if(left_out: Collection[Any], cases: Iterable[Any]) -> list[Any]:
    """Cases of a parametrised test, of which those named are left to ``make test-long``."""
    return [
        pytest.param(case, marks=pytest.mark.long) if case in left_out else case for case in cases
    ]
