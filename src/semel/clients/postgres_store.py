"""`semel.PostgresStore`: offsets and results in one PostgreSQL database (the extra `postgres`).

Keeps: a password is in no error.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, cast

from semel.clients.records import Batch
from semel.clients.statements import checked
from semel.clients.steps import OnStep, ignore_step
from semel.clients.store_schema import quoted
from semel.clients.store_session import Connection
from semel.clients.store_transaction import Parameters, StoreTransaction
from semel.clients.stores import Dialect, Store
from semel.errors import ConfigError, MissingExtraError, SinkError

# A server that is cut off is noticed within a minute, where the system would take hours; the user's own words go first.
LIMITS = {
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}


def _psycopg() -> ModuleType:
    try:
        import psycopg  # noqa: PLC0415 - an extra
        import psycopg.conninfo  # noqa: PLC0415
    except ImportError:
        raise MissingExtraError.of("postgres", "a PostgresStore") from None
    return psycopg


class PostgresStore(Store):
    """A database; members of a group on many machines may share it."""

    # CREATE … IF NOT EXISTS of two sessions at once may fail; the number is any that others do not use.
    dialect = Dialect(
        name="postgres",
        mark="%s",
        begin=None,
        lock=" FOR UPDATE",
        binary="bytea",
        one_maker=("SELECT pg_advisory_xact_lock(7365276)",),
    )

    def __init__(
        self,
        conninfo: str,
        *,
        offsets_table: str = "semel_offsets",
        busy_wait_ms_max: int = 30_000,
        on_step: OnStep = ignore_step,
    ) -> None:
        """`conninfo` is what psycopg takes: `host=… dbname=…` or `postgresql://…`.

        A statement waits `busy_wait_ms_max` for what another transaction has locked, unless lock_timeout is set.
        """
        super().__init__(offsets_table=offsets_table, on_step=on_step)
        self._busy_wait_ms_max = busy_wait_ms_max
        self._conninfo = conninfo
        self._secret = _password(conninfo)

    def connect(self) -> Connection:
        """Open a connection."""
        psycopg = _psycopg()
        try:
            given = psycopg.conninfo.conninfo_to_dict(self._conninfo)
            connection = cast("Connection", psycopg.connect(**(LIMITS | given)))
            # A member that stands still with an open transaction would make the next one wait for ever.
            connection.execute(
                "SELECT set_config('lock_timeout', %s, false) WHERE current_setting('lock_timeout') = '0'",
                (f"{self._busy_wait_ms_max}ms",),
            )
            connection.commit()
        except psycopg.Error as error:
            raise SinkError("PostgreSQL cannot be reached", because=self.told(error)) from None
        return connection

    def is_lost(self, error: Exception) -> bool:
        """Without a state from the server nobody knows what it did; 08 and 57 are the ends of connections."""
        if not isinstance(error, _psycopg().OperationalError):
            return False
        state = getattr(error, "sqlstate", None)
        # SQLSTATE classes: 08 is "connection exception", 57 "operator intervention", such as a server that shuts down.
        return state is None or state.startswith(("08", "57"))

    def is_open(self, connection: Any) -> bool:
        """What the server said with its last answer; nothing is asked."""
        return bool(connection.info.transaction_status != _psycopg().pq.TransactionStatus.IDLE)

    def identity(self, connection: Connection) -> object:
        """The number of the transaction; asking for it begins one."""
        return connection.execute("SELECT txid_current()").fetchone()[0]

    def has_table(self, connection: Connection, name: str) -> bool:
        """Whether the name means a table on the search path, or in its schema."""
        return connection.execute("SELECT to_regclass(%s)", (quoted(name),)).fetchone()[0] is not None

    def text(self, sql: Any) -> str:
        """Also what is composed with psycopg.sql."""
        return super().text(sql.as_string() if hasattr(sql, "as_string") else sql)

    def transaction(self, batch: Batch) -> PostgresTransaction:
        """A database transaction that also moves the batch's offsets."""
        self.refuse_foreign(batch)
        return PostgresTransaction(self, self._session, batch, self._on_step)

    def told(self, error: Exception) -> str:
        """What server or client say, with the password out of it."""
        said = getattr(getattr(error, "diag", None), "message_primary", None)
        text = str(said or error).strip()
        return text.replace(self._secret, "…") if self._secret else text


class PostgresTransaction(StoreTransaction):
    """One transaction, with COPY."""

    @contextmanager
    def copy(self, sql: Any, parameters: Parameters | None = None) -> Iterator[Any]:
        """Run a COPY statement; gives psycopg's `Copy`, with `write_row` and `write`."""
        text = checked(self.store.text(sql))
        try:
            with self.opened().cursor().copy(text, parameters) as copy:
                yield copy
        finally:
            self.notice_end()


def _password(conninfo: str) -> str:
    """The password in a connection string; ConfigError, without the string, when it cannot be read."""
    psycopg = _psycopg()
    try:
        return str(psycopg.conninfo.conninfo_to_dict(conninfo).get("password") or "")
    except psycopg.Error:
        raise ConfigError("the connection string cannot be read", you_want="host=… dbname=… user=…") from None
