"""`semel.Deduplicator`: lets each key through once, with the keys kept where the results are, in the same transaction.

    seen = semel.Deduplicator(store, "payments", window_ms=86_400_000)
    with store.transaction(batch) as t:
        for record in batch:
            if seen.admit(t, record.key, record.timestamp_ms):
                t.execute(…)

It is exact inside its window and promises nothing beyond: of two records with one key the second is refused if at most
`window_records` other keys were admitted in between, or if it is at most `window_ms` younger. A record that is older
than the whole window cannot be judged; `before_window` says whether it is admitted (nothing lost) or refused (nothing
twice), and `judged_blindly` counts them.

Keeps: K9 inside the window a key is admitted once, also across crashes, restarts and members of a group.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from semel.clients.stores import Store, StoreTransaction, quoted
from semel.errors import ConfigError

BeforeWindow = Literal["admit", "refuse"]


class Deduplicator:
    """The keys of one scope, in a table of the store."""

    def __init__(
        self,
        store: Store,
        scope: str,
        *,
        window_records: int | None = None,
        window_ms: int | None = None,
        before_window: BeforeWindow = "admit",
        table: str = "semel_seen",
    ) -> None:
        """One bound must be set: a window without one would grow for ever."""
        if (window_records is None) == (window_ms is None):
            raise ConfigError(
                "the window has no bound, or two",
                you_want="window_records=1_000_000, or window_ms=86_400_000",
                because="keys are kept for as long as the window says, and no longer",
            )
        if (window_records or window_ms or 0) < 1:
            raise ConfigError("the window must hold something", you_wrote=f"{window_records or window_ms}")
        if before_window not in ("admit", "refuse"):
            raise ConfigError(f"before_window={before_window!r} is unknown", you_want="admit | refuse")
        self._store, self._scope = store, scope
        self._window_records, self._window_ms = window_records, window_ms
        self._before_window = before_window
        self._table = quoted(table)
        self._newest = 0
        self.judged_blindly = 0
        store.make(
            f"CREATE TABLE IF NOT EXISTS {self._table} (scope text NOT NULL, seen_key {store.dialect.binary} NOT NULL,"
            " place bigint NOT NULL, PRIMARY KEY (scope, seen_key))",
            f"CREATE INDEX IF NOT EXISTS {quoted(table.replace('.', '_') + '_place')} ON {self._table} (scope, place)",
        )

    def admit(self, t: StoreTransaction, key: bytes | str, timestamp_ms: int | None = None) -> bool:
        """Whether the key is new; it is remembered with the transaction and forgotten with its abort."""
        return self.admit_many(t, [(key, timestamp_ms)])[0]

    def admit_many(self, t: StoreTransaction, keys: Iterable[tuple[bytes | str, int | None]]) -> list[bool]:
        """The same for many; the window moves on behind the last of them."""
        if t.store is not self._store:
            raise ConfigError("the transaction is another store's", because="keys are kept where the results are")
        newest = f"SELECT COALESCE(MAX(place), 0) FROM {self._table} WHERE scope = ?"  # noqa: S608 - quoted
        self._newest = int(self._store.run(newest, (self._scope,)).fetchone()[0])
        verdicts = [self._admit_one(as_bytes(key), self._place(timestamp_ms)) for key, timestamp_ms in keys]
        self._forget()
        return verdicts

    def _place(self, timestamp_ms: int | None) -> int:
        """Where in the window a record stands: its time, or its number."""
        if self._window_ms is None:
            return self._newest + 1
        if timestamp_ms is None:
            raise ConfigError("the record carries no time", you_want="window_records, or records with timestamps")
        return timestamp_ms

    def _admit_one(self, key: bytes, place: int) -> bool:
        if self._window_ms is not None and place < self._newest - self._window_ms:
            self.judged_blindly += 1
            return self._before_window == "admit"
        insert = f"INSERT INTO {self._table} VALUES (?, ?, ?) ON CONFLICT DO NOTHING"  # noqa: S608 - quoted
        is_new = bool(self._store.run(insert, (self._scope, key, place)).rowcount == 1)
        if is_new:
            self._newest = max(self._newest, place)
        return is_new

    def _forget(self) -> None:
        """Drop the keys that the window has left."""
        bound = self._window_ms if self._window_ms is not None else (self._window_records or 1) - 1
        delete = f"DELETE FROM {self._table} WHERE scope = ? AND place < ?"  # noqa: S608 - quoted
        self._store.run(delete, (self._scope, self._newest - bound))


def as_bytes(key: bytes | str) -> bytes:
    """A key as it is kept."""
    return key.encode() if isinstance(key, str) else bytes(key)
