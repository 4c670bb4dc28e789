"""Whether a few words turn texts round: greedy attacks, beside the same with random words.

Each step puts in the one word, before the text, into its middle or behind it, that lowers the log
odds of the predicted class most. The control has as many random words to choose from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slalom_xai.audit.asking import TextAsker
from slalom_xai.audit.trials import Place
from slalom_xai.progress import Bar
from slalom_xai.text import words

STEPS = 4  # words that are put in, at most


@dataclass(frozen=True)
class Attack:
    """What became of a text.

    Attributes:
        row: of the table.
        added: the words that were put in, in order.
        path: log odds of the first predicted class, before and after each word.
        turned: whether the model changed its mind.
    """

    row: int
    added: tuple[str, ...]
    path: tuple[float, ...]
    turned: bool


def attack(
    asker: TextAsker, row: int, text: str, tried: Sequence[str], bar: Bar | None = None
) -> Attack:
    """Puts in one word after the other until the model changes its mind.

    Args:
        asker: asks the model.
        row: of the text.
        text: itself.
        tried: the words to choose from.
        bar: shows how far it is.
    """
    odds = asker.log_odds([text], bar)[0]
    label = int(odds.argmax())
    path = [float(odds[label])]
    added: list[str] = []
    turned = False
    while len(added) < STEPS and not turned and tried:
        edits = [(word, place.with_word(word)) for word in tried for place in _places(text)]
        found = asker.log_odds([edited for _, edited in edits], bar)
        best = int(found[:, label].argmin())
        word, text = edits[best]
        added.append(word)
        path.append(float(found[best, label]))
        turned = int(found[best].argmax()) != label
    return Attack(row, tuple(added), tuple(path), turned)


def _places(text: str) -> list[Place]:
    """Before a text, in its middle and behind it."""
    starts = [unit.start for unit in words(text)] or [0]
    return [Place(text, at) for at in dict.fromkeys((0, starts[len(starts) // 2], len(text)))]
