"""For `access`: the resources of requests that no single field names, and what answers must not show."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from contextlib import suppress

from semel.broker.controller.config_changes import ResourceType
from semel.broker.metadata.acls import CLUSTER_NAME, Operation, Resource
from semel.broker.network.access_rules import Named
from semel.broker.network.context import Context
from semel.protocol.error_codes import ErrorCode
from semel.protocol.message import Message
from semel.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from semel.protocol.messages.alter_configs import AlterConfigsResource
from semel.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
)
from semel.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from semel.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from semel.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from semel.protocol.messages.describe_configs import DescribeConfigsResource
from semel.protocol.messages.describe_log_dirs import DescribeLogDirsResponse
from semel.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from semel.protocol.messages.find_coordinator import FindCoordinatorRequest
from semel.protocol.messages.incremental_alter_configs import AlterConfigsResource as IncrementalResource
from semel.protocol.messages.init_producer_id import InitProducerIdRequest
from semel.protocol.messages.join_group import JoinGroupResponse
from semel.protocol.messages.offset_commit import OffsetCommitRequestTopic
from semel.protocol.messages.offset_delete import OffsetDeleteResponse
from semel.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from semel.protocol.messages.produce import ProduceRequest, TopicProduceData

CLUSTER: Named = (Resource.CLUSTER, CLUSTER_NAME)
COORDINATORS = (Resource.GROUP, Resource.TRANSACTIONAL_ID)  # by key type
ATTRIBUTES_AT = 21  # in a record batch
TRANSACTIONAL_BIT = 0x10
HIDDEN_COUNT = -1
WORDS = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
}
GROUP_HIDDEN = "The group has described topic(s) that the client is not authorized to describe."


def topic_or_id(
    context: Context, _request: object, entry: TopicProduceData | OffsetCommitRequestTopic
) -> Iterable[Named]:
    """The topic by name, or by its id; an id that nobody has is not about any topic."""
    name: str | None = entry.name or None
    if entry.topic_id is not None:
        name = context.broker.state.topic_names.get(entry.topic_id)
    return () if name is None else ((Resource.TOPIC, name),)


def of_transactional_batches(_context: Context, request: ProduceRequest, _entry: object) -> Iterable[Named]:
    """The transactional id, if any batch is part of a transaction; without an id the API refuses it anyway."""
    if request.transactional_id is None:
        return ()
    batches = (data.records for topic in request.topic_data for data in topic.partition_data)
    # Only the attributes of the first batch are looked at, which is all that Produce takes for each partition.
    is_transactional = any(
        isinstance(records, memoryview)
        and len(records) > ATTRIBUTES_AT + 1
        and records[ATTRIBUTES_AT + 1] & TRANSACTIONAL_BIT
        for records in batches
    )
    return ((Resource.TRANSACTIONAL_ID, request.transactional_id),) if is_transactional else ()


def idempotent(context: Context, request: InitProducerIdRequest, _entry: object) -> Iterable[Named]:
    """The cluster, unless the producer is transactional or may write to any topic at all."""
    # As in Apache Kafka: who may write to some topic may be idempotent, without IDEMPOTENT_WRITE.
    is_known = request.transactional_id is not None or context.may_somewhere(Operation.WRITE, Resource.TOPIC)
    return () if is_known else (CLUSTER,)


def hide_configs(context: Context, _request: CreateTopicsRequest, response: CreateTopicsResponse) -> None:
    """Leave a new topic's settings out of the answer unless the user may describe them."""
    for row in response.topics:
        if not row.error_code and not context.may(Operation.DESCRIBE_CONFIGS, Resource.TOPIC, row.name):
            row.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            row.num_partitions = row.replication_factor = HIDDEN_COUNT
            row.configs = ()


def deleted_field(version: int) -> str:
    """Where DeleteTopics names its topics."""
    return "topics" if version >= 6 else "topic_names"


def deleted_key(entry: DeleteTopicState | str) -> Hashable:
    """How DeleteTopics counts topics."""
    return entry if isinstance(entry, str) else (entry.name, entry.topic_id)


def deleted_topic(context: Context, _request: object, entry: DeleteTopicState | str) -> Iterable[Named]:
    """The topic to be deleted; what would be refused from anybody in the same way is left to the API."""
    if not context.broker.settings.enabled("delete.topic.enable"):
        return ()
    name, topic_id = (entry, None) if isinstance(entry, str) else (entry.name, entry.topic_id)
    if (name is None) == (topic_id is None):
        return ()
    if topic_id is not None:
        name = context.broker.state.topic_names.get(topic_id)
        return () if name is None else ((Resource.TOPIC, name),)
    assert name is not None
    # By the controller's state, which is what a topic is deleted from; this broker's may be older.
    if name not in context.broker.controller.state.topics and context.may(Operation.DESCRIBE, Resource.TOPIC, name):
        return ()
    return ((Resource.TOPIC, name),)


def name_described(context: Context, _request: DeleteTopicsRequest, response: DeleteTopicsResponse) -> None:
    """A topic that was given by its id is called by its name if the asker may know that."""
    for row in response.responses:
        name = context.broker.state.topic_names.get(row.topic_id) if row.topic_id is not None else None
        if row.name is None and name is not None and context.may(Operation.DESCRIBE, Resource.TOPIC, name):
            row.name = name


