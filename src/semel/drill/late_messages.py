"""A producer that is moved request by request: a cell decides what is sent when, by whom, and to which broker.

Real clients never send a message late on purpose. Networks do, and so do processes that were stopped for a while and
go on as if nothing had happened. Every call gives Kafka's error code and tries nothing again.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from semel.drill.damage.brokers import coordinator_of
from semel.drill.damage.records import WAIT_S_MAX, wait_until
from semel.engine.embedded import Cluster
from semel.errors import ConnectionFailure
from semel.protocol.error_codes import ErrorCode
from semel.protocol.message import Message
from semel.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from semel.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from semel.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from semel.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from semel.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from semel.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from semel.protocol.record_batch import DraftRecord, decode_records, encode_batch, iter_headers
from semel.wire.cluster import CoordinatorKind
from semel.wire.connection import Connection
from semel.wire.deadline import Deadline
from semel.wire.settings import WireSettings
from semel.wire.topology import BrokerAddress
from semel.world.clock import RealClock

ANSWER_MS_MAX = 10_000
FETCH_BYTES_MAX, FETCH_VERSION = 1_000_000, 12  # the last version that names topics
ALL, LEADER_ALONE = -1, 1  # acks
# Of the transaction protocol: version 1 adds partitions by a request of its own, version 2 has a new producer epoch for
# each transaction.
OLDER, NEWER = {"Produce": 11, "EndTxn": 4}, {"Produce": 12, "EndTxn": 5}
M = TypeVar("M", bound=Message)


def ask(
    cluster: Cluster, broker_id: int, request: Message, response: type[M], version: int, *, ms_max: int = ANSWER_MS_MAX
) -> M:
    """One request to one broker, on a connection of its own."""
    node = next((node for node in cluster.core.nodes if node.id == broker_id), None)
    if node is None:
        raise ConnectionFailure(f"broker {broker_id} does not run")
    deadline = Deadline.after_ms(ms_max)
    settings = WireSettings.from_options({"kafka.bootstrap.servers": cluster.bootstrap})
    # Its own: a request that is held up must not keep the next one waiting behind it.
    connection = Connection.open(BrokerAddress(id=node.id, host=node.host, port=node.port), settings, deadline)
    try:
        return connection.call(request, response, deadline, version)
    finally:
        connection.close()


def leader(cluster: Cluster, topic: str, partition: int = 0) -> int:
    """The broker that leads this partition, as the controller knows it; -1 while none does."""
    return cluster.core.state.topics[topic].partitions[partition].leader


def can_be_read(cluster: Cluster, broker_id: int, topic: str, value: str) -> bool:
    """Whether this broker, which may not lead, shows the value to readers of either isolation level."""
    asked = FetchPartition(partition=0, partition_max_bytes=FETCH_BYTES_MAX)
    for isolation_level in (0, 1):
        request = FetchRequest(isolation_level=isolation_level, topics=[FetchTopic(topic=topic, partitions=[asked])])
        answer = ask(cluster, broker_id, request, FetchResponse, FETCH_VERSION)
        records = answer.responses[0].partitions[0].records
        if isinstance(records, bytes | bytearray | memoryview) and value.encode() in bytes(records):
            return True
    return False


@dataclass(slots=True, kw_only=True)
class Owner:
    """One owner of a transactional id; without an id, a producer that is only idempotent."""

    cluster: Cluster
    id: str | None
    newer: bool = True
    producer_id: int = -1
    epoch: int = -1
    patience_s: float = WAIT_S_MAX
    """How long it asks again for what is not done yet."""
    _sequences: dict[str, int] = field(default_factory=dict)

    def coordinator(self) -> int:
        """The number of the broker that coordinates this transactional id."""
        return coordinator_of(self.cluster, CoordinatorKind.TRANSACTION, self.id or "")

    def init(self, timeout_ms: int = 60_000) -> None:
        """Become the owner, however long the last one's transaction takes to end."""

        def is_owner() -> bool:
            request = InitProducerIdRequest(transactional_id=self.id, transaction_timeout_ms=timeout_ms)
            # Any broker hands out ids to producers without a transactional id.
            broker_id = self.coordinator() if self.id else min(node.id for node in self.cluster.core.nodes)
            try:
                answer = ask(self.cluster, broker_id, request, InitProducerIdResponse, 4)
            except ConnectionFailure:
                return False
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            return answer.error_code == ErrorCode.NONE

        wait_until(is_owner, f"{self.id or 'an idempotent producer'} has an owner", self.patience_s)
        self._sequences.clear()

    def add(self, topic: str) -> int:
        """AddPartitionsToTxn of version 1."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.id or "",
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[0])],
        )
        answer = ask(self.cluster, self.coordinator(), request, AddPartitionsToTxnResponse, 3)
        return answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code

    def batch(self, value: str, sequence: int) -> bytes:
        """One record, as this owner sends it."""
        # Recent: a broker forgets a producer whose records are older than a day.
        return encode_batch(
            [DraftRecord(key=None, value=value.encode(), timestamp_ms=RealClock().wall_ms())],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=self.id is not None,
        )

    def send(
        self, topic: str, batch: bytes, *, broker_id: int | None = None, acks: int = ALL, ms_max: int = ANSWER_MS_MAX
    ) -> int:
        """Send these bytes to the leader, or to this broker; REQUEST_TIMED_OUT without an answer."""
        data = PartitionProduceData(index=0, records=memoryview(batch))
        topics = [TopicProduceData(name=topic, partition_data=[data])]
        request = ProduceRequest(transactional_id=self.id, acks=acks, timeout_ms=ms_max, topic_data=topics)
        # The version decides the protocol: from 12 on a write adds its partition by itself.
        version = (NEWER if self.newer else OLDER)["Produce"]
        chosen = leader(self.cluster, topic) if broker_id is None else broker_id
        try:
            answer = ask(self.cluster, chosen, request, ProduceResponse, version, ms_max=ms_max)
        except ConnectionFailure:
            return ErrorCode.REQUEST_TIMED_OUT
        return answer.responses[0].partition_responses[0].error_code

    def write(self, topic: str, *values: str) -> None:
        """Send each, again and again until it is taken, as a client does."""
        for value in values:
            if self.id is not None and not self.newer:
                wait_until(lambda: self.add(topic) == ErrorCode.NONE, f"{topic} is added", self.patience_s)
            sequence = self._sequences.get(topic, 0)
            batch = self.batch(value, sequence)
            wait_until(partial(self._is_sent, topic, batch), f"{value} is written", self.patience_s)
            self._sequences[topic] = sequence + 1

    def _is_sent(self, topic: str, batch: bytes) -> bool:
        return self.send(topic, batch) == ErrorCode.NONE

    def end_request(self, *, commit: bool) -> EndTxnRequest:
        """An EndTxn request as this owner would send it now; the caller may send it much later."""
        return EndTxnRequest(
            transactional_id=self.id or "", producer_id=self.producer_id, producer_epoch=self.epoch, committed=commit
        )

    def end(self, request: EndTxnRequest, *, broker_id: int | None = None, ms_max: int = ANSWER_MS_MAX) -> int:
        """Send it to the coordinator, or to this broker; version 2 goes on with the producer epoch of the answer."""
        version = (NEWER if self.newer else OLDER)["EndTxn"]
        chosen = self.coordinator() if broker_id is None else broker_id
        try:
            answer = ask(self.cluster, chosen, request, EndTxnResponse, version, ms_max=ms_max)
        except ConnectionFailure:
            return ErrorCode.REQUEST_TIMED_OUT
        if answer.error_code == ErrorCode.NONE and self.newer and answer.producer_epoch >= 0:
            if answer.producer_epoch != self.epoch:
                self._sequences.clear()
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return answer.error_code

    def commit(self, seconds_max: float | None = None) -> None:
        """Commit, as a client does."""
        seconds_max = self.patience_s if seconds_max is None else seconds_max
        wait_until(lambda: self.end(self.end_request(commit=True)) == ErrorCode.NONE, "it is committed", seconds_max)

    def abort(self) -> None:
        """Abort, as a client does."""
        wait_until(lambda: self.end(self.end_request(commit=False)) == ErrorCode.NONE, "it is aborted")

    def mark(self, topic: str, *, epoch: int, commit: bool) -> None:
        """A marker of this producer epoch comes to the leader, from any sender."""
        marker = WritableTxnMarker(
            producer_id=self.producer_id,
            producer_epoch=epoch,
            transaction_result=commit,
            topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
        )
        request = WriteTxnMarkersRequest(markers=[marker])
        ask(self.cluster, leader(self.cluster, topic), request, WriteTxnMarkersResponse, 1)


@dataclass(slots=True, kw_only=True)
class Reader:
    """A consumer of one partition that says how new the leader is that it has heard of (KIP-320).

    Told that it stands outside of the log it begins again, as `auto.offset.reset=earliest` does.
    """

    cluster: Cluster
    topic: str
    offset_next: int = 0
    leader_epoch: int = -1
    found: Counter[str] = field(default_factory=Counter)

    def read(self, broker_id: int) -> Counter[str]:
        """Read on at this broker as far as it shows; all that was found until now, as often as it was."""
        self.leader_epoch = self.cluster.core.state.topics[self.topic].partitions[0].leader_epoch
        while self._read_more(broker_id):
            pass
        return self.found

    def _read_more(self, broker_id: int) -> bool:
        asked = FetchPartition(
            partition=0,
            current_leader_epoch=self.leader_epoch,
            fetch_offset=self.offset_next,
            partition_max_bytes=FETCH_BYTES_MAX,
        )
        request = FetchRequest(isolation_level=1, topics=[FetchTopic(topic=self.topic, partitions=[asked])])
        row = ask(self.cluster, broker_id, request, FetchResponse, FETCH_VERSION).responses[0].partitions[0]
        # At 0 there is nothing left to go back to.
        if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and self.offset_next:
            self.offset_next = 0
            return True
        data = bytes(row.records) if isinstance(row.records, bytes | bytearray | memoryview) else b""
        for position, header in iter_headers(data):
            if not header.is_control:
                self.found.update((one.value or b"").decode() for one in decode_records(data, header, position))
            # Also behind markers, which are no records and take an offset.
            self.offset_next = header.offset_next
        return bool(data)
