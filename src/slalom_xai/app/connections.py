"""Connections that must say what they want in time.

uvicorn waits for ever for the first line and the headers of a request, so that a few hundred slow
connections would keep everybody else out.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol


def timed(seconds: float) -> type[H11Protocol]:
    """A protocol that closes connections whose requests do not begin in time.

    Args:
        seconds: from the first byte, or from the beginning of the connection, to the end of the
            headers.
    """

    class Timed(H11Protocol):
        """One connection."""

        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._expect()

        def data_received(self, data: bytes) -> None:
            before = self.cycle
            super().data_received(data)
            if self.cycle is not before:
                self._stop_waiting()
            elif self.cycle is None or self.cycle.response_complete:
                self._expect()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(exc)

        def _expect(self) -> None:
            if self._deadline is None:
                self._deadline = self.loop.call_later(seconds, self.transport.close)

        def _stop_waiting(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

    return Timed
