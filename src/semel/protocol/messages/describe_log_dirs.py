"""describe_log_dirs, v1-5. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class DescribableLogDirTopic(Message):
    API_KEY: ClassVar[int] = 35
    FIRST: ClassVar[int] = 1
    LAST: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int] = 2
    topic: str = ""
    partitions: Sequence[int] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('topic', 'string', 1, 5),
        Field('partitions', 'int32', 1, 5, array=True),
    )


@dataclass(slots=True, kw_only=True)
class DescribeLogDirsRequest(Message):
    API_KEY: ClassVar[int] = 35
    FIRST: ClassVar[int] = 1
    LAST: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int] = 2
    topics: Sequence[DescribableLogDirTopic] | None = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('topics', 'message', 1, 5, nullable_first=1, array=True, message=DescribableLogDirTopic),
    )


@dataclass(slots=True, kw_only=True)
class DescribeLogDirsPartition(Message):
    API_KEY: ClassVar[int] = 35
    FIRST: ClassVar[int] = 1
    LAST: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int] = 2
    partition_index: int = 0
    partition_size: int = 0
    offset_lag: int = 0
    is_future_key: bool = False
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('partition_index', 'int32', 1, 5),
        Field('partition_size', 'int64', 1, 5),
        Field('offset_lag', 'int64', 1, 5),
        Field('is_future_key', 'bool', 1, 5),
    )


@dataclass(slots=True, kw_only=True)
class DescribeLogDirsTopic(Message):
    API_KEY: ClassVar[int] = 35
    FIRST: ClassVar[int] = 1
    LAST: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int] = 2
    name: str = ""
    partitions: Sequence[DescribeLogDirsPartition] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('name', 'string', 1, 5),
        Field('partitions', 'message', 1, 5, array=True, message=DescribeLogDirsPartition),
    )


@dataclass(slots=True, kw_only=True)
class DescribeLogDirsResult(Message):
    API_KEY: ClassVar[int] = 35
    FIRST: ClassVar[int] = 1
    LAST: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int] = 2
    error_code: int = 0
    log_dir: str = ""
    topics: Sequence[DescribeLogDirsTopic] = ()
    total_bytes: int = -1
    usable_bytes: int = -1
    is_cordoned: bool = False
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('error_code', 'int16', 1, 5),
        Field('log_dir', 'string', 1, 5),
        Field('topics', 'message', 1, 5, array=True, message=DescribeLogDirsTopic),
        Field('total_bytes', 'int64', 4, 5),
        Field('usable_bytes', 'int64', 4, 5),
        Field('is_cordoned', 'bool', 5, 5),
    )


@dataclass(slots=True, kw_only=True)
class DescribeLogDirsResponse(Message):
    API_KEY: ClassVar[int] = 35
    FIRST: ClassVar[int] = 1
    LAST: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int] = 2
    throttle_time_ms: int = 0
    error_code: int = 0
    results: Sequence[DescribeLogDirsResult] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('throttle_time_ms', 'int32', 1, 5),
        Field('error_code', 'int16', 3, 5),
        Field('results', 'message', 1, 5, array=True, message=DescribeLogDirsResult),
    )
