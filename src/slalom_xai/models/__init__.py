"""What is explained: anything that reads a text and answers with numbers."""

from slalom_xai.models.base import Prompt, Reading, TextModel, prompt
from slalom_xai.models.token_rows import Row

__all__ = ["Prompt", "Reading", "Row", "TextModel", "prompt"]
