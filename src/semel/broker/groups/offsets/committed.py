"""Committed offsets of all groups, and those of transactions that have not ended.

Keeps: an offset is visible only once it is durable and, inside a transaction, once that committed. Of two commits of
       one partition the one later in the log wins, so that a replay of the log gives the same answer.
Why:   commits on their way to the log are counted too: deleting a group must also delete what lands just before the
       tombstones, and a reader that asks for stable offsets must not be given one that is about to be replaced.
       Offsets of a deleted topic go a few at a time. Readers see none of them meanwhile: a topic that is made again
       under the old name must not be read from where the old one was left.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice

from semel.broker.groups.offsets.types import FetchedOffset, FetchOffsetsRequest
from semel.broker.groups.records import OffsetKey, OffsetValue
from semel.broker.metadata.cluster_state import PartitionKey
from semel.protocol.error_codes import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """A committed offset and where in the log it stands; the wire client's class of this name is what members hear."""

    value: OffsetValue
    record_offset: int


@dataclass(slots=True)
class TxnAppend:
    """Offsets of a transaction on their way to the log, and the markers that came before the append was reported."""

    producer_id: int
    markers: list[tuple[int | None, bool]] = field(default_factory=list)  # offset of the marker, commit

    def ending(self, base_offset: int) -> bool | None:
        """Say how the transaction of a batch at this offset ended; None when it goes on."""
        # Only a marker behind the batch ends its transaction; one before it ended the transaction before.
        after = (commit for offset, commit in self.markers if offset is None or offset > base_offset)
        return next(after, None)


