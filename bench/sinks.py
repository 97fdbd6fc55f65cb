"""semel's sinks for tables beside what people use today: the same rows, the same session, in turns.

"append" and "upsert" write rows from Spark's memory into a PostgreSQL server of this machine, with two tasks. semel
writes exactly once, ledger and all. Its peers do what a `foreachBatch` function does with a micro-batch: Spark's JDBC
writer with its defaults; the same tuned, with `batchsize` and `reWriteBatchedInserts`; and for an upsert a JDBC write
into a staging table, then one INSERT … ON CONFLICT. "COPY" is the limit: one process sends the same rows, as bytes that
are ready in memory, straight into the table. All tables have a primary key; of the upsert's rows half are there.

"delta" writes the rows into a new Delta table; the peers are `deltalake.write_deltalake` of the rows that Spark hands
to the driver, and Spark's own Parquet writer, which has no log to keep. "triggers" is a query with 500 rows in a
micro-batch, beside `foreachBatch` with the JDBC writer. "encoder" needs no Spark: one process and one COPY from Arrow
columns, with semel's binary encoder and with psycopg's text.

Figures are ratios, median (smallest .. largest): of rows in a second, where more is better; of a trigger's time, where
less is better. A target is met if the median meets it. What was written is counted afterwards, outside of the measured
time, and a wrong count ends the row. `--rows N` is how many rows are written, 400,000 if nobody says.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import deltalake
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import semel
from bench.measure.cpu_time import WITH_DATABASE, used_s
from bench.measure.database import CONFIG, Database
from bench.measure.rounds import Figures, Options, Samples, Spread, print_table, ratio, run_rounds, write_json
from bench.measure.row_shapes import OLD, SHAPES, Shape, cached_rows, check_count
from bench.measure.servers import EmbeddedServer
from bench.measure.sink_steps import STEPS, TimedSink, write_once
from bench.measure.spark_jobs import cpu_row, started_session
from bench.measure.table_triggers import TRIGGER_ROWS, WARM_TRIGGERS, WHOLE, Triggers, topic_of_numbers
from semel.engine.jars import POSTGRES_DRIVER
from semel.engine.postgres import PostgresServer

APPEND, UPSERT, DELTA, TRIGGERS, ENCODER = "append", "upsert", "delta", "triggers", "encoder"
PARTS = (APPEND, UPSERT, DELTA, TRIGGERS, ENCODER)
SEMEL, JDBC, JDBC_TUNED, COPY = "semel", "JDBC", "JDBC, tuned", "COPY"
BY_HAND, BY_HAND_TUNED = "JDBC and ON CONFLICT", "JDBC, tuned, and ON CONFLICT"
WRITE_DELTALAKE, PARQUET = "write_deltalake", "Spark's Parquet"
FOREACH_BATCH = "foreachBatch and JDBC"
PSYCOPG_TEXT = "psycopg's text"
PEERS = {
    APPEND: (JDBC, JDBC_TUNED, COPY),
    UPSERT: (BY_HAND, BY_HAND_TUNED),
    DELTA: (WRITE_DELTALAKE, PARQUET),
    TRIGGERS: (FOREACH_BATCH,),
    ENCODER: (PSYCOPG_TEXT,),
}
# What the project aims at, as a ratio to the peer: at least so much, of a time at most.
TARGETS = {
    (APPEND, JDBC): 5.0,
    (APPEND, JDBC_TUNED): 2.5,
    (APPEND, COPY): 0.6,
    (UPSERT, BY_HAND): 2.0,
    (DELTA, PARQUET): 0.8,
    (TRIGGERS, FOREACH_BATCH): 1.3,
}
TUNED = {"batchsize": "10000", "reWriteBatchedInserts": "true"}
JDBC_OPTIONS: dict[str, dict[str, str]] = {JDBC: {}, BY_HAND: {}, JDBC_TUNED: TUNED, BY_HAND_TUNED: TUNED}

ROWS, QUICK_ROWS = 400_000, 20_000
TRIGGER_COUNT, QUICK_TRIGGER_COUNT = 40, 6
ARROW_ROWS = 10_000  # what Spark hands to a Python task at once
WRITE_S_MAX = 600.0
ENDING_S = 0.3  # until the server has collected the time of sessions that have just ended
TABLE, SEED, STAGING = "written", "seed", "staged_by_hand"

Work = Callable[[str], Figures]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """Rows of one shape in Spark's memory, and the server that they may go to."""

    spark: SparkSession
    database: Database
    shape: Shape
    rows: DataFrame
    count: int

    def timed(self, write: Callable[[], dict[str, float] | None]) -> Figures:
        """Rows in a second, whose processor time a million rows took, and the seconds of the steps that are known."""
        label = self.shape.label
        with limited(self.spark):
            used, began = used_s(WITH_DATABASE), time.perf_counter()
            steps = write() or {}
            taken_s = time.perf_counter() - began
            time.sleep(ENDING_S)
            # A worker that was killed takes its time with it: no figure is better than one below nothing.
            spent = {name: max(0.0, now_s - used[name]) for name, now_s in used_s(WITH_DATABASE).items()}
        return {
            label: self.count / taken_s,
            **{cpu_row(label, name): one / self.count * 1e6 for name, one in spent.items()},
            **{step_row(label, name): one for name, one in steps.items()},
        }

    def jdbc(self, who: str, table: str) -> None:
        """Append with Spark's JDBC writer."""
        options = self.database.jdbc(table, JDBC_OPTIONS[who])
        self.rows.write.format("jdbc").options(**options).mode("append").save()


