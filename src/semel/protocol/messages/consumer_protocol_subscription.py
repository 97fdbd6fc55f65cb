"""consumer_protocol_subscription, v0-3. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class TopicPartition(Message):
    API_KEY: ClassVar[int] = -1
    FIRST: ClassVar[int] = 1
    LAST: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int] = 32768
    topic: str = ""
    partitions: Sequence[int] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('topic', 'string', 1, 3),
        Field('partitions', 'int32', 1, 3, array=True),
    )


@dataclass(slots=True, kw_only=True)
class ConsumerProtocolSubscription(Message):
    API_KEY: ClassVar[int] = -1
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int] = 32768
    topics: Sequence[str] = ()
    user_data: bytes | None = None
    owned_partitions: Sequence[TopicPartition] = ()
    generation_id: int = -1
    rack_id: str | None = None
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('topics', 'string', 0, 3, array=True),
        Field('user_data', 'bytes', 0, 3, nullable_first=0),
        Field('owned_partitions', 'message', 1, 3, array=True, message=TopicPartition),
        Field('generation_id', 'int32', 2, 3),
        Field('rack_id', 'string', 3, 3, nullable_first=3),
    )
