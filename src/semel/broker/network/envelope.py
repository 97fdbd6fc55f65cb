"""What is around every message: the request's header in, size and response header out."""

from __future__ import annotations

import struct

from semel.broker.network.registry import AnyApi
from semel.broker.runtime.yielding import Pausing
from semel.errors import ProtocolError
from semel.protocol.message import Message, Output, Part, encode_into, encode_pausing, size_of

API_VERSIONS_KEY = 18
CHUNK_BYTES = 256 * 1024

_REQUEST_HEAD = struct.Struct(">hhih")
_SIZE_AND_CORRELATION = struct.Struct(">ii")


class Head:
    """The header of a request."""

    __slots__ = ("api_key", "body_at", "client_id", "correlation_id", "version")

    def __init__(self, frame: memoryview) -> None:
        """Read the part that all header versions share."""
        # Header version 1. Version 2 adds nothing but tagged fields behind the client id.
        try:
            self.api_key, self.version, self.correlation_id, size = _REQUEST_HEAD.unpack_from(frame)
            self.body_at = _REQUEST_HEAD.size + max(size, 0)
            if self.body_at > len(frame):
                raise ProtocolError("the client id is longer than its request")
            self.client_id = str(frame[_REQUEST_HEAD.size : self.body_at], "utf-8")
        except (ValueError, struct.error) as error:
            raise ProtocolError(f"not a Kafka request header: {error}") from None


def encode_response(api: AnyApi, head: Head, response: Message) -> list[Part]:
    """Encode size, response header and body."""
    output = _start_response(api, head)
    first = output.buffer
    encode_into(response, head.version, output)
    return _finished(head, first, output)


def encode_long_response(api: AnyApi, head: Head, response: Message) -> Pausing[list[Part]]:
    """The same of one that has many elements."""
    output = _start_response(api, head)
    first = output.buffer
    yield from encode_pausing(response, head.version, output)
    return _finished(head, first, output)


def _start_response(api: AnyApi, head: Head) -> Output:
    output = Output()
    output.buffer += bytes(_SIZE_AND_CORRELATION.size)
    # ApiVersions keeps the oldest header, so that a client can read the answer before it knows the broker.
    if head.version >= api.response.FLEXIBLE_FROM and api.key != API_VERSIONS_KEY:
        output.buffer.append(0)
    return output


def _finished(head: Head, first: bytearray, output: Output) -> list[Part]:
    parts = output.finish()
    size_bytes = len(first) if len(parts) == 1 else size_of(parts)
    _SIZE_AND_CORRELATION.pack_into(first, 0, size_bytes - 4, head.correlation_id)
    return parts


def joined(parts: list[Part]) -> bytes:
    """Bring an answer into one piece, log slices included."""
    plain = (
        part if isinstance(part, (bytes, bytearray, memoryview)) else b"".join(part.chunks(CHUNK_BYTES))
        for part in parts
    )
    return b"".join(plain)
