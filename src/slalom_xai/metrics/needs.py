"""What a metric may need beside the explanation that it judges."""

from __future__ import annotations

from enum import Enum


class Need(Enum):
    """Something that a metric declares in ``needs`` and finds in a field of ``Case``.

    A benchmark provides what the chosen metrics need and knows none of them by name. The value is
    what a user reads where it is missing; the field of ``Case`` stands in brackets.
    """

    ANSWERS = "the model's answers (ask)"
    RATIONALE = "the marks of people, a zero or one per unit (rationale)"
    OTHER_METHODS = "another explanation of the text (others)"
    OTHER_SEEDS = "explanations by the same method with other seeds (others)"
    NAIVE_BAYES = "Naive Bayes weights per unit (naive_bayes)"
    SECONDS = "the seconds that the explanation took (seconds)"
