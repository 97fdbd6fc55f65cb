"""The network of the machine, on asyncio transports (selector loops and uvloop, plain or TLS).

Keeps: nothing here waits without a limit: connecting, closing and a peer that never reads each have one.
Why:   BufferedProtocol, because it lets frames.py choose where bytes are received; streams would copy twice more.
"""

import asyncio
import contextlib
import socket
import ssl
import weakref
from collections.abc import Callable
from typing import cast

from semel.errors import ConfigError, ConnectionFailure, EnvironmentFailure, Outcome
from semel.world.frames import SCRATCH_BYTES, FrameReader
from semel.world.network import (
    CLOSE_GRACE_MS,
    CONNECTIONS_MAX,
    LINGER_MS_MAX,
    WRITE_HIGH_WATER_BYTES,
    WRITE_LOW_WATER_BYTES,
    Buffer,
    Serve,
)
from semel.world.serving import ConnectionTasks

BACKLOG_CONNECTIONS = 1024
HANDSHAKE_S_MAX = 10.0
UNBIND_S_MAX = 1.0

_scratch_of_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, bytearray] = weakref.WeakKeyDictionary()


class RealConnection(FrameReader, asyncio.BufferedProtocol):
    """One TCP or TLS connection."""

    _transport: asyncio.Transport

    def __init__(self, *, frame_bytes_max: int, on_made: Callable[["RealConnection"], None] | None = None) -> None:
        """`on_made` is called once the connection stands."""
        super().__init__(frame_bytes_max=frame_bytes_max, scratch=_scratch())
        self._on_made = on_made
        self._closed = False
        self._linger: asyncio.TimerHandle | None = None
        self._lost = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Asyncio's call: the connection stands, and TLS is done."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_WATER_BYTES, low=WRITE_LOW_WATER_BYTES)
        self.peer = _address_text(transport.get_extra_info("peername"))
        raw: socket.socket | None = transport.get_extra_info("socket")
        if raw is not None and raw.family in (socket.AF_INET, socket.AF_INET6):
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._on_made is not None:
            self._on_made(self)

    def eof_received(self) -> bool:
        """Asyncio's call: the peer sends no more. Answers to what it sent before can still go out, except under TLS."""
        self._end_of_stream()
        return self._transport.get_extra_info("sslcontext") is None

    def connection_lost(self, exc: Exception | None) -> None:
        """Asyncio's call: nothing is left of the connection."""
        if exc is None or self._closed:
            self._end_of_stream()
        else:
            self._end_reading(ConnectionFailure, f"the connection to {self.peer} broke: {exc}")
        self._closed = True
        self._lost.set()
        self._writable.set()
        if self._linger is not None:
            self._linger.cancel()

    def pause_writing(self) -> None:
        """Asyncio's call: much is queued."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Asyncio's call: little is queued."""
        self._writable.set()

    @property
    def closed(self) -> bool:
        """Whether this end is closed, closing or lost."""
        return self._closed or self._transport.is_closing()

    def write(self, *buffers: Buffer) -> None:
        """Queue raw bytes; once the connection is gone they are dropped, and `drain` says so."""
        if self.closed:
            return
        if len(buffers) == 1:
            self._transport.write(buffers[0])
        else:
            self._transport.writelines(buffers)

    async def drain(self) -> None:
        """Return at once when little is queued, else when the peer took it."""
        if not self._writable.is_set():
            await self._writable.wait()
        if self.closed:
            raise ConnectionFailure(f"the connection to {self.peer} is closed")

    def close(self) -> None:
        """Send what is queued, then close; a peer that never takes it is cut off."""
        if self._closed:
            return
        self._stop_reading_here()
        self._transport.close()
        self._linger = asyncio.get_running_loop().call_later(LINGER_MS_MAX / 1000, self.abort)

    def abort(self) -> None:
        """Close at once; what is queued is lost."""
        if not self._lost.is_set():
            self._stop_reading_here()
            self._transport.abort()

    async def wait_lost(self) -> None:
        """Return when nothing of the connection is left."""
        await self._lost.wait()

    def _stop_reading_here(self) -> None:
        self._closed = True
        self._drop_frames()
        self._end_reading()

    def _pause_reading(self) -> None:
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if not self._transport.is_closing() and not self._ended:
            self._transport.resume_reading()


class RealListener:
    """A listening socket and the connections it brought."""

    def __init__(self, server: asyncio.Server, tasks: ConnectionTasks) -> None:
        """Both are already at work."""
        self._server = server
        self._tasks = tasks
        address = server.sockets[0].getsockname()
        self.host: str = address[0]
        self.port: int = address[1]

    async def close(self, *, grace_ms: float = CLOSE_GRACE_MS) -> None:
        """Accept no more, close every connection and end its task."""
        self._server.close()
        await self._tasks.close(grace_ms=grace_ms)
        # The port is free again only when this returns; a TLS handshake under way could keep it waiting.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._server.wait_closed(), UNBIND_S_MAX)


class RealNetwork:
    """TCP and TLS on this machine."""

    async def listen(
        self,
        host: str,
        port: int,
        serve: Serve,
        *,
        frame_bytes_max: int,
        ssl_context: ssl.SSLContext | None = None,
        connections_max: int = CONNECTIONS_MAX,
    ) -> RealListener:
        """Run `serve` for each connection, then close it; port 0 means any."""
        _check_port(port)
        tasks = ConnectionTasks(serve, connections_max=connections_max)
        try:
            server = await asyncio.get_running_loop().create_server(
                lambda: RealConnection(frame_bytes_max=frame_bytes_max, on_made=tasks.admit),
                host,
                port,
                ssl=ssl_context,
                ssl_handshake_timeout=HANDSHAKE_S_MAX if ssl_context else None,
                backlog=BACKLOG_CONNECTIONS,
            )
        except OSError as error:
            raise EnvironmentFailure(f"cannot listen on {host}:{port}", because=str(error)) from error
        return RealListener(server, tasks)

    async def connect(
        self,
        host: str,
        port: int,
        *,
        frame_bytes_max: int,
        timeout_ms: float,
        ssl_context: ssl.SSLContext | None = None,
    ) -> RealConnection:
        """Connect within the time, or raise ConnectionFailure."""
        _check_port(port)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: RealConnection(frame_bytes_max=frame_bytes_max), host, port, ssl=ssl_context
                )
        except TimeoutError as error:
            raise _not_connected(host, port, f"no answer within {timeout_ms:.0f} ms") from error
        except OSError as error:
            raise _not_connected(host, port, str(error)) from error
        return connection


def _scratch() -> bytearray:
    loop = asyncio.get_running_loop()
    scratch = _scratch_of_loop.get(loop)
    if scratch is None:
        scratch = _scratch_of_loop[loop] = bytearray(SCRATCH_BYTES)
    return scratch


def _address_text(address: object) -> str:
    return f"{address[0]}:{address[1]}" if isinstance(address, tuple) else str(address or "?")


def _check_port(port: int) -> None:
    if not 0 <= port <= 65535:
        raise ConfigError(f"{port} is not a port", because="ports are 0 to 65535")


def _not_connected(host: str, port: int, because: str) -> ConnectionFailure:
    return ConnectionFailure(f"cannot connect to {host}:{port}", outcome=Outcome.DID_NOT_HAPPEN, because=because)
