"""Fetch: record sets as they lie in the log, from all leaders at once.

Keeps: a broker that is slow or dead does not hold up the others for longer than `SLOW_MS` a call.
Why:   topics are named by id where the caller gives one, so that a topic deleted and created again is never read as the
       old one. The record sets are views of the received bytes, not copies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from semel.errors import BrokerError, ConnectionFailure, Outcome, ProtocolError, SemelError
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from semel.wire.answers import code_of, error_of
from semel.wire.cluster import WireCluster
from semel.wire.connection import Connection, Sent, wait_for_answer
from semel.wire.deadline import Deadline
from semel.wire.leaders import by_leader, by_topic
from semel.wire.topology import Isolation, TopicPartition

# From version 13 on a topic has no name in the request, only an id.
NAMES_VERSION_MAX = 12
SLOW_MS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedRecords:
    """One partition's answer; `aborted` is (producer id, first offset) of each aborted transaction in it."""

    records: memoryview
    aborted: tuple[tuple[int, int], ...]
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int


class OffsetOutOfRangeError(BrokerError):
    """The offset is not in the log: retention or DeleteRecords passed it, or the log ends before it.

    Choose where to read on; the Spark source does that as `failOnDataLoss` says.
    """

    def __init__(self, partition: TopicPartition, offset: int) -> None:
        """Say which."""
        super().__init__(f"offset {offset} of {partition} is not in the log", code=ErrorCode.OFFSET_OUT_OF_RANGE)
        self.topic = partition.topic
        self.partition = partition.partition
        self.offset = offset


class TopicRecreatedError(BrokerError):
    """The topic with this id is gone; one with the same name may exist, but it is another.

    Offsets of the old topic mean nothing in the new one: begin with a new checkpoint, or with a group that has no
    offsets.
    """

    def __init__(self, partition: TopicPartition, topic_id: UUID) -> None:
        """Say which."""
        super().__init__(
            f"topic {partition.topic!r} with id {topic_id} no longer exists", code=ErrorCode.UNKNOWN_TOPIC_ID
        )
        self.topic = partition.topic
        self.partition = partition.partition


@dataclass(frozen=True, slots=True, kw_only=True)
class _Limits:
    isolation: Isolation
    bytes_max: int
    partition_bytes_max: int
    bytes_min: int
    wait_ms_max: int


def fetch(
    cluster: WireCluster,
    wanted: Mapping[TopicPartition, int],
    *,
    deadline: Deadline,
    isolation: Isolation = Isolation.READ_COMMITTED,
    bytes_max: int = 32 << 20,
    partition_bytes_max: int = 4 << 20,
    bytes_min: int = 1,
    wait_ms_max: int = 500,
    topic_ids: Mapping[str, UUID] | None = None,
) -> dict[TopicPartition, FetchedRecords]:
    """Read from the given offsets on, once from each leader, and return as soon as some partitions were answered.

    A partition that is missing in the result had a leader that moved, was slow or could not be reached: ask again. When
    nothing was answered it is asked again here, until the deadline. Records may be empty after `wait_ms_max`, may begin
    below the offset asked for, and may end with part of a batch. Raises OffsetOutOfRangeError, TopicRecreatedError,
    BrokerError for what else asking again cannot heal, ConnectionFailure at the deadline. `topic_ids` pins topics
    to the ids they had when the read was planned.
    """
    limits = _Limits(
        isolation=isolation,
        bytes_max=bytes_max,
        partition_bytes_max=partition_bytes_max,
        bytes_min=bytes_min,
        wait_ms_max=wait_ms_max,
    )
    backoff = cluster.backoff(deadline)
    while wanted:
        round_ = _Round(cluster, wanted, deadline, limits, topic_ids or {})
        if fetched := round_.run():
            return fetched
        assert round_.failure is not None
        backoff.wait(round_.failure)
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    leader: int
    connection: Connection
    sent: Sent[FetchResponse]
    partitions: tuple[TopicPartition, ...]


