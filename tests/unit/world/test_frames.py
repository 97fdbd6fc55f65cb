"""Frames out of bytes: wherever the bytes are cut, the frames come out whole, or the error is clear."""

import asyncio
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.errors import ConnectionFailure, ProtocolError
from semel.world.frame_pool import FREE_BYTES, FramePool
from semel.world.frames import (
    FRAME_START_BYTES_MIN,
    WAITING_BYTES_HIGH,
    WAITING_FRAMES_HIGH,
    WAITING_FRAMES_LOW,
    FrameReader,
)
from tests.unit.world.stages import framed, read


class FedReader(FrameReader):
    """A reader whose transport only counts."""

    def __init__(
        self, *, frame_bytes_max: int = 1 << 27, scratch_bytes: int = 64, pool: FramePool | None = None
    ) -> None:
        super().__init__(frame_bytes_max=frame_bytes_max, scratch=bytearray(scratch_bytes), pool=pool or FramePool())
        self.calls: list[str] = []

    def _pause_reading(self) -> None:
        self.calls.append("pause")

    def _resume_reading(self) -> None:
        self.calls.append("resume")

    def feed(self, data: bytes) -> None:
        """Hand over one segment as a transport does."""
        while data:
            room = self.get_buffer(-1)
            size = min(len(room), len(data))
            room[:size] = data[:size]
            del room
            self.buffer_updated(size)
            data = data[size:]

    def end(self) -> None:
        """Hand over the end."""
        self._end_of_stream()


def frames_of(reader: FedReader) -> list[bytes]:
    """Read until the end."""

    async def read() -> list[bytes]:
        frames = []
        while (frame := await asyncio.wait_for(reader.read_frame(), 5)) is not None:
            frames.append(bytes(frame))
        return frames

    return asyncio.run(read())


BODIES = [b"one", b"", b"a longer body that does not fit the scratch buffer of the test, which is small" * 3, b"z"]
STREAM = b"".join(map(framed, BODIES))


@pytest.mark.parametrize("scratch_bytes", [4, 5, 16, 64, 4096])
def test_a_stream_cut_anywhere_gives_the_same_frames(scratch_bytes: int) -> None:
    for cut in range(len(STREAM) + 1):
        reader = FedReader(scratch_bytes=scratch_bytes)
        reader.feed(STREAM[:cut])
        reader.feed(STREAM[cut:])
        reader.end()
        assert frames_of(reader) == BODIES


@given(bodies=st.lists(st.binary(max_size=300)), sizes=st.lists(st.integers(1, 50), min_size=1))
def test_any_frames_in_any_pieces(bodies: list[bytes], sizes: list[int]) -> None:
    reader, stream, position, turn = FedReader(), b"".join(map(framed, bodies)), 0, 0
    while position < len(stream):
        size = sizes[turn % len(sizes)]
        reader.feed(stream[position : position + size])
        position, turn = position + size, turn + 1
    reader.end()
    assert frames_of(reader) == bodies


def test_byte_by_byte() -> None:
    reader = FedReader()
    for value in STREAM:
        reader.feed(bytes([value]))
    reader.end()
    assert frames_of(reader) == BODIES


def test_a_frame_given_out_is_not_overwritten_and_is_writable() -> None:
    async def scenario() -> None:
        reader = FedReader()
        reader.feed(framed(b"first") + framed(b"x" * 100))
        first, second = await reader.read_frame(), await reader.read_frame()
        reader.feed(framed(b"OTHER") + framed(b"y" * 100))
        assert first is not None
        assert second is not None
        assert (bytes(first), bytes(second)) == (b"first", b"x" * 100)
        first[:2] = second[:2] = b"##"

    asyncio.run(scenario())


@pytest.mark.parametrize(("length", "text"), [(-1, "negative"), (-(2**31), "negative"), (1001, "above the limit")])
def test_a_wrong_length_is_an_error_after_the_frames_before_it(length: int, text: str) -> None:
    async def scenario() -> None:
        reader = FedReader(frame_bytes_max=1000)
        reader.feed(framed(b"good") + struct.pack(">i", length) + b"rest")
        reader.feed(b"more that nobody asked for")
        assert await read(reader) == b"good"
        for _ in range(2):
            with pytest.raises(ProtocolError, match=text):
                await reader.read_frame()
        assert reader.calls == ["pause"]

    asyncio.run(scenario())


