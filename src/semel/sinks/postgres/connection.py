"""Connections to PostgreSQL, for the driver and for tasks, and what its errors mean.

Keeps: a password is in no error, log or repr; a server that is cut off is noticed within a minute.
Why:   nothing is set for a session and nothing is prepared, so a pooler that gives each transaction another session
       changes nothing. What libpq reads by itself (service files, password files, PG* variables, TLS) works as ever.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any

from semel.errors import ConfigError, MissingExtraError, NoSpaceError, SemelError, SinkError

if TYPE_CHECKING:
    import psycopg

STAGING = "semel_staging_"  # what the names of all staging tables begin with
# The user's own words go first.
LIMITS = {
    # libpq's own names: seconds, then a number of probes, then milliseconds.
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
    "application_name": "semel",
}
# A driver that stands still with the ledger locked is cut off by the server, before another gives up waiting for it.
IDLE_MS_MAX = 20_000
LOCK_WAIT_MS_MAX = 60_000
# How libpq tells, before there is a session with states, that a second try would end the same way.
_WRONG = ("authentication failed", "no password supplied", "does not exist", "pg_hba.conf", "invalid connection option")
# Classes of SQLSTATE: connection, operator intervention, idle and transaction timeouts.
_LOST = ("08", "57", "25P03", "25P04")  # also what was cut off for standing still
# Rollbacks such as deadlocks, resources, objects that are in use.
_AGAIN = ("40", "53", "55")
_DISK_FULL = "53100"
_NO_TABLE, _NO_RIGHT = "42P01", "42501"
_NO_TEXT = "22021"  # bytes that are no text in the database's encoding
# How the server tells where in a COPY it was.
_COPY_COLUMN = re.compile(r'^COPY .*, line \d+, column "?(.+?)"?(?:: .*)?$', re.MULTILINE)


class RowsRefusedError(SinkError):
    """The database refused rows for what is in them: written again they are refused again.

    Nothing of the micro-batch is in the table. Correct the rows, in the query or at their source, or the table's
    constraint that the error names, and start the query again: it goes on with the same micro-batch.
    """


def library() -> ModuleType:
    """Import psycopg, which is an optional library."""
    try:
        import psycopg  # noqa: PLC0415
        import psycopg.conninfo  # noqa: PLC0415
        import psycopg.waiting  # noqa: PLC0415
    except ImportError:
        raise MissingExtraError.of("postgres", "a PostgresSink") from None
    return psycopg


@dataclass(frozen=True, slots=True)
class Address:
    """Where the database is; picklable, and without its password in what is shown."""

    dsn: str = field(repr=False)

    @classmethod
    def of(cls, dsn: object) -> Address:
        """Check what the user gave; ConfigError, without the text, when it cannot be read."""
        psycopg = library()
        try:
            psycopg.conninfo.conninfo_to_dict(dsn if isinstance(dsn, str) else "")
        except psycopg.Error:
            raise _unreadable() from None
        if not isinstance(dsn, str):
            raise _unreadable()
        return cls(dsn)

    @property
    def secret(self) -> str:
        """The password, if the text has one."""
        return str(library().conninfo.conninfo_to_dict(self.dsn).get("password") or "")

    def connect(self) -> psycopg.Connection[Any]:
        """Open a connection; ConfigError for what stays wrong, SinkError for what may pass."""
        driver = library()
        given = driver.conninfo.conninfo_to_dict(self.dsn)
        try:
            # Nothing prepared: a pooler may give the next statement to another session.
            opened: Any = driver.connect(**(LIMITS | given), prepare_threshold=None)
        except driver.Error as error:
            told = self.told(error)
            if any(words in told for words in _WRONG):
                raise ConfigError("PostgreSQL does not let this user in", because=told, you_want=_WANTED) from None
            raise SinkError("PostgreSQL cannot be reached", because=told) from None
        return opened  # type: ignore[no-any-return]

    def told(self, error: Exception) -> str:
        """The text of the server or of the client library, without the password."""
        diagnosis = getattr(error, "diag", None)
        parts = [getattr(diagnosis, "message_primary", None) or str(error).strip()]
        parts += [text for text in (getattr(diagnosis, "message_detail", None),) if text]
        text = "; ".join(parts)
        return text.replace(self.secret, "…") if self.secret else text

    def refusal(self, error: Exception, what: str) -> SemelError:
        """An error of psycopg's as one of ours, which says where and what to do."""
        state = getattr(error, "sqlstate", None) or ""
        told = self.told(error)
        # Without a state the client itself noticed it: the server has said nothing.
        if not state or state.startswith(_LOST):
            return SinkError(f"{what}: the connection to PostgreSQL was lost", because=told)
        if state == _DISK_FULL:
            full = f"{what}: the disk of the PostgreSQL server is full ({state})"
            return NoSpaceError(full, because=told, you_want=_ROOM)
        if state.startswith(_AGAIN):
            return SinkError(f"{what}: PostgreSQL could not do it now ({state})", because=told)
        if state == _NO_TABLE and STAGING in told:
            # In the next run the driver looks whether it is still the owner.
            gone = "a newer driver of this pipeline has taken over and dropped it, or somebody else has dropped it"
            return SinkError(f"{what}: a staging table is gone", because=f"{gone}: {told}")
        if state.startswith(("22", "23")):
            refused = f"{what}: PostgreSQL refuses the rows ({_place(error, state)})"
            return RowsRefusedError(refused, because=told, you_want=_TEXTS if state == _NO_TEXT else _ROWS)
        if state == _NO_RIGHT:
            what, wanted = f"{what}: this user may not do that", _RIGHTS
        else:
            what, wanted = f"{what}: PostgreSQL refuses it ({state})", ""
        return ConfigError(what, because=told, you_want=wanted)


