"""What a server sends back: read up to a size, unpacked and parsed, whatever it holds."""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx

PACKED = "gzip"  # what servers may pack answers with
_GZIP = zlib.MAX_WBITS | 16


class Unreadable(ValueError):
    """Bytes that are not what they should be; says what they are."""


async def read(response: httpx.Response, most: int) -> bytes:
    """The body of a response, unpacked: all of it, or the first ``most + 1`` bytes.

    httpx unpacks as much as there is: a few bytes may become more than there is memory.

    Raises:
        Unreadable: it is packed in a way that was not asked for, or damaged.
    """
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", PACKED):
        raise Unreadable(f"packed as {encoding[:40]!r}, although {PACKED} was asked for")
    unpacker = zlib.decompressobj(_GZIP) if encoding == PACKED else None
    content = bytearray()
    async for chunk in response.aiter_raw():
        left = most + 1 - len(content)
        try:
            content += chunk[:left] if unpacker is None else unpacker.decompress(chunk, left)
        except zlib.error:
            raise Unreadable(f"damaged {PACKED}") from None
        if len(content) > most:
            return bytes(content)
        if unpacker is not None and unpacker.eof:
            break
    if unpacker is not None and not unpacker.eof:
        raise Unreadable(f"{PACKED} that is cut off")
    return bytes(content)


def parsed(content: bytes) -> Any:
    """The JSON in some bytes.

    Raises:
        Unreadable: it is none, or none that can be worked with.
    """
    try:
        return json.loads(content)
    except RecursionError:
        raise Unreadable("JSON that is nested too deep") from None
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise Unreadable("not JSON") from None
    except ValueError:
        raise Unreadable("JSON with a number of thousands of digits") from None
