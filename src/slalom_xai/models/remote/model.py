"""What all models behind an API have in common: rows are texts, and answers are kept."""

from __future__ import annotations

import asyncio
import hashlib
import json
import queue
import threading
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import torch
from torch import Tensor

from slalom_xai.errors import optional_packages
from slalom_xai.models.base import AnswerStore
from slalom_xai.models.callables import ReadsWords
from slalom_xai.models.outputs import Outputs
from slalom_xai.models.remote.settings import (
    Connection,
    EnvironmentKey,
    check_secrecy,
    parse_address,
)
from slalom_xai.models.remote.spending import Spending
from slalom_xai.models.rows import Row

if TYPE_CHECKING:
    import httpx

# Asks a server many things at once, in a thread with an event loop of its own.
#
# The thread that asks waits meanwhile. So this works where an event loop runs already, as in a
# notebook, and Ctrl-C is heard at once.


Client = TypeVar("Client")
Item = TypeVar("Item")

_OFTEN = 0.2  # seconds between two looks at whether somebody pressed Ctrl-C


class Round(Generic[Item, Client]):
    """Works on items, a few at a time.

    Args:
        open_client: what all items are worked on with.
        work: works on an item; what it raises ends the round.
        concurrency: items under way, at most.
    """

    def __init__(
        self,
        open_client: Callable[[], AbstractAsyncContextManager[Client]],
        work: Callable[[Client, Item], Awaitable[Any]],
        concurrency: int,
    ) -> None:
        self._open_client, self._work, self._concurrency = open_client, work, concurrency
        self._done: queue.SimpleQueue[tuple[Item, Any] | None] = queue.SimpleQueue()
        self._failure: BaseException | None = None

    def run(self, items: Sequence[Item], done: Callable[[Item, Any], None]) -> None:
        """Works on all items, in this order.

        After a failure no other item is begun. Those under way are finished, because they will be
        paid for; only Ctrl-C drops them.

        Args:
            items: to work on.
            done: is given each item with its result, in this thread.
        """
        loop = asyncio.new_event_loop()
        task = loop.create_task(self._all(deque(items)))
        thread = threading.Thread(target=self._in_thread, args=(loop, task), daemon=True)
        thread.start()
        try:
            while (found := self._next()) is not None:
                done(*found)
        finally:
            if thread.is_alive():  # nothing to cancel after the last item
                loop.call_soon_threadsafe(task.cancel)
            thread.join()
            loop.close()
        if self._failure is not None:
            raise self._failure

    def _next(self) -> tuple[Item, Any] | None:
        while True:
            try:
                return self._done.get(timeout=_OFTEN)
            except queue.Empty:
                continue

    def _in_thread(self, loop: asyncio.AbstractEventLoop, task: asyncio.Task[None]) -> None:
        try:
            loop.run_until_complete(task)
        except asyncio.CancelledError:
            pass
        except BaseException as error:
            self._failure = error
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            self._done.put(None)

    async def _all(self, waiting: deque[Item]) -> None:
        async with self._open_client() as client:
            workers = min(self._concurrency, len(waiting))
            await asyncio.gather(
                *(self._one_after_another(client, waiting) for _ in range(workers))
            )

    async def _one_after_another(self, client: Client, waiting: deque[Item]) -> None:
        while waiting and self._failure is None:
            item = waiting.popleft()
            try:
                self._done.put((item, await self._work(client, item)))
            except Exception as error:
                self._failure = self._failure or error


# What all models behind an API have in common: rows are texts, and answers are kept.


class Remembered:
    """Keeps answers for as long as the process lives."""

    def __init__(self) -> None:
        self._answers: dict[str, Any] = {}

    def find(self, keys: Sequence[str]) -> dict[str, Any]:
        """What is there."""
        return {key: self._answers[key] for key in keys if key in self._answers}

    def keep(self, key: str, answer: Any) -> None:
        """Stores one answer."""
        self._answers[key] = answer


class Shelf:
    """A part of a store that others share, with a name of its own.

    Args:
        store: keeps the answers.
        name: what these answers are to.
    """

    def __init__(self, store: AnswerStore, name: str) -> None:
        self._store, self._name = store, name

    def find(self, keys: Sequence[str]) -> dict[str, Any]:
        """What is there."""
        named = {f"{self._name} {key}": key for key in keys}
        return {named[found]: answer for found, answer in self._store.find(list(named)).items()}

    def keep(self, key: str, answer: Any) -> None:
        """Stores one answer."""
        self._store.keep(f"{self._name} {key}", answer)


