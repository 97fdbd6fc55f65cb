"""What the cluster looks like, as values: partitions, their leaders, topics, brokers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from semel.protocol.topic_partition import TopicPartition

__all__ = ["BrokerAddress", "Isolation", "PartitionInfo", "TopicInfo", "TopicPartition"]


class Isolation(StrEnum):
    """What a reader sees of open and aborted transactions, in the words of `isolation.level`."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"

    @property
    def number(self) -> int:
        """The number on the wire."""
        return int(self is Isolation.READ_COMMITTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAddress:
    """Where a broker listens; `id` is -1 for a bootstrap address."""

    id: int
    host: str
    port: int

    def __str__(self) -> str:
        """As people write it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionInfo:
    """A partition as Metadata shows it; `leader` is -1 while there is none."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...] = ()
    in_sync: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo:
    """A topic as Metadata shows it; `topic_id` tells a recreated topic from the old one."""

    name: str
    topic_id: UUID | None
    is_internal: bool
    partitions: Mapping[int, PartitionInfo]
