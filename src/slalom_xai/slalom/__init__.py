"""The method itself, to be read from top to bottom.

``formula``: what an explanation predicts. ``rows``, ``plan`` and ``design``: which perturbed texts
there are, and which are sent to the model. ``fit``: how values and importances follow from its
outputs, by the steps in ``solver``; ``settings`` holds the tuned numbers of both.
``output_range``: between which ends the model's outputs lie. ``shapley``: each unit's share of the
prediction. ``errors``: how sure each score is. ``trust``: how well all of it predicts outputs that
were not used, and how a reader is told.

Nothing here sends anything to a model: ``methods/slalom.py`` does, and puts the parts together.
"""

from slalom_xai.slalom.formula import BoundedSlalom

__all__ = ["BoundedSlalom"]
