"""Tables and Delta versions as sides: read in parts, at one moment, and refused where their rows would be wrong."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import deltalake
import psycopg
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

import semel
from semel.audit.delta_tables import DeltaVersion
from semel.audit.finding import Kind
from semel.audit.jdbc import JdbcSettings, read_table
from semel.audit.places import Files, Table, parse_place
from semel.audit.report import Report
from semel.audit.sides import Side
from semel.audit.tables import table_side
from semel.engine.jars import POSTGRES_DRIVER
from semel.engine.postgres import PostgresServer
from semel.errors import ConfigError, EnvironmentFailure
from semel.history.verdict import Verdict

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


@contextmanager
def session_time_zone(spark: SparkSession, zone: str) -> Iterator[None]:
    before = spark.conf.get("spark.sql.session.timeZone") or "UTC"
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        yield
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_partition_values_are_those_of_the_log(spark: SparkSession, tmp_path: Path) -> None:
    texts = ["plain", "a b+c", "50%", "a/b", "x=y", "ü", None, "a%20b", "007", "[x]{y}*?", "<e>&#é'"]
    number = len(texts)
    moments = [datetime(2024, 3, 31, 1, 30, 0, 123456 + one, tzinfo=UTC) for one in range(number)]
    rows = pa.table(
        {
            "text": pa.array(texts, pa.string()),
            "id": pa.array(range(number), pa.int64()),
            "file": pa.array(range(number), pa.int64()),
            "a.b": pa.array(range(number), pa.int64()),
            "at": pa.array(moments, pa.timestamp("us", "UTC")),
            "day": pa.array([date(1900, 1, 1 + one) for one in range(number)]),
            "cents": pa.array([Decimal(one) / 100 for one in range(number)], pa.decimal128(10, 2)),
            "ok": pa.array([(True, None, False)[one % 3] for one in range(number)]),
            "tiny": pa.array(range(number), pa.int8()),
            "local": pa.array([one.replace(tzinfo=None) for one in moments], pa.timestamp("us")),
        }
    )
    partitioned, plain = tmp_path / "a+b ü%", tmp_path / "plain"
    columns = ["at", "text", "tiny", "day", "cents", "ok", "local"]
    deltalake.write_deltalake(str(partitioned), rows, partition_by=columns)
    deltalake.write_deltalake(str(plain), rows)
    with session_time_zone(spark, "Europe/Berlin"):
        left, right = delta(plain).side(spark), delta(partitioned).side(spark)
        assert right.frame.schema == left.frame.schema
        report = semel.audit(left, right, key="id")
        assert report.verdict is Verdict.HELD, str(report)
        rows = rows.slice(0, 2)
        deltalake.write_deltalake(str(plain), rows, mode="overwrite")
        report = semel.audit(delta(plain).side(spark), right, key="id")
    unexpected = next(one for one in report.comparisons[0].findings if one.kind is Kind.UNEXPECTED)
    assert unexpected.count == number - 2
    assert all(".parquet#" in one.right for one in unexpected.examples)


def test_an_empty_text_as_a_partition_value_is_the_null_that_the_log_calls_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    deltalake.write_deltalake(str(tmp_path / "t"), pa.table({"id": [1, 2], "p": ["", "x"]}), partition_by=["p"])
    assert {tuple(one) for one in delta(tmp_path / "t").side(spark).frame.collect()} == {(1, None), (2, "x")}


def test_bytes_as_partition_values_are_refused(tmp_path: Path) -> None:
    rows = pa.table({"id": [1], "p": pa.array([b"\x01"], pa.binary())})
    deltalake.write_deltalake(str(tmp_path / "t"), rows, partition_by=["p"])
    with pytest.raises(ConfigError, match="partitions by bytes: p"):
        delta(tmp_path / "t")


def files(spark: SparkSession, form: str, path: Path | str) -> Side:
    place = parse_place(f"{form}:{path}")
    assert isinstance(place, Files)
    return table_side(spark, place, JdbcSettings())


def compared(spark: SparkSession, form: str, left: Path, right: Path) -> Report:
    return semel.audit(files(spark, form, left), files(spark, form, right), key="id")


def written(folder: Path, form: str, *tables: pa.Table) -> Path:
    """Each table as a file of its own, the first one read first."""
    folder.mkdir(parents=True)
    for number, one in enumerate(tables):
        file = folder / f"{number}.{form}"
        if form == "parquet":
            pyarrow.parquet.write_table(one, file)
        elif form == "orc":
            pyarrow.orc.write_table(one, file)
        else:
            file.write_text("".join(json.dumps(row) + "\n" for row in one.to_pylist()))
    return folder


@pytest.mark.parametrize("form", ["parquet", "orc", "json"])
def test_a_column_that_only_some_files_have_is_compared(spark: SparkSession, tmp_path: Path, form: str) -> None:
    first = pa.table({"id": [1]})
    left = written(tmp_path / "l", form, first, pa.table({"id": [2], "cents": [100]}))
    right = written(tmp_path / "r", form, first, pa.table({"id": [2], "cents": [999]}))
    assert compared(spark, form, left, right).count(Kind.ALTERED) == 1


@pytest.mark.parametrize("form", ["parquet", "json"])
def test_a_folder_that_would_be_read_in_part_is_refused(spark: SparkSession, tmp_path: Path, form: str) -> None:
    one = pa.table({"id": [1]})
    own = written(tmp_path / "own", form, one)
    written(own / "late ü", form, one)
    with pytest.raises(ConfigError, match="read in part: its subfolder 'late ü' is left out") as error:
        files(spark, form, own)
    assert f"{form}:{tmp_path}/{{own,own/late ü}}" in str(error.value)
    assert files(spark, form, f"{tmp_path}/{{own,own/late ü}}").frame.count() == 2, "the advice reads both"
    partitioned = written(tmp_path / "parts", form, one)
    written(partitioned / "day=1", form, one)
    with pytest.raises(ConfigError, match="files beside its partitions are left out"):
        files(spark, form, partitioned)
    nested = tmp_path / "nested"
    written(nested / "x", form, one)
    with pytest.raises(ConfigError, match="read in part: its subfolder 'x' is left out"):
        files(spark, form, nested)


def test_a_folder_that_is_read_whole_is_taken(spark: SparkSession, tmp_path: Path) -> None:
    one = pa.table({"id": [1]})
    for day in (1, 2):
        written(tmp_path / "parts" / f"day={day}" / "shop=a b", "parquet", one)
    written(tmp_path / "parts" / "_temporary" / "0", "parquet", one)
    written(tmp_path / "run=3" / "flat", "parquet", one)
    written(tmp_path / "run=3" / "flat" / ".hidden", "parquet", one)
    assert files(spark, "parquet", tmp_path / "parts").frame.count() == 2
    assert files(spark, "parquet", tmp_path / "run=3" / "flat").frame.count() == 1
    assert files(spark, "parquet", tmp_path / "run=3" / "fl*" / "*.parquet").frame.count() == 1
    assert files(spark, "parquet", os.path.relpath(tmp_path / "run=3" / "flat")).frame.count() == 1


def csv(folder: Path, *texts: str) -> Path:
    folder.mkdir()
    for number, one in enumerate(texts):
        (folder / f"{number}.csv").write_text(one)
    return folder


def test_every_header_of_a_csv_folder_counts(spark: SparkSession, tmp_path: Path) -> None:
    left = csv(tmp_path / "l", "id,cents\n1,2\n", "id,cents\n3,4\n")
    right = csv(tmp_path / "r", "id,cents\n1,2\n", "cents,id\n3,4\n")
    assert compared(spark, "csv", left, left).verdict is Verdict.HELD
    with pytest.raises(ConfigError, match="files of one CSV folder have different headers") as error:
        compared(spark, "csv", left, right)
    assert f"{right}/1.csv has another header" in str(error.value)
    (right / "1.csv").write_text("id,cents,paid\n3,4,5\n")
    with pytest.raises(ConfigError, match="different headers"):
        compared(spark, "csv", left, right)


def lines(folder: Path, *values: str) -> Path:
    folder.mkdir()
    (folder / "a.json").write_text("".join(f'{{"id":{at},"v":{one}}}\n' for at, one in enumerate(values)))
    return folder


def test_numbers_in_json_are_exact(spark: SparkSession, tmp_path: Path) -> None:
    left = lines(tmp_path / "l", "1.000000000000000001", "1.50", "2e3", "12345678901234567890")
    right = lines(tmp_path / "r", "1.000000000000000002", "1.5", "2000", "12345678901234567891")
    assert compared(spark, "json", left, right).count(Kind.ALTERED) == 2
    whole, written_out = lines(tmp_path / "e", "1.5E10", "2e3"), lines(tmp_path / "w", "15000000000", "2000.0")
    assert compared(spark, "json", whole, written_out).verdict is Verdict.HELD


@pytest.mark.parametrize("value", ["12345678901234567890123456789012345678901", "1e300", "[1e300]", '{"x": 1e300}'])
def test_a_number_in_json_that_no_decimal_holds_is_refused(spark: SparkSession, tmp_path: Path, value: str) -> None:
    with pytest.raises(ConfigError, match="more digits than") as error:
        files(spark, "json", lines(tmp_path / "l", value))
    assert "in v" in str(error.value)
