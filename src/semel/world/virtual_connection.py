"""One end of a connection in virtual time, and the pipe that carries bytes one way.

Keeps: bytes arrive in the order they were written, late by a seeded delay and cut into seeded pieces.
Why:   a pipe holds its bytes back while its hosts are split, as TCP keeps sending again, and while the receiver is
       not being read; the sender then feels it in `drain`.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from semel.errors import ConnectionFailure
from semel.world.frame_pool import FramePool
from semel.world.frames import SCRATCH_BYTES, FrameReader
from semel.world.network import WRITE_HIGH_WATER_BYTES, WRITE_LOW_WATER_BYTES, Buffer
from semel.world.rng import Rng

END = b""  # on a pipe no bytes mean that the sender sends no more
CUT_IN_TWO_CHANCE = 0.1

_scratch = bytearray(SCRATCH_BYTES)  # one program runs at a time in virtual time


class Pipe:
    """Bytes under way from one end to the other."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        rng: Rng,
        *,
        draw_delay_ms: Callable[[], float],
        is_held: Callable[["Pipe"], bool],
    ) -> None:
        """A delay is drawn for every piece; while `is_held` says so nothing arrives, and it will call `pump` later."""
        self._loop = loop
        self._rng = rng
        self._draw_delay_ms = draw_delay_ms
        self._is_held = is_held
        self._pieces: deque[tuple[float, bytes]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self.waiting_bytes = 0
        self.sender: VirtualConnection
        self.receiver: VirtualConnection

    def send(self, data: bytes) -> None:
        """Put bytes, or the END, on their way."""
        for piece in self._cut(data):
            self._pieces.append((self._loop.time() + self._draw_delay_ms() / 1000, piece))
            self.waiting_bytes += len(piece)
        self.pump()

    def clear(self) -> None:
        """Lose what is under way."""
        self._pieces.clear()
        self.waiting_bytes = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def pump(self) -> None:
        """Deliver what is due, as far as the receiver takes it; set a timer for the rest."""
        # While a timer waits for the first piece nothing behind it may arrive: a stream keeps its order.
        while self._pieces and self._timer is None and not self.receiver.reading_paused and not self._is_held(self):
            due, piece = self._pieces[0]
            if due > self._loop.time():
                self._timer = self._loop.call_at(due, self._on_timer)
                return
            self._pieces.popleft()
            self.waiting_bytes -= len(piece)
            self.receiver.arrive(piece)
            self.sender.on_taken()

    def _on_timer(self) -> None:
        self._timer = None
        self.pump()

    def _cut(self, data: bytes) -> list[bytes]:
        if len(data) > 1 and self._rng.chance(CUT_IN_TWO_CHANCE):
            middle = self._rng.integer(1, len(data) - 1)
            # TCP keeps no borders between writes, so a reader must cope with any cut.
            return [data[:middle], data[middle:]]
        return [data]


class VirtualConnection(FrameReader):
    """One end; the other is `out.receiver`."""

    def __init__(self, *, peer: str, frame_bytes_max: int, incoming: Pipe, out: Pipe) -> None:
        """Join the two pipes at this end."""
        super().__init__(frame_bytes_max=frame_bytes_max, scratch=_scratch, pool=FramePool())
        self.peer = peer
        self.reading_paused = False
        self._in = incoming
        self._out = out
        incoming.receiver = out.sender = self
        self._closed = False
        self._writable = asyncio.Event()
        self._writable.set()

    @property
    def other_end(self) -> "VirtualConnection":
        """The end at the peer."""
        return self._out.receiver

    @property
    def closed(self) -> bool:
        """Whether this end is closed or lost."""
        return self._closed

    def write(self, *buffers: Buffer) -> bool:
        """Send raw bytes; once the connection is gone they are dropped, and `drain` says so."""
        data = b"".join(buffers)
        if data and not self._closed:
            self._out.send(data)
            if self._out.waiting_bytes > WRITE_HIGH_WATER_BYTES:
                self._writable.clear()
        return self._writable.is_set() and not self._closed

    async def drain(self) -> None:
        """Return at once when little is under way, else when the peer took it."""
        await self._writable.wait()
        if self._closed:
            raise ConnectionFailure(f"the connection to {self.peer} is closed")

    def close(self) -> None:
        """Let what was written arrive, and then the end."""
        if not self._closed:
            self._close_here()
            self._out.send(END)

    def abort(self) -> None:
        """Close at once; what is under way is lost."""
        if not self._closed:
            self._close_here()
            self._out.clear()
            self._out.send(END)

    async def wait_lost(self) -> None:
        """Return at once: what is under way needs nobody here."""

    def arrive(self, piece: bytes) -> None:
        """Take bytes or the END from the pipe."""
        if self._closed:
            if piece != END:  # the host of a closed end answers bytes with a reset
                self.other_end.reset("the peer had closed it")
        elif piece == END:
            self._end_of_stream()
        else:
            self._receive(memoryview(piece))

    def on_taken(self) -> None:
        """Note that the peer took something of what was sent."""
        if self._out.waiting_bytes <= WRITE_LOW_WATER_BYTES:
            self._writable.set()

    def reset(self, why: str) -> None:
        """Break at once, as a reset does."""
        self._in.clear()
        self._out.clear()
        if not self._closed:
            self._closed = True
            self._end_reading(ConnectionFailure, f"the connection to {self.peer} broke: {why}")
            self._writable.set()

    def _receive(self, data: memoryview) -> None:
        while data:
            room = self.get_buffer(len(data))
            size = min(len(room), len(data))
            room[:size] = data[:size]
            # A view that is held would keep the reader from growing its buffer.
            room.release()
            self.buffer_updated(size)
            data = data[size:]

    def _close_here(self) -> None:
        self._closed = True
        self._drop_frames()
        self._end_reading()
        self._writable.set()
        # Bytes that nobody reads any more must still arrive: they are answered with a reset, which the peer has to see.
        self.reading_paused = False
        self._in.pump()

    def _pause_reading(self) -> None:
        self.reading_paused = True

    def _resume_reading(self) -> None:
        self.reading_paused = False
        self._in.pump()
