"""K10 offsets are kept with the ids of topic and cluster; tables of older versions are brought up in one step."""

from __future__ import annotations

from contextlib import closing

import pytest

import semel
from semel.clients.records import Life
from semel.clients.stores import Store
from semel.errors import BrokerError, ConfigError, FencedError, SinkError
from semel.protocol.topic_partition import TopicPartition
from tests.unit.clients.databases import another, next_work, owned, results, standing
from tests.unit.clients.messages import A, B

VERSION_1 = (
    "CREATE TABLE semel_offsets (group_id text NOT NULL, topic text NOT NULL, partition_id integer NOT NULL,"
    " offset_next bigint NOT NULL, PRIMARY KEY (group_id, topic, partition_id))"
)
FIRST, SECOND, MOVED = Life("first", "here"), Life("second", "here"), Life("first", "elsewhere")


def read(store: Store, life: Life, group: str = "g") -> dict[TopicPartition, int]:
    return store.offsets(group, [A, B], lambda _: 7, {"t": life})


def rows(store: Store, sql: str) -> list[tuple[object, ...]]:
    with closing(store.connect()) as connection:
        return sorted(connection.execute(sql).fetchall())


def test_a_table_without_ids_is_adopted_at_first_use(store: Store) -> None:
    store.make(
        VERSION_1,
        "INSERT INTO semel_offsets VALUES ('g', 't', 0, 5)",
        "INSERT INTO semel_offsets VALUES ('h', 't', 0, 6)",
    )
    assert read(store, FIRST) == {A: 5, B: 7}
    found = rows(store, "SELECT group_id, partition_id, offset_next, topic_id, cluster_id FROM semel_offsets")
    assert found == [("g", 0, 5, "first", "here"), ("g", 1, 7, "first", "here"), ("h", 0, 6, "", "")]
    assert rows(store, "SELECT * FROM semel_schema") == [("semel_offsets", 2)]
    with another(store) as other, pytest.raises(BrokerError, match="deleted and created again"):
        read(other, SECOND)
    assert read(store, SECOND, "h")[A] == 6, "another group is another row"


@pytest.mark.parametrize(("life", "words"), [(SECOND, "deleted and created again"), (MOVED, "in another cluster")])
def test_another_life_is_refused_and_changes_nothing(store: Store, life: Life, words: str) -> None:
    read(store, FIRST)
    with pytest.raises(BrokerError, match=words) as caught:
        read(store, life)
    assert "store.forget('g', 't')" in caught.value.next_command
    assert "store.adopt('g', 't')" in caught.value.next_command
    assert read(store, FIRST) == {A: 7, B: 7}
    assert store.forget("g", "t") == 2
    assert read(store, life) == {A: 7, B: 7}
    assert store.adopt("g", "t") == 2
    assert read(store, FIRST) == {A: 7, B: 7}
    assert (store.forget("g", "nothing"), store.adopt("nobody", "t")) == (0, 0)


def test_a_broker_that_tells_no_ids_is_believed(store: Store) -> None:
    read(store, FIRST)
    assert read(store, Life()) == {A: 7, B: 7}
    with pytest.raises(BrokerError):
        read(store, SECOND)


def test_a_batch_of_the_old_topic_moves_no_offset_of_the_new_one(store: Store) -> None:
    """The row stands where the batch begins, but it is another topic's by now."""
    read(store, FIRST)
    late, owner = owned(store, (A, 7))
    late.lives = {"t": FIRST}
    store.forget("g", "t")
    read(store, SECOND)
    t = store.transaction(late).__enter__()
    t.execute("INSERT INTO results VALUES ('x')")
    with pytest.raises(FencedError):
        t.__exit__(None, None, None)
    assert (read(store, SECOND)[A], results(store), owner.endings) == (7, 0, ["rewound"])


def test_a_table_may_be_named_with_its_schema_where_there_are_schemas(store: Store) -> None:
    if isinstance(store, semel.SqliteStore):
        with pytest.raises(ConfigError, match="no name of a table") as caught:
            semel.SqliteStore(store._path, offsets_table="main.elsewhere")
        assert caught.value.you_want == "elsewhere"
        return
    assert isinstance(store, semel.PostgresStore)
    with semel.PostgresStore(store._conninfo, offsets_table="public.elsewhere") as made:
        for _ in range(2):
            assert standing(made) == {A: 0, B: 0}
            semel.Deduplicator(made, "s", window_records=3, table="public.seen_elsewhere")
    store.make(*(f"DROP TABLE {table}" for table in ("elsewhere", "seen_elsewhere", "seen_elsewhere_windows")))


def test_a_newer_table_is_left_alone(store: Store) -> None:
    standing(store)
    store.make("UPDATE semel_schema SET version = 3")
    with another(store) as other, pytest.raises(ConfigError, match="of version 3"):
        standing(other)


def test_a_step_that_fails_changes_nothing(store: Store) -> None:
    """The second of two columns is there already: the first is not left behind."""
    store.make(VERSION_1, "ALTER TABLE semel_offsets ADD COLUMN cluster_id text")
    with pytest.raises(SinkError, match="cannot be made"):
        standing(store)
    store.make("ALTER TABLE semel_offsets DROP COLUMN cluster_id")
    assert standing(store) == {A: 0, B: 0}


# A file has no users.
@pytest.mark.parametrize("store", ["postgres"], indirect=True)
def test_who_may_not_make_tables_works_with_those_that_are_there(store: Store) -> None:
    standing(store)
    store.make(
        "DROP ROLE IF EXISTS plain",
        "CREATE ROLE plain LOGIN PASSWORD 'plain'",
        "GRANT SELECT, INSERT, UPDATE ON semel_offsets, semel_schema, results TO plain",
    )
    assert isinstance(store, semel.PostgresStore)
    host = " ".join(part for part in store._conninfo.split() if not part.startswith(("user=", "password=")))
    with semel.PostgresStore(f"{host} user=plain password=plain") as plain, next_work(plain) as t:
        t.execute("INSERT INTO results VALUES ('x')")
    store.make("DROP OWNED BY plain", "DROP ROLE plain")
    assert (standing(store)[A], results(store)) == (1, 1)
