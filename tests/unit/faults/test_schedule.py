"""Schedules (F3): drawn from a seed, written, read and played, on real brokers and in virtual time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from itertools import product
from pathlib import Path

import pytest

from semel.broker.cluster import ClusterCore
from semel.broker.cluster_settings import ClusterSettings, TopicSpec
from semel.engine.embedded import Cluster
from semel.errors import ConfigError
from semel.faults import (
    FAULTS,
    ClusterShape,
    Entry,
    KillBroker,
    KillController,
    LostSync,
    MoveLeader,
    PauseBroker,
    RestartBroker,
    Schedule,
    played,
)
from semel.world import SeededRng, VirtualNetwork, run_virtual, virtual_world
from semel.world.loop import VirtualLoop

AROUND = ClusterShape(brokers=3, topics={"orders": 2})
EVERY = tuple(FAULTS)
LENGTH_MS = 60_000


def drawn(seed: int, kinds: tuple[str, ...] = EVERY) -> Schedule:
    return Schedule.draw(seed, AROUND, kinds=kinds, length_ms=LENGTH_MS, gap_ms=1_000)


def in_virtual_time(seed: int, work: Callable[[ClusterCore], Coroutine[object, object, None]]) -> None:
    async def main(loop: VirtualLoop) -> None:
        rng = SeededRng(seed)
        network = VirtualNetwork(loop, rng.fork("network"))
        worlds = [virtual_world(f"broker-{number}", loop=loop, network=network, rng=rng) for number in range(4)]
        topic = TopicSpec(name="orders", partitions=2, replication_factor=3)
        core = ClusterCore(ClusterSettings(data=Path("/data"), topics=[topic]), worlds.__getitem__)
        await core.start()
        try:
            await work(core)
        finally:
            await core.stop()

    run_virtual(seed, main)


def test_one_seed_one_schedule() -> None:
    assert drawn(5) == drawn(5)
    assert drawn(5) != drawn(6)
    assert str(drawn(5)).startswith("schedule, seed 5: ")
    assert {type(entry.fault) for entry in drawn(5).entries} <= set(FAULTS.values())


def test_faults_end_within_the_schedule_and_are_few_at_once() -> None:
    schedule = drawn(9)
    assert len(schedule.entries) > 20
    for entry in schedule.entries:
        assert entry.at_ms + entry.duration_ms <= LENGTH_MS
        others = [one for one in schedule.entries if one.at_ms <= entry.at_ms < one.at_ms + one.duration_ms]
        assert len(others) <= 2


def test_what_is_written_is_read_back() -> None:
    schedule = drawn(3)
    lines = list(schedule.lines())
    assert all(isinstance(json.loads(line), dict) for line in lines)
    again = Schedule.read(lines)
    assert again == schedule
    assert again.seed == 3
    assert list(again.lines()) == lines


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda _: [], "no schedule"),
        (lambda lines: lines[1:], "no schedule"),
        (lambda lines: lines[:-1], "cut short"),
        (lambda lines: [lines[0], "{", *lines[2:]], "line 2 of the schedule is not JSON"),
        (lambda lines: [lines[0], "7", *lines[2:]], "line 2 of the schedule is not an object"),
        (lambda lines: [lines[0], "{}", *lines[2:]], "line 2 of the schedule needs"),
    ],
)
def test_a_damaged_schedule_is_refused(change: Callable[[list[str]], list[str]], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Schedule.read(change(list(drawn(3).lines())))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_schedule_of_everything_plays_in_virtual_time_and_leaves_nothing_broken(seed: int) -> None:
    async def work(core: ClusterCore) -> None:
        schedule = drawn(seed)
        clock = core.world(0).clock
        begun_ms, date_ms = clock.monotonic_ms(), clock.wall_ms()
        await schedule.play(core, clock)
        passed_ms = clock.monotonic_ms() - begun_ms
        assert LENGTH_MS / 2 < passed_ms < LENGTH_MS * 2
        assert schedule.fired > 3, f"{schedule}\n{schedule.troubles}"
        await clock.sleep_ms(30_000)
        assert sorted(core.brokers) == [1, 2, 3]
        assert not core.intercepts.armed
        assert all(core.links.is_open(a, b) for a in range(4) for b in range(4))
        assert all(abs(core.world(one).clock.wall_ms() - date_ms - passed_ms - 30_000) < 100 for one in range(4))
        assert core.has_controller
        places = core.state.topics["orders"].partitions
        assert [sorted(place.isr) for place in places] == [[1, 2, 3]] * 2

    in_virtual_time(seed, work)


def test_one_seed_one_run() -> None:
    fired: list[list[int]] = []

    async def work(core: ClusterCore) -> None:
        schedule = drawn(4)
        await schedule.play(core, core.world(0).clock)
        fired.append([entry.fault.fired for entry in schedule.entries])

    in_virtual_time(4, work)
    in_virtual_time(4, work)
    assert fired[0] == fired[1]


def test_what_cannot_be_done_is_noted_and_the_rest_goes_on() -> None:
    async def work(core: ClusterCore) -> None:
        schedule = Schedule(
            entries=[
                Entry(at_ms=1, fault=MoveLeader(topic="nowhere"), duration_ms=1),
                Entry(at_ms=5, fault=KillController(), duration_ms=1),
            ]
        )
        await schedule.play(core, core.world(0).clock)
        assert schedule.troubles == ["move-leader topic=nowhere: there is no partition nowhere-0"]
        assert schedule.fired == 1

    in_virtual_time(1, work)


def test_leaving_early_mends_what_is_broken() -> None:
    schedule = Schedule(
        entries=[
            Entry(at_ms=0, fault=KillBroker(broker=2), duration_ms=3_600_000),
            Entry(at_ms=1, fault=PauseBroker(broker=3), duration_ms=3_600_000),
            Entry(at_ms=3_600_000, fault=KillBroker(broker=1), duration_ms=1),
        ]
    )
    with Cluster(brokers=3) as cluster:
        with played(cluster, schedule) as playing:
            assert not playing.wait(0.3)
            assert sorted(cluster.core.brokers) == [1, 3]
        assert sorted(cluster.core.brokers) == [1, 2, 3]
        assert not cluster.core.brokers[3].pausing.is_paused
    assert [entry.fault.fired for entry in schedule.entries] == [1, 1, 0]


@pytest.mark.parametrize("kind", [KillBroker, RestartBroker, LostSync])
def test_cancelled_at_any_moment_no_broker_stays_down(kind: type[KillBroker | RestartBroker | LostSync]) -> None:
    """Also in the middle of dying, and of being started again."""

    async def work(core: ClusterCore) -> None:
        clock = core.world(0).clock
        found = set()
        # Waiting moves the clock, and what happens at one time takes some turns of the loop.
        for at_ms, turns in product((0, 1), range(16)):
            schedule = Schedule(entries=[Entry(at_ms=0, fault=kind(broker=2), duration_ms=1)])
            playing = asyncio.get_running_loop().create_task(schedule.play(core, clock))
            if at_ms:
                await clock.sleep_ms(at_ms)
            for _ in range(turns):
                await asyncio.sleep(0)
            found.add((playing.done(), 2 in core.brokers))
            playing.cancel()
            await asyncio.wait({playing})
            assert sorted(core.brokers) == [1, 2, 3], f"cancelled after {at_ms} ms and {turns} turns"
            assert not schedule.troubles, f"cancelled after {at_ms} ms and {turns} turns"
        assert found >= {(False, True), (False, False), (True, True)}, "before, while and after the broker was down"

    in_virtual_time(1, work)


def test_a_schedule_is_played_to_its_end_beside_other_work() -> None:
    schedule = Schedule(entries=[Entry(at_ms=1, fault=KillBroker(broker=1), duration_ms=5)])
    with Cluster(brokers=1) as cluster, played(cluster, schedule) as playing:
        assert playing.wait(30)
        assert sorted(cluster.core.brokers) == [1]
    assert schedule.fired == 1
