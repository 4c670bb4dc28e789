"""Labels in what a server returns: in a list of likely tokens, or in a text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slalom_xai.errors import InputError, ModelError, ServiceError, shortened, shown_number

Top = Sequence[tuple[str, float]]  # likely tokens with their log-probabilities

_SPACES = (" ", "\u2581", "\u0120")  # how tokenizers write the space before a word
NO_NUMBER = -9000.0  # some servers write -9999 for "very unlikely", which is no log-probability
_MOST_LOG = 0.01  # above 0 by rounding to half precision; more is no log-probability
_ROUNDING = 1e-6  # of a sum of probabilities that a server rounds to single precision
_LEAST_PREFIX = 3  # characters by which the first of several tokens gives itself away
_SHOWN = 5  # tokens in a message


@dataclass(frozen=True)
class LabelLogs:
    """The log-probabilities of the labels.

    Attributes:
        logs: one for each label.
        bounds: which of them are upper bounds, because the server did not list the label.
    """

    logs: list[float]
    bounds: list[bool]


def checked_tokens(labels: Any) -> dict[str, str]:
    """Names of classes with what the model answers for each.

    Raises:
        InputError: fewer than two, or two that cannot be told apart.
    """
    valid = isinstance(labels, Mapping) and len(labels) >= 2
    if not valid or not all(
        isinstance(part, str) and part.strip() for pair in labels.items() for part in pair
    ):
        raise InputError(
            f"labels is {labels!r}: give two or more names, each with what the model answers for "
            'it, such as {"negative": "0", "positive": "1"}'
        )
    tokens = {name: token.strip() for name, token in labels.items()}
    twice = sorted({token for token in tokens.values() if list(tokens.values()).count(token) > 1})
    if twice:
        raise InputError(f"two labels are {twice[0]!r}: give every label an answer of its own")
    return tokens


class LabelFinder:
    """Finds labels in lists of likely tokens.

    Args:
        tokens: what the model answers for each label.
        model: its name, for messages.
    """

    def __init__(self, tokens: Sequence[str], model: str) -> None:
        self._tokens, self._model = list(tokens), model
        self._seen: set[str] = set()

    def logs(self, top: Top, text: str) -> LabelLogs:
        """The log-probabilities of the labels in an answer.

        A label that is not listed is less likely than the last token that is, and no likelier than
        all that is left over. The lower of the two is used, and marked as a bound.

        Args:
            top: what the server lists.
            text: of the row, for messages.
        """
        listed: dict[str, list[float]] = {}
        for token, log in top:
            listed.setdefault(_without_space(token), []).append(log)
        self._seen.update(token for token in self._tokens if token in listed)
        missing = [token for token in self._tokens if token not in listed]
        for token in missing:
            self._check_whole(token, listed)
        if len(missing) == len(self._tokens):
            raise self._none_listed(top, text)
        left = max(1 - sum(math.exp(log) for _, log in top), _ROUNDING)
        bound = min(min(log for _, log in top), math.log(left))
        logs = [_log_sum(listed.get(token, [bound])) for token in self._tokens]
        return LabelLogs(logs, [token in missing for token in self._tokens])

    def _check_whole(self, token: str, listed: Mapping[str, Any]) -> None:
        """Refuses a label that the model writes as several tokens."""
        if token in self._seen:
            return
        least = min(_LEAST_PREFIX, len(token) - 1)
        for start in listed:
            if len(start) < max(1, least) or start in self._tokens or start == token:
                continue
            if token.startswith(start):
                raise ServiceError(
                    f"{self._model} lists {start!r} and not {token!r}: the label seems to be "
                    "several tokens; choose labels of one token, such as 0 and 1"
                )

    def _none_listed(self, top: Top, text: str) -> ModelError:
        likely = ", ".join(shortened(token, 40) for token, _ in top[:_SHOWN])
        hint = "say in the prompt what to answer"
        if any("think" in token.lower() for token, _ in top[:1]):
            hint = "it reasons first; switch that off, or choose a model that does not reason"
        elif not top[0][0].strip():
            hint = "it writes a space first; end the prompt with one"
        labels = " nor ".join(repr(token) for token in self._tokens)
        return ModelError(
            f"{self._model} lists neither {labels} among the {len(top)} likeliest tokens after "
            f"{shortened(text)} (the likeliest are {likely}): {hint}"
        )


def label_in(text: str, tokens: Sequence[str]) -> int | None:
    """Which label a written answer begins with; None where it is none of them."""
    said = text.strip().lstrip("\"'`*").lower()
    for index in sorted(range(len(tokens)), key=lambda index: -len(tokens[index])):
        token = tokens[index].lower()
        after = said[len(token) : len(token) + 1]
        if said.startswith(token) and not after.isalnum():
            return index
    return None


def is_log(given: Any) -> bool:
    """Whether a number is a log-probability, or nearly: rounded, or a placeholder for unlikely."""
    return isinstance(given, (int, float)) and type(given) is not bool and given <= _MOST_LOG


def listed_tokens(choice: Mapping[str, Any], model: str) -> list[tuple[str, float]] | None:
    """The likely first tokens of a choice; None where the server lists none.

    Servers write them in two ways: as a list of objects (chat), or as an object that holds the
    log-probability of each token (completions).

    Raises:
        ModelError: a number that is no log-probability.
    """
    found = choice.get("logprobs")
    if not isinstance(found, Mapping):
        return None
    pairs: list[tuple[Any, Any]] = []
    content, tables = found.get("content"), found.get("top_logprobs")
    if isinstance(content, list) and content and isinstance(content[0], Mapping):
        first = content[0]
        entries = [each for each in first.get("top_logprobs") or [] if isinstance(each, Mapping)]
        pairs = [(each.get("token"), each.get("logprob")) for each in entries]
        if first.get("token") not in [token for token, _ in pairs]:
            pairs.append((first.get("token"), first.get("logprob")))
    elif isinstance(tables, list) and tables and isinstance(tables[0], Mapping):
        pairs = list(tables[0].items())
    numbers = [
        (token, log)
        for token, log in pairs
        if isinstance(token, str) and isinstance(log, (int, float)) and log == log  # not NaN
    ]
    for token, log in numbers:
        if not is_log(log):
            raise ModelError(
                f"{model} gives {shown_number(log)} as the log-probability of "
                f"{shortened(token, 40)}, which is none: see what the server does"
            )
    listed = [(token, float(log)) for token, log in numbers if log > NO_NUMBER]
    return sorted(listed, key=lambda pair: -pair[1]) or None


def _without_space(token: str) -> str:
    return token[1:] if token.startswith(_SPACES) else token


def _log_sum(logs: Sequence[float]) -> float:
    largest = max(logs)
    return largest + math.log(sum(math.exp(log - largest) for log in logs))
