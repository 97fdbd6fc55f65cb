"""consumer_protocol_assignment, v0-3. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class TopicPartition(Message):
    API_KEY: ClassVar[int] = -1
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int] = 32768
    topic: str = ""
    partitions: Sequence[int] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('topic', 'string', 0, 3),
        Field('partitions', 'int32', 0, 3, array=True),
    )


@dataclass(slots=True, kw_only=True)
class ConsumerProtocolAssignment(Message):
    API_KEY: ClassVar[int] = -1
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int] = 32768
    assigned_partitions: Sequence[TopicPartition] = ()
    user_data: bytes | None = None
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('assigned_partitions', 'message', 0, 3, array=True, message=TopicPartition),
        Field('user_data', 'bytes', 0, 3, nullable_first=0),
    )
