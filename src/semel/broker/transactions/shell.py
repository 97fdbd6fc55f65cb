"""The shell around the transaction coordinators: one per partition of `__transaction_state` that this broker leads.

Besides what every coordinator shell does it writes transaction markers: it asks the leader of each partition, and
goes on asking until the marker is there or the partition is gone.

Keeps: T2 a decided transaction is finished whatever fails in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from semel.broker.coordinator.coordinators import Coordinators
from semel.broker.coordinator.shell import CoordinatorShell, stored_batches
from semel.broker.metadata.cluster_state import TRANSACTION_TOPIC, PartitionKey
from semel.broker.replication.partition import Partition
from semel.broker.runtime.tasks import Tasks
from semel.broker.transactions.coordinator import TransactionCoordinator
from semel.broker.transactions.types import (
    Answer,
    AppendRecord,
    Effect,
    TransactionAnswer,
    TransactionSettings,
    WriteMarkers,
)
from semel.errors import ConnectionFailure
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from semel.protocol.record_batch import DraftRecord, decode_records, encode_batch

if TYPE_CHECKING:
    from semel.broker.broker import Broker

# The first version that says which version of transactions the marker belongs to.
MARKERS_VERSION = 2
APPEND_MS_MAX = 5_000
RETRY_MS = 20.0
RETRY_MS_MAX = 1000.0
# The partition's leader has seen a newer owner or a newer coordinator: this marker is no longer ours to write.
OVERTAKEN = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})


def transaction_settings(broker: Broker) -> TransactionSettings:
    """The transaction settings among a broker's."""
    settings = broker.settings
    return TransactionSettings(
        timeout_ms_max=settings.number("transaction.max.timeout.ms"),
        id_expiration_ms=settings.number("transactional.id.expiration.ms"),
        expiration_interval_ms=settings.number("transaction.remove.expired.transaction.cleanup.interval.ms"),
        abort_interval_ms=settings.number("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
        version=broker.cluster.transaction_version,
    )


class TransactionPartition(CoordinatorShell[Effect, TransactionAnswer]):
    """One transaction coordinator with its partition."""

    def __init__(self, broker: Broker, partition: Partition, tasks: Tasks) -> None:
        """Load the coordinator and finish what was decided before."""
        super().__init__(broker.world.clock, partition, tasks, APPEND_MS_MAX)
        self._broker = broker
        self.core = TransactionCoordinator(transaction_settings(broker), broker.take_producer_id)
        self.perform(self.core.load(_stored_records(partition), self.now_ms()))

    async def ask(self, call: Callable[[TransactionCoordinator, int, int], list[Effect]]) -> TransactionAnswer:
        """Make a call that is answered later, and wait for its answer."""
        return await self.wait(lambda token: call(self.core, token, self.now_ms()))

    def carry_out(self, effect: Effect) -> Iterable[Effect]:
        """Carry out one effect."""
        match effect:
            case Answer(token=token, response=response):
                self.answer(token, response)
            case AppendRecord():
                return self._append_record(effect)
            case WriteMarkers():
                self.tasks.start(self._write_markers(effect))
        return ()

    def _append_record(self, effect: AppendRecord) -> list[Effect]:
        draft = DraftRecord(key=effect.key, value=effect.value, timestamp_ms=self.clock.wall_ms())
        return self.append(effect.append_token, encode_batch([draft]))

    def appended(self, token: int, code: ErrorCode, base_offset: int) -> list[Effect]:  # noqa: ARG002
        """Tell the core the fate of an append."""
        return self.core.appended(token, code, self.now_ms())

    def append_timed_out(self, token: int) -> list[Effect]:  # noqa: ARG002
        """A decision is awaited however long it takes: answering earlier could only guess."""
        return []

    def unload(self) -> list[Effect]:
        """Forget everything, and answer every request that waits with an error."""
        return self.core.unload()

    def tick(self, now_ms: int) -> list[Effect]:
        """Let the core act on its deadlines."""
        return self.core.tick(now_ms)

    def deadline_ms(self) -> int | None:
        """When the core wants to be woken."""
        return self.core.next_deadline_ms()

    async def _write_markers(self, effect: WriteMarkers) -> None:
        left = set(effect.partitions)
        wait_ms = RETRY_MS
        while left and not self.resigned:  # the next coordinator of this partition finds the decision and goes on
            # All leaders at once: one that is slow or gone holds up only its own partitions.
            asked = [self._write_to(effect, leader, rows, left) for leader, rows in self._by_leader(left).items()]
            if not all(await asyncio.gather(*asked)):
                return
            if left:
                await self.clock.sleep_ms(wait_ms)
                wait_ms = min(wait_ms * 2, RETRY_MS_MAX)

    async def _write_to(
        self, effect: WriteMarkers, leader: int | None, partitions: list[PartitionKey], left: set[PartitionKey]
    ) -> bool:
        """Ask one leader and note what is done; False when the transaction is no longer ours."""
        codes = await self._ask_leader(effect, leader, partitions)
        for partition, code in codes.items():
            # One that resigned meanwhile has forgotten the transaction.
            if code is ErrorCode.NONE and not self.resigned:
                left.discard(partition)
                self._report_marker(effect, partition)
        return OVERTAKEN.isdisjoint(codes.values())

    def _by_leader(self, partitions: Iterable[PartitionKey]) -> dict[int | None, list[PartitionKey]]:
        """Partitions by the broker that leads them; those that are gone are under None."""
        leaders: dict[int | None, list[PartitionKey]] = {}
        # Sorted, so that one seed gives one order.
        for topic, index in sorted(partitions):
            known = self._broker.state.topics.get(topic)
            is_gone = known is None or index >= len(known.partitions)
            leader = None if known is None or is_gone else known.partitions[index].leader
            leaders.setdefault(leader, []).append((topic, index))
        return leaders

    async def _ask_leader(
        self, effect: WriteMarkers, leader: int | None, partitions: list[PartitionKey]
    ) -> dict[PartitionKey, ErrorCode]:
        if leader is None:
            # In a partition that is gone nothing can be open: as good as written.
            return dict.fromkeys(partitions, ErrorCode.NONE)
        request = WriteTxnMarkersRequest(markers=[self._marker(effect, partitions)])
        try:
            response = await self._broker.cluster.links.ask(
                self._broker.id, leader, request, WriteTxnMarkersResponse, MARKERS_VERSION
            )
        except ConnectionFailure:
            # Nothing is known, so all of them are asked again.
            return {}
        return {
            (topic.name, row.partition_index): ErrorCode(row.error_code)
            for result in response.markers
            for topic in result.topics
            for row in topic.partitions
        }

    def _marker(self, effect: WriteMarkers, partitions: list[PartitionKey]) -> WritableTxnMarker:
        topics: dict[str, list[int]] = {}
        for topic, index in partitions:
            topics.setdefault(topic, []).append(index)
        return WritableTxnMarker(
            producer_id=effect.producer.id,
            producer_epoch=effect.producer.epoch,
            transaction_result=effect.commit,
            topics=[WritableTxnMarkerTopic(name=name, partition_indexes=rows) for name, rows in topics.items()],
            # By it a partition refuses the markers of a coordinator that was replaced without knowing it.
            coordinator_epoch=self.leader_epoch,
            transaction_version=effect.transaction_version,
        )

    def _report_marker(self, effect: WriteMarkers, partition: PartitionKey) -> None:
        self.perform(self.core.marker_written(effect.transactional_id, effect.producer, partition, self.now_ms()))


class Transactions(Coordinators[TransactionPartition]):
    """The transaction coordinators of one broker."""

    topic = TRANSACTION_TOPIC
    missing = ErrorCode.NOT_COORDINATOR

    def load(self, partition: Partition) -> TransactionPartition:
        """Load the coordinator of one partition."""
        return TransactionPartition(self._broker, partition, self.tasks)


def _stored_records(partition: Partition) -> Iterator[tuple[bytes, bytes | None]]:
    for data, position, header in stored_batches(partition):
        if not header.is_control:
            yield from ((record.key or b"", record.value) for record in decode_records(data, header, position))
