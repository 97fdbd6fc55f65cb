"""Questions about a cluster rather than its records; and changing settings, deleting groups.

Keeps: an error code in an answer is an error, never a missing value.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

from semel.errors import BrokerError, UnsupportedVersionError
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from semel.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from semel.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from semel.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from semel.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from semel.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ProducerState,
    TopicRequest,
)
from semel.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from semel.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from semel.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from semel.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from semel.wire.answers import code_of, error_of
from semel.wire.cluster import CoordinatorKind, WireCluster
from semel.wire.coordinators import Request, ask_coordinator
from semel.wire.deadline import Deadline
from semel.wire.group_offsets import DESCRIBE_VERSION_MAX
from semel.wire.leaders import Question, Row, ask_leaders, by_topic
from semel.wire.topology import TopicPartition

# Of IncrementalAlterConfigs; the others delete, append and subtract.
SET = 0
DEAD = "Dead"


class ResourceKind(IntEnum):
    """What has settings; the numbers on the wire."""

    TOPIC = 2
    BROKER = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupInfo:
    """A group as its coordinator describes it; one that does not exist is Dead."""

    state: str
    members: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerInfo:
    """A producer as a partition's leader knows it; `offset_first` of its open transaction is -1 when none is."""

    producer_id: int
    producer_epoch: int
    offset_first: int
    last_timestamp_ms: int

    @property
    def is_open(self) -> bool:
        """Whether it has a transaction open on this partition."""
        return self.offset_first >= 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionInfo:
    """A transaction as its coordinator describes it; `started_ms` is -1 when none is open."""

    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int
    partitions: frozenset[TopicPartition]


def settings_of(cluster: WireCluster, kind: ResourceKind, name: str, deadline: Deadline) -> dict[str, str]:
    """Ask for the settings in force of a topic or a broker; those that are secret or not set are left out."""
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    request = DescribeConfigsRequest(resources=[resource])
    # Only the broker itself tells its settings.
    if kind is ResourceKind.BROKER:
        connection = cluster.connection(int(name), deadline)
        answer = connection.call(request, DescribeConfigsResponse, cluster.request_deadline(deadline))
    else:
        answer = cluster.call_any(request, DescribeConfigsResponse, deadline)
    for result in answer.results:
        if result.error_code:
            what = f"asking for the settings of {kind.name.lower()} {name}"
            raise error_of(result.error_code, what, result.error_message)
    rows = (row for result in answer.results for row in result.configs)
    # Brokers answer null for what is secret; it is left out here too, whatever a broker may send.
    return {row.name: row.value for row in rows if row.value is not None and not row.is_sensitive}


def set_topic_settings(cluster: WireCluster, topic: str, settings: Mapping[str, str], deadline: Deadline) -> None:
    """Change these settings of a topic and leave the others as they are."""
    rows = [AlterableConfig(name=name, config_operation=SET, value=value) for name, value in settings.items()]
    resource = AlterConfigsResource(resource_type=ResourceKind.TOPIC, resource_name=topic, configs=rows)
    request = IncrementalAlterConfigsRequest(resources=[resource])
    answer = cluster.call_any(request, IncrementalAlterConfigsResponse, deadline, changes=True)
    for result in answer.responses:
        if result.error_code:
            raise error_of(result.error_code, f"changing settings of topic {topic}", result.error_message)


def describe_group(cluster: WireCluster, group: str, deadline: Deadline) -> GroupInfo:
    """Ask a group's coordinator for its state and members."""
    request = Request(
        kind=CoordinatorKind.GROUP,
        key=group,
        message=DescribeGroupsRequest(groups=[group]),
        response=DescribeGroupsResponse,
        codes=lambda answer: [row.error_code for row in answer.groups],
        what=f"describing group {group!r}",
        version_max=DESCRIBE_VERSION_MAX,
    )
    (row,) = ask_coordinator(cluster, request, deadline).groups
    # DescribeGroups knows classic groups alone, and calls one of the newer protocol dead.
    classic = GroupInfo(state=row.group_state, members=len(row.members))
    return classic if row.group_state != DEAD else _newer_group(cluster, group, deadline) or classic


def _newer_group(cluster: WireCluster, group: str, deadline: Deadline) -> GroupInfo | None:
    """A group of the newer protocol, which the older question calls dead; None when there is none."""
    request = Request(
        kind=CoordinatorKind.GROUP,
        key=group,
        message=ConsumerGroupDescribeRequest(group_ids=[group]),
        response=ConsumerGroupDescribeResponse,
        codes=lambda answer: [row.error_code for row in answer.groups],
        what=f"describing group {group!r}",
    )
    try:
        (row,) = ask_coordinator(cluster, request, deadline).groups
    # A broker that cannot be asked has no groups of that protocol.
    except UnsupportedVersionError:
        return None
    except BrokerError as error:
        if is_missing(error.code):
            return None
        raise
    return GroupInfo(state=row.group_state, members=len(row.members))


def delete_group(cluster: WireCluster, group: str, deadline: Deadline) -> None:
    """Delete a group with its offsets; a group that does not exist counts as deleted."""
    request = Request(
        kind=CoordinatorKind.GROUP,
        key=group,
        message=DeleteGroupsRequest(groups_names=[group]),
        response=DeleteGroupsResponse,
        # Also after a lost answer: the second attempt finds nothing, and that is what was wanted.
        codes=lambda answer: [row.error_code for row in answer.results if not is_missing(row.error_code)],
        what=f"deleting group {group!r}",
    )
    ask_coordinator(cluster, request, deadline)


