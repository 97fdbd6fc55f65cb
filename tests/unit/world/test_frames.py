"""Frames out of bytes: wherever the bytes are cut, the frames come out whole, or the error is clear."""

import asyncio
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.errors import ConnectionFailure, ProtocolError
from semel.world.frames import (
    FRAME_START_BYTES_MAX,
    WAITING_BYTES_HIGH,
    WAITING_FRAMES_HIGH,
    WAITING_FRAMES_LOW,
    FrameReader,
)
from tests.unit.world.stages import framed, read


class Desk(FrameReader):
    """A reader whose transport only counts."""

    def __init__(self, *, frame_bytes_max: int = 1 << 27, scratch_bytes: int = 64) -> None:
        super().__init__(frame_bytes_max=frame_bytes_max, scratch=bytearray(scratch_bytes))
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


def frames_of(desk: Desk) -> list[bytes]:
    """Read until the end."""

    async def read() -> list[bytes]:
        frames = []
        while (frame := await asyncio.wait_for(desk.read_frame(), 5)) is not None:
            frames.append(bytes(frame))
        return frames

    return asyncio.run(read())


BODIES = [b"one", b"", b"a longer body that does not fit the scratch buffer of the test, which is small" * 3, b"z"]
STREAM = b"".join(map(framed, BODIES))


@pytest.mark.parametrize("scratch_bytes", [4, 5, 16, 64, 4096])
def test_a_stream_cut_anywhere_gives_the_same_frames(scratch_bytes: int) -> None:
    for cut in range(len(STREAM) + 1):
        desk = Desk(scratch_bytes=scratch_bytes)
        desk.feed(STREAM[:cut])
        desk.feed(STREAM[cut:])
        desk.end()
        assert frames_of(desk) == BODIES


@given(bodies=st.lists(st.binary(max_size=300)), sizes=st.lists(st.integers(1, 50), min_size=1))
def test_any_frames_in_any_pieces(bodies: list[bytes], sizes: list[int]) -> None:
    desk, stream, position, turn = Desk(), b"".join(map(framed, bodies)), 0, 0
    while position < len(stream):
        size = sizes[turn % len(sizes)]
        desk.feed(stream[position : position + size])
        position, turn = position + size, turn + 1
    desk.end()
    assert frames_of(desk) == bodies


def test_byte_by_byte() -> None:
    desk = Desk()
    for value in STREAM:
        desk.feed(bytes([value]))
    desk.end()
    assert frames_of(desk) == BODIES


def test_a_frame_given_out_is_not_overwritten_and_is_writable() -> None:
    async def scenario() -> None:
        desk = Desk()
        desk.feed(framed(b"first") + framed(b"x" * 100))
        first, second = await desk.read_frame(), await desk.read_frame()
        desk.feed(framed(b"OTHER") + framed(b"y" * 100))
        assert first is not None
        assert second is not None
        assert (bytes(first), bytes(second)) == (b"first", b"x" * 100)
        first[:2] = second[:2] = b"##"

    asyncio.run(scenario())


@pytest.mark.parametrize(("length", "text"), [(-1, "negative"), (-(2**31), "negative"), (1001, "above the limit")])
def test_a_wrong_length_is_an_error_after_the_frames_before_it(length: int, text: str) -> None:
    async def scenario() -> None:
        desk = Desk(frame_bytes_max=1000)
        desk.feed(framed(b"good") + struct.pack(">i", length) + b"rest")
        desk.feed(b"more that nobody asked for")
        assert await read(desk) == b"good"
        for _ in range(2):
            with pytest.raises(ProtocolError, match=text):
                await desk.read_frame()
        assert desk.calls == ["pause"]

    asyncio.run(scenario())


def test_the_largest_allowed_length_is_allowed() -> None:
    desk = Desk(frame_bytes_max=1000)
    desk.feed(framed(bytes(1000)))
    desk.end()
    assert frames_of(desk) == [bytes(1000)]


@pytest.mark.parametrize("kept", range(1, len(framed(b"body"))))
def test_an_end_inside_a_frame_is_a_failure(kept: int) -> None:
    async def scenario() -> None:
        desk = Desk()
        desk.feed(framed(b"good") + framed(b"body")[:kept])
        desk.end()
        assert await read(desk) == b"good"
        with pytest.raises(ConnectionFailure, match="inside a frame"):
            await desk.read_frame()

    asyncio.run(scenario())


def test_a_declared_length_costs_nothing_until_bytes_arrive() -> None:
    desk = Desk()
    desk.feed(struct.pack(">i", 100_000_000) + b"a")
    room_bytes = [len(desk.get_buffer(-1))]
    desk.feed(bytes(FRAME_START_BYTES_MAX))
    room_bytes.append(len(desk.get_buffer(-1)))
    assert max(room_bytes) <= FRAME_START_BYTES_MAX


def test_a_buffer_still_held_by_a_transport_can_grow() -> None:
    body = bytes(range(256)) * (FRAME_START_BYTES_MAX // 256 * 3)
    desk = Desk()
    data, held = framed(body), []
    while data:
        room = desk.get_buffer(-1)
        held.append(room)  # as if the transport never let go
        size = min(len(room), len(data))
        room[:size] = data[:size]
        desk.buffer_updated(size)
        data = data[size:]
    desk.end()
    assert frames_of(desk) == [body]


def test_reading_pauses_when_many_frames_wait_and_resumes_when_few_do() -> None:
    async def scenario() -> None:
        desk = Desk()
        for _ in range(WAITING_FRAMES_HIGH):
            desk.feed(framed(b"x"))
        assert desk.calls == []
        desk.feed(framed(b"x"))
        desk.feed(framed(b"x"))
        assert desk.calls == ["pause"]
        for _ in range(WAITING_FRAMES_HIGH + 2 - WAITING_FRAMES_LOW):
            assert desk.calls == ["pause"]
            await desk.read_frame()
        assert desk.calls == ["pause", "resume"]

    asyncio.run(scenario())


def test_reading_pauses_when_many_bytes_wait() -> None:
    desk = Desk(scratch_bytes=1 << 16)
    desk.feed(framed(bytes(WAITING_BYTES_HIGH)))
    assert desk.calls == []
    desk.feed(framed(b"x"))
    assert desk.calls == ["pause"]


def test_a_reader_that_was_cancelled_loses_no_frame() -> None:
    async def scenario() -> None:
        desk = Desk()
        reading = asyncio.ensure_future(desk.read_frame())
        await asyncio.sleep(0)
        desk.feed(framed(b"kept"))
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        assert await read(desk) == b"kept"

    asyncio.run(scenario())
