"""A client's connection to one broker in virtual time: several requests may be under way, answers come in order.

Keeps: every wait has a limit. A request without an answer in time breaks the connection, and with it all that were
       under way: their outcome is unknown.
"""

from __future__ import annotations

import asyncio
from collections import deque
from struct import Struct
from typing import TypeVar

from semel.errors import ConnectionFailure, Outcome, ProtocolError
from semel.protocol.message import Message, decode, encode_bytes
from semel.world.clock import Clock
from semel.world.network import Connection

FRAME_BYTES_MAX = 1 << 24
_LENGTH = Struct(">i")
_HEAD = Struct(">hhih")

M = TypeVar("M", bound=Message)
Waiting = tuple[int, "asyncio.Future[memoryview]"]


class Channel:
    """One open connection."""

    def __init__(self, connection: Connection, clock: Clock, client_id: str) -> None:
        """Read answers from now on."""
        self._connection = connection
        self._clock = clock
        self._client_id = client_id.encode()
        self._correlation_id = 0
        self._waiting: deque[Waiting] = deque()
        self._reader = asyncio.get_running_loop().create_task(self._read())

    @property
    def closed(self) -> bool:
        """Whether it is of no use any more."""
        return self._connection.closed

    async def ask(self, request: Message, response: type[M], version: int, timeout_ms: float) -> M:
        """Send a request and wait for its answer; ConnectionFailure when none comes."""
        frame = await self._answer_to(request, version, timeout_ms)
        # The correlation id, and in flexible versions one byte of tags.
        at = 5 if version >= response.FLEXIBLE_FROM else 4
        return decode(response, frame[at:], version)

    def tell(self, request: Message, version: int) -> None:
        """Send a request that is never answered (acks=0)."""
        self._write(request, version)

    async def _answer_to(self, request: Message, version: int, timeout_ms: float) -> memoryview:
        if self.closed:
            raise ConnectionFailure("the connection is closed", outcome=Outcome.DID_NOT_HAPPEN)
        future: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
        self._waiting.append((self._write(request, version), future))
        # The whole connection: answers come in order, so those behind the missing one cannot come either.
        timer = self._clock.call_later_ms(timeout_ms, lambda: self.close("no answer in time"))
        try:
            return await future
        finally:
            timer.cancel()

    def _write(self, request: Message, version: int) -> int:
        self._correlation_id += 1
        head = _HEAD.pack(request.API_KEY, version, self._correlation_id, len(self._client_id)) + self._client_id
        tags = b"\0" if version >= request.FLEXIBLE_FROM else b""
        frame = head + tags + encode_bytes(request, version)
        self._connection.write(_LENGTH.pack(len(frame)) + frame)
        return self._correlation_id

    async def _read(self) -> None:
        why = "the broker closed the connection"
        try:
            while (frame := await self._connection.read_frame()) is not None:
                self._take(frame)
        except (ConnectionFailure, ProtocolError) as error:
            why = error.summary
        self.close(why)

    def _take(self, frame: memoryview) -> None:
        # A broker answers in the order of the requests, so an answer belongs to the oldest one that waits.
        (correlation_id,) = _LENGTH.unpack_from(frame)
        if not self._waiting or self._waiting[0][0] != correlation_id:
            raise ProtocolError(f"an answer to {correlation_id}, which nobody asked")
        future = self._waiting.popleft()[1]
        if not future.done():
            future.set_result(frame)

    def close(self, why: str = "closed by the client") -> None:
        """End it; whatever is under way fails with an unknown outcome."""
        self._connection.abort()
        waiting, self._waiting = self._waiting, deque()
        for _, future in waiting:
            if not future.done():
                future.set_exception(ConnectionFailure(why))
