"""Types of the arrays that the slides' formulas work on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Masks = NDArray[np.bool_]  # (m, d): which words each row keeps
