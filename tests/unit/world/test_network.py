"""What both networks promise, played on asyncio, on uvloop and in virtual time."""

import asyncio
import contextlib
import logging
import random
import struct
from typing import Any

import pytest

from semel.errors import ConfigError, ConnectionFailure, EnvironmentFailure, Outcome, ProtocolError
from semel.world import Connection
from semel.world.frames import WAITING_BYTES_HIGH
from tests.unit.world.stages import FRAME_BYTES_MAX, STAGES, Collector, Scene, echo, framed, play, read

pytestmark = pytest.mark.parametrize("stage", STAGES)


def test_frames_come_back_in_order(stage: str) -> None:
    async def scenario(scene: Scene) -> None:
        listener = await scene.listen(echo)
        connection = await scene.connect(listener)
        bodies = [bytes([n % 251]) * (n * n) for n in range(150)]
        for body in bodies:
            connection.write(framed(body))
        for body in bodies:
            assert await read(connection) == body
        connection.close()
        await listener.close()

    play(stage, scenario)


def test_a_big_frame_arrives_whole(stage: str) -> None:
    async def scenario(scene: Scene) -> None:
        listener = await scene.listen(echo)
        connection = await scene.connect(listener)
        body = random.Random(1).randbytes(20_000_000)
        connection.write(framed(b"small"), framed(body), framed(b"after"))
        for expected in (b"small", body, b"after"):
            assert await read(connection) == expected
        connection.abort()
        await listener.close()

    play(stage, scenario)


def test_many_connections_at_once(stage: str) -> None:
    async def scenario(scene: Scene) -> None:
        listener = await scene.listen(echo)

        async def talk(number: int) -> None:
            connection = await scene.connect(listener)
            for turn in range(20):
                body = f"{number} {turn}".encode() * 50
                connection.write(framed(body))
                await connection.drain()
                assert await read(connection) == body
            connection.close()

        await asyncio.gather(*(talk(number) for number in range(20)))
        await listener.close()

    play(stage, scenario)


def test_close_sends_what_was_written(stage: str) -> None:
    async def scenario(scene: Scene) -> None:
        collector = Collector()
        listener = await scene.listen(collector.serve)
        connection = await scene.connect(listener)
        connection.write(framed(bytes(3_000_000)))
        connection.write(framed(b"last"))
        connection.close()
        assert connection.closed
        assert await collector.endings.get() is None
        assert collector.frames == [bytes(3_000_000), b"last"]
        assert await read(connection) is None
        await listener.close()

    play(stage, scenario)


def test_answers_held_back_are_sent_before_closing(stage: str) -> None:
    async def answer_all_then_close(connection: Connection) -> None:
        for _ in range(5):
            frame = await connection.read_frame()
            assert frame is not None
            connection.write(struct.pack(">i", len(frame)), frame)
        connection.close()

    async def scenario(scene: Scene) -> None:
        listener = await scene.listen(answer_all_then_close)
        connection = await scene.connect(listener)
        connection.write(*(framed(bytes([n])) for n in range(5)))
        assert [await read(connection) for _ in range(6)] == [*(bytes([n]) for n in range(5)), None]
        await listener.close()

    play(stage, scenario)


@pytest.mark.parametrize("sent", [b"\x00", b"\x00\x00\x00\x05", b"\x00\x00\x00\x05four"])
def test_an_end_inside_a_frame_is_a_failure(stage: str, sent: bytes) -> None:
    async def scenario(scene: Scene) -> None:
        collector = Collector()
        listener = await scene.listen(collector.serve)
        connection = await scene.connect(listener)
        connection.write(framed(b"whole"), sent)
        connection.close()
        assert isinstance(await collector.endings.get(), ConnectionFailure)
        assert collector.frames == [b"whole"]
        await listener.close()

    play(stage, scenario)


@pytest.mark.parametrize("length", [-1, FRAME_BYTES_MAX + 1, 2**31 - 1])
def test_a_wrong_length_ends_the_connection(stage: str, length: int) -> None:
    async def scenario(scene: Scene) -> None:
        collector = Collector()
        listener = await scene.listen(collector.serve)
        connection = await scene.connect(listener)
        connection.write(struct.pack(">i", length))
        assert isinstance(await collector.endings.get(), ProtocolError)
        assert await read(connection) is None
        await listener.close()

    play(stage, scenario)


