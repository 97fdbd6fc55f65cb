"""A blocking client that says exactly what it is told to, well formed or not."""

from __future__ import annotations

import socket
import ssl
import struct
from types import TracebackType
from typing import Self, TypeVar

from semel.protocol.message import Message, decode_at, encode_bytes

R = TypeVar("R", bound=Message)
API_VERSIONS_KEY = 18
WAIT_S_MAX = 60.0


def address_of(bootstrap: str) -> tuple[str, int]:
    """The first address of `bootstrap.servers`."""
    host, port = bootstrap.split(",", maxsplit=1)[0].rsplit(":", 1)
    return host, int(port)


def sized(body: bytes) -> bytes:
    """A frame: length and body."""
    return struct.pack(">i", len(body)) + body


def header(api_key: int, version: int, correlation_id: int = 0, client_id: str = "raw") -> bytes:
    """A request header as version 1 has it."""
    name = client_id.encode()
    return struct.pack(">hhih", api_key, version, correlation_id, len(name)) + name


def request_frame(request: Message, version: int, correlation_id: int = 0) -> bytes:
    """A whole, correct request."""
    tags = b"\0" if version >= request.FLEXIBLE_FROM else b""
    return sized(header(request.API_KEY, version, correlation_id) + tags + encode_bytes(request, version))


class RawClient:
    """One connection; every wait has a limit."""

    def __init__(
        self, bootstrap: str, *, context: ssl.SSLContext | None = None, receive_bytes: int | None = None
    ) -> None:
        """Connect, with a small receive buffer when one is given."""
        self.socket: socket.socket = socket.socket()
        self.socket.settimeout(WAIT_S_MAX)
        if receive_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.connect(address_of(bootstrap))
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_hostname=address_of(bootstrap)[0])

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.socket.sendall(data)

    def read(self, count: int) -> bytes:
        """Read exactly this many bytes; ConnectionError when the peer ends before."""
        found = bytearray()
        while len(found) < count:
            chunk = self.socket.recv(min(count - len(found), 1 << 20))
            if not chunk:
                raise ConnectionResetError(f"the peer ended after {len(found)} of {count} bytes")
            found += chunk
        return bytes(found)

    def read_frame(self) -> bytes:
        """Read one frame without its length."""
        (length,) = struct.unpack(">i", self.read(4))
        return self.read(length)

    def read_response(self, response: type[R], version: int, correlation_id: int = 0) -> R:
        """Read the answer to the request with this correlation id."""
        frame = self.read_frame()
        assert struct.unpack_from(">i", frame)[0] == correlation_id
        tagged = version >= response.FLEXIBLE_FROM and response.API_KEY != API_VERSIONS_KEY
        return decode_at(response, frame, version, 5 if tagged else 4)[0]

    def ask(self, request: Message, response: type[R], version: int, correlation_id: int = 0) -> R:
        """Send a request and read its answer."""
        self.send(request_frame(request, version, correlation_id))
        return self.read_response(response, version, correlation_id)

    def is_closed_by_peer(self) -> bool:
        """Read whatever is still sent; true when the peer then ends the connection, false when it stays silent."""
        try:
            while self.socket.recv(1 << 20):
                pass
        except ConnectionError:
            return True
        except TimeoutError:
            return False
        return True

    def close(self) -> None:
        """End the connection."""
        self.socket.close()

    def __enter__(self) -> Self:
        """Use it as a context."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()
