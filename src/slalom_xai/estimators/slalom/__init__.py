"""The main method: one SLALOM for small and large deletions at once."""

from slalom_xai.estimators.slalom.method import Slalom
from slalom_xai.estimators.slalom.settings import SlalomSettings

__all__ = ["Slalom", "SlalomSettings"]
