"""What a consumer hands out: `Record`, and `Batch`, the records of one poll with the offsets they stand for.

Why: a record is a thin look at librdkafka's message, made when somebody looks; a batch that is only counted, or whose
     values are taken at once, makes none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from operator import length_hint
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast, overload

from semel.clients.library import confluent
from semel.clients.settings import refusal
from semel.clients.settings_rules import OFFSETS_RULE
from semel.errors import FencedError
from semel.guarantee import Guarantee
from semel.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Message

ILLEGAL_GENERATION = 22


class Life(NamedTuple):
    """The ids of the topic and cluster that a topic name stands for; empty where they are not known."""

    topic_id: str = ""
    cluster_id: str = ""

    def differs(self, other: Life) -> bool:
        """Whether both ids are known and differ."""
        return any(mine and its and mine != its for mine, its in zip(self, other, strict=True))

    def filled(self, other: Life) -> Life:
        """The same, with what only the other one knows."""
        return Life(self.topic_id or other.topic_id, self.cluster_id or other.cluster_id)


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
    # Of equal keys a dict keeps the last value.
    last = dict(zip(places, map(look.offset, messages), strict=True))
    return {TopicPartition(*place): offset for place, offset in last.items()}


class Owner(Protocol):
    """Who handed a batch out."""

    @property
    def store(self) -> object:
        """Where its offsets are kept; None when that is the group."""

    def has_in_hand(self, batch: Batch) -> bool:
        """Whether this is the batch that was handed out last and is not taken back."""

    def confirm_topics(self) -> None:
        """The records of the last batch are of the topics that the offsets are of; BrokerError when they are not."""

    def settled(self, batch: Batch) -> None:
        """The offsets of the batch are kept with its results."""

    def rewind(self, batch: Batch) -> None:
        """The work on the batch was undone."""


class Batch(Sequence[Record]):
    """Records of one poll. `offsets` is where each partition stands when all of them are done (offset_next).

    `lost` has the partitions that the group took away while the batch was worked on.
    """

    __slots__ = (
        "_is_read",
        "_messages",
        "_readers",
        "group",
        "group_metadata",
        "is_taken_over",
        "lives",
        "lost",
        "offsets",
        "owner",
        "records_done",
        "records_handed",
        "starts",
        "taken_by",
    )

    def __init__(
        self,
        messages: Sequence[Message],
        starts: Mapping[TopicPartition, int],
        offsets: Mapping[TopicPartition, int],
        *,
        group: str = "",
        group_metadata: object = None,
        owner: Owner | None = None,
        lives: Mapping[str, Life] | None = None,
    ) -> None:
        """`starts` is where each partition of `offsets` stood before; `owner` wants to know how the batch ended.

        `lives` tells which topics the names stood for when the partitions came.
        """
        self._messages = messages
        self._readers: list[Iterator[object]] = []  # of every loop over the records, to see how far it came
        self._is_read = False
        self.lost: set[TopicPartition] = set()
        self.starts = dict(starts)
        self.offsets = dict(offsets)
        self.group = group
        self.group_metadata = group_metadata
        self.owner = owner
        self.taken_by: object = None  # whose transaction has its offsets
        self.is_taken_over = False  # more was asked for while its own loop was still at it
        # Kept here, so that a loop over an old batch counts nothing of the batch that came after it (K4).
        self.records_handed, self.records_done = len(messages), 0
        self.lives = dict(lives or {})

    def __len__(self) -> int:
        """How many records."""
        return len(self._messages)

    def __iter__(self) -> Iterator[Record]:
        """In the order they were read."""
        reader = iter(self._messages)
        self._readers.append(reader)
        # The last part gives no record. It runs only when a loop asks for one more, which `break` never does.
        return chain(map(Record, reader), self._end_of_loop())

    def _end_of_loop(self) -> Iterator[Record]:
        """No record: a caller who asks for one more has had all of them."""
        self._is_read = True
        yield from ()

    def one_by_one(self) -> Iterator[Record]:
        """As a loop, for somebody who counts the finished ones: this one may be left."""
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
        self._is_read = True
        return list(map(confluent().Message.value, self._messages))

    @property
    def kept(self) -> dict[TopicPartition, int]:
        """The offsets of the partitions that were not taken away."""
        if not self.lost:
            return self.offsets
        return {place: offset for place, offset in self.offsets.items() if place not in self.lost}

    @property
    def left_at(self) -> str:
        """The record at which the loop over the batch was left; empty when one came to its end, or none was begun."""
        if self._is_read or not self._readers:
            return ""
        # An iterator of a list knows how many are left. Of several loops the one that came furthest counts.
        return f"record {len(self) - min(map(length_hint, self._readers))} of {len(self)}"

    def begin_again(self) -> None:
        """The work was undone: what was read of the batch counts for nothing."""
        self._readers.clear()
        self._is_read = False
        self.taken_by = None

    def refuse_commit(self) -> None:
        """Raise why the offsets must not be committed with the results; a commit asks this first."""
        if self.lost:
            raise self.fenced("the batch cannot be committed")
        if self.left_at:
            raise refusal(
                OFFSETS_RULE,
                Guarantee.EXACTLY_ONCE,
                you_wrote=f"a commit of a batch whose loop was left at {self.left_at}",
                you_want="the loop to its end; list(batch) first, to skip some on purpose; or an exception, to undo",
            )

    def fenced(self, what: str) -> FencedError:
        """What is said of a batch that lost partitions."""
        return FencedError(
            f"{what}: {', '.join(map(str, sorted(self.lost)))} went to another member",
            code=ILLEGAL_GENERATION,
            because="the group took the partitions away while the batch was worked on",
            next_command="go on with the next batch: these records come again where the partition is now",
        )

    def standing_after(self, done: int) -> dict[TopicPartition, int]:
        """Where each partition stands when the first `done` records are finished."""
        # A partition with unfinished records stands at the first of them, one without at the end of the batch.
        standing = self.offsets | first_offsets(self._messages[done:])
        # Before the first record there may be offsets without records, so it stands where it stood, not at that record.
        if done == 0:
            standing |= {place: offset for place, offset in self.starts.items() if place in standing}
        return standing

    def __repr__(self) -> str:
        """How much and where."""
        return f"Batch({len(self)} records, {', '.join(f'{p}→{o}' for p, o in self.offsets.items())})"
