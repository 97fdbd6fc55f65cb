"""What readers of either isolation level see, by raw Fetch requests: no client's buffering in between."""

from __future__ import annotations

from semel.engine.embedded import Cluster
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from semel.protocol.messages.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from semel.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from semel.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from semel.protocol.record_batch import Marker, decode_marker, decode_records, iter_headers
from tests.support.waiting import eventually
from tests.support.wire import Wire

BYTES_MAX = 50_000_000
FETCH_VERSION = 12
TRANSACTION = 1


def fetched(cluster: Cluster, topic: str, partition: int, *, committed: bool, offset: int = 0) -> PartitionData:
    """One Fetch from an offset to the end."""
    asked = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=BYTES_MAX)
    request = FetchRequest(
        max_bytes=BYTES_MAX,
        isolation_level=1 if committed else 0,
        topics=[FetchTopic(topic=topic, partitions=[asked])],
    )
    with Wire.to_leader(cluster, topic, partition) as wire:
        data = wire.ask(request, FetchResponse, version=FETCH_VERSION).responses[0].partitions[0]
    assert data.error_code == ErrorCode.NONE, data
    return data


def visible(cluster: Cluster, topic: str, partition: int = 0, *, committed: bool = True, offset: int = 0) -> list[str]:
    """The values that a reader gets."""
    data = fetched(cluster, topic, partition, committed=committed, offset=offset)
    records = bytes(data.records) if isinstance(data.records, memoryview | bytes) else b""
    aborted: list[AbortedTransaction] = sorted(data.aborted_transactions or (), key=lambda one: one.first_offset)
    ignored: set[int] = set()
    values: list[str] = []
    for position, header in iter_headers(records):
        while aborted and aborted[0].first_offset <= header.last_offset:
            ignored.add(aborted.pop(0).producer_id)
        if header.is_control:
            if decode_marker(records, header, position)[0] is Marker.ABORT:
                ignored.discard(header.producer_id)
        elif not (committed and header.is_transactional and header.producer_id in ignored):
            found = decode_records(records, header, position)
            values += [(record.value or b"").decode() for record in found if record.offset >= offset]
    return values


def seen(cluster: Cluster, *topics: str, partitions: int = 3, committed: bool = True) -> list[str]:
    """The values of whole topics, sorted."""
    rows = [(topic, partition) for topic in topics for partition in range(partitions)]
    return sorted(
        value for topic, partition in rows for value in visible(cluster, topic, partition, committed=committed)
    )


def last_stable_offset(cluster: Cluster, topic: str, partition: int = 0) -> int:
    """Where a read_committed reader has to stop."""
    return fetched(cluster, topic, partition, committed=True).last_stable_offset


def wire_to_coordinator(cluster: Cluster, transactional_id: str) -> Wire:
    """Connect to the coordinator of a transactional id."""
    request = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[transactional_id])
    with Wire.to_broker(cluster, min(cluster.core.brokers)) as wire:
        row = wire.ask(request, FindCoordinatorResponse, version=4).coordinators[0]
    assert row.error_code == ErrorCode.NONE, row
    return Wire(row.host, row.port)


def coordinator_of(cluster: Cluster, transactional_id: str) -> int:
    """The broker that coordinates a transactional id."""
    request = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[transactional_id])
    with Wire.to_broker(cluster) as wire:
        return wire.ask(request, FindCoordinatorResponse, version=4).coordinators[0].node_id


def described(cluster: Cluster, transactional_id: str) -> tuple[str, int, int]:
    """State, producer id and producer epoch of a transactional id."""
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    with wire_to_coordinator(cluster, transactional_id) as wire:
        row = wire.ask(request, DescribeTransactionsResponse).transaction_states[0]
    assert row.error_code == ErrorCode.NONE, row
    return row.transaction_state, row.producer_id, row.producer_epoch


def wait_complete(cluster: Cluster, transactional_id: str = "tickets") -> str:
    """Wait until the transactional id's last transaction has all its markers; the state."""
    eventually(
        lambda: described(cluster, transactional_id)[0].startswith("Complete"), what="the transaction is complete"
    )
    return described(cluster, transactional_id)[0]


def committed_offset(cluster: Cluster, group: str, topic: str, partition: int = 0) -> int:
    """A group's committed offset, waiting while a transaction decides about it; -1 when there is none."""
    topics = [OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)], require_stable=True)

    def ask() -> list[int]:
        with Wire.to_group(cluster, group) as wire:
            row = wire.ask(request, OffsetFetchResponse, version=9).groups[0].topics[0].partitions[0]
        return [row.committed_offset] if row.error_code == ErrorCode.NONE else []

    return eventually(ask, what=f"stable offsets of {group}")[0]
