"""The reading half of a connection: bytes as they arrive -> whole frames in a small queue. Both networks use it.

Keeps: a frame given out is never overwritten; what waits unread is bounded; frames that came whole are given out before
       the error that followed them.
Why:   bytes arrive in a scratch buffer that all connections of a loop share, since nothing else runs between
       `get_buffer` and `buffer_updated` (true of selector loops and uvloop, plain or TLS). Whole frames are copied out
       of it once. A frame that is not whole gets a buffer of its own, and the rest is received straight into that.
       The buffer grows as bytes arrive, to twice of what is there: declaring a large frame and sending nothing costs
       nothing. What all connections hold together has a limit, see frame_pool.py.
       A frame that comes alone may be answered in the call that brings it: waking a task costs a turn of the loop.
"""

import asyncio
import struct
from collections import deque
from collections.abc import Callable

from semel.errors import ConnectionFailure, ProtocolError, SemelError
from semel.world.frame_pool import FramePool, counted_bytes

SCRATCH_BYTES = 1 << 18
FRAME_START_BYTES_MIN = 1 << 12
# Far apart, so that a connection is not paused and resumed with every frame.
WAITING_FRAMES_HIGH, WAITING_FRAMES_LOW = 32, 8
WAITING_BYTES_HIGH, WAITING_BYTES_LOW = 1 << 21, 1 << 19

_LENGTH = struct.Struct(">i")


