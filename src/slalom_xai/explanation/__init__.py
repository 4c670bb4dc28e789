"""The frozen result of explaining one text, its files and its exchange with other libraries."""

from slalom_xai.explanation.result import Explanation
from slalom_xai.explanation.scored_text import Array

__all__ = ["Array", "Explanation"]
