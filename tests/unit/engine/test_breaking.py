"""Breaking a `semel.Cluster` from a thread and from async code; what makes no sense is refused and breaks nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from semel.engine.embedded import Cluster
from semel.errors import ConfigError
from semel.world.levers import disk_levers
from tests.support.waiting import eventually

TOPIC = "orders"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, topics=[f"{TOPIC}:1:3"]) as running:
        yield running


def place(cluster: Cluster) -> tuple[int, list[int]]:
    found = cluster.core.state.topics[TOPIC].partitions[0]
    return found.leader, sorted(found.isr)


def wait_until_whole(cluster: Cluster) -> None:
    eventually(lambda: place(cluster)[1] == [1, 2, 3], what="all replicas are in sync")


def test_everything_from_a_thread(cluster: Cluster) -> None:
    wait_until_whole(cluster)
    cluster.kill(2)
    assert sorted(cluster.core.brokers) == [1, 3]
    cluster.restart(2)
    assert sorted(cluster.core.brokers) == [1, 2, 3]
    all_pausing = [broker.pausing for _, broker in sorted(cluster.core.brokers.items())]
    cluster.pause(3)
    assert [pausing.is_paused for pausing in all_pausing] == [False, False, True]
    cluster.resume(3)
    assert [pausing.is_paused for pausing in all_pausing] == [False, False, False]
    cluster.split(1, 2, one_way=True)
    assert (cluster.core.links.is_open(1, 2), cluster.core.links.is_open(2, 1)) == (False, True)
    cluster.heal()
    assert cluster.core.links.is_open(1, 2)
    wait_until_whole(cluster)
    target = place(cluster)[0] % 3 + 1
    cluster.move_leader(TOPIC, 0, target)
    assert place(cluster)[0] == target
    cluster.kill_controller()
    eventually(lambda: cluster.core.has_controller, what="another controller took over")


def test_disk_and_clock_from_a_thread(cluster: Cluster) -> None:
    disk, clock = disk_levers(cluster.core.world(2)), cluster.core.world(2).clock
    cluster.slow_disk(2, 30)
    assert disk.sync_delay_ms == 30
    cluster.slow_disk(2, 0)
    cluster.fill_disk(2, 100)
    assert cluster.core.world(2).disk.free_bytes(cluster.data) == 100
    cluster.fill_disk(2, None)
    assert cluster.core.world(2).disk.free_bytes(cluster.data) > 100
    before_ms = clock.wall_ms()
    cluster.jump_clock(2, 3_600_000)
    assert clock.wall_ms() - before_ms >= 3_600_000
    cluster.jump_clock(2, -3_600_000)


def test_everything_from_async_code() -> None:
    async def main() -> None:
        async with Cluster(brokers=2) as cluster:
            await cluster.kill_async(2)
            assert sorted(cluster.core.brokers) == [1]
            await cluster.restart_async(2)
            assert sorted(cluster.core.brokers) == [1, 2]
            cluster.pause(2)
            cluster.resume(2)
            cluster.split(1, 2)
            cluster.heal()
            cluster.fill_disk(1)
            cluster.fill_disk(1, None)
            cluster.jump_clock(1, 5)
            cluster.kill_controller()
            with pytest.raises(ConfigError, match="restart_async"):
                cluster.restart(2)

    asyncio.run(main())


@pytest.mark.parametrize(
    "attempt",
    [
        lambda cluster: cluster.kill(9),
        lambda cluster: cluster.restart(9),
        lambda cluster: cluster.pause(9),
        lambda cluster: cluster.resume(9),
        lambda cluster: cluster.split(1, 9),
        lambda cluster: cluster.move_leader("nowhere", 0, 1),
        lambda cluster: cluster.slow_disk(9, 1),
        lambda cluster: cluster.slow_disk(1, -1),
        lambda cluster: cluster.slow_disk(1, float("nan")),
        lambda cluster: cluster.fill_disk(1, -1),
        lambda cluster: cluster.fill_disk(-1),
        lambda cluster: cluster.jump_clock(9, 1),
    ],
)
def test_what_makes_no_sense_is_refused(cluster: Cluster, attempt: Callable[[Cluster], None]) -> None:
    with pytest.raises(ConfigError):
        attempt(cluster)
    assert sorted(cluster.core.brokers) == [1, 2, 3]


def test_a_cluster_that_does_not_run_cannot_be_broken() -> None:
    for attempt in (Cluster().heal, lambda: Cluster().restart(1), lambda: Cluster().fill_disk(1)):
        with pytest.raises(ConfigError, match="not running"):
            attempt()
