"""What a consumer hands out: `Record`, and `Batch`, the records of one poll with the offsets they stand for.

Why: a record is a thin look at librdkafka's message, made when somebody looks; a batch that is only counted, or whose
     values are taken at once, makes none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast, overload

from semel.clients.library import confluent

if TYPE_CHECKING:
    from confluent_kafka import Message


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """As people write it."""
        return f"{self.topic}-{self.partition}"


class Record:
    """One record at one offset."""

    __slots__ = ("_message",)

    def __init__(self, message: Message) -> None:
        """Look at the library's message."""
        self._message = message

    @property
    def topic(self) -> str:
        """Its topic."""
        return self._message.topic() or ""

    @property
    def partition(self) -> int:
        """Its partition."""
        return self._message.partition() or 0

    @property
    def offset(self) -> int:
        """Its offset."""
        return self._message.offset() or 0

    @property
    def place(self) -> TopicPartition:
        """Topic and partition."""
        return TopicPartition(self.topic, self.partition)

    @property
    def key(self) -> bytes | None:
        """Its key."""
        return self._message.key()

    @property
    def value(self) -> bytes | None:
        """Its value; None is a tombstone."""
        return self._message.value()

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        """Its headers, in their order."""
        return list(cast("list[tuple[str, bytes | None]]", self._message.headers() or ()))

    @property
    def timestamp_ms(self) -> int | None:
        """When it was created or appended; None when it carries no time."""
        kind, at_ms = self._message.timestamp()
        return at_ms if kind else None

    def __repr__(self) -> str:
        """Where it is; what is in it may be private."""
        return f"Record({self.place}@{self.offset})"


def first_offsets(messages: Sequence[Message]) -> dict[TopicPartition, int]:
    """The offset of the first message of each partition."""
    return _last_offsets(messages[::-1])


def next_offsets(messages: Sequence[Message]) -> dict[TopicPartition, int]:
    """The offset behind the last message of each partition."""
    return {place: offset + 1 for place, offset in _last_offsets(messages).items()}


def _last_offsets(messages: Sequence[Message]) -> dict[TopicPartition, int]:
    """All in the library's own code: a batch may have many thousands, and few partitions."""
    look = confluent().Message
    places = zip(map(look.topic, messages), map(look.partition, messages), strict=True)
    last = dict(zip(places, map(look.offset, messages), strict=True))
    return {TopicPartition(*place): offset for place, offset in last.items()}


class Owner(Protocol):
    """Who handed a batch out."""

    @property
    def store(self) -> object:
        """Where its offsets are kept; None when that is the group."""

    def settled(self) -> None:
        """The offsets of the last batch are kept with its results."""

    def rewind(self) -> None:
        """The work on the last batch was undone."""


class Batch(Sequence[Record]):
    """Records of one poll. `offsets` is where each partition stands when all of them are done (offset_next)."""

    __slots__ = ("_messages", "group", "group_metadata", "offsets", "owner", "starts")

    def __init__(
        self,
        messages: Sequence[Message],
        starts: Mapping[TopicPartition, int],
        offsets: Mapping[TopicPartition, int],
        *,
        group: str = "",
        group_metadata: object = None,
        owner: Owner | None = None,
    ) -> None:
        """`starts` is where each partition of `offsets` stood before; `owner` wants to know how the batch ended."""
        self._messages = messages
        self.starts = dict(starts)
        self.offsets = dict(offsets)
        self.group = group
        self.group_metadata = group_metadata
        self.owner = owner

    def __len__(self) -> int:
        """How many records."""
        return len(self._messages)

    def __iter__(self) -> Iterator[Record]:
        """In the order they were read."""
        return map(Record, self._messages)

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> list[Record]: ...
    def __getitem__(self, index: int | slice) -> Record | list[Record]:
        """One record, or some."""
        if isinstance(index, slice):
            return [Record(message) for message in self._messages[index]]
        return Record(self._messages[index])

    def values(self) -> list[bytes | None]:
        """All values, without a Record for each."""
        return list(map(confluent().Message.value, self._messages))

    def standing_after(self, done: int) -> dict[TopicPartition, int]:
        """Where each partition stands when the first `done` records are finished."""
        standing = self.offsets | first_offsets(self._messages[done:])
        if done == 0:
            standing |= {place: offset for place, offset in self.starts.items() if place in standing}
        return standing

    def __repr__(self) -> str:
        """How much and where."""
        return f"Batch({len(self)} records, {', '.join(f'{p}→{o}' for p, o in self.offsets.items())})"
