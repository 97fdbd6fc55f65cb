"""What Kafka's own tools do to the offsets of a group: delete them one by one, or set them elsewhere."""

from __future__ import annotations

from collections.abc import Collection

from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import TopicPartition as Place

from semel.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from semel.wire.cluster import CoordinatorKind, shared_cluster
from semel.wire.coordinators import Request, ask_coordinator
from semel.wire.settings import WireSettings
from semel.wire.topology import TopicPartition

CLIENT_S_MAX = 30.0


def delete_offsets(bootstrap: str, group: str, places: Collection[TopicPartition]) -> None:
    """`kafka-consumer-groups --delete-offsets --group … --topic …`; confluent-kafka has no call for it."""
    cluster = shared_cluster(WireSettings.from_options({"kafka.bootstrap.servers": bootstrap}))
    numbers = {name: [one.partition for one in places if one.topic == name] for name in {one.topic for one in places}}
    topics = [
        OffsetDeleteRequestTopic(
            name=name, partitions=[OffsetDeleteRequestPartition(partition_index=number) for number in of_topic]
        )
        for name, of_topic in sorted(numbers.items())
    ]
    request = Request(
        kind=CoordinatorKind.GROUP,
        key=group,
        message=OffsetDeleteRequest(group_id=group, topics=topics),
        response=OffsetDeleteResponse,
        codes=lambda answer: [
            answer.error_code,
            *(row.error_code for topic in answer.topics for row in topic.partitions),
        ],
        what="deleting offsets",
    )
    ask_coordinator(cluster, request, cluster.deadline())


def reset_offsets(bootstrap: str, group: str, places: Collection[TopicPartition], offset: int) -> None:
    """`kafka-consumer-groups --reset-offsets --group … --topic … --execute`."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = ConsumerGroupTopicPartitions(group, [Place(one.topic, one.partition, offset) for one in places])
    for future in admin.alter_consumer_group_offsets([wanted]).values():
        found = future.result(CLIENT_S_MAX)
        assert all(one.error is None for one in found.topic_partitions), found.topic_partitions