class OffsetStore:
    """Three sets: visible, pending in transactions, and on their way to the log."""

    def __init__(self) -> None:
        """Start empty."""
        self._visible: dict[str, dict[PartitionKey, CommittedOffset]] = {}
        self._pending: dict[int, dict[OffsetKey, CommittedOffset]] = {}  # by producer id
        self._in_flight: Counter[OffsetKey] = Counter()
        self._txn_appends: list[TxnAppend] = []
        self._hidden: Counter[str] = Counter()  # topics that are being forgotten, by how often they were deleted

    def clear(self) -> None:
        """Forget everything."""
        self._visible.clear()
        self._pending.clear()
        self._in_flight.clear()
        self._txn_appends.clear()
        self._hidden.clear()

    def start(self, keys: Iterable[OffsetKey]) -> None:
        """Note commits that are on their way to the log."""
        for key in keys:
            self._in_flight[key] += 1

    def finish(self, keys: Iterable[OffsetKey]) -> None:
        """Note that those have arrived, or never will."""
        for key in keys:
            self._in_flight[key] -= 1
            if not self._in_flight[key]:
                del self._in_flight[key]

    def put(self, key: OffsetKey, value: OffsetValue, record_offset: int) -> None:
        """Make an offset visible."""
        committed = CommittedOffset(value=value, record_offset=record_offset)
        self._visible.setdefault(key.group_id, {})[key.topic, key.partition] = committed

    def put_all(self, values: dict[OffsetKey, OffsetValue], base_offset: int) -> None:
        """Make the offsets of one batch visible."""
        for index, (key, value) in enumerate(values.items()):
            self.put(key, value, base_offset + index)

    def put_pending(self, producer_id: int, key: OffsetKey, value: OffsetValue, record_offset: int) -> None:
        """Keep an offset until its transaction ends."""
        committed = CommittedOffset(value=value, record_offset=record_offset)
        self._pending.setdefault(producer_id, {})[key] = committed

    def start_transactional(self, producer_id: int) -> TxnAppend:
        """Note a transactional commit on its way, so that a marker which overtakes its report is not missed."""
        append = TxnAppend(producer_id)
        self._txn_appends.append(append)
        return append

    def finish_transactional(self, append: TxnAppend, values: dict[OffsetKey, OffsetValue], base_offset: int) -> None:
        """Apply a transactional commit that is durable, by the way its transaction ended if it has."""
        ending = append.ending(base_offset)
        for index, (key, value) in enumerate(values.items()):
            if ending is None:
                self.put_pending(append.producer_id, key, value, base_offset + index)
            elif ending:
                self._put_if_newer(key, CommittedOffset(value=value, record_offset=base_offset + index))

    def drop_transactional(self, append: TxnAppend) -> None:
        """Forget a transactional commit whose fate is known."""
        # By identity: one transaction may have several commits on their way.
        self._txn_appends = [other for other in self._txn_appends if other is not append]

    def complete(self, producer_id: int, *, commit: bool, marker_offset: int | None = None) -> None:
        """End a transaction."""
        for append in self._txn_appends:
            if append.producer_id == producer_id:
                append.markers.append((marker_offset, commit))
        # Aborted offsets are dropped here as well: they are in the log, and nobody will ever see them.
        pending = self._pending.pop(producer_id, {})
        for key, committed in pending.items() if commit else ():
            self._put_if_newer(key, committed)

    def _put_if_newer(self, key: OffsetKey, committed: CommittedOffset) -> None:
        visible = self.get(key)
        # A plain commit may have overtaken the transaction. Log order decides, since a replay sees nothing else.
        if visible is None or committed.record_offset > visible.record_offset:
            self.put(key, committed.value, committed.record_offset)

    def remove(self, key: OffsetKey) -> None:
        """Apply a tombstone: the visible offset and pending ones before it are gone."""
        partitions = self._visible.get(key.group_id, {})
        partitions.pop((key.topic, key.partition), None)
        if not partitions:
            self._visible.pop(key.group_id, None)
        # A transaction that commits later must not bring back what was deleted after it wrote.
        for producer_id in [p for p, pending in self._pending.items() if key in pending]:
            del self._pending[producer_id][key]
            if not self._pending[producer_id]:
                del self._pending[producer_id]

    def get(self, key: OffsetKey) -> CommittedOffset | None:
        """Find the visible offset."""
        return self._visible.get(key.group_id, {}).get((key.topic, key.partition))

    def visible(self, group_id: str) -> dict[PartitionKey, CommittedOffset]:
        """List the visible offsets of a group."""
        return self._visible.get(group_id, {})

    def is_pending(self, key: OffsetKey) -> bool:
        """Say whether an open transaction has an offset for this partition."""
        return any(key in pending for pending in self._pending.values())

    def is_unstable(self, key: OffsetKey) -> bool:
        """Say whether the visible offset is about to be replaced."""
        # A reader that did not wait would process again what a transaction has just processed (KIP-447).
        return key in self._in_flight or self.is_pending(key)

    def topics(self) -> set[str]:
        """Every topic that a group has offsets of."""
        visible = {topic for partitions in self._visible.values() for topic, _ in partitions}
        return visible.union(key.topic for key in self._unstable())

    def has_at_most(self, count: int) -> bool:
        """Say whether there are so few offsets; looks at no more of them."""
        offsets = chain(chain.from_iterable(self._visible.values()), self._unstable())
        return next(islice(offsets, count, None), None) is None

    def group_ids(self) -> list[str]:
        """Every group that has offsets, in an order that repeats."""
        return list(dict.fromkeys(chain(self._visible, (key.group_id for key in self._unstable()))))

    def unstable_of_topic(self, topic: str) -> dict[str, list[int]]:
        """Partitions of a topic with an offset that is not visible yet, by group."""
        found: dict[str, list[int]] = {}
        for key in self._unstable():
            if key.topic == topic:
                found.setdefault(key.group_id, []).append(key.partition)
        return found

    def keys_of_group(self, group_id: str) -> set[OffsetKey]:
        """Every partition of this group that a tombstone would touch."""
        visible = {OffsetKey(group_id=group_id, topic=topic, partition=p) for topic, p in self.visible(group_id)}
        return visible.union(key for key in self._unstable() if key.group_id == group_id)

    def is_in_use(self, group_id: str) -> bool:
        """Say whether commits of this group are on their way, or wait for their transaction."""
        return any(key.group_id == group_id for key in self._unstable())

    def _unstable(self) -> Iterator[OffsetKey]:
        return chain(self._in_flight, *self._pending.values())

    def hide(self, topic: str) -> None:
        """Show nobody the offsets of a deleted topic, whose tombstones are being written."""
        self._hidden[topic] += 1

    def unhide(self, topic: str) -> None:
        """End one `hide`: the offsets were deleted, or could not be and are shown again."""
        self._hidden[topic] -= 1
        if not self._hidden[topic]:
            del self._hidden[topic]

    def fetch(self, request: FetchOffsetsRequest) -> tuple[FetchedOffset, ...]:
        """Read offsets as OffsetFetch gives them."""
        wanted = request.partitions
        partitions = self._shown(request.group_id) if wanted is None else wanted
        return tuple(self._fetch_one(request, topic, partition) for topic, partition in partitions)

    def _shown(self, group_id: str) -> Iterable[PartitionKey]:
        visible = self.visible(group_id)
        return (key for key in visible if key[0] not in self._hidden) if self._hidden else visible

    def _fetch_one(self, request: FetchOffsetsRequest, topic: str, partition: int) -> FetchedOffset:
        key = OffsetKey(group_id=request.group_id, topic=topic, partition=partition)
        # The client asks again until the transaction has ended, so it never begins
        # with an offset that is being replaced.
        if request.require_stable and self.is_unstable(key):
            return FetchedOffset(topic=topic, partition=partition, error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT)
        committed = None if topic in self._hidden else self.get(key)
        if committed is None:
            return FetchedOffset(topic=topic, partition=partition)
        return FetchedOffset(
            topic=topic,
            partition=partition,
            offset_next=committed.value.offset_next,
            leader_epoch=committed.value.leader_epoch,
            metadata=committed.value.metadata,
        )
