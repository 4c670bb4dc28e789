"""The main method: one SLALOM for small and large deletions at once; and one for few calls."""

from slalom_xai.estimators.slalom.few import SlalomFew
from slalom_xai.estimators.slalom.method import Slalom
from slalom_xai.estimators.slalom.settings import SlalomSettings

__all__ = ["Slalom", "SlalomFew", "SlalomSettings"]
