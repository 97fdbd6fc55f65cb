"""The coordinators of one broker: one for each partition of an internal topic that it leads.

Which one a group or a transactional id belongs to follows from the hash of its name, as in Apache Kafka.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from semel.broker.coordinator.shell import CoordinatorShell
from semel.broker.replication.partition import Partition
from semel.broker.runtime.tasks import Tasks
from semel.protocol.coordinator_partition import coordinator_partition
from semel.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from semel.broker.broker import Broker

C = TypeVar("C", bound=CoordinatorShell[Any, Any])


class Coordinators(ABC, Generic[C]):
    """Follows the leadership of one internal topic's partitions."""

    topic: str
    missing: ErrorCode  # what is answered while the topic is not there

    def __init__(self, broker: Broker) -> None:
        """Start with none; they come with the partitions."""
        self._broker = broker
        self._coordinators: dict[int, C] = {}
        self.tasks = Tasks()

    @abstractmethod
    def load(self, partition: Partition) -> C:
        """Load the coordinator that keeps its state in this partition."""

    def partitions_changed(self) -> None:
        """Load coordinators of partitions that are led here now, let go of others.

        A partition is loaded once everything in it is on all in-sync replicas: what a coordinator acts on must not be
        lost by the next election. Another leader epoch means another coordinator.
        """
        mine = {index: part for (topic, index), part in self._broker.partitions.items() if topic == self.topic}
        for index, coordinator in list(self._coordinators.items()):
            # A broker that led in between may have written other decisions than those remembered here.
            if index not in mine or mine[index].leader_epoch != coordinator.leader_epoch:
                self._coordinators.pop(index).close()
        # Old ones are gone by now, so two coordinators never write to one partition.
        for index, partition in mine.items():
            if index not in self._coordinators and partition.is_settled:
                self._coordinators[index] = self.load(partition)

    def find(self, key: str) -> C | ErrorCode:
        """The coordinator of a group or transactional id, or why it is not here."""
        topic = self._broker.state.topics.get(self.topic)
        if topic is None:
            return self.missing
        index = coordinator_partition(key, len(topic.partitions))
        coordinator = self._coordinators.get(index)
        # It is led here, but not all in-sync replicas have all of it yet. Clients ask again after this answer.
        if coordinator is None and (self.topic, index) in self._broker.partitions:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NOT_COORDINATOR if coordinator is None or coordinator.resigned else coordinator

    def leader_of(self, key: str) -> int | None:
        """The broker that coordinates a group or transactional id."""
        topic = self._broker.state.topics.get(self.topic)
        if topic is None:
            return None
        return topic.partitions[coordinator_partition(key, len(topic.partitions))].leader

    def at(self, index: int) -> C | None:
        """The coordinator of one partition."""
        return self._coordinators.get(index)

    def all(self) -> Iterator[C]:
        """Every coordinator here."""
        yield from self._coordinators.values()

    def close(self) -> None:
        """Stop all coordinators."""
        for coordinator in self._coordinators.values():
            coordinator.close()
        self._coordinators.clear()
        self.tasks.cancel()

    def abandon(self) -> None:
        """Stop all coordinators and answer nobody, as a crash does."""
        for coordinator in self._coordinators.values():
            # No answer, not even an error: the clients of a killed process see a broken connection and nothing else.
            coordinator.abandon()
        self._coordinators.clear()
        self.tasks.cancel()
