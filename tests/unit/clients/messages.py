"""Messages as a consumer's library hands them out, made by hand."""

from confluent_kafka import Message

from semel.clients.records import Batch
from semel.protocol.topic_partition import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def message(place: TopicPartition, offset: int) -> Message:
    return Message(place.topic, place.partition, offset, value=f"{place}@{offset}".encode())


def batch(*at: tuple[TopicPartition, int], starts: dict[TopicPartition, int] | None = None) -> Batch:
    """A batch of records at these offsets; each partition begins at its first, unless said otherwise."""
    first = dict(reversed(at))
    ends = {place: offset + 1 for place, offset in at}
    return Batch([message(*one) for one in at], first | (starts or {}), ends, group="g")