def test_a_peer_that_is_not_read_is_held_back_and_loses_nothing(stage: str) -> None:
    frame_bytes, frames = 1 << 20, 48

    async def scenario(scene: Scene) -> None:
        gate, served, received = asyncio.Event(), list[Any](), list[bytes]()

        async def slow(connection: Connection) -> None:
            served.append(connection)
            await gate.wait()
            while (frame := await connection.read_frame()) is not None:
                received.append(bytes(frame[:2]) + bytes(frame[-2:]))

        async def send() -> None:
            for number in range(frames):
                connection.write(framed(bytes([number]) * frame_bytes))
                sent.append(number)
                await connection.drain()
            connection.close()

        listener, sent = await scene.listen(slow), list[int]()
        connection = await scene.connect(listener)
        sending = asyncio.ensure_future(send())
        await scene.until(lambda: bool(served) and served[0]._reading_paused)
        await scene.until(lambda: not connection._writable.is_set())  # type: ignore[attr-defined]
        await scene.clock.sleep_ms(20)  # nothing to wait for: time in which too much could arrive
        assert served[0]._waiting_bytes <= WAITING_BYTES_HIGH + frame_bytes
        assert len(sent) < frames
        gate.set()
        await sending
        await scene.until(lambda: len(received) == frames)
        assert received == [bytes([number]) * 4 for number in range(frames)]
        await listener.close()

    play(stage, scenario)


def test_drain_ends_when_the_connection_is_gone(stage: str) -> None:
    async def scenario(scene: Scene) -> None:
        served: list[Connection] = []

        async def never_read(connection: Connection) -> None:
            served.append(connection)
            await asyncio.Event().wait()

        listener = await scene.listen(never_read)
        connection = await scene.connect(listener)
        while connection._writable.is_set():  # type: ignore[attr-defined]
            connection.write(bytes(1 << 20))
        draining = asyncio.ensure_future(connection.drain())
        await asyncio.sleep(0)
        connection.abort()
        with pytest.raises(ConnectionFailure):
            await draining
        connection.write(b"dropped")
        with pytest.raises(ConnectionFailure):
            await connection.drain()
        await listener.close(grace_ms=0)

    play(stage, scenario)


