"""Look at a query's output from outside, often and cheaply: has it changed, and is anything half written?

A folder is walked, a topic is asked for its end offsets, a table of PostgreSQL for its number of rows. Reading the rows
themselves is the audit's work; this only finds the moment at which a query is struck.
"""

from __future__ import annotations

import os
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from semel.audit.places import Files, Table, Topic, parse_place
from semel.clients.library import confluent, make
from semel.errors import EnvironmentFailure, MissingExtraError

ASK_S_MAX = 5.0
# Where Hadoop's committers, and Spark's with them, keep files that are not committed.
HALF_WRITTEN = "_temporary"
POSTGRES = "jdbc:postgresql:"


@dataclass(frozen=True, slots=True)
class Mark:
    """How an output looks at one moment; two marks differ if something was written between them."""

    looks: Hashable
    is_half_written: bool = False


class Probe(Protocol):
    """Looks at one output."""

    def look(self) -> Mark:
        """As it is now; an output that is not there yet is empty."""

    def has_open_transaction(self) -> bool:
        """Whether rows are there that no reader of committed rows sees before a transaction has ended."""

    def close(self) -> None:
        """Let go of connections."""


@dataclass(slots=True)
class FolderProbe:
    """Files, whatever their format: names and sizes."""

    folder: Path

    def look(self) -> Mark:
        """List the files with their sizes."""
        found: set[tuple[str, int]] = set()
        is_half_written = False
        for place, folders, names in os.walk(self.folder):
            is_half_written = is_half_written or HALF_WRITTEN in folders
            for name in names:
                path = os.path.join(place, name)  # noqa: PTH118 - walked every few milliseconds
                with suppress(FileNotFoundError):  # a temporary file may go between listing and looking
                    found.add((path, os.stat(path).st_size))  # noqa: PTH116
        return Mark(frozenset(found), is_half_written)

    def has_open_transaction(self) -> bool:
        """Files have none."""
        return False

    def close(self) -> None:
        """Nothing is open."""


@dataclass(slots=True)
class TopicProbe:
    """The end of each partition, open and aborted transactions included."""

    bootstrap: str
    topic: str
    _client: Any = field(init=False)
    _committed: Any = field(init=False)

    def __post_init__(self) -> None:
        """Connect."""
        # For a reader of committed records, which is the default, a partition ends where the first open transaction
        # begins: rows that tasks have written would not be seen.
        self._client = self._connected("read_uncommitted")
        self._committed = self._connected("read_committed")

    def _connected(self, isolation: str) -> Any:
        settings = {"bootstrap.servers": self.bootstrap, "group.id": "semel-drill-replay", "log_level": 3}
        return make("Consumer", {**settings, "isolation.level": isolation})

    def look(self) -> Mark:
        """Ask the cluster where each partition ends."""
        ends = self._ends(self._client)
        # An empty topic and one that is not there look the same: nothing was written to either.
        return Mark(ends if any(ends) else ())

    def _ends(self, client: Any) -> tuple[int, ...]:
        library = confluent()
        try:
            described = client.list_topics(self.topic, timeout=ASK_S_MAX).topics[self.topic]
            return tuple(
                client.get_watermark_offsets(library.TopicPartition(self.topic, number), ASK_S_MAX)[1]
                for number in sorted(described.partitions)
            )
        except library.KafkaException as error:
            raise EnvironmentFailure(
                f"topic {self.topic} cannot be watched",
                because=str(error),
                you_want="a cluster that answers, as semel audit needs it too",
            ) from None

    def has_open_transaction(self) -> bool:
        """Whether a reader of committed records comes to an end before the log does."""
        # In this order: what is written in between does not look like a transaction.
        ends = self._ends(self._client)
        return any(seen < end for seen, end in zip(self._ends(self._committed), ends, strict=False))

    def close(self) -> None:
        """Disconnect."""
        self._client.close()
        self._committed.close()


@dataclass(slots=True)
class TableProbe:
    """The number of rows in a table of PostgreSQL that others see."""

    conninfo: str
    table: str
    _connection: Any = field(init=False, default=None)

    def look(self) -> Mark:
        """Count the rows."""
        try:
            import psycopg  # noqa: PLC0415 - an extra
        except ImportError:
            raise MissingExtraError.of("postgres", "watching a table") from None
        try:
            if self._connection is None:
                self._connection = psycopg.connect(self.conninfo, autocommit=True)
            rows = self._connection.execute(f"SELECT count(*) FROM {self.table}".encode()).fetchone()[0]  # noqa: S608 - the user's own words
        except psycopg.errors.UndefinedTable:
            rows = 0
        except psycopg.Error as error:
            raise EnvironmentFailure(
                f"table {self.table} cannot be watched",
                because=str(error).strip(),
                you_want="SEMEL_JDBC_USER and SEMEL_JDBC_PASSWORD in the environment, as semel audit reads them",
            ) from None
        return Mark(rows)

    def has_open_transaction(self) -> bool:
        """A server ends the transaction of a client that has died."""
        return False

    def close(self) -> None:
        """Disconnect."""
        if self._connection is not None:
            self._connection.close()


def probe_of(address: str) -> Probe | None:
    """Who looks at this output, written as for `semel audit`; None for what nobody here can look at cheaply."""
    match parse_place(address):
        case Files(path=path):
            return FolderProbe(Path(path))
        case Topic(bootstrap=bootstrap, name=name):
            return TopicProbe(bootstrap, name)
        case Table(url=url, table=table) if url.startswith(POSTGRES):
            login = {"user": os.environ.get("SEMEL_JDBC_USER"), "password": os.environ.get("SEMEL_JDBC_PASSWORD")}
            return TableProbe(_conninfo(url, login), table)
        case Table():
            return None


def _conninfo(url: str, login: dict[str, str | None]) -> str:
    from psycopg.conninfo import make_conninfo  # noqa: PLC0415 - an extra

    plain = url.removeprefix("jdbc:").partition("?")[0]  # options of the JDBC driver mean nothing here
    return make_conninfo(plain, **{name: value for name, value in login.items() if value})
