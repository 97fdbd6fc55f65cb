"""Where rows can go: the partitions of the output topics, numbered from 0 through all topics."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Self

from semel.errors import ConfigError
from semel.wire.topology import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """Output topics in order, with how many partitions each has; small and picklable, shipped to every task."""

    topics: tuple[str, ...]
    counts: tuple[int, ...]

    @classmethod
    def of(cls, counts: Mapping[str, int]) -> Self:
        """Number the partitions of these topics."""
        if not counts:
            raise ConfigError("a Kafka sink needs at least one output topic")
        return cls(topics=tuple(counts), counts=tuple(counts.values()))

    @property
    def total(self) -> int:
        """How many partitions there are in all."""
        return sum(self.counts)

    @property
    def fewest(self) -> int:
        """The partitions of the topic that has the fewest."""
        return min(self.counts)

    def first_of(self, topic_index: int) -> int:
        """The number of a topic's partition 0."""
        return sum(self.counts[:topic_index])

    def partition(self, number: int) -> TopicPartition:
        """The partition with this number."""
        firsts = [self.first_of(index) for index in range(len(self.topics))]
        index = bisect_right(firsts, number) - 1
        return TopicPartition(self.topics[index], number - firsts[index])

    def __iter__(self) -> Iterator[TopicPartition]:
        """Every partition, by number."""
        for topic, count in zip(self.topics, self.counts, strict=True):
            for index in range(count):
                yield TopicPartition(topic, index)

    @property
    def home(self) -> TopicPartition:
        """The partition of the ledger's entry at home, see `ledger`."""
        return TopicPartition(self.topics[0], 0)