class _Round:
    """One request to each leader."""

    def __init__(
        self,
        cluster: WireCluster,
        wanted: Mapping[TopicPartition, int],
        deadline: Deadline,
        limits: _Limits,
        topic_ids: Mapping[str, UUID],
    ) -> None:
        self.failure: SemelError | None = None
        self._cluster = cluster
        self._wanted = wanted
        self._deadline = deadline
        self._limits = limits
        self._topic_ids = topic_ids
        self._names = {topic_id: name for name, topic_id in topic_ids.items()}
        self._asked: dict[int, _Asked] = {}

    def run(self) -> dict[TopicPartition, FetchedRecords]:
        fetched: dict[TopicPartition, FetchedRecords] = {}
        try:
            self._send_all()
            limit = self._cluster.request_deadline(self._deadline)
            while self._asked:
                ready = wait_for_answer([each.connection for each in self._asked.values()], limit.left_s)
                for asked in [each for each in self._asked.values() if each.connection in ready]:
                    fetched |= self._receive(asked)
                if not ready:
                    self._give_up_on_the_rest()
                elif fetched:
                    # One leader has answered: the others may take little longer
                    # than they hold a request, and are asked again later.
                    limit = limit.within_ms(self._limits.wait_ms_max + SLOW_MS)
        finally:
            # An answer that is still under way would be read as the answer to the next request.
            for asked in self._asked.values():
                asked.connection.close()
        return fetched

    def _send_all(self) -> None:
        leaders = by_leader(self._cluster, self._wanted, self._deadline)
        # One that could not be reached a moment ago must not cost the others its connection timeout again.
        awake = [leader for leader in leaders if not self._cluster.rests(leader)] or list(leaders)
        for leader in awake:
            try:
                connection = self._cluster.connection(leader, self._deadline)
                self._send(leader, connection, leaders[leader])
            except ConnectionFailure as failure:
                self._miss(failure, leaders[leader])

    def _send(self, leader: int, connection: Connection, partitions: tuple[TopicPartition, ...]) -> None:
        # All or none: one request has one version, and it names topics either by id or by name.
        by_id = all(partition.topic in self._topic_ids for partition in partitions)
        sent = connection.send(
            self._request(partitions),
            FetchResponse,
            self._cluster.request_deadline(self._deadline),
            None if by_id else NAMES_VERSION_MAX,
        )
        self._asked[leader] = _Asked(leader=leader, connection=connection, sent=sent, partitions=partitions)

    def _request(self, partitions: tuple[TopicPartition, ...]) -> FetchRequest:
        limits = self._limits
        topics = [
            FetchTopic(
                topic=topic,
                topic_id=self._topic_ids.get(topic),
                partitions=[
                    FetchPartition(
                        partition=number,
                        fetch_offset=self._wanted[TopicPartition(topic, number)],
                        partition_max_bytes=limits.partition_bytes_max,
                    )
                    for number in numbers
                ],
            )
            for topic, numbers in by_topic(partitions).items()
        ]
        return FetchRequest(
            max_wait_ms=min(limits.wait_ms_max, self._deadline.left_ms),
            min_bytes=limits.bytes_min,
            max_bytes=limits.bytes_max,
            isolation_level=limits.isolation.number,
            topics=topics,
        )

    def _receive(self, asked: _Asked) -> dict[TopicPartition, FetchedRecords]:
        del self._asked[asked.leader]
        try:
            answer = asked.connection.receive(asked.sent, self._cluster.request_deadline(self._deadline))
        except ConnectionFailure as failure:
            self._miss(failure, asked.partitions)
            return {}
        if answer.error_code:
            self._note(
                error_of(answer.error_code, f"fetching from broker {asked.connection.address}"), asked.partitions
            )
        fetched: dict[TopicPartition, FetchedRecords] = {}
        for topic in answer.responses:
            # Since version 13 answers name topics by their ids alone.
            name = topic.topic or self._names.get(topic.topic_id or UUID(int=0), "")
            for row in topic.partitions:
                partition = TopicPartition(name, row.partition_index)
                if partition in asked.partitions and self._has_records(partition, row):
                    fetched[partition] = _fetched(row)
        if not fetched and self.failure is None:
            self.failure = ConnectionFailure(f"broker {asked.connection.address} left out what was asked for")
        return fetched

    def _has_records(self, partition: TopicPartition, row: PartitionData) -> bool:
        code = code_of(row.error_code)
        if code is ErrorCode.NONE:
            return True
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            raise OffsetOutOfRangeError(partition, self._wanted[partition])
        if code in (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID):
            self._check_topic_id(partition)
        self._note(error_of(row.error_code, f"fetching {partition}"), (partition,))
        return False

    def _check_topic_id(self, partition: TopicPartition) -> None:
        """A broker may not have heard of a new topic yet; the metadata tells that from one that is gone."""
        topic_id = self._topic_ids[partition.topic]
        self._cluster.forget(partition.topic)
        if self._cluster.topic(partition.topic, self._deadline).topic_id != topic_id:
            raise TopicRecreatedError(partition, topic_id)

    def _note(self, error: BrokerError, partitions: tuple[TopicPartition, ...]) -> None:
        if not code_of(error.code).retriable:
            raise error
        self.failure = error
        self._cluster.forget(*{partition.topic for partition in partitions})

    def _miss(self, failure: ConnectionFailure, partitions: tuple[TopicPartition, ...]) -> None:
        failure.outcome = Outcome.DID_NOT_HAPPEN  # reading changes nothing
        self.failure = failure
        self._cluster.forget(*{partition.topic for partition in partitions})

    def _give_up_on_the_rest(self) -> None:
        for leader, asked in list(self._asked.items()):
            del self._asked[leader]
            asked.connection.close()
            self._miss(ConnectionFailure(f"broker {asked.connection.address} did not answer in time"), asked.partitions)


def _fetched(row: PartitionData) -> FetchedRecords:
    records = row.records if row.records is not None else b""
    if not isinstance(records, (bytes, bytearray, memoryview)):
        raise ProtocolError("a record set is not bytes")
    return FetchedRecords(
        records=memoryview(records),
        aborted=tuple((each.producer_id, each.first_offset) for each in row.aborted_transactions or ()),
        high_watermark=row.high_watermark,
        last_stable_offset=row.last_stable_offset,
        log_start_offset=row.log_start_offset,
    )
