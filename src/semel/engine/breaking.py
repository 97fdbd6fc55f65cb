"""What can be done to a running embedded cluster: kill, pause, split, move leaders, break its disks and clocks.

Each works from the thread that started the cluster and, under `async with`, on the cluster's own loop. There `kill` and
`restart` have twins to await, because a port takes a moment to close. Faults that count what they did, and schedules of
them, are in `semel.faults`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, TypeVar

from semel.errors import ConfigError
from semel.world.levers import clock_levers, disk_levers

if TYPE_CHECKING:
    from semel.broker.cluster import ClusterCore

RUN_S_MAX = 60.0
# Longer than that, a broker is dead rather than slow.
SYNC_MS_MAX = 3_600_000

T = TypeVar("T")


async def kill(core: ClusterCore, broker_id: int) -> None:
    """Let a broker die as a killed process does; returns when its port is closed."""
    core.kill(broker_id)
    await core.wait_dead(broker_id)


def slow_disk(core: ClusterCore, broker_id: int, sync_ms: float) -> None:
    """Let every sync of a broker take this much longer; 0 ends it."""
    if not 0 <= sync_ms <= SYNC_MS_MAX:
        raise ConfigError(f"sync_ms={sync_ms:g}: a sync cannot take that long", you_want=f"0 to {SYNC_MS_MAX}")
    disk_levers(core.world(broker_id)).sync_delay_ms = sync_ms


def fill_disk(core: ClusterCore, broker_id: int, room_bytes: int | None) -> None:
    """Let only so many more bytes fit on a broker's disk; None ends it."""
    disk = disk_levers(core.world(broker_id))
    if room_bytes is None:
        disk.make_room()
    elif room_bytes >= 0:
        disk.fill(room_bytes)
    else:
        raise ConfigError(f"room_bytes={room_bytes}: there is no less than no room", you_want="0 or more")


def jump_clock(core: ClusterCore, broker_id: int, ms: int) -> None:
    """Move a broker's date, forward or back; its timers do not notice."""
    clock_levers(core.world(broker_id)).jump_ms(ms)


class Breakable(ABC):
    """The part of `semel.Cluster` that breaks it and mends it."""

    @property
    @abstractmethod
    def core(self) -> ClusterCore:
        """The running cluster, to be touched on its own loop only."""

    @abstractmethod
    def run(self, work: Callable[[ClusterCore], Coroutine[object, object, T]], *, seconds_max: float = RUN_S_MAX) -> T:
        """Run a coroutine on the cluster's own loop, from the thread that started the cluster, and wait for it."""

    @abstractmethod
    def _on_loop(self, function: Callable[[], T]) -> T:
        """Call a function on the cluster's own loop."""

    @abstractmethod
    def _wait_dead(self, broker_id: int) -> None:
        """Wait until a killed broker's port is closed, where that can be waited for."""

    def kill(self, broker_id: int) -> None:
        """Let a broker die as a killed process does: its files are all that is left."""
        self._on_loop(lambda: self.core.kill(broker_id))
        self._wait_dead(broker_id)

    async def kill_async(self, broker_id: int) -> None:
        """The same under `async with`; returns when the port is closed."""
        await kill(self.core, broker_id)

    def restart(self, broker_id: int) -> None:
        """Start a broker again on its old port and from its files; one that runs is killed first."""
        self.run(lambda core: core.restart(broker_id))

    async def restart_async(self, broker_id: int) -> None:
        """The same under `async with`."""
        await self.core.restart(broker_id)

    def pause(self, broker_id: int) -> None:
        """Stop a broker, or the controller (0), in place, as SIGSTOP does."""
        self._on_loop(lambda: self.core.pause(broker_id))

    def resume(self, broker_id: int) -> None:
        """Let it go on, with whatever it believed."""
        self._on_loop(lambda: self.core.resume(broker_id))

    def split(self, source: int, target: int, *, one_way: bool = False) -> None:
        """Let nothing pass between two brokers, or a broker and the controller (0). Clients reach both all the same."""
        self._on_loop(lambda: self.core.cut(source, target, one_way=one_way))

    def heal(self) -> None:
        """Let everything pass again."""
        self._on_loop(self.core.heal)

    def move_leader(self, topic: str, partition: int, broker_id: int) -> None:
        """Make an in-sync replica the leader of a partition."""
        self._on_loop(lambda: self.core.move_leader(topic, partition, broker_id))

    def kill_controller(self) -> None:
        """Let the controller die; another one takes over."""
        self._on_loop(self.core.kill_controller)

    def slow_disk(self, broker_id: int, sync_ms: float) -> None:
        """Let every sync of a broker take this much longer; 0 ends it."""
        self._on_loop(lambda: slow_disk(self.core, broker_id, sync_ms))

    def fill_disk(self, broker_id: int, room_bytes: int | None = 0) -> None:
        """Let only so many more bytes fit on a broker's disk; None ends it."""
        self._on_loop(lambda: fill_disk(self.core, broker_id, room_bytes))

    def jump_clock(self, broker_id: int, ms: int) -> None:
        """Move a broker's date, forward or back; its timers do not notice."""
        self._on_loop(lambda: jump_clock(self.core, broker_id, ms))