@contextmanager
def limited(spark: SparkSession) -> Iterator[None]:
    """End Spark's jobs if they take too long, which fails the row."""
    timer = threading.Timer(WRITE_S_MAX, spark.sparkContext.cancelAllJobs)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def step_row(label: str, step: str) -> str:
    """The name of a figure."""
    return f"{label}, {step}"


@contextmanager
def append_work(ground: Ground) -> Iterator[Work]:
    """Everybody appends to an empty table."""
    database = ground.database
    database.make(TABLE, ground.rows)
    write_once(ground.rows, semel.PostgresSink(database.server.conninfo, TABLE))
    data = database.binary_rows(TABLE)

    def work(who: str) -> Figures:
        database.make(TABLE, ground.rows)
        database.settle()
        if who == SEMEL:
            sink = TimedSink(database.server.conninfo, TABLE)
            figures = ground.timed(lambda: write_once(ground.rows, sink))
        elif who == COPY:
            figures = ground.timed(lambda: database.copy_bytes(TABLE, data))
        else:
            figures = ground.timed(lambda: ground.jdbc(who, TABLE))
        check_count(who, database.count(TABLE), ground.count)
        return figures

    yield work


@contextmanager
def upsert_work(ground: Ground) -> Iterator[Work]:
    """Every second row takes the place of an old one, the others are new."""
    database, shape = ground.database, ground.shape
    replaced = ", ".join(f'"{name}" = EXCLUDED."{name}"' for name in ground.rows.columns if name != "id")
    merge = f"INSERT INTO {TABLE} TABLE {STAGING} ON CONFLICT (id) DO UPDATE SET {replaced}"
    old = ground.rows.where("id % 2 = 0").withColumn(shape.text, F.lit(OLD))
    database.make(SEED, ground.rows)
    write_once(old, semel.PostgresSink(database.server.conninfo, SEED))
    check_count("the seed of old rows", database.count_old(SEED, shape), (ground.count + 1) // 2)

    def by_hand(who: str) -> None:
        ground.jdbc(who, STAGING)
        database.execute(merge, f"TRUNCATE {STAGING}")

    def work(who: str) -> Figures:
        database.make(TABLE, ground.rows)
        database.make(STAGING, ground.rows, with_key=False)
        database.execute(f"INSERT INTO {TABLE} TABLE {SEED}", f"ANALYZE {TABLE}")
        database.settle()
        if who == SEMEL:
            sink = TimedSink(database.server.conninfo, TABLE, mode="upsert", key=["id"], ledger_missing="run")
            figures = ground.timed(lambda: write_once(ground.rows, sink))
        else:
            figures = ground.timed(lambda: by_hand(who))
        check_count(who, database.count(TABLE), ground.count)
        check_count(f"{who}, old rows:", database.count_old(TABLE, shape), 0)
        return figures

    try:
        yield work
    finally:
        database.execute(f"DROP TABLE {SEED}", f"DROP TABLE IF EXISTS {STAGING}")


@contextmanager
def delta_work(ground: Ground) -> Iterator[Work]:
    """Everybody makes a table, or a folder of files."""

    def work(who: str) -> Figures:
        with tempfile.TemporaryDirectory(prefix="semel-bench-") as folder:
            place = str(Path(folder, "table"))
            writers: dict[str, Callable[[], dict[str, float] | None]] = {
                SEMEL: lambda: write_once(ground.rows, semel.DeltaSink(place)),
                WRITE_DELTALAKE: lambda: deltalake.write_deltalake(place, ground.rows.toArrow()),
                PARQUET: lambda: ground.rows.write.parquet(place),
            }
            figures = ground.timed(writers[who])
            is_delta = who != PARQUET
            found = deltalake.DeltaTable(place).count() if is_delta else ground.spark.read.parquet(place).count()
        check_count(who, found, ground.count)
        return figures

    yield work


@contextmanager
def encoder_work(ground: Ground) -> Iterator[Work]:
    """The same Arrow columns, in batches as Spark hands them to a task."""
    database = ground.database
    batches = ground.rows.toArrow().to_batches(max_chunksize=ARROW_ROWS)

    def work(who: str) -> Figures:
        database.make(TABLE, ground.rows)
        database.settle()
        copy = database.copy_encoded if who == SEMEL else database.copy_texts
        figures = ground.timed(lambda: copy(TABLE, batches))
        check_count(who, database.count(TABLE), ground.count)
        return figures

    yield work


WORKS = {APPEND: append_work, UPSERT: upsert_work, DELTA: delta_work, ENCODER: encoder_work}


def measure_part(part: str, spark: SparkSession, database: Database, options: Options, count: int) -> Samples:
    """Both shapes, one after the other."""
    samples: Samples = {}
    for shape in SHAPES:
        with cached_rows(spark, shape, count) as rows:
            ground = Ground(spark=spark, database=database, shape=shape, rows=rows, count=count)
            with WORKS[part](ground) as work:
                label = f"{part}, {shape.label}"
                samples |= run_rounds((SEMEL, *PEERS[part]), work, options.rounds, label=label)
    return samples


def measure_triggers(spark: SparkSession, database: Database, options: Options) -> Samples:
    """Small micro-batches; a query warms itself up."""
    measured = QUICK_TRIGGER_COUNT if options.quick else TRIGGER_COUNT
    server = EmbeddedServer()
    try:
        bootstrap = server.start().bootstrap
        topic = topic_of_numbers(bootstrap, (measured + WARM_TRIGGERS) * TRIGGER_ROWS)
        triggers = Triggers(spark=spark, database=database, bootstrap=bootstrap, topic=topic, measured=measured)

        def work(who: str) -> Figures:
            return triggers.trigger_ms(who, with_semel=who == SEMEL)

        return run_rounds((SEMEL, *PEERS[TRIGGERS]), work, options.rounds, label=TRIGGERS, warm_up=False)
    finally:
        server.stop()


def verdict(part: str, peer: str, found: Spread) -> list[str]:
    """Target, and whether it is met."""
    target = TARGETS.get((part, peer))
    if target is None:
        return ["-", "-"]
    is_met = found.median <= target if part == TRIGGERS else found.median >= target
    return [f"{'<=' if part == TRIGGERS else '>='} {target:.1f}", "met" if is_met else "missed"]


def show_ratios(part: str, samples: Samples, labels: tuple[str, ...], unit: str, per: float) -> None:
    """One line for each kind of row and each peer."""
    lines = []
    for label in labels:
        mine = samples[label][SEMEL]
        for peer in PEERS[part]:
            found = ratio(mine, samples[label][peer])
            is_aim = part != TRIGGERS or label == WHOLE
            judged = verdict(part, peer, found) if is_aim else ["-", "-"]
            speeds = [f"{Spread.of(one).median / per:.2f}" for one in (mine, samples[label][peer])]
            lines.append([label, peer, *speeds, str(found), *judged])
    print_table([part, "peer", f"semel, {unit}", f"peer, {unit}", "semel to peer", "target", ""], lines)
    print()


def show_times(part: str, samples: Samples) -> None:
    """Whose processor time it took, and how long each step of semel's took, where that is known."""
    lines = []
    for shape in SHAPES:
        for who in (SEMEL, *PEERS[part]):
            spent = [Spread.of(samples[cpu_row(shape.label, name)][who]).median for name in WITH_DATABASE]
            lines.append([f"{shape.label}, {who}", *(f"{one:.2f}" for one in spent)])
    print_table([f"{part}: CPU s for a million rows", *WITH_DATABASE], lines)
    print()
    lines = [
        [shape.label, *(str(Spread.of(samples[step_row(shape.label, step)][SEMEL])) for step in STEPS)]
        for shape in SHAPES
        if step_row(shape.label, STEPS[0]) in samples
    ]
    if lines:
        print_table([f"{part}: seconds of semel's", *STEPS], lines)
        print()


def parse_own() -> int | None:
    """Take `--rows` from the command line, and leave the rest for the options that all rows of the bench have."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--rows", type=int)
    given, others = parser.parse_known_args()
    sys.argv = [sys.argv[0], *others]
    if given.rows is not None and given.rows < 1:
        raise SystemExit("--rows must be at least 1")
    rows: int | None = given.rows
    return rows


def main() -> None:
    """Start a server and a session, measure every part that was asked for."""
    given = parse_own()
    options = Options.parse(__doc__, PARTS)
    count = given or (QUICK_ROWS if options.quick else ROWS)
    print(f"{options.note}; {count:,} rows")
    results: dict[str, object] = {"rows": count}
    with PostgresServer(config=CONFIG) as server, started_session(POSTGRES_DRIVER) as spark:
        database = Database(server=server)
        for part in (one for one in PARTS if one in options.only):
            if part == TRIGGERS:
                results[part] = samples = measure_triggers(spark, database, options)
                show_ratios(part, samples, tuple(samples), "ms", 1)
            else:
                results[part] = samples = measure_part(part, spark, database, options, count)
                show_ratios(part, samples, tuple(shape.label for shape in SHAPES), "M rows/s", 1e6)
                show_times(part, samples)
    write_json(options, "sinks", results)


if __name__ == "__main__":
    main()
