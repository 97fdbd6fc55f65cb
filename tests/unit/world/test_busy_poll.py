"""Polling before sleep: only after a streak of requests, never for longer than its limit, and over with the streak."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
import uvloop

from semel.world.busy_poll import POLL_NS, STREAK_MIN, BusyPoll
from semel.world.network import Connection
from semel.world.real_network import RealNetwork
from tests.unit.world.stages import FRAME_BYTES_MAX, echo, framed, read


class Turns:
    """A loop and a clock that a test turns by hand."""

    def __init__(self) -> None:
        self.now_ns = 1_000_000_000
        self.soon: list[Callable[[], object]] = []

    def call_soon(self, callback: Callable[[], object], /) -> object:
        """Keep it for the next turn."""
        self.soon.append(callback)
        return None

    def turn(self) -> None:
        """One turn of the loop."""
        due, self.soon = self.soon, []
        for callback in due:
            callback()


@pytest.fixture
def turns() -> Turns:
    return Turns()


@pytest.fixture
def poll(turns: Turns) -> BusyPoll:
    return BusyPoll(turns, now_ns=lambda: turns.now_ns)


def arrive(turns: Turns, poll: BusyPoll, times: int, gap_ns: int) -> None:
    for _ in range(times):
        turns.now_ns += gap_ns
        poll.arrived()


def test_a_streak_keeps_the_loop_awake_for_the_limit_and_no_longer(turns: Turns, poll: BusyPoll) -> None:
    arrive(turns, poll, STREAK_MIN, 50_000)
    assert turns.soon == []
    arrive(turns, poll, 1, 50_000)
    assert len(turns.soon) == 1
    for _ in range(3):
        turns.now_ns += POLL_NS // 4
        turns.turn()
        assert len(turns.soon) == 1
    turns.now_ns += POLL_NS // 4
    turns.turn()
    assert turns.soon == []


def test_what_arrives_meanwhile_extends_it_and_adds_no_second_poll(turns: Turns, poll: BusyPoll) -> None:
    arrive(turns, poll, STREAK_MIN + 1, 50_000)
    for _ in range(20):
        arrive(turns, poll, 1, POLL_NS - 1)
        turns.turn()
        assert len(turns.soon) == 1


def test_pauses_end_the_streak(turns: Turns, poll: BusyPoll) -> None:
    arrive(turns, poll, 50, 3 * POLL_NS)
    assert turns.soon == []
    arrive(turns, poll, STREAK_MIN + 1, 1_000)
    turns.now_ns += POLL_NS
    turns.turn()
    assert turns.soon == []
    arrive(turns, poll, STREAK_MIN - 1, 1_000)
    assert turns.soon == [], "after a poll in vain a whole streak is needed again"


@pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_answers_come_while_it_polls_and_the_loop_sleeps_afterwards(
    make_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def talk(connection: Connection) -> None:
        for number in range(200):
            connection.write(framed(str(number).encode()))
            assert await read(connection) == str(number).encode()

    async def main() -> None:
        network = RealNetwork()
        listener = await network.listen("127.0.0.1", 0, echo, frame_bytes_max=FRAME_BYTES_MAX)
        connection = await network.connect(
            "127.0.0.1", listener.port, frame_bytes_max=FRAME_BYTES_MAX, timeout_ms=5_000
        )
        await talk(connection)
        await asyncio.sleep(0.05)
        assert not connection.busy_poll.is_polling
        connection.close()
        await listener.close()

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(main())