def test_the_largest_allowed_length_is_allowed() -> None:
    reader = FedReader(frame_bytes_max=1000)
    reader.feed(framed(bytes(1000)))
    reader.end()
    assert frames_of(reader) == [bytes(1000)]


@pytest.mark.parametrize("kept", range(1, len(framed(b"body"))))
def test_an_end_inside_a_frame_is_a_failure(kept: int) -> None:
    async def scenario() -> None:
        reader = FedReader()
        reader.feed(framed(b"good") + framed(b"body")[:kept])
        reader.end()
        assert await read(reader) == b"good"
        with pytest.raises(ConnectionFailure, match="inside a frame"):
            await reader.read_frame()

    asyncio.run(scenario())


def test_a_declared_length_costs_nothing_until_bytes_arrive() -> None:
    reader = FedReader()
    reader.feed(struct.pack(">i", 100_000_000) + b"a")
    arrived = 1
    for more in (0, FRAME_START_BYTES_MIN, 50_000, 1_000_000):
        reader.feed(bytes(more))
        arrived += more
        assert len(reader.get_buffer(-1)) <= max(FRAME_START_BYTES_MIN, arrived), "as much again as has arrived"


def test_a_buffer_still_held_by_a_transport_can_grow() -> None:
    body = bytes(range(256)) * (3000)
    reader = FedReader()
    data, held = framed(body), []
    while data:
        room = reader.get_buffer(-1)
        held.append(room)  # as if the transport never let go
        size = min(len(room), len(data))
        room[:size] = data[:size]
        reader.buffer_updated(size)
        data = data[size:]
    reader.end()
    assert frames_of(reader) == [body]


def test_when_all_hold_too_much_whoever_holds_most_is_ended() -> None:
    async def scenario() -> None:
        pool = FramePool(10 * FREE_BYTES)
        small, large = FedReader(pool=pool), FedReader(pool=pool)
        small.feed(struct.pack(">i", 1_000_000) + bytes(2 * FREE_BYTES))
        for _ in range(5):
            large.feed(framed(bytes(3 * FREE_BYTES)))
        with pytest.raises(ProtocolError, match="room"):
            await large.read_frame()
        assert 0 < pool.held_bytes <= 10 * FREE_BYTES
        small.feed(bytes(1_000_000 - 2 * FREE_BYTES - 1)[: 2 * FREE_BYTES])
        assert not small._ended

    asyncio.run(scenario())


def test_what_was_answered_is_held_no_more() -> None:
    async def scenario() -> None:
        pool = FramePool()
        reader = FedReader(pool=pool)
        for size in (10, FREE_BYTES, 3 * FREE_BYTES, 1_000_000):
            reader.feed(framed(bytes(size)))
            assert pool.held_bytes == max(size - FREE_BYTES, 0)
            await read(reader)
            assert pool.held_bytes == max(size - FREE_BYTES, 0), "it is being answered"
            reader.feed(framed(b"next"))
            await read(reader)
            assert pool.held_bytes == 0
        reader.feed(struct.pack(">i", 1_000_000) + bytes(2 * FREE_BYTES))
        assert pool.held_bytes > 0
        reader.end()
        assert pool.held_bytes == 0

    asyncio.run(scenario())


def test_reading_pauses_when_many_frames_wait_and_resumes_when_few_do() -> None:
    async def scenario() -> None:
        reader = FedReader()
        for _ in range(WAITING_FRAMES_HIGH):
            reader.feed(framed(b"x"))
        assert reader.calls == []
        reader.feed(framed(b"x"))
        reader.feed(framed(b"x"))
        assert reader.calls == ["pause"]
        for _ in range(WAITING_FRAMES_HIGH + 2 - WAITING_FRAMES_LOW):
            assert reader.calls == ["pause"]
            await reader.read_frame()
        assert reader.calls == ["pause", "resume"]

    asyncio.run(scenario())


def test_reading_pauses_when_many_bytes_wait() -> None:
    reader = FedReader(scratch_bytes=1 << 16)
    reader.feed(framed(bytes(WAITING_BYTES_HIGH)))
    assert reader.calls == []
    reader.feed(framed(b"x"))
    assert reader.calls == ["pause"]


def test_a_reader_that_was_cancelled_loses_no_frame() -> None:
    async def scenario() -> None:
        reader = FedReader()
        reading = asyncio.ensure_future(reader.read_frame())
        await asyncio.sleep(0)
        reader.feed(framed(b"kept"))
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        assert await read(reader) == b"kept"

    asyncio.run(scenario())