def list_groups(cluster: WireCluster, deadline: Deadline) -> set[str]:
    """Ask every broker for the groups it coordinates; those that this client may not describe are left out."""
    found: set[str] = set()
    for broker_id in cluster.broker_ids(deadline):
        backoff = cluster.backoff(deadline)
        while True:
            connection = cluster.connection(broker_id, deadline)
            answer = connection.call(ListGroupsRequest(), ListGroupsResponse, cluster.request_deadline(deadline))
            if not answer.error_code:
                break
            error = error_of(answer.error_code, f"listing the groups of broker {broker_id}")
            # A coordinator that still loads tells only a part of its groups.
            if not code_of(answer.error_code).retriable:
                raise error
            backoff.wait(error)
        found |= {row.group_id for row in answer.groups}
    return found


def describe_transaction(cluster: WireCluster, transactional_id: str, deadline: Deadline) -> TransactionInfo:
    """Ask the coordinator of a transactional id."""
    request = Request(
        kind=CoordinatorKind.TRANSACTION,
        key=transactional_id,
        message=DescribeTransactionsRequest(transactional_ids=[transactional_id]),
        response=DescribeTransactionsResponse,
        codes=lambda answer: [row.error_code for row in answer.transaction_states],
        what=f"describing transactional id {transactional_id!r}",
    )
    (row,) = ask_coordinator(cluster, request, deadline).transaction_states
    return TransactionInfo(
        state=row.transaction_state,
        producer_id=row.producer_id,
        producer_epoch=row.producer_epoch,
        timeout_ms=row.transaction_timeout_ms,
        started_ms=row.transaction_start_time_ms,
        partitions=frozenset(
            TopicPartition(topic.topic, number) for topic in row.topics for number in topic.partitions
        ),
    )


def list_transactions(cluster: WireCluster, deadline: Deadline) -> dict[str, int]:
    """Ask every broker for the transactional ids it coordinates, with their producer ids."""
    found: dict[str, int] = {}
    for broker_id in cluster.broker_ids(deadline):
        connection = cluster.connection(broker_id, deadline)
        limit = cluster.request_deadline(deadline)
        answer = connection.call(ListTransactionsRequest(), ListTransactionsResponse, limit)
        if answer.error_code:
            raise error_of(answer.error_code, f"listing the transactions of broker {broker_id}")
        found |= {row.transactional_id: row.producer_id for row in answer.transaction_states}
    return found


def log_sizes(
    cluster: WireCluster, partitions: Collection[TopicPartition], deadline: Deadline
) -> dict[TopicPartition, int]:
    """Ask every broker how many bytes it keeps of these partitions; of several replicas the largest counts."""
    topics = [DescribableLogDirTopic(topic=name, partitions=numbers) for name, numbers in by_topic(partitions).items()]
    sizes: dict[TopicPartition, int] = {}
    for broker_id in cluster.broker_ids(deadline):
        connection = cluster.connection(broker_id, deadline)
        limit = cluster.request_deadline(deadline)
        answer = connection.call(DescribeLogDirsRequest(topics=topics), DescribeLogDirsResponse, limit)
        for code in (answer.error_code, *(folder.error_code for folder in answer.results)):
            if code:
                raise error_of(code, f"asking broker {broker_id} for the sizes of logs")
        for place, size in _sizes(answer):
            # A follower that lags has only a part of the log.
            sizes[place] = max(size, sizes.get(place, 0))
    return sizes


def _sizes(answer: DescribeLogDirsResponse) -> Iterator[tuple[TopicPartition, int]]:
    for topic in (topic for folder in answer.results for topic in folder.topics):
        yield from ((TopicPartition(topic.name, row.partition_index), row.partition_size) for row in topic.partitions)


def producers_of(
    cluster: WireCluster, partitions: Collection[TopicPartition], deadline: Deadline
) -> dict[TopicPartition, tuple[ProducerInfo, ...]]:
    """Ask the leaders which producers they remember on these partitions."""

    def request(part: Mapping[TopicPartition, None]) -> DescribeProducersRequest:
        topics = [TopicRequest(name=topic, partition_indexes=numbers) for topic, numbers in by_topic(part).items()]
        return DescribeProducersRequest(topics=topics)

    question = Question("asking for the producers", request, DescribeProducersResponse, _producers)
    return ask_leaders(cluster, dict.fromkeys(partitions), question, deadline)


def open_producers(
    cluster: WireCluster, partitions: Collection[TopicPartition], deadline: Deadline
) -> dict[TopicPartition, tuple[ProducerInfo, ...]]:
    """Those that have a transaction open."""
    found = producers_of(cluster, partitions, deadline)
    return {partition: tuple(one for one in known if one.is_open) for partition, known in found.items()}


def _producers(answer: DescribeProducersResponse) -> Iterator[Row[tuple[ProducerInfo, ...]]]:
    for topic in answer.topics:
        for row in topic.partitions:
            found = tuple(_producer(state) for state in row.active_producers)
            yield Row(TopicPartition(topic.name, row.partition_index), row.error_code, found)


def _producer(row: ProducerState) -> ProducerInfo:
    return ProducerInfo(
        producer_id=row.producer_id,
        producer_epoch=row.producer_epoch,
        offset_first=row.current_txn_start_offset,
        last_timestamp_ms=row.last_timestamp,
    )


def is_missing(code: int) -> bool:
    """Whether an error code says that the thing asked about does not exist."""
    # Which of them it is depends on the question: a topic, a transactional id, a group.
    return code in (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.GROUP_ID_NOT_FOUND,
    )
