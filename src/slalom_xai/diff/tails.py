"""The tails of Student's distribution, without scipy."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def student_tails(t: Array, freedom: Array) -> Array:
    """The chance (m,) of a Student t of at least this size either way."""
    return np.array(
        [
            _beta_tail(each, degrees)
            for each, degrees in zip(t.tolist(), freedom.tolist(), strict=True)
        ]
    )


def _beta_tail(t: float, freedom: float) -> float:
    """P(|T| >= |t|), the regularised incomplete beta function at freedom / (freedom + t^2)."""
    if math.isinf(t):
        return 0.0
    x = freedom / (freedom + t * t)
    return _incomplete_beta(freedom / 2, 0.5, x)


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function, by its continued fraction."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(b, a, 1 - x)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(log_front + a * math.log(x) + b * math.log1p(-x)) / a
    tiny = 1e-300
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    fraction = d
    for m in range(1, 300):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / (1 + numerator * d or tiny)
            c = 1 + numerator / c or tiny
            step = c * d
            fraction *= step
        if abs(step - 1) < 1e-14:
            break
    return front * fraction
