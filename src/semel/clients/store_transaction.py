"""`StoreTransaction`: the database transaction of one batch, from the `with` to its end.

Nobody but this class begins or ends it: there is no connection to commit, a statement that would end it is refused, and
before the offsets move the database is asked whether it is still the transaction that was begun.

Keeps: K7 a batch's results and its offsets are in the database together or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from semel.clients.records import Batch
from semel.clients.statements import checked
from semel.clients.steps import ClientStep, OnStep
from semel.errors import ConfigError, OutcomeUnknownError, SemelError, SinkError
from semel.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from semel.clients.store_session import Connection, Session
    from semel.clients.stores import Store

Parameters = Sequence[object] | Mapping[str, object]


class Stage(Enum):
    """How far a transaction is, in the words of a refusal."""

    NOT_BEGUN = "has not begun"
    OPEN = "is open"
    BROKEN = "was ended by one of its own statements"
    ENDED = "has ended"
    CUT_OFF = "has ended: its store was closed"
    FORKED = "was begun in another process"


class Rows:
    """What a statement gave: iterate, or fetch."""

    __slots__ = ("_cursor",)
    # Set from outside, for one is made for every record. It stays inside: it would lead to the connection.
    _cursor: Any

    @property
    def rowcount(self) -> int:
        """How many rows were changed, or found."""
        return int(self._cursor.rowcount)

    @property
    def columns(self) -> list[str]:
        """The names of the columns; none when the statement gives no rows."""
        return [column[0] for column in self._cursor.description or ()]

    def fetchone(self) -> Any:
        """The next row, or None."""
        return self._cursor.fetchone()

    def fetchall(self) -> list[Any]:
        """All rows that are left."""
        return list(self._cursor.fetchall())

    def __iter__(self) -> Iterator[Any]:
        """Row by row."""
        return iter(self._cursor)


class StoreTransaction:
    """One transaction: what is executed here is kept with the offsets of the batch."""

    def __init__(self, store: Store, session: Session, batch: Batch, on_step: OnStep) -> None:
        """Nothing is begun yet."""
        self.store = store
        self.batch = batch
        self._session = session
        self._on_step = on_step
        self._stage = Stage.NOT_BEGUN
        self._connection: Any = None  # as long as the stage is OPEN
        self._identity: object = None
        self._text: str | None = None  # the last statement, as long as it was checked and the stage is OPEN
        self._ends: dict[TopicPartition, int] = {}

    def execute(self, sql: Any, parameters: Parameters | None = None) -> Rows:
        """Run one statement, with the database's own marks for parameters."""
        # This runs for every record, mostly with the same text, so each text is looked at once, when it is new.
        if sql is not self._text:
            return self._execute_new(sql, parameters)
        rows = Rows()
        try:
            connection = self._connection
            rows._cursor = connection.execute(sql) if parameters is None else connection.execute(sql, parameters)
        except BaseException:
            self._text = None
            self.notice_end()
            raise
        return rows

    def _execute_new(self, sql: Any, parameters: Parameters | None) -> Rows:
        """Run a text that is not the last one: look at it first, and whether it ended the transaction afterwards."""
        text = self.store.text(sql)
        checked(text)
        self.opened()
        self._text = text
        rows = self.execute(text, parameters)
        self.notice_end()
        return rows

    def run(self, text: str, parameters: Sequence[object] = ()) -> Any:
        """Run a statement of semel's own, written with `?`."""
        try:
            return self.opened().execute(self.store.dialect.sql(text), parameters)
        except BaseException:
            self.notice_end()
            raise

    def executemany(self, sql: Any, rows: Iterable[Parameters]) -> None:
        """Run one statement for each row of parameters."""
        text = checked(self.store.text(sql))
        try:
            self.opened().cursor().executemany(text, rows)
        finally:
            self.notice_end()

    def opened(self) -> Connection:
        """The connection; ConfigError when the transaction is not open."""
        self.notice_end()
        if self._connection is None:
            raise ConfigError(
                f"the transaction {self._stage.value}",
                you_want="with store.transaction(batch) as t: …, and t used inside, in the process that began it",
                because="outside of it nothing would be kept with the offsets of the batch",
            )
        connection: Connection = self._connection
        return connection

    def notice_end(self) -> None:
        """Look whether a statement ended the transaction, so that none runs outside of it.

        Asked behind every new text, which may have fooled the refusal, and behind every error: some end it in SQLite.
        """
        if self._connection is not None and not self.store.is_open(self._connection):
            self._go_to(Stage.BROKEN)

    def _go_to(self, stage: Stage) -> None:
        self._stage = stage
        self._text = None
        self._connection = self._session.connection if stage is Stage.OPEN else None

    def __enter__(self) -> Self:
        """Begin."""
        if self._stage is not Stage.NOT_BEGUN:
            raise ConfigError(f"the transaction {self._stage.value}", you_want="another store.transaction(batch)")
        try:
            self._session.occupy(self)
            if self.batch.owner is not None:
                self.batch.owner.confirm_topics()  # before anything is locked: the cluster may take its time
            self._identity = self._session.begin()
            self._go_to(Stage.OPEN)
            self._on_step(ClientStep.BEGUN)
        except BaseException as error:
            if self._session.is_of(self):
                self._undo()
            if isinstance(error, Exception):
                raise self.store.refusal(error, "the transaction cannot be begun") from None
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Move the offsets and commit, or roll back."""
        if self._stage is Stage.FORKED:
            self.opened()
        is_kept = False
        try:
            if error is None:
                self._move()
                self._commit()
                is_kept = True
        finally:
            try:
                if not is_kept:
                    self._undo()
            finally:
                self._go_to(Stage.ENDED)
                self._session.vacate(self)
        self._on_step(ClientStep.COMMITTED if is_kept else ClientStep.ABORTED)
        if is_kept and self.batch.owner is not None:
            self.batch.owner.settled(self.batch)

    def _move(self) -> None:
        if self._stage is Stage.CUT_OFF:
            self.opened()
        self.notice_end()
        try:
            # A COMMIT that slipped through, and a new transaction behind it, would look
            # open all the same. Its number differs.
            if self._connection is not None and self._session.identity == self._identity:
                self._ends = self.store.move(self._connection, self.batch)
            else:
                self._go_to(Stage.BROKEN)
        except Exception as error:  # noqa: BLE001 - each database has its own classes
            raise self.store.refusal(error, "the offsets were not moved") from None
        if self._stage is Stage.BROKEN:
            raise OutcomeUnknownError(
                f"the transaction {Stage.BROKEN.value}",
                because="its offsets were not moved; what was executed before that statement may be kept",
                next_command="look for the results of this batch: it is handed out again",
            )
        self._on_step(ClientStep.OFFSETS_SENT)

    def _commit(self) -> None:
        self._on_step(ClientStep.COMMITTING)
        try:
            self._session.commit()
        except Exception as error:  # noqa: BLE001 - each database has its own classes
            if not self.store.is_lost(error):
                raise self.store.refusal(error, "the transaction was not committed") from None
            self._settle(error)

    def _settle(self, error: Exception) -> None:
        """The connection broke while it committed: ask the offsets, which tell."""
        self._session.disconnect()
        standing = self._ask()
        # The offsets are in the same transaction as the results: where they stand says what became of both.
        if standing == self._ends:
            return
        if standing == {place: self.batch.starts[place] for place in standing}:
            raise self.store.refusal(error, "the transaction was not committed") from None
        raise OutcomeUnknownError(
            "the database connection broke in the commit",
            because=self.store.told(error),
            next_command="look for the results before you do the work again",
        )

    def _ask(self) -> dict[TopicPartition, int]:
        try:
            return self.store.offsets(self.batch.group, self._ends, _gone, self.batch.lives)
        except SemelError as error:
            raise OutcomeUnknownError(
                "the database connection broke in the commit, and cannot be opened again",
                because=str(error),
                next_command="start the consumer again: it goes on from the offsets in the store",
            ) from None

    def _undo(self) -> None:
        """Give the batch back and roll back. An interrupt skips none of it, or the store could not be used any more."""
        try:
            if self.batch.owner is not None:
                self.batch.owner.rewind(self.batch)
        finally:
            if self._session.is_of(self):  # one that was cut off has no connection, and must not undo another's work
                try:
                    self._session.roll_back()
                finally:
                    self._session.vacate(self)

    def cut_off(self) -> None:
        """Refuse everything: the store was closed."""
        self._go_to(Stage.CUT_OFF)

    def forked(self) -> None:
        """Refuse everything: this copy is in a child process, and the transaction is the parent's."""
        self._go_to(Stage.FORKED)


def _gone(place: TopicPartition) -> int:
    """Asking what became of a commit must not make offsets."""
    raise SinkError(f"the store has no offset for {place} any more")
