"""A broker that says what a test tells it to: for answers that no real broker gives."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from semel.protocol.message import Message, decode_at, encode_bytes
from semel.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from semel.protocol.messages.request_header import RequestHeader

WAIT_S_MAX = 20.0
_SIZE = struct.Struct(">i")
Answer = Callable[[RequestHeader, memoryview], bytes | None]
"""What to send back for a request, from the length on; None ends the connection."""


def framed(correlation_id: int, response: Message, version: int, *, tags: bool | None = None) -> bytes:
    """An answer as it stands on the wire."""
    has_tags = version >= response.FLEXIBLE_FROM if tags is None else tags
    body = struct.pack(">i", correlation_id) + (b"\0" if has_tags else b"") + encode_bytes(response, version)
    return _SIZE.pack(len(body)) + body


def versions_answer(header: RequestHeader, *, first: int = 0, last: int = 3, error_code: int = 0) -> bytes:
    """Every API in these versions."""
    rows = [ApiVersion(api_key=key, min_version=first, max_version=last) for key in range(70)]
    version = 0 if error_code else header.request_api_version
    return framed(header.correlation_id, ApiVersionsResponse(error_code=error_code, api_keys=rows), version, tags=False)


def usual(answer: Answer, *, last: int = 3) -> Answer:
    """Answer ApiVersions as a broker does, and the rest as told."""

    def either(header: RequestHeader, body: memoryview) -> bytes | None:
        is_versions = header.request_api_key == ApiVersionsRequest.API_KEY
        return versions_answer(header, last=last) if is_versions else answer(header, body)

    return either


@contextmanager
def fake_broker(answer: Answer) -> Iterator[str]:
    """Listen on a port of its own; gives the address."""
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=_serve, args=(listener, answer), daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(WAIT_S_MAX)
        assert not thread.is_alive()


def _serve(listener: socket.socket, answer: Answer) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            connection.settimeout(WAIT_S_MAX)
            _talk(connection, answer)


def _talk(connection: socket.socket, answer: Answer) -> None:
    try:
        while frame := _read_frame(connection):
            flexible = struct.unpack_from(">hh", frame)
            version = 2 if flexible[0] == ApiVersionsRequest.API_KEY and flexible[1] >= 3 else 1
            header, start = decode_at(RequestHeader, frame, version)
            said = answer(header, memoryview(frame)[start:])
            if said is None:
                return
            connection.sendall(said)
    except OSError:
        return


def _read_frame(connection: socket.socket) -> bytes:
    head = _read(connection, 4)
    return _read(connection, _SIZE.unpack(head)[0]) if head else b""


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            return b""
        data += more
    return data
