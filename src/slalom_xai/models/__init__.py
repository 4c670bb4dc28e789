"""What is explained: anything that reads a text and answers with numbers."""

from slalom_xai.models.base import TextModel
from slalom_xai.models.prompts import Prompt, prompt
from slalom_xai.models.reading import AnyReading, Reading, TokenReading
from slalom_xai.models.rows import Row

__all__ = ["AnyReading", "Prompt", "Reading", "Row", "TextModel", "TokenReading", "prompt"]
