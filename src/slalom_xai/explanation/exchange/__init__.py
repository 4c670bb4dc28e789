"""Explanations for and from other libraries: shap, captum and lime, tied to the text by spans.

Every import ends in ``from_scores``: a text, its units and one score per unit. Nothing more is said
about the model. Objects of other libraries are known by their attributes, so that only the exports
import the package they export to.

The ``from_...`` functions give the fields of an ``Explanation``, by name.
"""

from slalom_xai.explanation.exchange.scores import from_scores
from slalom_xai.explanation.exchange.with_captum import from_captum, to_captum
from slalom_xai.explanation.exchange.with_lime import from_lime
from slalom_xai.explanation.exchange.with_shap import from_shap, to_shap

__all__ = ["from_captum", "from_lime", "from_scores", "from_shap", "to_captum", "to_shap"]
