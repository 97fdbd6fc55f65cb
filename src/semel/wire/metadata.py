"""What a Metadata answer says, as values."""

from __future__ import annotations

from collections.abc import Collection

from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from semel.wire.answers import error_of
from semel.wire.topology import BrokerAddress, PartitionInfo, TopicInfo

# Not errors of the question: the topic is not there, or not yet.
ABSENT = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_ID})


def metadata_request(names: Collection[str] | None) -> MetadataRequest:
    """Ask for these topics, or for all; asking creates none."""
    topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
    # A misspelt topic must be an error here, and not a new topic with default settings.
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False)


def read_brokers(answer: MetadataResponse) -> dict[int, BrokerAddress]:
    """The brokers that are up, by id."""
    return {row.node_id: BrokerAddress(id=row.node_id, host=row.host, port=row.port) for row in answer.brokers}


def read_topics(answer: MetadataResponse) -> dict[str, TopicInfo]:
    """The topics that exist, by name; raises for one that may not be asked about."""
    for row in answer.topics:
        if row.error_code and row.error_code not in ABSENT:
            raise error_of(row.error_code, f"asking for topic {row.name!r}")
    return {row.name: _topic(row.name, row) for row in answer.topics if row.name is not None and not row.error_code}


def _topic(name: str, row: MetadataResponseTopic) -> TopicInfo:
    partitions = {
        each.partition_index: PartitionInfo(
            partition=each.partition_index,
            leader=each.leader_id,
            leader_epoch=each.leader_epoch,
            replicas=tuple(each.replica_nodes),
            in_sync=tuple(each.isr_nodes),
        )
        for each in sorted(row.partitions, key=lambda each: each.partition_index)
    }
    return TopicInfo(name=name, topic_id=row.topic_id, is_internal=row.is_internal, partitions=partitions)
