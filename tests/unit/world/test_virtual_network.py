"""The virtual network: delays in order, splits that hold back, cuts that break."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from semel.errors import ConfigError, ConnectionFailure, EnvironmentFailure
from semel.world import Connection, SeededRng, VirtualNetwork
from semel.world.loop import VirtualLoop, run_virtual
from tests.unit.world.stages import Collector, echo, framed, read

Main = Callable[[VirtualLoop, VirtualNetwork], Coroutine[Any, Any, None]]


def run(main: Main, seed: int = 1) -> None:
    run_virtual(seed, lambda loop: main(loop, VirtualNetwork(loop, SeededRng(seed))))


async def joined(network: VirtualNetwork, serve: Callable[[Connection], Coroutine[Any, Any, None]]) -> Connection:
    await network.host("b").listen("b", 9092, serve, frame_bytes_max=1000)
    return await network.host("a").connect("b", 9092, frame_bytes_max=1000, timeout_ms=1000)


def test_frames_take_a_seeded_time_within_the_latency() -> None:
    async def main(loop: VirtualLoop, network: VirtualNetwork) -> None:
        network.latency_ms_min, network.latency_ms_max = 10, 20
        connection = await joined(network, echo)
        for _ in range(20):
            before = loop.time()
            connection.write(framed(b"x"))
            assert await read(connection) == b"x"
            # Each way one piece, or two that are each on time.
            assert 0.020 <= loop.time() - before <= 0.041

    run(main)


def test_frames_stay_in_order_however_the_latency_varies() -> None:
    async def main(loop: VirtualLoop, network: VirtualNetwork) -> None:
        network.latency_ms_max = 400
        connection = await joined(network, echo)
        for number in range(200):
            connection.write(framed(bytes([number])))
        assert [await read(connection) for _ in range(200)] == [bytes([number]) for number in range(200)]

    for seed in range(5):
        run(main, seed)


def test_a_split_holds_frames_back_until_it_heals() -> None:
    async def main(loop: VirtualLoop, network: VirtualNetwork) -> None:
        connection = await joined(network, echo)
        network.split("a", "b")
        connection.write(framed(b"late"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(read(connection), 60)
        network.heal()
        assert await read(connection) == b"late"

    run(main)


@pytest.mark.parametrize(("source", "target", "arrived"), [("a", "b", 0), ("b", "a", 1)])
def test_a_one_way_split_holds_back_one_way(source: str, target: str, arrived: int) -> None:
    async def main(loop: VirtualLoop, network: VirtualNetwork) -> None:
        seen: list[bytes] = []

        async def note_and_echo(connection: Connection) -> None:
            while (frame := await connection.read_frame()) is not None:
                seen.append(bytes(frame))
                connection.write(framed(bytes(frame)))

        connection = await joined(network, note_and_echo)
        network.split(source, target, one_way=True)
        connection.write(framed(b"x"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(read(connection), 60)
        assert len(seen) == arrived
        network.heal()
        assert await read(connection) == b"x"

    run(main)


def test_other_hosts_do_not_notice_a_split() -> None:
    async def main(loop: VirtualLoop, network: VirtualNetwork) -> None:
        connection = await joined(network, echo)
        network.split("a", "c")
        connection.write(framed(b"x"))
        assert await read(connection) == b"x"

    run(main)


@pytest.mark.parametrize("direction", [("a", "b"), ("b", "a")])
def test_connecting_across_a_split_runs_into_the_limit(direction: tuple[str, str]) -> None:
    async def main(loop: VirtualLoop, network: VirtualNetwork) -> None:
        await joined(network, echo)
        network.split(*direction, one_way=True)
        before = loop.time()
        with pytest.raises(ConnectionFailure, match=r"cannot connect to b:9092(?s:.)*within 1000 ms"):
            await network.host("a").connect("b", 9092, frame_bytes_max=1, timeout_ms=1000)
        assert round(loop.time() - before, 3) == 1
        loop.call_later(0.5, network.heal)
        await network.host("a").connect("b", 9092, frame_bytes_max=1, timeout_ms=1000)

    run(main)


def test_a_cut_breaks_both_ends_and_loses_what_was_under_way() -> None:
    async def main(loop: VirtualLoop, network: VirtualNetwork) -> None:
        collector = Collector()
        connection = await joined(network, collector.serve)
        connection.write(framed(b"lost"))
        network.cut(connection)
        with pytest.raises(ConnectionFailure, match="broke: it was cut"):
            await read(connection)
        with pytest.raises(ConnectionFailure):
            await connection.drain()
        assert isinstance(await collector.endings.get(), ConnectionFailure)
        assert collector.frames == []

    run(main)


def test_an_abort_loses_what_was_under_way() -> None:
    async def main(loop: VirtualLoop, network: VirtualNetwork) -> None:
        collector = Collector()
        connection = await joined(network, collector.serve)
        connection.write(framed(b"lost"))
        connection.abort()
        assert await collector.endings.get() is None
        assert collector.frames == []

    run(main)


def test_writing_to_an_end_that_closed_breaks_the_connection() -> None:
    async def hang_up(connection: Connection) -> None:
        connection.close()

    async def main(loop: VirtualLoop, network: VirtualNetwork) -> None:
        connection = await joined(network, hang_up)
        assert await read(connection) is None
        assert not connection.closed
        connection.write(framed(b"too late"))
        await asyncio.sleep(1)
        assert connection.closed

    run(main)


def test_hosts_listen_under_their_own_name_only_and_never_with_tls() -> None:
    async def main(loop: VirtualLoop, network: VirtualNetwork) -> None:
        host = network.host("a")
        with pytest.raises(EnvironmentFailure, match="this host is 'a'"):
            await host.listen("b", 1, echo, frame_bytes_max=1)
        with pytest.raises(ConfigError, match="no virtual twin"):
            await host.listen("a", 1, echo, frame_bytes_max=1, ssl_context=object())  # type: ignore[arg-type]
        listener = await host.listen("0.0.0.0", 5, echo, frame_bytes_max=10)
        assert (listener.host, listener.port) == ("a", 5)
        own = await host.connect("localhost", 5, frame_bytes_max=10, timeout_ms=10)
        own.write(framed(b"self"))
        assert await read(own) == b"self"

    run(main)
