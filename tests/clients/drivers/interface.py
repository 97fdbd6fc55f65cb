"""The one interface that every client library has in these tests, so that a behaviour is written once.

A driver translates; it adds nothing: no retries and no repairs of its own. What a library cannot do at all is named in
`Driver.lacks`, and the tests of that behaviour leave the library out.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from semel.protocol.error_codes import ErrorCode

# Recent, because a broker forgets producers by the time of their records: older than a day is forgotten at any moment.
NOW_MS = time.time_ns() // 1_000_000
# Above the broker's own limit, so that it is the broker that refuses a record.
REQUEST_BYTES_MAX = 8_000_000
READ_WAIT_MS_MAX = 20_000
# A client that closes waits for the answer to its last fetch.
FETCH_WAIT_MS = 100
SESSION_MS = 10_000
# How often a member says that it is alive; also how soon it learns of a rebalance.
HEARTBEAT_MS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where the cluster is and how to be let in."""

    bootstrap: str
    protocol: str = "PLAINTEXT"
    ca_file: str | None = None
    mechanism: str | None = None
    user: str | None = None
    password: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A record as it is given to a producer."""

    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int = NOW_MS
    partition: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Received(Sent):
    """A record as a consumer gave it."""

    offset: int

    @property
    def sent(self) -> Sent:
        """The same without its place in the log, to compare with what was sent."""
        return Sent(
            key=self.key,
            value=self.value,
            headers=self.headers,
            timestamp_ms=self.timestamp_ms,
            partition=self.partition,
        )


class Refused(Exception):
    """The client reported an error; `code` is Kafka's, or the library's own when it is negative."""

    def __init__(self, code: int, text: str) -> None:
        """Keep both."""
        super().__init__(f"{ErrorCode(code).name if code in ErrorCode.__members__.values() else code}: {text}")
        self.code = code


class Member(Protocol):
    """One consumer of a group."""

    def poll(self, wait_ms: int) -> list[Received]:
        """Give what has arrived, waiting at most this long for it."""

    def assignment(self) -> set[tuple[str, int]]:
        """Tell which partitions this member has now."""

    def commit(self) -> None:
        """Commit the position after everything polled so far, and wait for the answer."""

    def close(self) -> None:
        """Leave the group (a static member only stops)."""


class Driver(Protocol):
    """One client library, connected to one cluster."""

    name: str
    lacks: frozenset[str]

    def produce(
        self,
        topic: str,
        records: Sequence[Sent],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
    ) -> list[int]:
        """Send the records with one producer, wait for all, return their offsets (-1 where the client has none)."""

    def consume(
        self,
        topic: str,
        start: Mapping[int, int],
        count: int,
        *,
        committed: bool = False,
        reset: str = "none",
        wait_ms_max: int = READ_WAIT_MS_MAX,
    ) -> list[Received]:
        """Read from these offsets, without a group, until there are `count` records or the time is over."""

    def member(
        self, group: str, topics: Sequence[str], *, session_ms: int = SESSION_MS, instance_id: str | None = None
    ) -> Member:
        """Subscribe a new consumer."""

    def create(self, topic: str, partitions: int, config: Mapping[str, str]) -> None:
        """Create a topic."""

    def delete(self, topic: str) -> None:
        """Delete a topic."""

    def grow(self, topic: str, partitions: int) -> None:
        """Add partitions up to this many."""

    def partition_counts(self) -> dict[str, int]:
        """Name every topic of users with its number of partitions."""

    def topic_config(self, topic: str) -> dict[str, str]:
        """Describe the topic's settings, defaults included."""

    def set_topic_config(self, topic: str, config: Mapping[str, str]) -> None:
        """Change these settings."""

    def groups(self) -> set[str]:
        """List the groups."""

    def group_size(self, group: str) -> int:
        """Describe a group: how many members it has."""

    def delete_group(self, group: str) -> None:
        """Delete a group."""

    def committed(self, group: str, topic: str, partition: int) -> int | None:
        """Tell the committed offset, None when there is none."""

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Delete the records before an offset."""

    def offsets(self, topic: str, partition: int) -> tuple[int, int]:
        """Tell the earliest and the latest offset."""

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        """Tell the offset of the first record at or after this time, None when there is none."""

    def close(self) -> None:
        """End whatever the driver keeps open."""
