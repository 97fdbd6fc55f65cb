"""describe_cluster, v0-2. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class DescribeClusterRequest(Message):
    API_KEY: ClassVar[int] = 60
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 0
    include_cluster_authorized_operations: bool = False
    endpoint_type: int = 1
    include_fenced_brokers: bool = False
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('include_cluster_authorized_operations', 'bool', 0, 2),
        Field('endpoint_type', 'int8', 1, 2),
        Field('include_fenced_brokers', 'bool', 2, 2),
    )


@dataclass(slots=True, kw_only=True)
class DescribeClusterBroker(Message):
    API_KEY: ClassVar[int] = 60
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 0
    broker_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None
    is_fenced: bool = False
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('broker_id', 'int32', 0, 2),
        Field('host', 'string', 0, 2),
        Field('port', 'int32', 0, 2),
        Field('rack', 'string', 0, 2, nullable_first=0),
        Field('is_fenced', 'bool', 2, 2),
    )


@dataclass(slots=True, kw_only=True)
class DescribeClusterResponse(Message):
    API_KEY: ClassVar[int] = 60
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 0
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    endpoint_type: int = 1
    cluster_id: str = ""
    controller_id: int = -1
    brokers: Sequence[DescribeClusterBroker] = ()
    cluster_authorized_operations: int = -2147483648
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('throttle_time_ms', 'int32', 0, 2),
        Field('error_code', 'int16', 0, 2),
        Field('error_message', 'string', 0, 2, nullable_first=0),
        Field('endpoint_type', 'int8', 1, 2),
        Field('cluster_id', 'string', 0, 2),
        Field('controller_id', 'int32', 0, 2),
        Field('brokers', 'message', 0, 2, array=True, message=DescribeClusterBroker),
        Field('cluster_authorized_operations', 'int32', 0, 2),
    )
