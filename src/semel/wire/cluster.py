"""A cluster as a client sees it: who leads what, one connection per broker and thread, coordinators."""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum
from typing import TypeVar

from semel.protocol.message import Message
from semel.wire.connection import Connection
from semel.wire.deadline import Deadline
from semel.wire.settings import WireSettings
from semel.wire.topology import BrokerAddress, TopicInfo, TopicPartition

M = TypeVar("M", bound=Message)


class CoordinatorKind(IntEnum):
    """Whose coordinator is asked for; the numbers on the wire."""

    GROUP = 0
    TRANSACTION = 1


class WireCluster:
    """Metadata and connections; safe to use from several threads and after a fork."""

    def __init__(self, settings: WireSettings) -> None:
        """Nothing is connected yet."""
        self.settings = settings

    def deadline(self, ms: float | None = None) -> Deadline:
        """A deadline of so many milliseconds; without a number, of `default.api.timeout.ms`."""
        raise NotImplementedError

    def topics(self, deadline: Deadline, names: Collection[str] | None = None) -> dict[str, TopicInfo]:
        """Ask for fresh metadata of these topics, or of all; those that do not exist are left out."""
        raise NotImplementedError

    def topic(self, name: str, deadline: Deadline) -> TopicInfo:
        """Give one topic, from memory when it is there; BrokerError when it does not exist."""
        raise NotImplementedError

    def leader(self, partition: TopicPartition, deadline: Deadline) -> int:
        """Give the broker id of the leader; waits for one until the deadline."""
        raise NotImplementedError

    def forget(self, *topics: str) -> None:
        """Ask for these topics again when they are next needed: a leader has moved."""
        raise NotImplementedError

    def connection(self, broker_id: int, deadline: Deadline) -> Connection:
        """Give this thread's connection to a broker, made now if need be."""
        raise NotImplementedError

    def any_connection(self, deadline: Deadline) -> Connection:
        """Give a connection to whichever broker can be reached."""
        raise NotImplementedError

    def coordinator(self, kind: CoordinatorKind, key: str, deadline: Deadline) -> BrokerAddress:
        """Find the coordinator of a group or a transactional id; waits until there is one."""
        raise NotImplementedError

    def close(self) -> None:
        """Close this process's connections; the cluster may be used again."""
        raise NotImplementedError


def shared_cluster(settings: WireSettings) -> WireCluster:
    """Give this process's one cluster for these settings: connections outlive a Spark task in a reused worker."""
    raise NotImplementedError