def test_an_error_in_one_connection_is_one_line_and_ends_only_that_one(
    stage: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail_on_bad(connection: Connection) -> None:
        while (frame := await connection.read_frame()) is not None:
            if bytes(frame) == b"bad":
                raise LookupError("no such thing")
            connection.write(framed(bytes(frame)))

    async def scenario(scene: Scene) -> None:
        listener = await scene.listen(fail_on_bad)
        good, bad = await scene.connect(listener), await scene.connect(listener)
        bad.write(framed(b"bad"))
        assert await read(bad) is None
        good.write(framed(b"still here"))
        assert await read(good) == b"still here"
        await listener.close()

    with caplog.at_level(logging.INFO, logger="semel.world"):
        play(stage, scenario)
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == ["LookupError: no such thing"]


def test_too_many_connections_are_closed_at_once_and_there_is_room_again_later(stage: str) -> None:
    async def scenario(scene: Scene) -> None:
        listener = await scene.listen(echo, connections_max=2)
        first, second = await scene.connect(listener), await scene.connect(listener)
        for connection in (first, second):
            connection.write(framed(b"in"))
            assert await read(connection) == b"in"
        third = await scene.connect(listener)
        assert await read(third) is None
        first.close()
        await scene.until(lambda: len(listener._tasks._tasks if stage != "virtual" else listener.tasks._tasks) < 2)  # type: ignore[attr-defined]
        fourth = await scene.connect(listener)
        fourth.write(framed(b"room"))
        assert await read(fourth) == b"room"
        await listener.close()

    play(stage, scenario)


@pytest.mark.parametrize("grace_ms", [0, 50])
def test_closing_a_listener_ends_tasks_that_would_not_end(stage: str, grace_ms: int) -> None:
    async def scenario(scene: Scene) -> None:
        started, cancelled = asyncio.Event(), []

        async def stubborn(connection: Connection) -> None:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.append(connection.peer)

        listener = await scene.listen(stubborn)
        connection = await scene.connect(listener)
        await started.wait()
        await listener.close(grace_ms=grace_ms)
        assert len(cancelled) == 1
        assert await read(connection) is None
        with pytest.raises(ConnectionFailure) as failure:
            await scene.connect(listener)
        assert failure.value.outcome is Outcome.DID_NOT_HAPPEN

    play(stage, scenario)


def test_a_connection_may_close_its_own_listener(stage: str) -> None:
    async def scenario(scene: Scene) -> None:
        done = asyncio.Event()

        async def close_all(connection: Connection) -> None:
            await connection.read_frame()
            await listener.close(grace_ms=0)
            await scene.clock.sleep_ms(1)  # would not come back if it had cancelled itself
            done.set()

        listener = await scene.listen(close_all)
        connection = await scene.connect(listener)
        connection.write(framed(b"go"))
        await done.wait()
        assert await read(connection) is None

    play(stage, scenario)


def test_the_port_can_be_taken_again_at_once(stage: str) -> None:
    async def scenario(scene: Scene) -> None:
        listener = await scene.listen(echo)
        connection = await scene.connect(listener)
        connection.write(framed(b"hello"))
        await connection.read_frame()
        await listener.close()
        again = await scene.server.listen(scene.host, listener.port, echo, frame_bytes_max=100)
        assert (again.host, again.port) == (listener.host, listener.port)
        with pytest.raises(EnvironmentFailure, match="cannot listen"):
            await scene.server.listen(scene.host, listener.port, echo, frame_bytes_max=100)
        await again.close()
        connection.close()

    play(stage, scenario)


def test_wrong_ports_are_refused(stage: str) -> None:
    async def scenario(scene: Scene) -> None:
        with pytest.raises(ConfigError, match="not a port"):
            await scene.client.connect(scene.host, 65536, frame_bytes_max=1, timeout_ms=1)
        with pytest.raises(ConfigError, match="not a port"):
            await scene.server.listen(scene.host, -1, echo, frame_bytes_max=1)

    play(stage, scenario)


def test_frames_that_come_alone_are_offered_first(stage: str) -> None:
    """What the function answers never reaches the reader; what it leaves does, and the order stays."""
    offered: list[bytes] = []
    left: list[bytes] = []

    async def serve(connection: Connection) -> None:
        def answer_at_once(frame: memoryview) -> bool:
            assert asyncio.current_task() is None
            offered.append(bytes(frame))
            if bytes(frame).startswith(b"slow"):
                return False
            connection.write(struct.pack(">i", len(frame)), frame)
            return True

        connection.offer_frames(answer_at_once)
        while (frame := await connection.read_frame()) is not None:
            left.append(bytes(frame))
            connection.write(struct.pack(">i", len(frame)), frame)

    async def scenario(scene: Scene) -> None:
        connection = await scene.connect(await scene.listen(serve))
        connection.write(framed(b"first"))
        assert await read(connection) == b"first"
        for body in (b"quick 1", b"slow 1", b"quick 2"):
            connection.write(framed(body))
            assert await read(connection) == body
        many = [f"{kind} of many {number}".encode() for number in range(50) for kind in ("quick", "slow")]
        connection.write(*map(framed, many))
        assert [await read(connection) for _ in many] == many
        assert {b"quick 1", b"slow 1", b"quick 2"} <= set(offered)
        assert b"slow 1" in left
        assert not {b"quick 1", b"quick 2"} & set(left)

    play(stage, scenario)


def test_a_connection_that_is_aborted_while_a_frame_is_offered_ends(stage: str) -> None:
    ended: list[object] = []

    async def serve(connection: Connection) -> None:
        def answer_at_once(_: memoryview) -> bool:
            connection.abort()
            return True

        connection.offer_frames(answer_at_once)
        while (frame := await connection.read_frame()) is not None:
            connection.write(struct.pack(">i", len(frame)), frame)
        ended.append(None)

    async def scenario(scene: Scene) -> None:
        connection = await scene.connect(await scene.listen(serve))
        connection.write(framed(b"x"))
        with contextlib.suppress(ConnectionFailure):
            while await read(connection) is not None:  # answered by the reader, if it came before the reader waited
                connection.write(framed(b"x"))
        await scene.until(lambda: bool(ended))

    play(stage, scenario)
