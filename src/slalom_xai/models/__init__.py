"""What is explained: anything that reads a text and answers with numbers.

``base`` says what a model must do, ``load`` makes one of what a caller hands over, and each kind of
model has a module of its own. ``text`` has the units of a text, ``outputs`` what numbers mean; a
result needs these two and no model, so that names are imported when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slalom_xai.system.lazy_names import lazy_names

if TYPE_CHECKING:
    from slalom_xai.models.base import TextModel
    from slalom_xai.models.reading import AnyReading, Prompt, Reading, TokenReading, prompt
    from slalom_xai.models.rows import Row

__all__ = ["AnyReading", "Prompt", "Reading", "Row", "TextModel", "TokenReading", "prompt"]

__getattr__ = lazy_names(
    __name__,
    {
        "TextModel": "base",
        "AnyReading": "reading",
        "Prompt": "reading",
        "Reading": "reading",
        "TokenReading": "reading",
        "prompt": "reading",
        "Row": "rows",
    },
)
