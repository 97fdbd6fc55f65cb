"""`semel.Deduplicator`: lets each key through once, with the keys kept where the results are, in the same transaction.

    seen = semel.Deduplicator(store, "payments", window_ms=86_400_000)
    with store.transaction(batch) as t:
        for record in batch:
            if seen.admit(t, record.key, record.timestamp_ms):
                t.execute(…)

A key that was admitted is refused inside the window, both edges included, and admitted again behind it:

- `window_records=3`: K A B C K, the second K is refused; K A B C D K, it is admitted. Refused records do not count.
- `window_ms=100`: K at 1000 and K at 1100, the second is refused; K at 1000 and K at 1101, it is admitted. The order in
  which they come does not matter, as far as they can be judged: a record more than the window older than the newest
  one cannot. `before_window` says whether it is admitted (nothing lost) or refused (nothing twice), and
  `judged_blindly` counts them. A time more than the window ahead of the machine's clock would make everything behind
  it too old to be judged: it is an error.

Keeps: K9 inside the window a key is admitted once, also across crashes, restarts and members of a group.
Why:   members take turns in a scope, from their first key to the end of their transaction: one that did not see what
       another has admitted and forgotten could not judge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Literal

from semel.clients.store_schema import Table, prepare, quoted
from semel.clients.store_transaction import StoreTransaction
from semel.clients.stores import Store
from semel.errors import ConfigError
from semel.world.clock import RealClock

CLOCK = RealClock()
KEY_BYTES_MAX = 1_000
BeforeWindow = Literal["admit", "refuse"]


class Deduplicator:
    """The keys of one scope, in a table of the store; the window is kept with the scope."""

    def __init__(
        self,
        store: Store,
        scope: str,
        *,
        window_records: int | None = None,
        window_ms: int | None = None,
        before_window: BeforeWindow = "admit",
        table: str = "semel_seen",
        now_ms: Callable[[], int] = CLOCK.wall_ms,
    ) -> None:
        """One bound must be set: a window without one would grow for ever."""
        if (window_records is None) == (window_ms is None):
            raise ConfigError(
                "the window has no bound, or two",
                you_want="window_records=1_000_000, or window_ms=86_400_000",
                because="keys are kept for as long as the window says, and no longer",
            )
        self._kind = "window_records" if window_ms is None else "window_ms"
        self._window = _whole(window_records if window_ms is None else window_ms, self._kind)
        if self._window < 1:
            raise ConfigError("the window must hold something", you_wrote=f"{self._kind}={self._window}")
        if before_window not in ("admit", "refuse"):
            raise ConfigError(f"before_window={before_window!r} is unknown", you_want="admit | refuse")
        if not isinstance(scope, str):
            raise ConfigError(f"scope={scope!r} is no name", you_want='Deduplicator(store, "payments", …)')
        self._store, self._scope, self._now_ms = store, scope, now_ms
        self._is_timed = window_ms is not None
        self._before_window = before_window
        self._table, self._windows = store.table(table), store.table(f"{table}_windows")
        self._newest = 0
        self.judged_blindly = 0
        index = quoted(table.replace(".", "_") + "_place")
        keys = "scope text NOT NULL, place bigint NOT NULL, PRIMARY KEY (scope, seen_key)"
        windows = "scope text PRIMARY KEY, kind text NOT NULL, size bigint NOT NULL"
        prepare(
            store,
            Table(
                name=table,
                create=[
                    f"CREATE TABLE {self._table} (seen_key {store.dialect.binary} NOT NULL, {keys})",
                    f"CREATE INDEX IF NOT EXISTS {index} ON {self._table} (scope, place)",
                ],
                steps=[],
            ),
            Table(name=f"{table}_windows", create=[f"CREATE TABLE {self._windows} ({windows})"], steps=[]),
        )
        for kind, size in store.ask(f"SELECT kind, size FROM {self._windows} WHERE scope = ?", (scope,)):  # noqa: S608
            self._refuse_other_window(kind, size)

    def admit(self, t: StoreTransaction, key: bytes | str, timestamp_ms: int | None = None) -> bool:
        """Whether the key is new; it is remembered with the transaction and forgotten with its abort."""
        return self.admit_many(t, [(key, timestamp_ms)])[0]

    def admit_many(self, t: StoreTransaction, keys: Iterable[tuple[bytes | str, int | None]]) -> list[bool]:
        """The same for many."""
        if t.store is not self._store:
            raise ConfigError("the transaction is another store's", because="keys are kept where the results are")
        # All of them are looked at before one is remembered: a caller that catches the error has admitted none.
        looked_at = [(as_bytes(key), self._time(timestamp_ms)) for key, timestamp_ms in keys]
        self._take_turn(t)
        newest = f"SELECT COALESCE(MAX(place), 0) FROM {self._table} WHERE scope = ?"  # noqa: S608 - quoted
        self._newest = int(t.run(newest, (self._scope,)).fetchone()[0])
        self._refuse_future(self._newest, "the newest key", self._drop_future)
        verdicts = [self._admit_one(t, key, self._newest + 1 if at is None else at) for key, at in looked_at]
        self._forget(t)
        return verdicts

    def _take_turn(self, t: StoreTransaction) -> None:
        """Lock the scope until the end of the transaction; ConfigError when it has another window."""
        select = f"SELECT kind, size FROM {self._windows} WHERE scope = ?{self._store.dialect.lock}"  # noqa: S608
        # A loop, since another member may insert the row first: then the insert does
        # nothing and the select waits for it.
        while (found := t.run(select, (self._scope,)).fetchone()) is None:
            insert = f"INSERT INTO {self._windows} VALUES (?, ?, ?) ON CONFLICT DO NOTHING"  # noqa: S608 - quoted
            t.run(insert, (self._scope, self._kind, self._window))
        self._refuse_other_window(str(found[0]), int(found[1]))

    def _refuse_other_window(self, kind: str, size: int) -> None:
        if (kind, size) != (self._kind, self._window):
            where = f"WHERE scope = {_literal(self._scope)}"
            drops = [f"DELETE FROM {table} {where}" for table in (self._table, self._windows)]  # noqa: S608 - quoted
            raise ConfigError(
                f"the scope {self._scope!r} has another window",
                you_wrote=f"{self._kind}={self._window}",
                you_want=f"{kind}={size}, or another scope",
                because="a key that one window has forgotten would be admitted twice in the other",
                next_command=f"store.make({drops[0]!r}, {drops[1]!r}) forgets its keys and its window",
            )

    def _time(self, timestamp_ms: int | None) -> int | None:
        """Where a record stands in a window of time; in one of records it has a number instead, which comes later."""
        if not self._is_timed:
            return None
        if timestamp_ms is None:
            raise ConfigError("the record carries no time", you_want="window_records, or records with timestamps")
        at = _whole(timestamp_ms, "timestamp_ms")
        if at < 0:
            raise ConfigError(f"{at} is no time", you_want="milliseconds since 1970")
        self._refuse_future(at, "the record", lambda _: "seen.admit(t, key, min(record.timestamp_ms, now_ms))")
        return at

    def _refuse_future(self, place: int, what: str, way_out: Callable[[int], str]) -> None:
        now_ms = self._now_ms() if self._is_timed else 0
        if self._is_timed and place > now_ms + self._window:
            raise ConfigError(
                f"the time of {what} is {place - now_ms} ms ahead of this machine's clock, more than the window",
                because="every record behind it would be too old to be judged",
                next_command=f"set the clock right if it is behind; or {way_out(now_ms)}",
            )

    def _drop_future(self, now_ms: int) -> str:
        where = f"WHERE scope = {_literal(self._scope)} AND place > {now_ms}"
        return f"store.make({f'DELETE FROM {self._table} {where}'!r}) forgets the keys of the future"  # noqa: S608 - quoted

    def _admit_one(self, t: StoreTransaction, key: bytes, place: int) -> bool:
        if self._is_timed and place < self._newest - self._window:
            self.judged_blindly += 1
            return self._before_window == "admit"
        # A number is one more than the distance: the window counts the records in between.
        reach = self._window if self._is_timed else self._window + 1
        # One statement judges and remembers: between a SELECT and an INSERT another member could admit the same key.
        insert = (
            f"INSERT INTO {self._table} (scope, seen_key, place) VALUES (?, ?, ?)"  # noqa: S608 - quoted
            " ON CONFLICT (scope, seen_key) DO UPDATE SET place = excluded.place"
            f" WHERE excluded.place - {self._table}.place > ?"
        )
        is_new = bool(t.run(insert, (self._scope, key, place, reach)).rowcount == 1)
        if is_new:
            self._newest = max(self._newest, place)
        return is_new

    def _forget(self, t: StoreTransaction) -> None:
        """Drop the keys that no later record is compared with. A record at the old edge looks back as far again."""
        reach = 2 * self._window if self._is_timed else self._window
        delete = f"DELETE FROM {self._table} WHERE scope = ? AND place < ?"  # noqa: S608 - quoted
        t.run(delete, (self._scope, self._newest - reach))


def as_bytes(key: bytes | str) -> bytes:
    """A key as it is kept: text and its bytes in UTF-8 are the same key."""
    found = key
    if isinstance(key, str):
        with suppress(UnicodeEncodeError):
            found = key.encode()
    if not isinstance(found, bytes):
        raise ConfigError(
            f"a key is bytes or text, and this is {'none' if key is None else f'of type {type(key).__name__}'}",
            you_want="seen.admit(t, record.key, …) with records that have keys, or a key of your own making",
        )
    if len(found) > KEY_BYTES_MAX:
        raise ConfigError(
            f"a key has at most {KEY_BYTES_MAX} bytes, and this has {len(found)}",
            you_want="seen.admit(t, hashlib.sha256(key).digest(), …)",
            because="an index does not take longer ones",
        )
    return found


def _whole(number: object, name: str) -> int:
    # True is an int in Python. The limit leaves room for adding a window within the database's 64 bits.
    if not isinstance(number, int) or isinstance(number, bool) or abs(number) >= 2**62:
        raise ConfigError(f"{name}={number!r} is no whole number of a sensible size")
    return number


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
