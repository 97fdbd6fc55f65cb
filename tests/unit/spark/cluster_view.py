"""A cluster for planning tests: plain numbers that a test sets, in place of brokers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from uuid import UUID

from semel.errors import ConnectionFailure
from semel.spark.options import SourceOptions
from semel.spark.view import KafkaView, Seen
from semel.wire.offsets import EpochEnd, ListedOffset
from semel.wire.topology import PartitionInfo, TopicInfo, TopicPartition

BASE = {"kafka.bootstrap.servers": "localhost:9092"}


class ScriptedView(KafkaView):
    """Says what its fields say; `asked` notes the questions."""

    def __init__(self, options: SourceOptions, **partitions: int) -> None:
        """Create topics with so many partitions, all empty."""
        super().__init__(options)
        self.ids = {name: UUID(int=number + 1) for number, name in enumerate(partitions)}
        places = [TopicPartition(name, number) for name, count in partitions.items() for number in range(count)]
        self.starts: dict[TopicPartition, int] = dict.fromkeys(places, 0)
        self.stable: dict[TopicPartition, int] = dict.fromkeys(places, 0)
        self.ends: dict[TopicPartition, int] = {}
        self.epochs: dict[TopicPartition, int] = dict.fromkeys(places, 3)
        self.ended: dict[TopicPartition, int] = {}
        self.silent: set[TopicPartition] = set()
        self.asked: list[str] = []

    def topics(self) -> dict[str, TopicInfo]:
        self.asked.append("topics")
        return {
            name: TopicInfo(
                name=name,
                topic_id=self.ids[name],
                is_internal=name.startswith("__"),
                partitions={
                    one.partition: PartitionInfo(partition=one.partition, leader=1, leader_epoch=self.epochs[one])
                    for one in self.stable
                    if one.topic == name
                },
            )
            for name in sorted({one.topic for one in self.stable})
        }

    def earliest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {one: self.starts[one] for one in partitions}

    def latest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        if self.silent:
            raise ConnectionFailure("a leader is silent")
        return {one: self.stable[one] for one in partitions}

    def log_ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        self.asked.append("log_ends")
        return {one: self.ends.get(one, self.stable[one]) for one in partitions}

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, EpochEnd]:
        self.asked += ["epoch_ends"] if epochs else []
        return {
            one: EpochEnd(leader_epoch=epoch, offset_end=self.ended.get(one, self.stable[one]))
            for one, epoch in epochs.items()
        }

    def look(self) -> Seen:
        topics = self.topics()
        partitions = tuple(self._options.subscription.select(topics))
        return Seen(
            topics=topics,
            partitions=partitions,
            latest={
                one: ListedOffset(offset=self.stable[one], leader_epoch=self.epochs[one])
                for one in partitions
                if one not in self.silent
            },
            silent=dict.fromkeys(self.silent, "no answer"),
        )
