"""Who should read which partition: the assignors `uniform` and `range`, as pure functions.

`uniform` keeps what members have where it can, and moves no more than balance needs: with equal subscriptions the
shares differ by at most one. `range` gives each member a run of every topic, in a fixed order of members, so that
partitions of the same number go together; it keeps nothing.

Keeps: G10 a partition of a subscribed topic has one member, and no member gets a topic that it did not ask for.
"""

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from uuid import UUID

from semel.broker.groups.consumer.types import TopicIdPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    """A member as an assignor sees it."""

    member_id: str
    instance_id: str | None
    topics: frozenset[UUID]
    previous: frozenset[TopicIdPartition] = frozenset()


Shares = dict[str, frozenset[TopicIdPartition]]
Counts = Mapping[UUID, int]  # topic -> number of partitions
Assignor = Callable[[Sequence[Subscriber], Counts], Shares]


def assign_range(members: Sequence[Subscriber], counts: Counts) -> Shares:
    """A run of each topic for each of its members; static members come first, by their instance id."""
    # Instance ids survive a restart and member ids do not: static members keep their runs.
    ordered = sorted(members, key=lambda m: (m.instance_id is None, m.instance_id or m.member_id))
    shares: dict[str, set[TopicIdPartition]] = {member.member_id: set() for member in members}
    for topic_id, count in counts.items():
        readers = [member.member_id for member in ordered if topic_id in member.topics]
        start = 0
        for position, member_id in enumerate(readers):
            end = start + count // len(readers) + (position < count % len(readers))
            shares[member_id].update((topic_id, index) for index in range(start, end))
            start = end
    return {member_id: frozenset(share) for member_id, share in shares.items()}


def assign_uniform(members: Sequence[Subscriber], counts: Counts) -> Shares:
    """Equal shares: keep, then fill up the smallest, then move from the largest."""
    table = _Table(members, counts)
    table.fill()
    table.balance()
    return {member_id: frozenset(share) for member_id, share in table.shares.items()}


class _Table:
    """Shares in the making."""

    def __init__(self, members: Sequence[Subscriber], counts: Counts) -> None:
        """Start with what members had and may keep."""
        self.shares: dict[str, set[TopicIdPartition]] = {}
        self._counts = counts
        self._readers: dict[UUID, list[str]] = {topic_id: [] for topic_id in counts}
        self._taken: set[TopicIdPartition] = set()
        # Sorted, so that equal members get equal shares in every run.
        for member in sorted(members, key=lambda m: m.member_id):
            for topic_id in member.topics & counts.keys():
                self._readers[topic_id].append(member.member_id)
            kept = {p for p in member.previous if p[0] in member.topics and p[1] < counts.get(p[0], 0)}
            # Should two members have had the same partition, the first one keeps it.
            self.shares[member.member_id] = kept - self._taken
            # All of `kept`, also what another one keeps: it is taken either way.
            self._taken |= kept

    def _load(self, member_id: str) -> int:
        return len(self.shares[member_id])

    def fill(self) -> None:
        """Give every free partition to its least loaded reader; topics with few readers first, they have less choice.

        Loads only grow here, so a heap entry is at worst too small and is put back with its true load.
        """
        heaps: dict[tuple[str, ...], list[tuple[int, str]]] = {}
        for topic_id in sorted(self._readers, key=lambda t: (len(self._readers[t]), t)):
            readers = self._readers[topic_id]
            # One heap for all topics that have the same readers, which is nearly always all of them.
            heap = heaps.setdefault(tuple(readers), [(self._load(m), m) for m in readers])
            heapq.heapify(heap)
            for index in range(self._counts[topic_id] if readers else 0):
                if (topic_id, index) not in self._taken:
                    self.shares[self._least_loaded(heap)].add((topic_id, index))

    def _least_loaded(self, heap: list[tuple[int, str]]) -> str:
        while True:
            load, member_id = heap[0]
            if load == self._load(member_id):
                heapq.heapreplace(heap, (load + 1, member_id))
                return member_id
            heapq.heapreplace(heap, (self._load(member_id), member_id))

    def balance(self) -> None:
        """Move one partition at a time until no move evens two shares out.

        Each move makes the sum of the squared loads smaller, so this ends.
        """
        while (move := self._next_move()) is not None:
            giver, taker, partition = move
            self.shares[giver].remove(partition)
            self.shares[taker].add(partition)

    def _next_move(self) -> tuple[str, str, TopicIdPartition] | None:
        by_load = sorted(self.shares, key=lambda m: (self._load(m), m), reverse=True)
        smallest = self._load(by_load[-1]) if by_load else 0
        for giver in by_load:
            # A difference of one cannot be evened out: a move would only turn it round.
            if self._load(giver) - smallest < 2:
                return None
            move = self._move_from(giver)
            if move is not None:
                return move
        return None

    def _move_from(self, giver: str) -> tuple[str, str, TopicIdPartition] | None:
        # Sorted, since a set of UUIDs has another order in every process, and one seed must give one assignment.
        topics = sorted({topic_id for topic_id, _ in self.shares[giver]})
        takers = [(min(self._readers[topic_id], key=lambda m: (self._load(m), m)), topic_id) for topic_id in topics]
        taker, topic_id = min(takers, key=lambda row: (self._load(row[0]), row))
        if self._load(giver) - self._load(taker) < 2:
            return None
        # Any would do, but the same one every time.
        return giver, taker, max(partition for partition in self.shares[giver] if partition[0] == topic_id)


ASSIGNORS: Mapping[str, Assignor] = MappingProxyType({"uniform": assign_uniform, "range": assign_range})
DEFAULT_ASSIGNOR = "uniform"
