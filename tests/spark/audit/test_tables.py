"""Tables and Delta versions as sides: read in parts, at one moment, and refused where their rows would be wrong."""

from __future__ import annotations

from pathlib import Path

import deltalake
import psycopg
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from semel.audit.delta_tables import DeltaVersion
from semel.audit.jdbc import JdbcSettings, read_table
from semel.audit.places import Files, Table, parse_place
from semel.audit.tables import table_side
from semel.engine.jars import POSTGRES_DRIVER
from semel.engine.postgres import PostgresServer
from semel.errors import ConfigError, EnvironmentFailure

SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SET TRANSACTION SNAPSHOT '{}'"


def place_of(server: PostgresServer, table: str) -> Table:
    place = parse_place(f"jdbc:postgresql://127.0.0.1:{server.port}/postgres#{table}")
    assert isinstance(place, Table)
    return place


def settings(server: PostgresServer, **more: str) -> JdbcSettings:
    given = psycopg.conninfo.conninfo_to_dict(server.conninfo)
    login = {"user": str(given["user"]), "password": str(given["password"])}
    return JdbcSettings.of(login | more, {}, "a file")


@pytest.mark.full
def test_a_table_is_read_in_parts_and_at_one_moment(spark: SparkSession, postgres: PostgresServer) -> None:
    for jar in POSTGRES_DRIVER.fetch():
        spark.sql(f"ADD JAR '{jar}'")
    with psycopg.connect(postgres.conninfo, autocommit=True) as connection:
        connection.execute('CREATE TABLE parts ("Id" bigint, name text)')
        nothing = read_table(spark, place_of(postgres, "parts"), settings(postgres, partitionColumn="Id"))
        assert nothing.count() == 0
        connection.execute("INSERT INTO parts SELECT n, 'x' FROM generate_series(-50, 49) n")
        connection.execute("INSERT INTO parts VALUES (null, 'no number')")
        named = settings(postgres, partitionColumn="Id", numPartitions="4")
        with psycopg.connect(postgres.conninfo) as holder:
            holder.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            (snapshot,) = holder.execute("SELECT pg_export_snapshot()").fetchone() or ("",)
            rows = read_table(spark, place_of(postgres, "parts"), named, SNAPSHOT.format(snapshot))
            connection.execute("INSERT INTO parts SELECT n, 'later' FROM generate_series(0, 9) n")
            assert rows.rdd.getNumPartitions() == 4
            assert rows.count() == 101, "what came later is not seen, and what has no number is"
        assert read_table(spark, place_of(postgres, "parts"), named).count() == 111


@pytest.mark.full
def test_databases_that_refuse_are_told_apart(spark: SparkSession, postgres: PostgresServer) -> None:
    for jar in POSTGRES_DRIVER.fetch():
        spark.sql(f"ADD JAR '{jar}'")
    with pytest.raises(ConfigError, match="cannot be read") as error:
        table_side(spark, place_of(postgres, "parts"), settings(postgres, password="hunter2"))
    assert "authentication failed" in str(error.value)
    assert "hunter2" not in str(error.value)
    with pytest.raises(ConfigError, match='relation "nowhere" does not exist'):
        table_side(spark, place_of(postgres, "nowhere"), settings(postgres))
    unreachable = Table(text="x", url="jdbc:postgresql://127.0.0.1:1/shop", table="orders")
    with pytest.raises(EnvironmentFailure, match="cannot be reached"):
        table_side(spark, unreachable, settings(postgres))
    without = Table(text="x", url="jdbc:mysql://127.0.0.1:1/shop", table="orders")
    with pytest.raises(EnvironmentFailure, match="lacks the format or the driver"):
        table_side(spark, without, settings(postgres))


def delta(folder: Path) -> DeltaVersion:
    return DeltaVersion.now(Files(text=f"delta:{folder}", form="delta", path=str(folder)))


def test_a_version_of_a_delta_table_stays_what_it_is(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "orders"
    rows = pa.table({"id": pa.array([1, 2, None], pa.int64()), "day": ["01", None, "a=b/c d%"]})
    deltalake.write_deltalake(str(folder), rows, partition_by=["day"])
    version = delta(folder)
    deltalake.write_deltalake(str(folder), rows, mode="overwrite")
    deltalake.write_deltalake(str(folder), rows, mode="append")
    found = version.side(spark).frame
    assert [(one.name, one.dataType.simpleString()) for one in found.schema] == [("id", "bigint"), ("day", "string")]
    assert {tuple(row) for row in found.collect()} == {(1, "01"), (2, None), (None, "a=b/c d%")}
    assert delta(folder).side(spark).frame.count() == 6