def coordinator_key_before_v4(context: Context, request: FindCoordinatorRequest, _entry: object) -> Iterable[Named]:
    """The one key of the older versions."""
    return coordinator_key(context, request, request.key) if context.version < 4 else ()


def coordinator_key(_context: Context, request: FindCoordinatorRequest, entry: str) -> Iterable[Named]:
    """A group or a transactional id; another type is refused by the API."""
    return ((COORDINATORS[request.key_type], entry),) if 0 <= request.key_type < len(COORDINATORS) else ()


def subscribed_topics(_context: Context, request: ConsumerGroupHeartbeatRequest, _entry: object) -> Iterable[Named]:
    """Every topic that the member names; those that its expression matches are left out instead."""
    return [(Resource.TOPIC, name) for name in request.subscribed_topic_names or ()]


def hide_groups_of_hidden_topics(
    context: Context, _request: ConsumerGroupDescribeRequest, response: ConsumerGroupDescribeResponse
) -> None:
    """Describe a group only to users who may describe every topic that its members read."""
    response.groups = [row if _is_shown(context, row) else _hidden(row.group_id) for row in response.groups]


def _is_shown(context: Context, row: DescribedGroup) -> bool:
    topics = {name for member in row.members for name in _topics_of(member)}
    return all(context.may(Operation.DESCRIBE, Resource.TOPIC, name) for name in topics)


def _hidden(group_id: str) -> DescribedGroup:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return DescribedGroup(group_id=group_id, error_code=code, error_message=GROUP_HIDDEN)


def _topics_of(member: Member) -> Iterable[str]:
    for assignment in (member.assignment, member.target_assignment):
        yield from (row.topic_name for row in assignment.topic_partitions)
    yield from member.subscribed_topic_names


def group_before_v8(context: Context, request: OffsetFetchRequest, _entry: object) -> Iterable[Named]:
    """The one group of the older versions."""
    return ((Resource.GROUP, request.group_id),) if context.version < 8 else ()


def cluster_from_v4(context: Context, _request: object, _entry: object) -> Iterable[Named]:
    """The cluster: since v4 brokers alone add partitions in this way."""
    return (CLUSTER,) if context.version >= 4 else ()


def transactional_before_v4(context: Context, request: AddPartitionsToTxnRequest, _entry: object) -> Iterable[Named]:
    """The one transactional id of the older versions."""
    return ((Resource.TRANSACTIONAL_ID, request.v3_and_below_transactional_id),) if context.version < 4 else ()


def hide_topics_of_transactions(
    context: Context, _request: DescribeTransactionsRequest, response: DescribeTransactionsResponse
) -> None:
    """A transaction is shown without the topics that the asker may not describe."""
    for row in response.transaction_states:
        row.topics = [topic for topic in row.topics if context.may(Operation.DESCRIBE, Resource.TOPIC, topic.topic)]


def configured(
    _context: Context,
    _request: object,
    entry: DescribeConfigsResource | AlterConfigsResource | IncrementalResource,
) -> Iterable[Named]:
    """The topic or group whose settings are meant, or the cluster; an unknown type is refused by the API."""
    match entry.resource_type:
        case ResourceType.TOPIC:
            return ((Resource.TOPIC, entry.resource_name),)
        case ResourceType.GROUP:
            return ((Resource.GROUP, entry.resource_name),)
        case ResourceType.BROKER | ResourceType.BROKER_LOGGER | ResourceType.CLIENT_METRICS:
            return (CLUSTER,)
        case _:
            return ()


# The forms of refusals, where they differ from what the API's file makes of any other error.


def add_error_messages(message: Message, code: ErrorCode) -> None:
    """Add Apache Kafka's text wherever the answer has this code and a field for a message."""
    if getattr(message, "error_code", None) == code and not getattr(message, "error_message", ""):
        with suppress(AttributeError):  # not every row has room for words
            message.error_message = WORDS[code]  # type: ignore[attr-defined]
    for field in message.FIELDS:
        if field.message is not None and field.array:
            for row in getattr(message, field.name) or ():
                add_error_messages(row, code)


def no_protocol(context: Context, response: JoinGroupResponse) -> None:
    """Versions before 7 cannot say "none"."""
    response.protocol_name = None if context.version >= 7 else ""


def no_offsets(context: Context, response: OffsetFetchResponse) -> None:
    """Version 1 has the error with every partition, later ones at the top."""
    response.topics = response.topics if context.version < 2 else ()


def no_topics(_context: Context, response: OffsetDeleteResponse) -> None:
    """The error is at the top."""
    response.topics = ()


def no_transactions(_context: Context, response: AddPartitionsToTxnResponse) -> None:
    """The error is at the top."""
    response.results_by_transaction = ()


def no_folder(context: Context, response: DescribeLogDirsResponse) -> None:
    """Versions before 3 have no other place for the error than a folder without a name."""
    response.results = response.results if context.version < 3 else ()
