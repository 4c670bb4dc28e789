"""Coroutines in a thread of their own."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def run_apart(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine, whatever loop runs here.

    A browser test of the same worker leaves its loop running in the worker's own thread.
    """
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()
