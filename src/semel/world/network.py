"""Network: connections that carry frames as Kafka has them, a 4-byte big-endian length and then that many bytes.

The twins are in real_network.py and virtual_network.py; both read frames with frames.py and serve with serving.py.

Keeps: a frame once returned is never overwritten; it is writable and belongs to who read it. `drain` waits
       for a peer that does not read; a peer whose frames are not read cannot send more, so nothing grows for ever.
"""

import ssl
from collections.abc import Awaitable, Callable
from typing import Protocol

from semel.errors import ConfigError, ConnectionFailure, Outcome

Buffer = bytes | bytearray | memoryview

CONNECTIONS_MAX = 10_000
WRITE_HIGH_WATER_BYTES = 1 << 20
WRITE_LOW_WATER_BYTES = 1 << 18
# So long may requests that are under way take when a broker stops in order.
CLOSE_GRACE_MS = 2_000
# Long enough for a client that is paused for a moment, so that its last answer is not lost.
LINGER_MS_MAX = 30_000


class Connection(Protocol):
    """One end of a connection; one task reads, any may write."""

    @property
    def peer(self) -> str:
        """Who is at the other end, for people: `host:port`."""

    @property
    def closed(self) -> bool:
        """Whether this end is closed, closing or lost: nothing written now will arrive."""

    async def read_frame(self) -> memoryview | None:
        """Give the next frame without its length; None at a clean end, or after this end was closed.

        Raises ConnectionFailure when the connection broke or ended inside a frame, and ProtocolError when the length
        is negative or above the limit; the frames that came whole before that are given first.
        """

    def offer_frames(self, answer_at_once: Callable[[memoryview], bool] | None) -> None:
        """From now on show a frame that comes while the reader waits, and comes alone, to this function first.

        It runs in the loop's own call, outside of any task. True means that it is done with the frame; after False
        the reader gets the frame too. None ends it.
        """

    def limit_frames(self, frame_bytes_max: int) -> None:
        """Refuse longer frames from the next one on; those that came before are given out."""

    def write(self, *buffers: Buffer) -> bool:
        """Queue raw bytes in order; the caller adds the length and leaves the buffers unchanged from now on.

        True means that `drain` would return at once.
        """

    async def drain(self) -> None:
        """Return at once when little is queued, else when the peer took it; ConnectionFailure when it is gone."""

    def close(self) -> None:
        """Send what is queued, then close; a peer that never takes it is cut off after LINGER_MS_MAX."""

    def abort(self) -> None:
        """Close at once; what is queued is lost."""


class Listener(Protocol):
    """A port that accepts connections."""

    @property
    def host(self) -> str:
        """Where it listens."""

    @property
    def port(self) -> int:
        """The port, also when any was asked for."""

    async def close(self, *, grace_ms: float = CLOSE_GRACE_MS) -> None:
        """Accept no more, close every connection and end its task; those that need longer than this are cancelled."""


Serve = Callable[[Connection], Awaitable[None]]


class Network(Protocol):
    """Listens and connects, as seen from one host."""

    async def listen(
        self,
        host: str,
        port: int,
        serve: Serve,
        *,
        frame_bytes_max: int,
        ssl_context: ssl.SSLContext | None = None,
        connections_max: int = CONNECTIONS_MAX,
    ) -> Listener:
        """Run `serve` for each connection, then close it; port 0 means any. EnvironmentFailure when it is taken."""

    async def connect(
        self,
        host: str,
        port: int,
        *,
        frame_bytes_max: int,
        timeout_ms: float,
        ssl_context: ssl.SSLContext | None = None,
    ) -> Connection:
        """Connect within the time, or raise ConnectionFailure."""


def check_port(port: int) -> None:
    """Refuse what no network has."""
    if not 0 <= port <= 65535:
        raise ConfigError(f"{port} is not a port", because="ports are 0 to 65535")


def not_connected(host: str, port: int, because: str) -> ConnectionFailure:
    """Make the error of an attempt to connect that failed: nothing can have happened."""
    return ConnectionFailure(f"cannot connect to {host}:{port}", outcome=Outcome.DID_NOT_HAPPEN, because=because)
