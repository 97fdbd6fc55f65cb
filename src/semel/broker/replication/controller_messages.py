"""What brokers say to the controller: registration, heartbeats, proposals of in-sync replicas (KIP-631, KIP-497).

They have the names and keys of Apache Kafka's messages, so that fault hooks can be armed for them, and never leave the
process: brokers do not serve them to clients.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar
from uuid import UUID

from semel.broker.metadata.cluster_state import Node
from semel.broker.replication.followers import IsrProposal
from semel.protocol.error_codes import ErrorCode
from semel.protocol.message import Message

PartitionId = tuple[UUID, int]


@dataclass(slots=True, kw_only=True)
class AlterPartitionRequest(Message):
    """A leader proposes other in-sync replicas for partitions that it leads."""

    API_KEY: ClassVar[int] = 56
    broker_id: int
    broker_epoch: int
    proposals: Mapping[PartitionId, IsrProposal]


@dataclass(slots=True, kw_only=True)
class AlterPartitionResponse(Message):
    """An error for each partition, or one for all; what was decided comes as a new state of the cluster."""

    API_KEY: ClassVar[int] = 56
    error_code: ErrorCode = ErrorCode.NONE
    codes: Mapping[PartitionId, ErrorCode] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class BrokerRegistrationRequest(Message):
    """A broker has started and listens there."""

    API_KEY: ClassVar[int] = 62
    node: Node


@dataclass(slots=True, kw_only=True)
class BrokerRegistrationResponse(Message):
    """The epoch of this life of the broker."""

    API_KEY: ClassVar[int] = 62
    error_code: ErrorCode = ErrorCode.NONE
    broker_epoch: int = -1


@dataclass(slots=True, kw_only=True)
class BrokerHeartbeatRequest(Message):
    """A broker is alive, or wants to stop in order."""

    API_KEY: ClassVar[int] = 63
    broker_id: int
    broker_epoch: int
    # The controller moves leaders away before it answers, so that clients find new ones before the socket closes.
    want_shut_down: bool = False


@dataclass(slots=True, kw_only=True)
class BrokerHeartbeatResponse(Message):
    """Whether the controller counts on the broker."""

    API_KEY: ClassVar[int] = 63
    error_code: ErrorCode = ErrorCode.NONE
    is_fenced: bool = True


# By name for fault hooks; the keys are Apache Kafka's.
CONTROLLER_APIS = MappingProxyType({"AlterPartition": 56, "BrokerRegistration": 62, "BrokerHeartbeat": 63})
