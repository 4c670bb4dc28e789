"""The frozen result of explaining one text, its files and its exchange with other libraries."""

from slalom_xai.explanation.result import Array, Explanation

__all__ = ["Array", "Explanation"]
