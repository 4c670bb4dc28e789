"""Asks a server many things at once, in a thread with an event loop of its own.

The thread that asks waits meanwhile. So this works where an event loop runs already, as in a
notebook, and Ctrl-C is heard at once.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, TypeVar

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
