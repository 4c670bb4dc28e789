"""Compares two models on the same texts: which words and which texts changed.

table → corpus (both models) → words (paired differences), texts (other answers) → report
"""

from slalom_xai.data.diff.run import Diff, DiffPlan, compare, diff_models

__all__ = ["Diff", "DiffPlan", "compare", "diff_models"]
