"""semel's sinks for tables beside what people use today: the same rows, the same session, in turns.

PostgreSQL, append: semel exactly once, Spark's JDBC writer with its defaults, the same tuned (batches of 10,000 rows
that the driver rewrites into long INSERTs), and psycopg's COPY of the very bytes from one process, which is the most
that the server takes. Upsert: half of the keys are there already; the peer is a JDBC write into a staging table and one
INSERT … ON CONFLICT by hand. Delta Lake: semel exactly once, `deltalake.write_deltalake` of the collected rows, and
Spark's own Parquet writer, which has no log to keep. Last, the trigger of a query with few rows from a topic, read by
semel's source for both, against `foreachBatch` with JDBC.

Figures are ratios of rows in a second, more is better, median (smallest .. largest); of the trigger it is time, less is
better. What was written is counted afterwards, outside of the measured time.
"""

from __future__ import annotations

import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import deltalake
import psycopg
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import semel
from bench.measure.librdkafka import QUIET, WAIT_S_MAX
from bench.measure.rounds import Figures, Options, Samples, Spread, print_table, ratio, run_rounds, write_json
from bench.measure.spark_jobs import QUERY_S_MAX, fresh_topics, started_session
from semel.engine.jars import POSTGRES_DRIVER
from semel.engine.postgres import PostgresServer
from semel.errors import EnvironmentFailure

PARTS = ("append", "upsert", "delta", "triggers")
ROWS, QUICK_ROWS = 1_000_000, 20_000
TASKS = 2
ROW_BYTES = 100
SEMEL, JDBC, JDBC_TUNED, COPY = "semel", "JDBC", "JDBC, tuned", "COPY, one process"
BY_HAND = "JDBC and ON CONFLICT"
WRITE_DELTALAKE, PARQUET = "write_deltalake", "Spark's Parquet"
FOREACH_BATCH = "foreachBatch and JDBC"
JDBC_OPTIONS = {
    JDBC: {},
    JDBC_TUNED: {"batchsize": "10000", "reWriteBatchedInserts": "true"},
}
# What the project aims at, as a ratio to the one named.
TARGETS = {
    ("append", JDBC): 5.0,
    ("append", JDBC_TUNED): 2.5,
    ("append", COPY): 0.6,
    ("upsert", BY_HAND): 2.0,
    ("delta", PARQUET): 0.8,
    ("triggers", FOREACH_BATCH): 1.3,
}
TRIGGER_ROWS, TRIGGERS, QUICK_TRIGGERS, WARM_TRIGGERS = 500, 40, 6, 5
COPY_CHUNK_BYTES = 1 << 20

