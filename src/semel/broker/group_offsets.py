"""Committed offsets of all groups, and those of transactions that have not ended.

Keeps: an offset is visible only once it is durable and, inside a transaction, once that committed. Of two commits of
       one partition the one later in the log wins, so that a replay of the log gives the same answer.
Why:   commits on their way to the log are counted too: deleting a group must also delete what lands just before the
       tombstones, and a reader that asks for stable offsets must not be given one that is about to be replaced.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from semel.broker.group_records import OffsetKey, OffsetValue
from semel.broker.group_types import FetchedOffset, FetchOffsetsRequest
from semel.protocol.error_codes import ErrorCode

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """A committed offset and where in the log it stands."""

    value: OffsetValue
    record_offset: int


@dataclass(slots=True)
class TxnAppend:
    """Offsets of a transaction on their way to the log, and the markers that were heard of before their fate."""

    producer_id: int
    markers: list[tuple[int | None, bool]] = field(default_factory=list)  # offset of the marker, commit

    def ending(self, base_offset: int) -> bool | None:
        """Say how the transaction of a batch at this offset ended; None when it goes on."""
        after = (commit for offset, commit in self.markers if offset is None or offset > base_offset)
        return next(after, None)


class OffsetStore:
    """Three sets: visible, pending in transactions, and on their way to the log."""

    def __init__(self) -> None:
        """Start empty."""
        self._visible: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self._pending: dict[int, dict[OffsetKey, CommittedOffset]] = {}  # by producer id
        self._in_flight: Counter[OffsetKey] = Counter()
        self._txn_appends: list[TxnAppend] = []

    def clear(self) -> None:
        """Forget everything."""
        self._visible.clear()
        self._pending.clear()
        self._in_flight.clear()
        self._txn_appends.clear()

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
        self._txn_appends = [other for other in self._txn_appends if other is not append]

    def complete(self, producer_id: int, *, commit: bool, marker_offset: int | None = None) -> None:
        """End a transaction."""
        for append in self._txn_appends:
            if append.producer_id == producer_id:
                append.markers.append((marker_offset, commit))
        pending = self._pending.pop(producer_id, {})
        for key, committed in pending.items() if commit else ():
            self._put_if_newer(key, committed)

    def _put_if_newer(self, key: OffsetKey, committed: CommittedOffset) -> None:
        visible = self.get(key)
        if visible is None or committed.record_offset > visible.record_offset:
            self.put(key, committed.value, committed.record_offset)

    def remove(self, key: OffsetKey) -> None:
        """Apply a tombstone: the visible offset and pending ones before it are gone."""
        partitions = self._visible.get(key.group_id, {})
        partitions.pop((key.topic, key.partition), None)
        if not partitions:
            self._visible.pop(key.group_id, None)
        for producer_id in [p for p, pending in self._pending.items() if key in pending]:
            del self._pending[producer_id][key]
            if not self._pending[producer_id]:
                del self._pending[producer_id]

    def get(self, key: OffsetKey) -> CommittedOffset | None:
        """Find the visible offset."""
        return self._visible.get(key.group_id, {}).get((key.topic, key.partition))

    def visible(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        """List the visible offsets of a group."""
        return self._visible.get(group_id, {})

    def is_pending(self, key: OffsetKey) -> bool:
        """Say whether an open transaction has an offset for this partition."""
        return any(key in pending for pending in self._pending.values())

    def is_unstable(self, key: OffsetKey) -> bool:
        """Say whether the visible offset is about to be replaced."""
        return key in self._in_flight or self.is_pending(key)

    def keys(self) -> set[OffsetKey]:
        """Every partition of every group that a tombstone would touch."""
        visible = {
            OffsetKey(group_id=group_id, topic=topic, partition=partition)
            for group_id, partitions in self._visible.items()
            for topic, partition in partitions
        }
        return visible.union(self._in_flight, *self._pending.values())

    def keys_of_group(self, group_id: str) -> set[OffsetKey]:
        """Every partition of this group that a tombstone would touch."""
        visible = {OffsetKey(group_id=group_id, topic=topic, partition=p) for topic, p in self.visible(group_id)}
        others = set(self._in_flight).union(*self._pending.values())
        return visible | {key for key in others if key.group_id == group_id}

    def is_in_use(self, group_id: str) -> bool:
        """Say whether commits of this group are on their way, or wait for their transaction."""
        return any(self.is_unstable(key) for key in self.keys_of_group(group_id))

    def fetch(self, request: FetchOffsetsRequest) -> tuple[FetchedOffset, ...]:
        """Read offsets as OffsetFetch gives them."""
        wanted = request.partitions
        partitions = tuple(self.visible(request.group_id)) if wanted is None else wanted
        return tuple(self._fetch_one(request, topic, partition) for topic, partition in partitions)

    def _fetch_one(self, request: FetchOffsetsRequest, topic: str, partition: int) -> FetchedOffset:
        key = OffsetKey(group_id=request.group_id, topic=topic, partition=partition)
        if request.require_stable and self.is_unstable(key):
            return FetchedOffset(topic=topic, partition=partition, error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT)
        committed = self.get(key)
        if committed is None:
            return FetchedOffset(topic=topic, partition=partition)
        return FetchedOffset(
            topic=topic,
            partition=partition,
            offset_next=committed.value.offset_next,
            leader_epoch=committed.value.leader_epoch,
            metadata=committed.value.metadata,
        )
