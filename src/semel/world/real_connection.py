"""One TCP or TLS connection, on asyncio transports (selector loops and uvloop).

Keeps: a peer that never reads costs at most the write limits and, after `close`, LINGER_MS_MAX.
Why:   BufferedProtocol, because it lets frames.py choose where bytes are received; streams would copy twice more.
       uvloop calls the kernel for every write, so answers to frames that came together are sent together.
"""

import asyncio
import socket
import weakref
from collections.abc import Callable, Sequence
from typing import cast

from semel.errors import ConnectionFailure
from semel.world.busy_poll import BusyPoll
from semel.world.frame_pool import FramePool
from semel.world.frames import SCRATCH_BYTES, FrameReader
from semel.world.network import LINGER_MS_MAX, WRITE_HIGH_WATER_BYTES, WRITE_LOW_WATER_BYTES, Buffer

# Answers that are held back take memory: from here on they are sent at once.
HOLD_BYTES_MAX = 1 << 16
JOIN_BYTES_MAX = 1 << 15  # below this one copy costs less than a second buffer on its way to the kernel

_scratch_of_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, bytearray] = weakref.WeakKeyDictionary()
_pool_of_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, FramePool] = weakref.WeakKeyDictionary()
_busy_poll_of_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, BusyPoll] = weakref.WeakKeyDictionary()


class RealConnection(FrameReader, asyncio.BufferedProtocol):
    """One TCP or TLS connection."""

    _transport: asyncio.Transport

    def __init__(self, *, frame_bytes_max: int, on_made: Callable[["RealConnection"], None] | None = None) -> None:
        """`on_made` is called once the connection stands."""
        super().__init__(frame_bytes_max=frame_bytes_max, scratch=_scratch(), pool=_pool())
        self._on_made = on_made
        self.busy_poll = _busy_poll()
        self._closed = False
        self._linger: asyncio.TimerHandle | None = None
        self._held: list[Buffer] = []
        self._held_bytes = 0
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
            # Answers are written whole. Nagle's algorithm would hold a short one back
            # until the last one is acknowledged.
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._on_made is not None:
            self._on_made(self)

    def buffer_updated(self, nbytes: int) -> None:
        """Asyncio's call: bytes arrived in the buffer given last."""
        super().buffer_updated(nbytes)
        self.busy_poll.arrived()

    def eof_received(self) -> bool:
        """Asyncio's call: the peer sends no more. Answers to what it sent before can still go out, except under TLS."""
        self._end_of_stream()
        # True keeps the sending half open, which asyncio cannot do under TLS.
        return self._transport.get_extra_info("sslcontext") is None

    def connection_lost(self, exc: Exception | None) -> None:
        """Asyncio's call: nothing is left of the connection."""
        # An error after this end was closed concerns nobody.
        if exc is None or self._closed:
            self._end_of_stream()
        else:
            self._end_reading(ConnectionFailure, f"the connection to {self.peer} broke: {exc}")
        self._closed = True
        self._pool.forget(self)
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

    def write(self, *buffers: Buffer) -> bool:
        """Queue raw bytes; once the connection is gone they are dropped, and `drain` says so."""
        if self._closed or self._transport.is_closing():
            return False
        # More frames wait, so more answers come in this pass; and what is held goes first.
        if self._held or self._frames:
            self._hold(buffers)
        elif len(buffers) == 1:
            self._transport.write(buffers[0])
        else:
            self._send(buffers)
        return self._writable.is_set()

    def _hold(self, buffers: Sequence[Buffer]) -> None:
        """Keep an answer back while frames wait whose answers come in the same pass: one call to the kernel for all."""
        if not self._held:
            asyncio.get_running_loop().call_soon(self._release)
        self._held.extend(buffers)
        self._held_bytes += sum(map(len, buffers))
        if self._held_bytes > HOLD_BYTES_MAX:
            self._release()

    def _release(self) -> None:
        if self._held and not self._transport.is_closing():
            held, self._held, self._held_bytes = self._held, [], 0
            self._send(held)

    def _send(self, buffers: Sequence[Buffer]) -> None:
        if sum(map(len, buffers)) <= JOIN_BYTES_MAX:
            self._transport.write(b"".join(buffers))
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
        self._release()
        self._stop_reading_here()
        self._transport.close()
        # The transport closes when all is sent; a peer that never reads would keep it open for ever.
        self._linger = asyncio.get_running_loop().call_later(LINGER_MS_MAX / 1000, self.abort)

    def abort(self) -> None:
        """Close at once; what is queued is lost."""
        if not self._lost.is_set():
            self._stop_reading_here()
            self._held.clear()
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


def _scratch() -> bytearray:
    loop = asyncio.get_running_loop()
    scratch = _scratch_of_loop.get(loop)
    if scratch is None:
        scratch = _scratch_of_loop[loop] = bytearray(SCRATCH_BYTES)
    return scratch


def _pool() -> FramePool:
    return _pool_of_loop.setdefault(asyncio.get_running_loop(), FramePool())


def _busy_poll() -> BusyPoll:
    loop = asyncio.get_running_loop()
    found = _busy_poll_of_loop.get(loop)
    if found is None:
        found = _busy_poll_of_loop[loop] = BusyPoll(loop)
    return found


def _address_text(address: object) -> str:
    return f"{address[0]}:{address[1]}" if isinstance(address, tuple) else str(address or "?")
