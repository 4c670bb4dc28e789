"""The tokens of an answer in a response that repeats the prompt, each with its log-probability.

The prompt ends with the answer, so that its tokens are found from the end on, by what they spell.
The places that servers give beside them (``text_offset``) are not used: some servers count a token
before the text, or spaces as they are written in their tables, and so count differently.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slalom_xai.errors import InputError, ModelError, ServiceError, quote_number, quote_text
from slalom_xai.models.remote.failures import cannot_score, not_the_protocol

# Labels in what a server returns: in a list of likely tokens, or in a text.


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


def check_tokens(labels: Any) -> dict[str, str]:
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
        likely = ", ".join(quote_text(token, 40) for token, _ in top[:_SHOWN])
        hint = "say in the prompt what to answer"
        if any("think" in token.lower() for token, _ in top[:1]):
            hint = "it reasons first; switch that off, or choose a model that does not reason"
        elif not top[0][0].strip():
            hint = "it writes a space first; end the prompt with one"
        labels = " nor ".join(repr(token) for token in self._tokens)
        return ModelError(
            f"{self._model} lists neither {labels} among the {len(top)} likeliest tokens after "
            f"{quote_text(text)} (the likeliest are {likely}): {hint}"
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
                f"{model} gives {quote_number(log)} as the log-probability of "
                f"{quote_text(token, 40)}, which is none: see what the server does"
            )
    listed = [(token, float(log)) for token, log in numbers if log > NO_NUMBER]
    return sorted(listed, key=lambda pair: -pair[1]) or None


def _without_space(token: str) -> str:
    return token[1:] if token.startswith(_SPACES) else token


def _log_sum(logs: Sequence[float]) -> float:
    largest = max(logs)
    return largest + math.log(sum(math.exp(log - largest) for log in logs))


# The tokens of an answer in a response that repeats the prompt, each with its log-probability.


# White space, and the letters that tokenizers write in its place.
_SPACE = re.compile("[\\s\u2581\u0120\u010a]+")

_NEARLY = 0.1  # nats by which a server may differ from itself


@dataclass(frozen=True)
class ScoredAnswer:
    """The tokens of an answer.

    Attributes:
        ends: where each of them ends, in characters of the answer.
        logs: their log-probabilities.
        before: what the first of them holds of the text before the answer; mostly nothing.
        likeliest: how many of them are the likeliest in their places; None where the server does
            not list those.
    """

    ends: list[int]
    logs: list[float]
    before: str
    likeliest: int | None


def scored_answer(response: Any, answer: str, model: str) -> ScoredAnswer:
    """Finds the answer at the end of the prompt that a server repeats.

    Args:
        response: of a server that was asked to repeat the prompt and to write one token.
        answer: as it stands at the end of the prompt.
        model: its name, for messages.

    Raises:
        ServiceError: the server does not repeat the prompt with log-probabilities.
        ModelError: the tokens do not spell the answer, or one has no log-probability.
    """
    tokens, logs = _listed(response, answer, model)
    written = _count_written(response)
    for behind in (written, 1 - written):  # some servers do not list a token that ends the text
        stop = len(tokens) - behind
        spelled = _spell_answer(tokens[:stop], answer)
        if spelled is not None:
            first, ends, before = spelled
            numbers = _numbers(logs[first:stop], answer, model)
            top = response["choices"][0]["logprobs"].get("top_logprobs")
            return ScoredAnswer(ends, numbers, before, _count_likeliest(numbers, top, first))
    if len(tokens) <= 1:
        raise cannot_score(model)
    raise ModelError(
        f"{model} repeats a prompt that ends with {quote_text(answer, 60)} as tokens that end with "
        f"{quote_text(''.join(tokens[-5:]), 60)}: it cannot be said which of them are the answer's"
    )


def _listed(response: Any, answer: str, model: str) -> tuple[list[str], list[Any]]:
    """All tokens that a response lists, and their log-probabilities."""
    try:
        found = response["choices"][0]["logprobs"]
    except (KeyError, IndexError, TypeError):
        raise not_the_protocol(model, response, answer) from None
    if not isinstance(found, Mapping):
        raise cannot_score(model)
    tokens, logs = found.get("tokens"), found.get("token_logprobs")
    if not isinstance(tokens, list) or not isinstance(logs, list) or len(tokens) != len(logs):
        raise cannot_score(model)
    if not all(isinstance(token, str) for token in tokens):
        raise cannot_score(model)
    return tokens, logs


def _count_written(response: Any) -> int:
    """Tokens that the server wrote behind the prompt: one, unless it says otherwise."""
    usage = response.get("usage") if isinstance(response, dict) else None
    return 0 if isinstance(usage, dict) and usage.get("completion_tokens") == 0 else 1


def _spell_answer(tokens: Sequence[str], answer: str) -> tuple[int, list[int], str] | None:
    """The last tokens, as far as they spell an answer; None where they do not.

    White space does not count, because servers differ in it. A part of a character may stand for
    the whole of it or for nothing.

    Returns:
        The first of them, where each of them ends in the answer, and what the first holds of the
        text before it. There must be tokens before the first: a server that does not repeat the
        prompt may write the answer once more.
    """
    places = [place for place, letter in enumerate(answer) if not _SPACE.fullmatch(letter)]
    letters = "".join(answer[place] for place in places)
    first = None
    behind = {}  # of each token: how many letters may stand before those that follow it
    counts = {len(letters)}
    for number in range(len(tokens) - 1, 0, -1):
        behind[number] = counts
        counts = {left for count in counts for left in _left(tokens[number], letters[:count])}
        if 0 in counts:
            first = number
        counts = counts - {0}
        if not counts:
            break
    if first is None:
        return None
    stops = _stops(tokens, first, letters, behind)
    bare = _SPACE.sub("", tokens[first])
    before = "" if _is_part(tokens[first]) else bare[: len(bare) - stops[0]]
    ends = [places[stop - 1] + 1 for stop in stops[:-1]] + [len(answer)]
    for number in range(1, len(ends) - 1):
        if _SPACE.fullmatch(tokens[first + number]):  # white space that is a token of its own
            end = ends[number - 1] + len(tokens[first + number])
            ends[number] = min(end, [*places, len(answer)][stops[number]])
    if _begins_with_space(tokens, first, answer):
        first, ends = first - 1, [places[0], *ends]
    return first, ends, before


def _left(token: str, letters: str) -> list[int]:
    """How many letters may be left before a token that they end with."""
    if _is_part(token):
        whole = bool(letters) and not letters[-1].isascii()
        return [len(letters)] + [len(letters) - 1] * whole
    bare = _SPACE.sub("", token)
    if letters.endswith(bare) or bare.endswith(letters):
        return [max(0, len(letters) - len(bare))]
    return []


def _stops(
    tokens: Sequence[str], first: int, letters: str, behind: Mapping[int, set[int]]
) -> list[int]:
    """How many letters are spelled after each token from the first on."""
    stop = max(count for count in behind[first] if 0 in _left(tokens[first], letters[:count]))
    stops = [stop]
    for number in range(first + 1, len(tokens)):
        stop = max(
            count for count in behind[number] if stop in _left(tokens[number], letters[:count])
        )
        stops.append(stop)
    return stops


def _is_part(token: str) -> bool:
    """Whether a token is a part of a character, and spells nothing by itself."""
    return not token or token.startswith("bytes:") or "\ufffd" in token


def _begins_with_space(tokens: Sequence[str], first: int, answer: str) -> bool:
    """Whether the space that an answer begins with is a token of its own."""
    if first < 2 or not _SPACE.match(answer) or _SPACE.match(tokens[first]):
        return False
    return _SPACE.fullmatch(tokens[first - 1]) is not None


def _count_likeliest(logs: Sequence[float], top: Any, first: int) -> int | None:
    """How many tokens are as likely as the likeliest that the server lists in their places."""
    if not isinstance(top, list) or len(top) < first + len(logs):
        return None
    listed = top[first : first + len(logs)]
    if not all(isinstance(each, Mapping) and each for each in listed):
        return None
    if not all(isinstance(log, (int, float)) for each in listed for log in each.values()):
        return None
    most = [max(each.values()) for each in listed]
    return sum(bool(log + _NEARLY >= best) for log, best in zip(logs, most, strict=True))


def _numbers(logs: Sequence[Any], answer: str, model: str) -> list[float]:
    """Log-probabilities of the tokens of an answer."""
    for log in logs:
        if not is_log(log) or not log > NO_NUMBER:
            shown = "null" if log is None else quote_number(log)
            raise ModelError(
                f"{model} gives {shown} as the log-probability of a token of "
                f"{quote_text(answer, 60)}, which is none: give another answer"
            )
    return [min(float(log), 0.0) for log in logs]
