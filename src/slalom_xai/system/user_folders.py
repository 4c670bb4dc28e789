"""Where programs keep what they could make again, for one user."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_NAME = "slalom-xai"


def cache_folder() -> Path:
    """The package's folder among those in which the user's programs keep caches.

    ``SLALOM_CACHE`` names another one. ``XDG_CACHE_HOME`` names the folder around it, where it is
    set to an absolute path.
    """
    own = os.environ.get("SLALOM_CACHE")
    if own:
        return Path(own)
    named = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(named):  # others are to be ignored, says the standard
        return Path(named) / _NAME
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / _NAME
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / _NAME / "Cache"
    return Path.home() / ".cache" / _NAME
