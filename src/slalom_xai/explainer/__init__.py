"""The front door: puts a model, a method and a text together."""

from slalom_xai.explainer.explainer import Explainer
from slalom_xai.explainer.inputs import REMOVALS, read_for_removal
from slalom_xai.explainer.shortcut import explain

__all__ = ["REMOVALS", "Explainer", "explain", "read_for_removal"]