class RemoteModel(ReadsWords, ABC):
    """A model behind an address.

    Args:
        url: the address that requests go to.
        name: how the model is called in results.
        outputs: what its answers mean.
        connection: how the server is asked.
        spending: what it may cost.
        transport: takes the place of the network, in tests.
    """

    device = torch.device("cpu")
    probe_calls = 0
    draws = 1  # requests for each row
    most_written = 1  # tokens in an answer

    def __init__(
        self,
        url: str,
        name: str,
        outputs: Outputs,
        *,
        connection: Connection | None,
        spending: Spending | None,
        transport: httpx.AsyncBaseTransport | None,
    ) -> None:
        optional_packages(["httpx", "stamina"], "a model behind an API", "api")
        from slalom_xai.models.remote.sending import Sender

        connection = connection or Connection()
        parts = parse_address(url)
        key = EnvironmentKey(connection.key_variable, connection.key_header)
        key.check()
        if key.is_set:
            check_secrecy(parts, key.variable)
        self.name = f"{name} at {parts.netloc}"
        self.outputs = outputs
        self.spending = spending or Spending()
        self._url = url
        self._concurrency = connection.concurrency
        self._sender = Sender(url, self.name, connection, key, self.spending, transport)
        self._store: AnswerStore = Remembered()
        self._lock = threading.Lock()  # rounds take turns, so that no more is in flight than agreed

    @property
    def fingerprint(self) -> str:
        """Everything that decides the answers, as a hash."""
        said = json.dumps([self._url, self.outputs.labels, self._identity()], sort_keys=True)
        return hashlib.sha256(said.encode()).hexdigest()

    @property
    def spent(self) -> str:
        """The calls so far and what they cost, for a progress bar."""
        return self.spending.in_short

    def use(self, store: AnswerStore) -> None:
        """From now on asks the store first."""
        self._store = store

    def answer(self, rows: Sequence[Row]) -> Tensor:
        """Logits for some texts."""
        return self.answer_together(rows, lambda _rows: None)

    def answer_together(self, rows: Sequence[Row], done: Callable[[int], None]) -> Tensor:
        """Logits (len(rows), labels) of texts, of which as many are in flight as agreed."""
        texts = cast(list[str], list(rows))
        found = self._asked(texts, done)
        logits = [self._logits(*pair) for pair in zip(texts, found, strict=True)]
        return torch.tensor(logits, dtype=torch.float64).reshape(len(texts), self.outputs.width)

    def _asked(self, texts: Sequence[str], done: Callable[[int], None]) -> list[list[Any]]:
        """What was found in each draw of each text."""
        keys = _number_draws(texts, self.draws)
        with self._lock:
            answers = self._answers(texts, keys, done)
        return [[answers[key] for key in of_row] for of_row in keys]

    def _answers(
        self, texts: Sequence[str], keys: Sequence[Sequence[str]], done: Callable[[int], None]
    ) -> dict[str, Any]:
        """The answers of all keys: those that are kept, and new ones."""
        answers = self._store.find([key for of_row in keys for key in of_row])
        missing = {
            key: text
            for text, of_row in zip(texts, keys, strict=True)
            for key in of_row
            if key not in answers
        }
        left = Counter({row: sum(key in missing for key in keys[row]) for row in range(len(keys))})
        row_of = {key: row for row, of_row in enumerate(keys) for key in of_row}
        at_once = sum(count == 0 for count in left.values())
        if at_once:
            done(at_once)
        # Servers that keep what they have read of a prompt profit where rows begin alike.
        order = sorted(missing.items(), key=lambda item: item[1])

        def on_answer(bundle: list[tuple[str, str]], found: list[Any]) -> None:
            answers.update(zip((key for key, _ in bundle), found, strict=True))
            for key, _ in bundle:
                left[row_of[key]] -= 1
                if left[row_of[key]] == 0:
                    done(1)

        if order:
            asking = Round(self._sender.open, self._ask_and_keep, self._concurrency)
            asking.run(self._bundles(order), on_answer)
        return answers

    async def _ask_and_keep(
        self, client: httpx.AsyncClient, bundle: list[tuple[str, str]]
    ) -> list[Any]:
        """Asks about texts with their keys in one request, and keeps what comes back."""
        texts = [text for _, text in bundle]
        body, prompt = self._request(texts)
        response = await self._sender.post(client, body, prompt, self.most_written * len(texts))
        found = self._parse_response(response, texts)
        for (key, _), answer in zip(bundle, found, strict=True):
            self._store.keep(key, answer)
        return found

    def _bundles(self, asked: Sequence[tuple[str, str]]) -> list[list[tuple[str, str]]]:
        """What goes into one request each: one text."""
        return [[item] for item in asked]

    def notes_on(self, asked: Collection[int]) -> tuple[str, ...]:
        """Nothing to know about the answers."""
        return ()

    @abstractmethod
    def _identity(self) -> Any:
        """Everything but the address and the labels that decides the answers, as JSON."""

    @abstractmethod
    def _request(self, texts: Sequence[str]) -> tuple[dict[str, Any], str]:
        """The body of a request about some texts, and all that the server reads of it."""

    @abstractmethod
    def _parse_response(self, response: Any, texts: Sequence[str]) -> list[Any]:
        """What a response says about each text, as plain JSON, to be kept.

        Raises:
            ModelError: nothing that can be used.
        """

    @abstractmethod
    def _logits(self, text: str, found: Sequence[Any]) -> list[float]:
        """Logits of a row, one for each label, from what was found in each of its draws."""


def with_options(body: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a request with the fields that a caller sets; what is None is left out."""
    return {name: value for name, value in {**body, **options}.items() if value is not None}


def _number_draws(texts: Sequence[str], draws: int) -> list[list[str]]:
    """Keys of each row's draws. Equal rows have different ones: each has answers of its own."""
    seen: Counter[str] = Counter()
    keys = []
    for text in texts:
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        keys.append([f"{digest}-{seen[text] + draw}" for draw in range(draws)])
        seen[text] += draws
    return keys
