"""A schedule: which fault strikes when and for how long, drawn from one seed, written down, and played again.

Keeps: F3 one seed and the same brokers and topics give the same schedule; a schedule read back from its file is the one
       that was written. Playing it mends everything it broke, whatever happens in between: also if it is cancelled
       while a fault is being started or mended.
"""

from __future__ import annotations

import asyncio
import heapq
import json
import logging
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from semel.errors import ConfigError, SemelError
from semel.faults.catalogue import make
from semel.faults.drawing import ClusterShape, Draws
from semel.faults.fault import Fault

if TYPE_CHECKING:
    from semel.broker.cluster import ClusterCore
    from semel.world.clock import Clock

log = logging.getLogger("semel.faults")

SCHEMA = 1
# With more at once a cluster of three brokers would seldom be able to do anything.
AT_ONCE_MAX = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One fault of a schedule, in milliseconds from its start."""

    at_ms: float
    fault: Fault
    duration_ms: float

    def __str__(self) -> str:
        """Write as a line for people."""
        return f"{self.at_ms / 1000:8.3f} s for {self.duration_ms / 1000:.3f} s: {self.fault}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Faults in the order they begin; `seed` is None when nobody drew it."""

    entries: Sequence[Entry]
    seed: int | None = None
    troubles: list[str] = field(default_factory=list, init=False, compare=False)

    @classmethod
    def draw(cls, seed: int, shape: ClusterShape, *, kinds: Sequence[str], length_ms: float, gap_ms: float) -> Schedule:
        """Draw faults of these kinds, on average one every `gap_ms`, the last ended before `length_ms`."""
        draws = Draws(seed, shape)
        entries: list[Entry] = []
        at_ms = draws.gap_ms(gap_ms)
        while at_ms < length_ms:
            duration_ms = draws.duration_ms(gap_ms, length_ms - at_ms)
            # Those that have not ended when this one begins.
            under_way = sum(entry.at_ms + entry.duration_ms > at_ms for entry in entries)
            if under_way < AT_ONCE_MAX:
                entries.append(Entry(at_ms=at_ms, fault=draws.fault(kinds), duration_ms=duration_ms))
            at_ms += draws.gap_ms(gap_ms)
        return cls(entries=entries, seed=seed)

    @property
    def fired(self) -> int:
        """How often its faults were felt, all together."""
        return sum(entry.fault.fired for entry in self.entries)

    def __str__(self) -> str:
        """Write for people: the seed, then a line for each fault."""
        seed = "none" if self.seed is None else str(self.seed)
        return "\n".join([f"schedule, seed {seed}: {len(self.entries)} faults", *map(str, self.entries)])

    def lines(self) -> Iterator[str]:
        """Write as JSON lines: what this is, then one line for each fault."""
        # How many follow stands first: a file that was cut short would otherwise be another schedule.
        yield json.dumps({"schema": SCHEMA, "seed": self.seed, "faults": len(self.entries)})
        for entry in self.entries:
            row = {"at_ms": entry.at_ms, "duration_ms": entry.duration_ms, "fault": entry.fault.name}
            yield json.dumps(row | {"settings": entry.fault.settings})

    @classmethod
    def read(cls, lines: Iterable[str]) -> Schedule:
        """Read what `lines` wrote; ConfigError names the line that is wrong."""
        rows = [_row(number, line) for number, line in enumerate(lines, 1) if line.strip()]
        if not rows or rows[0].get("schema") != SCHEMA:
            raise ConfigError("this is no schedule of faults", you_want=f'a first line with "schema": {SCHEMA}')
        head, *rest = rows
        if head.get("faults") != len(rest):
            raise ConfigError(f"the schedule has {len(rest)} faults and says {head.get('faults')}: it was cut short")
        seed = head.get("seed")
        entries = [_entry(number, row) for number, row in enumerate(rest, 2)]
        return cls(entries=entries, seed=seed if isinstance(seed, int) else None)

    async def play(self, cluster: ClusterCore, clock: Clock) -> None:
        """Start and stop every fault at its time, on the cluster's own loop; what is left at the end is mended."""
        begun_ms = clock.monotonic_ms()
        # Entries of the same moment are taken in order, and never compared with each other.
        order = count()
        steps = [(entry.at_ms, next(order), entry, True) for entry in self.entries]
        heapq.heapify(steps)
        active: list[Entry] = []
        try:
            while steps:
                due_ms, _, entry, begins = heapq.heappop(steps)
                await clock.sleep_ms(begun_ms + due_ms - clock.monotonic_ms())
                if begins:
                    # Before it is started: if that fails half way, it is stopped at the end all the same.
                    active.append(entry)
                    await self._try(entry, entry.fault.start(cluster))
                    heapq.heappush(steps, (due_ms + entry.duration_ms, next(order), entry, False))
                else:
                    await self._try(entry, entry.fault.stop(cluster))
                    # Not before: if mending fails half way, it is tried again at the end.
                    active.remove(entry)
        finally:
            # What broke last is mended first. One that cannot be mended does not keep the others from it.
            async with AsyncExitStack() as mending:
                for entry in active:
                    mending.push_async_callback(self._mend, entry, cluster)

    async def _mend(self, entry: Entry, cluster: ClusterCore) -> None:
        await self._try(entry, entry.fault.stop(cluster))

    async def _try(self, entry: Entry, work: Coroutine[object, object, None]) -> None:
        """Do all of it, also if playing is cancelled meanwhile: half of a restart is a broker that stays down."""
        doing = asyncio.ensure_future(self._noted(entry, work))
        try:
            await asyncio.shield(doing)
        except asyncio.CancelledError:
            await asyncio.wait({doing})
            raise

    async def _noted(self, entry: Entry, work: Coroutine[object, object, None]) -> None:
        """What cannot be done, such as moving a leader while nobody else is in sync, is noted and passed over."""
        try:
            await work
        except SemelError as error:
            self.troubles.append(f"{entry.fault}: {error.summary}")
            log.info("%s: %s", entry.fault, error.summary)


def _row(number: int, line: str) -> dict[str, object]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise ConfigError(f"line {number} of the schedule is not JSON", because=str(error)) from None
    if not isinstance(row, dict):
        raise ConfigError(f"line {number} of the schedule is not an object")
    return row


def _entry(number: int, row: dict[str, object]) -> Entry:
    at_ms, duration_ms, name, settings = (row.get(key) for key in ("at_ms", "duration_ms", "fault", "settings"))
    if not (isinstance(at_ms, (int, float)) and isinstance(duration_ms, (int, float)) and isinstance(settings, dict)):
        raise ConfigError(f"line {number} of the schedule needs at_ms, duration_ms, fault and settings")
    return Entry(at_ms=at_ms, fault=make(str(name), settings), duration_ms=duration_ms)