NARROW = ["id", f"rpad(cast(id AS string), {ROW_BYTES - 8}, 'x') AS text"]
WIDE = [
    "id",
    *(f"cast(id % {7 + number} AS int) AS i{number}" for number in range(6)),
    *(f"double(id) / {3 + number} AS d{number}" for number in range(6)),
    *(f"concat('text ', id % {100 + number}) AS t{number}" for number in range(4)),
    "timestamp_seconds(id) AS at",
    "date_add(date'2020-01-01', cast(id % 1000 AS int)) AS day",
    "id % 2 = 0 AS is_even",
]
SHAPES = {f"{ROW_BYTES}-byte rows": NARROW, f"{len(WIDE)} columns": WIDE}
POSTGRES_TYPES = {
    "bigint": "bigint",
    "int": "integer",
    "double": "double precision",
    "string": "text",
    "timestamp": "timestamptz",
    "date": "date",
    "boolean": "boolean",
}
Work = Callable[[str], Figures]


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """A PostgreSQL server with tables for everybody."""

    server: PostgresServer

    def execute(self, *statements: str) -> None:
        """Each by itself."""
        with psycopg.connect(self.server.conninfo, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    def make(self, name: str, rows: DataFrame) -> None:
        """A table for these rows."""
        columns = ", ".join(f'"{name}" {POSTGRES_TYPES[kind]}' for name, kind in rows.dtypes)
        self.execute(f"DROP TABLE IF EXISTS {name}", f"CREATE TABLE {name} ({columns}, PRIMARY KEY (id))")

    def count(self, name: str) -> int:
        """How many rows it has."""
        with psycopg.connect(self.server.conninfo) as connection:
            (found,) = connection.execute(f"SELECT count(*) FROM {name}").fetchone() or (0,)
        return int(found)

    def jdbc(self, **options: str) -> dict[str, str]:
        """What Spark's JDBC writer needs."""
        known = psycopg.conninfo.conninfo_to_dict(self.server.conninfo)
        url = f"jdbc:postgresql://{known['host']}:{known['port']}/{known['dbname']}"
        login = {"user": str(known["user"]), "password": str(known.get("password", ""))}
        return {"url": url, "driver": "org.postgresql.Driver", **login, **options}


def timed(write: Callable[[], object], rows: int) -> float:
    """Rows in a second."""
    begin = time.perf_counter()
    write()
    return rows / (time.perf_counter() - begin)


def check_count(who: str, found: int, wanted: int) -> None:
    """Losing or doubling is no way to be fast."""
    if found != wanted:
        raise EnvironmentFailure(f"{who} wrote {found} of {wanted} rows")


@contextmanager
def cached(spark: SparkSession, columns: list[str], rows: int) -> Iterator[DataFrame]:
    """Rows in memory, in as many pieces as tasks run at once."""
    made = spark.range(0, rows, 1, TASKS).selectExpr(*columns).cache()
    made.count()
    try:
        yield made
    finally:
        made.unpersist()


def once(rows: DataFrame, sink: semel.PostgresSink | semel.DeltaSink) -> int:
    """Write a batch exactly once, under a name that nobody had."""
    return semel.write_batch(rows, sink, pipeline=f"bench-{uuid.uuid4().hex}", run_id="1")


def copied_bytes(database: Database, table: str) -> bytes:
    """What a table's rows are in COPY's binary format."""
    with (
        psycopg.connect(database.server.conninfo) as connection,
        connection.cursor().copy(f"COPY {table} TO STDOUT (FORMAT BINARY)") as out,
    ):
        return b"".join(bytes(chunk) for chunk in out)


def copy_in(database: Database, table: str, data: bytes) -> None:
    """One process, one connection, one COPY."""
    with (
        psycopg.connect(database.server.conninfo) as connection,
        connection.cursor().copy(f"COPY {table} FROM STDIN (FORMAT BINARY)") as to,
    ):
        for begin in range(0, len(data), COPY_CHUNK_BYTES):
            to.write(data[begin : begin + COPY_CHUNK_BYTES])


def append_work(database: Database, rows: DataFrame, count: int, label: str) -> Work:
    """Everybody appends to an empty table."""
    table, data = "appended", b""

    def work(who: str) -> Figures:
        nonlocal data
        database.make(table, rows)
        if who == SEMEL:
            sink = semel.PostgresSink(database.server.conninfo, table)
            rate = timed(lambda: once(rows, sink), count)
        elif who == COPY:
            rate = timed(lambda: copy_in(database, table, data), count)
        else:
            options = database.jdbc(dbtable=table, **JDBC_OPTIONS[who])
            rate = timed(lambda: rows.write.format("jdbc").options(**options).mode("append").save(), count)
        check_count(who, database.count(table), count)
        data = data or copied_bytes(database, table)  # the first one fills the table for who copies it
        return {label: rate}

    return work


def upsert_work(database: Database, rows: DataFrame, count: int, label: str) -> Work:
    """Half of the keys are there: every second row is replaced, the others are new."""
    table, staging = "upserted", "by_hand"
    names = [f'"{name}"' for name in rows.columns]
    replaced = ", ".join(f"{name} = EXCLUDED.{name}" for name in names[1:])
    merge = (
        f"INSERT INTO {table} SELECT * FROM {staging} ON CONFLICT (id) DO UPDATE SET {replaced}",
        f"TRUNCATE {staging}",
    )
    database.make("seed", rows)
    once(rows.where("id % 2 = 0"), semel.PostgresSink(database.server.conninfo, "seed"))

    def by_hand() -> None:
        options = database.jdbc(dbtable=staging, **JDBC_OPTIONS[JDBC_TUNED])
        rows.write.format("jdbc").options(**options).mode("append").save()
        database.execute(*merge)

    def work(who: str) -> Figures:
        database.make(table, rows)
        database.make(staging, rows)
        database.execute(f"INSERT INTO {table} SELECT * FROM seed", f"ANALYZE {table}")
        sink = semel.PostgresSink(database.server.conninfo, table, mode="upsert", key=["id"], ledger_missing="run")
        rate = timed((lambda: once(rows, sink)) if who == SEMEL else by_hand, count)
        check_count(who, database.count(table), count)
        return {label: rate}

    return work


def delta_work(spark: SparkSession, rows: DataFrame, count: int, label: str) -> Work:
    """Everybody makes a table, or a folder of files."""

    def work(who: str) -> Figures:
        with tempfile.TemporaryDirectory(prefix="semel-bench-") as folder:
            place = str(Path(folder, "table"))
            if who == SEMEL:
                rate = timed(lambda: once(rows, semel.DeltaSink(place)), count)
            elif who == WRITE_DELTALAKE:
                rate = timed(lambda: deltalake.write_deltalake(place, rows.toArrow()), count)
            else:
                rate = timed(lambda: rows.write.parquet(place), count)
            found = spark.read.parquet(place).count() if who == PARQUET else deltalake.DeltaTable(place).count()
        check_count(who, found, count)
        return {label: rate}

    return work


@contextmanager
def numbers(bootstrap: str, count: int) -> Iterator[str]:
    """A topic with so many numbers."""
    with fresh_topics(bootstrap, 1, TASKS) as (topic,):
        producer = Producer({"bootstrap.servers": bootstrap, **QUIET})
        for number in range(count):
            producer.produce(topic, b"%d" % number, partition=number % TASKS)
        if producer.flush(WAIT_S_MAX):
            raise EnvironmentFailure(f"{topic} could not be filled")
        yield topic


def trigger_work(spark: SparkSession, database: Database, bootstrap: str, topic: str, triggers: int) -> Work:
    """Micro-batches of few rows from a topic into a table: the median of the whole trigger."""
    table = "trickled"
    source = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}

    def work(who: str) -> Figures:
        reader = spark.readStream.format("semel").options(**source).option("maxOffsetsPerTrigger", TRIGGER_ROWS)
        rows = reader.load().selectExpr("cast(string(value) AS bigint) AS id")
        database.make(table, rows)
        with tempfile.TemporaryDirectory(prefix="semel-bench-") as checkpoint:
            query = _started(rows, database, table, who, checkpoint)
            try:
                durations = _wait_for(query, triggers + WARM_TRIGGERS)[WARM_TRIGGERS:]
            finally:
                query.stop()
        check_count(who, database.count(table), (triggers + WARM_TRIGGERS) * TRIGGER_ROWS)
        return {"whole trigger": statistics.median(durations)}

    return work


