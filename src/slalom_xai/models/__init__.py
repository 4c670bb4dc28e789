"""What is explained: anything that reads a text and answers with numbers."""

from slalom_xai.models.base import Prompt, Row, TextModel

__all__ = ["Prompt", "Row", "TextModel"]
