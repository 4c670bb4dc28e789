"""What is explained: anything that reads a text and answers with numbers."""

from slalom_xai.models.base import Prompt, Reading, Row, TextModel, prompt

__all__ = ["Prompt", "Reading", "Row", "TextModel", "prompt"]
