"""Injecting faults into a `semel.Cluster` that runs in its own thread."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from semel.broker.cluster import ClusterCore
    from semel.engine.embedded import Cluster
    from semel.faults.fault import Fault
    from semel.faults.schedule import Schedule

F = TypeVar("F", bound="Fault")


@contextmanager
def injected(cluster: Cluster, fault: F) -> Iterator[F]:
    """Break it now, mend it at the end."""
    try:
        # Inside: what was broken before starting failed, or was interrupted, is mended too.
        cluster.run(fault.start)
        yield fault
    finally:
        cluster.run(fault.stop)


class Playing:
    """A schedule that is being played."""

    def __init__(self, cluster: Cluster, task: asyncio.Task[None]) -> None:
        """The task runs on the cluster's loop."""
        self._cluster = cluster
        self._task = task

    def wait(self, seconds_max: float) -> bool:
        """Wait until it was played to its end; False when that takes longer."""

        async def wait(_: ClusterCore) -> bool:
            return bool((await asyncio.wait({self._task}, timeout=seconds_max))[0])

        # A little longer than the wait itself, which must be the one to end first.
        return self._cluster.run(wait, seconds_max=seconds_max + 10)

    def end(self) -> None:
        """Mend what is broken; an error of the playing itself is raised here."""

        async def end(_: ClusterCore) -> None:
            # Cancelled, it mends what is broken before it ends; waiting for that is the point.
            self._task.cancel()
            await asyncio.wait({self._task})

        self._cluster.run(end)
        if not self._task.cancelled():
            self._task.result()


@contextmanager
def played(cluster: Cluster, schedule: Schedule) -> Iterator[Playing]:
    """Play a schedule meanwhile; leaving early mends what is broken."""

    async def begin(core: ClusterCore) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(schedule.play(core, core.world(0).clock))

    playing = Playing(cluster, cluster.run(begin))
    try:
        yield playing
    finally:
        playing.end()
