"""`semel.PostgresSink`: rows of a Spark query into a PostgreSQL table, each micro-batch in one transaction.

    sink = PostgresSink("host=… dbname=shop user=…", "orders")
    query = semel.write_stream(df, sink, pipeline="orders", guarantee="exactly_once", checkpoint="/data/checkpoint")

The columns of the rows are the columns of the table, by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from semel.errors import ConfigError
from semel.sinks.base import Column, Sink, chosen
from semel.sinks.postgres.connection import Address, library
from semel.sinks.postgres.session import PostgresSession
from semel.sinks.postgres.table import Table, as_json, check_key, check_rows, make_table, read_table
from semel.sinks.recovery import LedgerMissing, LostState
from semel.sinks.stamps import with_stamp

if TYPE_CHECKING:
    import psycopg


class Mode(StrEnum):
    """What becomes of a row whose key is there already."""

    APPEND = "append"  # every row is a new one; a key that is there already is an error
    UPSERT = "upsert"  # it takes the place of the one that is there


DAYS_MAX = 36_500


@dataclass(init=False, eq=False)
class PostgresSink(Sink):
    """Where rows go; nothing is connected before a query starts."""

    address: Address
    table: str
    mode: Mode
    key: tuple[str, ...]
    order_by: str | None
    delete_by: str | None
    create_table: bool
    commits_kept_days: int | None
    ledger_missing: LedgerMissing
    lost_state: LostState
    stamp: bool

    def __init__(
        self,
        dsn: str,
        table: str,
        *,
        mode: str = Mode.APPEND,
        key: Sequence[str] = (),
        order_by: str | None = None,
        delete_by: str | None = None,
        create_table: bool = False,
        commits_kept_days: int | None = None,
        ledger_missing: str = LedgerMissing.STOP,
        lost_state: str = LostState.STOP,
        stamp: bool = False,
    ) -> None:
        """`dsn` is what psycopg takes.

        For an upsert, `order_by` is the column that says which of two rows of one key in a micro-batch is the later,
        and `delete_by` one that is true where the key's row is to be deleted. Neither has to be in the table.
        `commits_kept_days` says for how long the lines of `semel_commits` are kept; for good when nobody says.
        `stamp`: no row goes without a column that says which source record it comes from, see `stamps`.
        """
        if not isinstance(table, str) or not all(table.split(".")) or table.count(".") > 1:
            raise ConfigError(f"{table!r} is no name of a table", you_want='"orders" or "shop.orders"')
        self.address = Address.of(dsn)
        self.table = table
        self.mode = chosen(Mode, "mode", mode)
        self.key = (key,) if isinstance(key, str) else tuple(key)
        self.order_by = order_by
        self.delete_by = delete_by
        self.create_table = bool(create_table)
        self.commits_kept_days = _days(commits_kept_days)
        self.ledger_missing = chosen(LedgerMissing, "ledger_missing", ledger_missing)
        self.lost_state = chosen(LostState, "lost_state", lost_state)
        self.stamp = bool(stamp)
        if (self.mode is Mode.UPSERT) != bool(self.key):
            raise ConfigError(
                "an upsert finds rows by their key, and an append looks for none",
                you_wrote=self._mode_words(),
                you_want=f"{self.words(mode='upsert', key=['id'])}; or {self.words(mode='append')} alone",
            )
        for name, given in (("order_by", order_by), ("delete_by", delete_by)):
            if given is not None and (self.mode is Mode.APPEND or given in self.key):
                is_append = self.mode is Mode.APPEND
                why = "an append keeps them all" if is_append else f"all of those have the same {given!r}"
                raise ConfigError(
                    f"{name}={given!r} is about rows that have the same key, and {why}",
                    you_wrote=self._mode_words(**{name: given}),
                    you_want=f"{self.words(mode='upsert', key=['…'], **{name: '…'})}, with a column that is not part "
                    f"of the key; or leave {name} out",
                )

    def _mode_words(self, **more: str) -> str:
        key = {"key": list(self.key)} if self.key else {}
        return self.words(mode=str(self.mode), **key, **more)

    def look_up(self, connection: psycopg.Connection[Any]) -> Table:
        """The table as it is now."""
        return read_table(connection, self.table, self.words(create_table=True))

    @property
    def place(self) -> object:
        """The database: a pipeline has one ledger in a schema there."""
        return self.address

    def check_columns(self, columns: Sequence[Column]) -> tuple[Column, ...]:
        """Hold the rows against the table as it is now; refuse what does not fit. Nested columns are sent as JSON."""
        if self.stamp:
            columns = with_stamp(columns)
        try:
            with self.address.connect() as connection:
                if self.create_table:
                    kept = [column for column in columns if column.name != self.delete_by]
                    make_table(connection, self.table, kept, self.key)
                table = self.look_up(connection)
        except library().Error as error:
            raise self.address.refusal(error, f"looking at the table {self.table!r}") from None
        sent = tuple(as_json(column, table) for column in columns)
        self.check_table(table, sent)
        return sent

    def check_table(self, table: Table, columns: Sequence[Column]) -> None:
        """Refuse rows that this table cannot take, and a table without what the mode needs."""
        names = {column.name for column in columns}
        roles = dict.fromkeys(self.key, "part of the key") | {self.order_by: "order_by", self.delete_by: "delete_by"}
        for name, role in roles.items():
            if name is not None and name not in names:
                raise ConfigError(
                    f"the rows have no column {name!r}, which is {role}", you_wrote=f"columns {sorted(names)}"
                )
        for column in columns:
            if column.name == self.delete_by and column.type != "boolean":
                raise ConfigError(f"column {column.name!r} is {column.type}, delete_by needs boolean")
        check_rows(table, columns, beside=(self.order_by, self.delete_by))
        if self.key:
            check_key(table, self.key)

    def open(self, pipeline: str, is_called_off: Callable[[], bool] = lambda: False) -> PostgresSession:
        """Connect as the pipeline's driver; nobody is fenced yet."""
        library()
        return PostgresSession(self, pipeline, is_called_off)


def _days(given: int | None) -> int | None:
    if given is not None and (not isinstance(given, int) or isinstance(given, bool) or not 1 <= given <= DAYS_MAX):
        raise ConfigError(f"commits_kept_days={given!r} cannot be used", you_want=f"whole days from 1 to {DAYS_MAX}")
    return given