class Line:
    """A driver's one connection; it is opened again when it was lost, and closed with the session."""

    def __init__(self, address: Address) -> None:
        """Nothing is connected yet."""
        self._address = address
        self.connection: psycopg.Connection[Any] | None = None

    def get(self) -> psycopg.Connection[Any]:
        """The connection; a new one when there is none any more."""
        if self.connection is None or self.connection.closed:
            self.connection = self._address.connect()
            # Each statement sees what was committed before it, also behind the lock that it waited for, whatever the
            # server's default is.
            self.connection.isolation_level = library().IsolationLevel.READ_COMMITTED
        return self.connection

    @property
    def is_open(self) -> bool:
        """Whether there is a connection, as far as this side knows."""
        return self.connection is not None and not self.connection.closed

    def close(self) -> None:
        """Close the connection; the server rolls back what was open."""
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()


_WANTED = "host=… dbname=… user=…, and a password there, in PGPASSWORD or in a password file"
_ROOM = "free space on the server, then start the query again; nothing of this micro-batch is in the table"
_ROWS = (
    "rows that fit, by a filter or a change in the query or at their source; or change the table. Then start the query "
    "again: it goes on with this micro-batch"
)
_TEXTS = (
    "texts without zero bytes and with valid UTF-8, such as make_valid_utf8(replace(column, '\\0', '')) in the query. "
    "Then start it again: it goes on with this micro-batch"
)
_RIGHTS = (
    "INSERT and SELECT on the table (UPDATE too for upsert), and USAGE and CREATE in its schema; and, where another "
    "user made them, SELECT, INSERT, UPDATE and DELETE on semel_ledger and semel_commits"
)


def _unreadable() -> ConfigError:
    return ConfigError("the connection string cannot be read", you_want='"host=… dbname=… user=…" or "postgresql://…"')


def _place(error: Exception, state: str) -> str:
    """Table, column and constraint, as far as the server says."""
    diagnosis = getattr(error, "diag", None)
    names = {
        "table": getattr(diagnosis, "table_name", None),
        "column": getattr(diagnosis, "column_name", None) or _copy_column(diagnosis),
        "constraint": getattr(diagnosis, "constraint_name", None),
    }
    return ", ".join([*(f"{kind} {name}" for kind, name in names.items() if name), state])


def _copy_column(diagnosis: Any) -> str | None:
    found = _COPY_COLUMN.search(getattr(diagnosis, "context", None) or "")
    return None if found is None else found[1]


def send(copy: psycopg.Copy, data: bytes | memoryview) -> None:
    """Write into a COPY, and wait until the network has taken it.

    Why: psycopg alone keeps in memory whatever the server has not taken yet, however much that is.
    """
    copy.write(data)
    copy.connection.wait(_sending(copy.connection.pgconn))


def _sending(pgconn: Any) -> Generator[Any, Any, None]:
    waiting = library().waiting
    while pgconn.flush():
        if (yield waiting.Wait.RW) & waiting.Ready.R:
            pgconn.consume_input()  # what the server has to say: it would not read on otherwise


def is_lost(error: Exception) -> bool:
    """Whether nobody knows what the server did with the last statement."""
    if not isinstance(error, library().Error):
        return False
    state = getattr(error, "sqlstate", None)
    return state is None or state.startswith(_LOST)


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    if not name or "\0" in name:
        raise ConfigError(f"{name!r} is no name of a table or column")
    return '"' + name.replace('"', '""') + '"'
