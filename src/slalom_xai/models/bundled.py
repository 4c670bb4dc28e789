"""The model that comes along, a movie-review classifier: its names, and where it is."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

EMBEDDED = "embedded"
NAMES = (EMBEDDED, "bundled")


def is_bundled(model: object) -> bool:
    """Whether this is a name of the bundled model; a folder of that name is ``./embedded``."""
    return isinstance(model, str) and model in NAMES


def bundled_folder() -> Path:
    """Its files."""
    return Path(str(files("slalom_xai") / "models" / EMBEDDED))
