"""Every method, by its class: ``from slalom_xai.methods import Slalom``."""

from slalom_xai.estimators import *  # noqa: F403
from slalom_xai.estimators import __all__ as __all__