class FrameReader:
    """Assembles frames, queues them, and asks the transport to pause while too much waits."""

    def __init__(self, *, frame_bytes_max: int, scratch: bytearray, pool: FramePool) -> None:
        """`scratch` and `pool` may be shared by all connections of one loop."""
        self.peer = "?"
        self._pool = pool
        self._given_bytes = 0  # of the frame that is being answered, as it was counted
        self._frame_bytes_max = frame_bytes_max
        self._scratch = scratch
        self._scratch_view = memoryview(scratch)
        self._head = b""  # the 0 to 3 bytes of a length that is not whole
        self._partial: bytearray | None = None
        self._partial_filled = 0
        self._partial_length = 0
        self._frames: deque[bytearray] = deque()
        self._waiting_bytes = 0
        self._reader: asyncio.Future[None] | None = None
        self._answer_at_once: Callable[[memoryview], bool] | None = None
        self._reading_paused = False
        self._ended = False
        self._failure: tuple[type[SemelError], str] | None = None

    async def read_frame(self) -> memoryview | None:
        """Give the next frame without its length; None at a clean end, or after this end was closed."""
        # The reader is done with the last frame when it asks for the next.
        if self._given_bytes:
            self._pool.give_back(self, self._given_bytes)
            self._given_bytes = 0
        while not self._frames:
            if self._ended:
                self._raise_failure()
                return None
            await self._wait_for_frame()
        frame = self._frames.popleft()
        self._waiting_bytes -= len(frame)
        self._given_bytes = counted_bytes(len(frame))
        if self._reading_paused and self._little_waits():
            self._reading_paused = False
            self._resume_reading()
        return memoryview(frame)

    def offer_frames(self, answer_at_once: Callable[[memoryview], bool] | None) -> None:
        """Show a frame that comes alone to this function first; if it says False the reader gets the frame as well."""
        self._answer_at_once = answer_at_once

    def limit_frames(self, frame_bytes_max: int) -> None:
        """Refuse longer frames from the next one on."""
        self._frame_bytes_max = frame_bytes_max

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's interface
        """Say where the next bytes go."""
        partial = self._partial
        if partial is None:
            head = len(self._head)
            # The bytes of a length that was cut in two go in front of what arrives next.
            self._scratch[:head] = self._head
            return self._scratch_view[head:]
        if self._partial_filled == len(partial):
            before = len(partial)
            self._partial = partial = _grown(partial, self._partial_length)
            self._pool.take(self, counted_bytes(len(partial)) - counted_bytes(before))
            if self._ended:  # there was no room for it
                return self._scratch_view
        return memoryview(partial)[self._partial_filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """Take note of bytes that arrived in the buffer given last."""
        if self._ended:
            return
        if self._partial is None:
            self._scan(len(self._head) + nbytes)
        else:
            self._partial_filled += nbytes
            if self._partial_filled == self._partial_length:
                frame, self._partial = self._partial, None
                self._enqueue(frame)  # counted while it grew
        if self._frames and not self._is_answered_at_once():
            self._wake_reader()
            if not self._reading_paused and self._much_waits():
                self._reading_paused = True
                self._pause_reading()

    def _is_answered_at_once(self) -> bool:
        answer_at_once, reader = self._answer_at_once, self._reader
        # Only while the reader waits and nothing is queued before it: answers leave in the order of the requests.
        if answer_at_once is None or len(self._frames) > 1 or reader is None or reader.done():
            return False
        frame = self._frames.popleft()
        self._waiting_bytes -= len(frame)
        if answer_at_once(memoryview(frame)):
            self._pool.give_back(self, counted_bytes(len(frame)))
            return True
        self._enqueue(frame)
        return False

    def _scan(self, end: int) -> None:
        scratch, position = self._scratch, 0
        while end - position >= 4:
            (length,) = _LENGTH.unpack_from(scratch, position)
            # Before anything is reserved: the length is four bytes that a stranger has sent.
            if not 0 <= length <= self._frame_bytes_max:
                self._refuse(length)
                return
            position += 4
            if length > end - position:
                self._begin_partial(length, scratch[position:end])
                return
            self._enqueue(scratch[position : position + length])
            self._pool.take(self, counted_bytes(length))
            if self._ended:
                return
            position += length
        self._head = bytes(scratch[position:end])

    def _begin_partial(self, length: int, arrived: bytearray) -> None:
        self._head = b""
        self._partial_length = length
        self._partial_filled = len(arrived)
        arrived.extend(bytes(min(length, max(FRAME_START_BYTES_MIN, 2 * len(arrived))) - len(arrived)))
        self._partial = arrived
        self._pool.take(self, counted_bytes(len(arrived)))

    def _enqueue(self, frame: bytearray) -> None:
        self._frames.append(frame)
        self._waiting_bytes += len(frame)

    def _much_waits(self) -> bool:
        return len(self._frames) > WAITING_FRAMES_HIGH or self._waiting_bytes > WAITING_BYTES_HIGH

    def _little_waits(self) -> bool:
        return len(self._frames) <= WAITING_FRAMES_LOW and self._waiting_bytes <= WAITING_BYTES_LOW

    def _refuse(self, length: int) -> None:
        what = "negative" if length < 0 else f"above the limit of {self._frame_bytes_max} bytes"
        # Nothing behind a wrong length can be read: nobody knows where the next frame begins.
        self._end_reading(ProtocolError, f"{self.peer} announced a frame of {length} bytes, which is {what}")
        self._pause_reading()

    def _end_of_stream(self) -> None:
        """The peer sends no more."""
        if self._head or self._partial is not None:
            self._end_reading(ConnectionFailure, f"{self.peer} closed the connection inside a frame")
        else:
            self._end_reading()

    def _end_reading(self, error: type[SemelError] | None = None, text: str = "") -> None:
        if self._ended:
            return
        self._ended = True
        self._failure = (error, text) if error else None
        if self._partial is not None:
            self._pool.give_back(self, counted_bytes(len(self._partial)))
        self._head, self._partial = b"", None
        self._wake_reader()

    def end_for_room(self) -> None:
        """Too much is held by all connections together, and most of it by this one."""
        self._drop_frames()
        self._end_reading(ProtocolError, f"{self.peer} has sent more than there is room for, and most of all")
        self._pool.forget(self)
        self._pause_reading()

    def _drop_frames(self) -> None:
        for frame in self._frames:
            self._pool.give_back(self, counted_bytes(len(frame)))
        self._frames.clear()
        self._waiting_bytes = 0

    def _raise_failure(self) -> None:
        if self._failure:
            error, text = self._failure
            raise error(text)

    async def _wait_for_frame(self) -> None:
        assert self._reader is None, "one task reads a connection"
        self._reader = asyncio.get_running_loop().create_future()
        try:
            await self._reader
        finally:
            self._reader = None

    def _wake_reader(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def _pause_reading(self) -> None:
        raise NotImplementedError

    def _resume_reading(self) -> None:
        raise NotImplementedError


def _grown(partial: bytearray, length: int) -> bytearray:
    """Twice the room, up to the frame's length; a new buffer only when a transport still holds the old one."""
    more = bytes(min(len(partial), length - len(partial)))
    try:
        partial.extend(more)
    except BufferError:
        return partial + more
    return partial
