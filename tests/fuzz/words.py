"""What a message or a trust sentence may say."""

from __future__ import annotations

import math
import re

from slalom_xai.errors import ModelError, SlalomError
from slalom_xai.explanation import Explanation
from slalom_xai.slalom.trust import Agreement

UNCLEAR = re.compile(
    r"\bNone\b|NoneType|Traceback|object at 0x|__\w+__|object is not"
    r"|\b\w+(?:Error|Exception|Iteration)\b|unexpected keyword|positional argument"
    r"|has no attribute|not supported between"
)
QUOTED = re.compile(r"\(.*\)")  # what a model or a library said, in its own words
LONGEST = 1500  # characters of a message: more is no longer one clear line
ROUNDED = 0.011  # a share in whole per cent


def unclear(error: SlalomError, *given: str) -> str | None:
    """What is wrong with an error's message; ``given`` may be quoted in it."""
    message = str(error)
    if len(message.splitlines()) != 1:
        return "a message is not one line"
    if len(message) > LONGEST:
        return "a message is very long"
    found = UNCLEAR.search(QUOTED.sub("", message) if isinstance(error, ModelError) else message)
    if found and not any(found[0] in text for text in given):
        return f"a message says {found[0]!r}"
    return None


def claimed(explanation: Explanation) -> float | None:
    """The share of what deletions do that the trust sentence claims to predict, if any."""
    sentence = explanation.trust
    shares = re.findall(r"(\d+)%", sentence)
    if not shares or sentence.startswith("Do not"):
        return None
    return int(shares[0]) / 100


def quoted(explanation: Explanation) -> Agreement | None:
    """What the first share of the trust sentence is about: any number of units removed."""
    return None if explanation.fidelity is None else explanation.fidelity.any


def contradiction(explanation: Explanation) -> str | None:
    """Where the trust sentence and the fidelity it speaks of disagree."""
    share, about = claimed(explanation), quoted(explanation)
    if not explanation.trust.strip() or len(explanation.trust.splitlines()) != 1:
        return "the trust sentence is not one line"
    if re.search(r"\bnan\b|\binf\b|\bNone\b", explanation.trust):
        return "the trust sentence has no number where one should be"
    if share is None:
        return None
    if about is None:
        return "the trust sentence claims a share, and nothing was tested"
    if not share <= about.r2 + ROUNDED:
        return "the trust sentence claims more than the fidelity"
    low = about.r2_low
    named = [int(found) / 100 for found in re.findall(r"(\d+)%", explanation.trust)]
    said = any(abs(number - max(low, 0.0)) < ROUNDED for number in named)
    if not math.isnan(low) and low < 0.3 and share >= 0.5 and not said:
        return "the trust sentence hides that its lower end is far below"
    return None
