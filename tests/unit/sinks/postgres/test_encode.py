"""Arrow columns through a real COPY: what PostgreSQL reads is what was sent, for every type, slice and null."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.engine.postgres import PostgresServer
from semel.errors import ConfigError
from semel.sinks.postgres.encode import CHUNK_BYTES, HEADER, TRAILER, CopyRows

TYPES: dict[str, tuple[pa.DataType, str, st.SearchStrategy[Any]]] = {
    "int8": (pa.int8(), "smallint", st.integers(-(2**7), 2**7 - 1)),
    "int16": (pa.int16(), "smallint", st.integers(-(2**15), 2**15 - 1)),
    "int32": (pa.int32(), "integer", st.integers(-(2**31), 2**31 - 1)),
    "int64": (pa.int64(), "bigint", st.integers(-(2**63), 2**63 - 1)),
    "float32": (pa.float32(), "real", st.floats(width=32)),
    "float64": (pa.float64(), "double precision", st.floats()),
    "bool": (pa.bool_(), "boolean", st.booleans()),
    "text": (pa.string(), "text", st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))),
    "large": (pa.large_string(), "text", st.text("aé🙂", max_size=5)),
    "binary": (pa.binary(), "bytea", st.binary(max_size=40)),
    "date": (pa.date32(), "date", st.dates()),
    "time": (pa.timestamp("us"), "timestamp", st.datetimes()),
    "time with zone": (
        pa.timestamp("us", "UTC"),
        "timestamptz",
        st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)).map(lambda at: at.replace(tzinfo=UTC)),  # noqa: DTZ001
    ),
    "decimal": (pa.decimal128(38, 7), "numeric", st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: _scaled(n, 7))),
    "whole decimal": (pa.decimal128(38, 0), "numeric", st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal)),
    "small decimal": (pa.decimal128(5, 2), "numeric(5,2)", st.integers(-99_999, 99_999).map(lambda n: _scaled(n, 2))),
    "null": (pa.null(), "text", st.none()),
}


def _scaled(number: int, scale: int) -> Decimal:
    return Decimal((number < 0, tuple(map(int, str(abs(number)))), -scale))


@pytest.fixture(scope="module")
def connection(postgres: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres.conninfo) as opened:
        opened.execute("SET timezone = 'UTC'")
        yield opened


def through_postgres(connection: psycopg.Connection[Any], batch: pa.RecordBatch, kinds: list[str]) -> list[Any]:
    names = [f"c{at}" for at in range(len(kinds))]
    columns = ", ".join(f"{name} {kind}" for name, kind in zip(names, kinds, strict=True))
    connection.execute(f"CREATE TEMPORARY TABLE copied (at bigserial, {columns})".encode())
    try:
        with connection.cursor().copy(f"COPY copied ({', '.join(names)}) FROM STDIN (FORMAT binary)".encode()) as copy:
            copy.write(HEADER)
            for chunk in CopyRows.of(batch).chunks():
                copy.write(chunk)
            copy.write(TRAILER)
        # As a double a float keeps its value, where its shortest text would be another.
        read = ", ".join(f"{name}::float8" if kind == "real" else name for name, kind in zip(names, kinds, strict=True))
        return connection.execute(f"SELECT {read} FROM copied ORDER BY at".encode(), binary=True).fetchall()
    finally:
        connection.rollback()


def same(found: Any, sent: Any) -> bool:
    if isinstance(sent, float) and isinstance(found, float):
        return (math.isnan(found) and math.isnan(sent)) or (found, math.copysign(1, found)) == (
            sent,
            math.copysign(1, sent),
        )
    return bool(found == sent)


@pytest.mark.parametrize("name", TYPES)
@settings(max_examples=10)
@given(data=st.data())
def test_values_go_out_exactly(connection: psycopg.Connection[Any], name: str, data: st.DataObject) -> None:
    """P2: beside a number and a text, so that a wrong length shows; and from the middle of a column."""
    kind, sql, strategy = TYPES[name]
    sent = data.draw(st.lists(st.none() | strategy, max_size=12))
    first = data.draw(st.integers(0, len(sent)))
    whole = pa.table({"a": range(len(sent)), "b": pa.array(sent, kind), "c": [f"text {at}" for at in range(len(sent))]})
    batch = whole.combine_chunks().slice(first)
    rows = [row for one in batch.to_batches() for row in through_postgres(connection, one, ["bigint", sql, "text"])]
    assert [(row[0], row[2]) for row in rows] == [(at, f"text {at}") for at in range(first, len(sent))]
    for row, value in zip(rows, batch.column("b").to_pylist(), strict=True):
        assert same(row[1], value), (row[1], value)


def test_many_rows_go_in_chunks(connection: psycopg.Connection[Any]) -> None:
    """Also a row that is larger than a chunk."""
    texts = ["x" * 100] * 30_000 + ["y" * (2 * CHUNK_BYTES)] + ["z"]
    (batch,) = pa.table({"text": texts}).to_batches()
    chunks = [len(chunk) for chunk in CopyRows.of(batch).chunks()]
    assert len(chunks) >= 4
    assert max(chunks[:-2]) <= CHUNK_BYTES
    rows = through_postgres(connection, batch, ["text"])
    assert [len(row[0]) for row in rows] == [len(text) for text in texts]


def test_no_rows_are_no_bytes() -> None:
    (batch,) = pa.table({"a": [1]}).to_batches()
    assert list(CopyRows.of(batch.slice(1)).chunks()) == []


@pytest.mark.parametrize(
    ("column", "told"),
    [
        (pa.array([[1]]), "column 'bad' is list"),
        (pa.array([timedelta(1)]), "column 'bad' is duration"),
        (pa.array([-(2**63)], pa.timestamp("us")), "column 'bad' has a date or time"),
    ],
)
def test_what_has_no_form_is_refused_by_name(column: Any, told: str) -> None:
    (batch,) = pa.table({"bad": column}).to_batches()
    with pytest.raises(ConfigError, match=told):
        CopyRows.of(batch)


def test_the_first_and_the_last_day(connection: psycopg.Connection[Any]) -> None:
    days = [date.min, date(1999, 12, 31), date(2000, 1, 1), date.max]
    (batch,) = pa.table({"day": days}).to_batches()
    assert [row[0] for row in through_postgres(connection, batch, ["date"])] == days
