"""Deadlines by key, earliest first.

Why: heartbeats move a member's deadline to a later time hundreds of times before one expires, so that must cost
     nothing. An entry in the heap may be too early; the dictionary has the truth, and such an entry is put in again.
"""

import heapq
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple


class TimerKind(StrEnum):
    """What a deadline is for."""

    SESSION = "session"  # a member's heartbeat, or a new member's JoinGroup
    JOIN = "join"  # the join phase of a group
    SYNC = "sync"  # the sync phase of a group
    REVOCATION = "revocation"  # a member of the consumer protocol must give partitions up
    RETENTION = "retention"  # the next search for expired offsets


class TimerKey(NamedTuple):
    """Names one deadline."""

    kind: TimerKind
    group_id: str = ""
    member_id: str = ""


class Timers:
    """At most one deadline per key."""

    def __init__(self) -> None:
        """Start with none."""
        self._deadlines: dict[TimerKey, int] = {}
        self._queued: dict[TimerKey, int] = {}  # the one heap entry per key that counts; never later than the deadline
        self._heap: list[tuple[int, TimerKey]] = []

    def __contains__(self, key: TimerKey) -> bool:
        """Say whether the key has a deadline."""
        return key in self._deadlines

    def schedule(self, key: TimerKey, deadline_ms: int) -> None:
        """Set or move the key's deadline."""
        self._deadlines[key] = deadline_ms
        queued_ms = self._queued.get(key)
        # A deadline that moves to a later time keeps its early entry in the heap; `_settle` corrects it on top.
        if queued_ms is None or deadline_ms < queued_ms:
            self._queued[key] = deadline_ms
            heapq.heappush(self._heap, (deadline_ms, key))

    def cancel(self, key: TimerKey) -> None:
        """Forget the key's deadline, if there is one."""
        # Its entry stays in the heap until it is on top: `_settle` drops it then.
        self._deadlines.pop(key, None)

    def clear(self) -> None:
        """Forget all."""
        self._deadlines.clear()
        self._queued.clear()
        self._heap.clear()

    def next_deadline_ms(self) -> int | None:
        """Find the earliest deadline."""
        self._settle()
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> Iterator[TimerKey]:
        """Take out the keys whose deadline has passed, earliest first.

        Looks again at each step, since acting on one deadline cancels or moves others.
        """
        while True:
            self._settle()
            if not self._heap or self._heap[0][0] > now_ms:
                return
            key = heapq.heappop(self._heap)[1]
            # Before the key is handed out: what acts on it may schedule the same key again.
            del self._deadlines[key], self._queued[key]
            yield key

    def _settle(self) -> None:
        """Make the top of the heap a true deadline."""
        while self._heap:
            queued_ms, key = self._heap[0]
            if self._queued.get(key) != queued_ms:
                heapq.heappop(self._heap)
                continue
            deadline_ms = self._deadlines.get(key)
            if deadline_ms == queued_ms:
                return
            heapq.heappop(self._heap)
            del self._queued[key]
            if deadline_ms is not None:
                self.schedule(key, deadline_ms)
