"""`Session`: a store's one connection for transactions, and which transaction has it.

Why: a second transaction on the same connection would be the first one, begun twice: whichever ends first commits half
     of the other. So there is one at a time, and a program that needs two at once makes two stores.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from semel.clients.library import never_free
from semel.errors import ConfigError

if TYPE_CHECKING:
    from semel.clients.store_transaction import StoreTransaction
    from semel.clients.stores import Store


class Connection(Protocol):
    """What sqlite3 and psycopg have in common."""

    def execute(self, sql: Any, parameters: Any = ..., /) -> Any:
        """Run one statement."""

    def cursor(self) -> Any:
        """Make a cursor."""

    def commit(self) -> None:
        """Commit."""

    def rollback(self) -> None:
        """Roll back."""

    def close(self) -> None:
        """Close."""


class Session:
    """The connection is opened when a transaction needs it, and opened again when it broke."""

    def __init__(self, store: Store) -> None:
        """Not connected yet."""
        self._store = store
        self._connection: Connection | None = None
        self._place: object = None
        self._lock = threading.Lock()
        self._owner: StoreTransaction | None = None

    @property
    def connection(self) -> Connection:
        """The connection, opened when it is first needed."""
        if self._connection is None:
            self._connection = self._store.connect()
            self._place = self._store.place()
        return self._connection

    def occupy(self, owner: StoreTransaction) -> None:
        """Give the connection to a transaction; ConfigError while another has it."""
        with self._lock:
            self.refuse_if_open("a store has one connection: the first to end would commit half of the other")
            self._owner = owner

    def refuse_if_open(self, because: str) -> None:
        """ConfigError while a transaction is open."""
        if self._owner is not None:
            raise ConfigError(
                "another transaction of this store is open",
                you_want="end it first; threads, and consumers that work at once, each make a store of their own",
                because=because,
            )

    def is_of(self, owner: StoreTransaction) -> bool:
        """Whether this transaction has the connection."""
        return self._owner is owner

    def vacate(self, owner: StoreTransaction) -> None:
        """The transaction is over; one that was cut off lets go of nothing, since another may have it by now."""
        if self._owner is owner:
            self._owner = None

    def begin(self) -> object:
        """Begin, and say which transaction it is; a connection that broke since the last one is opened again."""
        if self._connection is not None and self._store.place() != self._place:
            self.disconnect()  # it leads to a database that nobody else can find any more
        try:
            return self._begin()
        except Exception as error:
            # A connection that broke while nobody used it shows at its next use. Nothing was
            # done on it, so one more try is safe.
            if not self._store.is_lost(error):
                raise
        self.disconnect()
        return self._begin()

    def _begin(self) -> object:
        if self._store.dialect.begin is not None:
            self.connection.execute(self._store.dialect.begin)
        return self._store.identity(self.connection)

    @property
    def identity(self) -> object:
        """Which transaction is open."""
        return self._store.identity(self.connection)

    def commit(self) -> None:
        """Commit."""
        self.connection.commit()

    def roll_back(self) -> None:
        """Undo whatever is open; a connection that cannot do it is let go, which undoes it as well."""
        if self._connection is not None:
            try:
                self._connection.rollback()
            except Exception:  # noqa: BLE001 - each database has its own classes
                self.disconnect()
            except BaseException:  # a second Ctrl-C: nobody knows whether the first got as far as that
                self.disconnect()
                raise

    def disconnect(self) -> None:
        """Let the connection go; the next use opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):  # it is broken already
                connection.close()

    def close(self) -> None:
        """Close; an open transaction is undone and refuses everything from now on."""
        owner, self._owner = self._owner, None
        if owner is not None:
            owner.cut_off()
        self.disconnect()

    def forked(self) -> None:
        """In a child process: leave connection and transaction to the parent."""
        if self._connection is not None:
            never_free(self._connection)
        if self._owner is not None:
            self._owner.forked()
        self._connection, self._owner, self._lock = None, None, threading.Lock()
