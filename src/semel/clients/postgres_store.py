"""`semel.PostgresStore`: offsets and results in one PostgreSQL database (the extra `postgres`).

Keeps: a password is in no error.
"""

from __future__ import annotations

from types import ModuleType
from typing import cast

from semel.clients.steps import OnStep, ignore_step
from semel.clients.stores import Connection, Dialect, Store
from semel.errors import ConfigError, MissingExtraError, SinkError

CONNECT_S_MAX = 10


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

    def __init__(self, conninfo: str, *, offsets_table: str = "semel_offsets", on_step: OnStep = ignore_step) -> None:
        """`conninfo` is what psycopg takes: `host=… dbname=…` or `postgresql://…`."""
        super().__init__(offsets_table=offsets_table, on_step=on_step)
        self._conninfo = conninfo
        self._secret = _password(conninfo)

    def connect(self) -> Connection:
        """Open a connection."""
        psycopg = _psycopg()
        try:
            return cast("Connection", psycopg.connect(self._conninfo, connect_timeout=CONNECT_S_MAX))
        except psycopg.Error as error:
            raise SinkError("PostgreSQL cannot be reached", because=self.told(error)) from None

    def is_lost(self, error: Exception) -> bool:
        """Without a state from the server nobody knows what it did; 08 and 57 are the ends of connections."""
        if not isinstance(error, _psycopg().OperationalError):
            return False
        state = getattr(error, "sqlstate", None)
        return state is None or state.startswith(("08", "57"))

    def told(self, error: Exception) -> str:
        """What server or client say, with the password out of it."""
        said = getattr(getattr(error, "diag", None), "message_primary", None)
        text = str(said or error).strip()
        return text.replace(self._secret, "…") if self._secret else text


def _password(conninfo: str) -> str:
    """The password in a connection string; ConfigError, without the string, when it cannot be read."""
    psycopg = _psycopg()
    try:
        return str(psycopg.conninfo.conninfo_to_dict(conninfo).get("password") or "")
    except psycopg.Error:
        raise ConfigError("the connection string cannot be read", you_want="host=… dbname=… user=…") from None
