"""A server on a socket that sends what it is told to the byte, and as slowly as it is told."""

from __future__ import annotations

import gzip
import json
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DRIPS = 40  # bytes that come one at a time; the rest follows at once


@dataclass(frozen=True)
class Sent:
    """A response.

    Attributes:
        body: of it, as bytes.
        status: of HTTP.
        headers: of it.
        pause: seconds between the first bytes.
    """

    body: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    pause: float = 0.0

    @classmethod
    def of(cls, answer: Any, **more: Any) -> Sent:
        """JSON."""
        return cls(json.dumps(answer).encode(), **more)

    def packed(self) -> Sent:
        """The same as gzip."""
        packed = gzip.compress(self.body)
        return Sent(packed, self.status, {**self.headers, "Content-Encoding": "gzip"}, self.pause)


@contextmanager
def hostile_server(respond: Callable[[dict[str, Any]], Sent]) -> Iterator[str]:
    """A server on this machine; gives its address.

    Args:
        respond: what is sent for the JSON of a request.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = respond(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            try:
                self.send_response(sent.status)
                for name, value in sent.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                drips = DRIPS if sent.pause else 0
                for place in range(drips):
                    self.wfile.write(sent.body[place : place + 1])
                    time.sleep(sent.pause)
                self.wfile.write(sent.body[drips:])
            except OSError:  # the client has hung up
                pass

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@cache
def bomb(size: int, layers: int = 1) -> Sent:
    """JSON with so many bytes of white space around it, packed once or more often."""
    packer = zlib.compressobj(9, wbits=zlib.MAX_WBITS | 16)
    blanks = bytes(b" " * 2**20)
    packed = b"".join([packer.compress(blanks) for _ in range(size // len(blanks))])
    packed += packer.compress(b"{}") + packer.flush()
    for _ in range(layers - 1):
        packed = gzip.compress(packed)
    return Sent(packed, headers={"Content-Encoding": ", ".join(["gzip"] * layers)})


def escaped(text: str) -> str:
    """A text as JSON may write it: every character by its number."""
    return "".join(f"\\u{ord(character):04x}" for character in text)
