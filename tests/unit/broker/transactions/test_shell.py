"""The shell that coordinators share: what the core hears of its appends.

Keeps: G2 what depends on a record is done only when that record is durable; T2, whose records these are.
"""

import asyncio
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

from semel.broker.coordinator.shell import CoordinatorShell
from semel.broker.replication.partition import Partition
from semel.broker.runtime.tasks import Tasks
from semel.protocol.error_codes import ErrorCode
from semel.world.clock import RealClock

CHAIN = 5
WAIT_S_MAX = 10.0


class SlowPartition:
    """A partition on which every append takes some turns of the loop to become durable."""

    def __init__(self) -> None:
        """Start empty."""
        self.offset_next = 0
        self.durable_to = 0
        self.index = 0
        self.leader_epoch = 0

    def check_insync(self) -> None:
        """All replicas are in sync."""

    def append(self, *_: object, **__: object) -> SimpleNamespace:
        offset = self.offset_next
        self.offset_next += 1
        return SimpleNamespace(base_offset=offset, last_offset=offset)

    async def acknowledge(self, offset_next: int) -> None:
        """Durable here, which is only half of it."""

    async def replicated(self, offset_next: int) -> ErrorCode:
        turn = asyncio.get_running_loop()
        for _ in range(3):
            waiting = turn.create_future()
            turn.call_soon(waiting.set_result, None)
            await waiting
        self.durable_to = max(self.durable_to, offset_next)
        return ErrorCode.NONE


class ChainShell(CoordinatorShell[int, int]):
    """Each effect is an append; what is reported appends again, a few times."""

    def __init__(self, partition: SlowPartition, tasks: Tasks) -> None:
        """Nothing to load."""
        super().__init__(RealClock(), cast("Partition", partition), tasks, 60_000)
        self.slow = partition
        self.reported: list[int] = []
        self.too_early: list[int] = []

    def carry_out(self, effect: int) -> Iterable[int]:
        return self.append(effect, b"")

    def appended(self, token: int, code: ErrorCode, base_offset: int) -> list[int]:
        assert code is ErrorCode.NONE
        self.reported.append(token)
        if base_offset >= self.slow.durable_to:
            self.too_early.append(token)
        return [token + 1] if token % CHAIN != CHAIN - 1 else []

    def append_timed_out(self, token: int) -> list[int]:  # noqa: ARG002
        return []

    def tick(self, now_ms: int) -> list[int]:  # noqa: ARG002
        return []

    def deadline_ms(self) -> int | None:
        return None

    def unload(self) -> list[int]:
        return []


async def run_chains(chains: int) -> ChainShell:
    tasks = Tasks()
    shell = ChainShell(SlowPartition(), tasks)
    for number in range(chains):
        shell.perform([number * CHAIN])
    running: Any = tasks._running
    while running:
        await asyncio.wait(list(running), timeout=WAIT_S_MAX)
    return shell


def test_every_append_is_reported_once_and_in_order() -> None:
    shell = asyncio.run(run_chains(4))
    assert sorted(shell.reported) == list(range(4 * CHAIN))
    for number in range(4):
        own = [token for token in shell.reported if token // CHAIN == number]
        assert own == sorted(own)


def test_nothing_is_reported_before_it_is_durable() -> None:
    assert asyncio.run(run_chains(3)).too_early == []