def _started(rows: DataFrame, database: Database, table: str, who: str, checkpoint: str) -> StreamingQuery:
    if who == SEMEL:
        sink = semel.PostgresSink(database.server.conninfo, table)
        name = f"bench-{uuid.uuid4().hex}"
        return semel.write_stream(rows, sink, pipeline=name, guarantee="exactly_once", checkpoint=checkpoint)
    options = database.jdbc(dbtable=table)

    def append(batch: DataFrame, _: int) -> None:
        batch.write.format("jdbc").options(**options).mode("append").save()

    return rows.writeStream.foreachBatch(append).option("checkpointLocation", checkpoint).start()


def _wait_for(query: StreamingQuery, triggers: int) -> list[float]:
    deadline = time.monotonic() + QUERY_S_MAX
    while True:
        taken = [row["durationMs"]["triggerExecution"] for row in query.recentProgress if row["numInputRows"]]
        if len(taken) >= triggers:
            return taken
        failure = query.exception()
        if failure is not None or time.monotonic() > deadline:
            raise EnvironmentFailure(f"only {len(taken)} of {triggers} triggers had rows", because=str(failure))
        time.sleep(0.05)


def show(part: str, samples: Samples, peers: tuple[str, ...], unit: str, per: float) -> None:
    """One line for each kind of row and each peer."""
    lines = [
        [
            f"{part}, {row}",
            f"{Spread.of(figures[SEMEL]).median / per:.2f}",
            peer,
            str(ratio(figures[SEMEL], figures[peer])),
            str(TARGETS.get((part, peer), "-")),
        ]
        for row, figures in samples.items()
        for peer in peers
    ]
    print_table(["", unit, "peer", "semel to peer", "target"], lines)
    print()


def measure(spark: SparkSession, database: Database, options: Options) -> dict[str, Samples]:
    """Every part that was asked for, with everybody in turns."""
    count = QUICK_ROWS if options.quick else ROWS
    makers: Mapping[str, tuple[tuple[str, ...], Callable[[DataFrame, str], Work]]] = {
        "append": ((JDBC, JDBC_TUNED, COPY), lambda rows, label: append_work(database, rows, count, label)),
        "upsert": ((BY_HAND,), lambda rows, label: upsert_work(database, rows, count, label)),
        "delta": ((WRITE_DELTALAKE, PARQUET), lambda rows, label: delta_work(spark, rows, count, label)),
    }
    results: dict[str, Samples] = {}
    for part, (peers, work_of) in makers.items():
        if part not in options.only:
            continue
        samples: Samples = {}
        for label, columns in SHAPES.items():
            with cached(spark, columns, count) as rows:
                work = work_of(rows, label)
                samples |= run_rounds((SEMEL, *peers), work, options.rounds, label=f"{part}, {label}")
        show(part, samples, peers, "M rows/s", 1e6)
        results[part] = samples
    if "triggers" in options.only:
        triggers = QUICK_TRIGGERS if options.quick else TRIGGERS
        # The embedded broker: it takes little of the machine, and is the same for both.
        with (
            semel.Cluster(brokers=1) as cluster,
            numbers(cluster.bootstrap, (triggers + WARM_TRIGGERS) * TRIGGER_ROWS) as topic,
        ):
            work = trigger_work(spark, database, cluster.bootstrap, topic, triggers)
            samples = run_rounds((SEMEL, FOREACH_BATCH), work, options.rounds, label="triggers", warm_up=False)
        show("triggers", samples, (FOREACH_BATCH,), "ms", 1)
        results["triggers"] = samples
    return results


def main() -> None:
    """Measure and print."""
    options = Options.parse("semel's sinks for tables beside JDBC, deltalake and Parquet", PARTS)
    with PostgresServer() as server, started_session(POSTGRES_DRIVER) as spark:
        results = measure(spark, Database(server=server), options)
    print(options.note)
    write_json(options, "tables", results)


if __name__ == "__main__":
    main()
