"""A number that stands in for zero where zero cannot be divided by and has no logarithm.

It lies a little above the smallest normal double, 2e-308, so its logarithm is finite and 0 divided
by it is 0. Added to anything above 1e-284, it is lost in rounding. So no result depends on it: it
only decides what becomes of 0 / 0 and of log 0.
"""

TINY = 1e-300
