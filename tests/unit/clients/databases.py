"""Stores on real databases, and what is in them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import semel
from semel.clients.records import Batch
from semel.clients.store_transaction import StoreTransaction
from semel.clients.stores import Store
from semel.protocol.topic_partition import TopicPartition
from tests.unit.clients.messages import A, B, batch

TABLES = ("semel_schema", "semel_offsets", "semel_seen", "semel_seen_windows", "results")


class Owner:
    """A consumer, as a store knows it."""

    def __init__(self, store: object) -> None:
        self.store, self.endings = store, list[str]()

    def has_in_hand(self, _: Batch) -> bool:
        return not self.endings

    def confirm_topics(self) -> None:
        """They are the same."""

    def settled(self, _: Batch) -> None:
        self.endings.append("settled")

    def rewind(self, _: Batch) -> None:
        self.endings.append("rewound")


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A store of each kind, empty."""
    made: Store
    if request.param == "sqlite":
        made = semel.SqliteStore(tmp_path / "s.db")
    else:
        made = semel.PostgresStore(request.getfixturevalue("postgres").conninfo)
        made.make(*(f"DROP TABLE IF EXISTS {table}" for table in TABLES))
    made.make("CREATE TABLE results (line text)")
    yield made
    made.close()


def another(store: Store) -> Store:
    """The same database, as another process has it."""
    if isinstance(store, semel.PostgresStore):
        return semel.PostgresStore(store._conninfo)
    assert isinstance(store, semel.SqliteStore)
    return semel.SqliteStore(store._path)


def owned(store: Store, *at: tuple[TopicPartition, int]) -> tuple[Batch, Owner]:
    """A batch of a consumer that keeps its offsets in the store."""
    one, owner = batch(*at), Owner(store)
    one.owner = owner
    return one, owner


@contextmanager
def next_work(store: Store) -> Iterator[StoreTransaction]:
    """A transaction with the next record of partition A."""
    with store.transaction(owned(store, (A, standing(store)[A]))[0]) as t:
        yield t


def standing(store: Store) -> dict[TopicPartition, int]:
    return store.offsets("g", [A, B], lambda _: 0)


def results(store: Store) -> int:
    """How many results are committed."""
    with closing(store.connect()) as connection:
        return int(connection.execute("SELECT count(*) FROM results").fetchone()[0])
