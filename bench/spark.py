"""semel in Spark beside Spark's own Kafka connector: the same session, the same broker, in turns.

Reading goes into nothing. Copying is one streaming query from topic to topic, in four micro-batches: semel exactly
once, Spark at least once, which is the most it can. It is done plainly and with an expression in between: semel reads a
plain copy where it is written, and only an expression needs Spark's rows. Writing is a batch from memory. "Spark" has
the producer's defaults, "Spark, tuned" large batches and time to fill them. The broker is one node of Apache Kafka on
this machine. Figures are ratios, median (smallest .. largest): of rows in a second, where more is better, then of the
time of a trigger with 500 rows in a second, where less is better. Whose processor time the rows took stands beside the
rates. At the end: triggers over many partitions (embedded broker), and the memory of workers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path

from pyspark.sql import SparkSession

from bench.measure.cpu_time import WHOSE
from bench.measure.rounds import Figures, Options, Samples, Spread, print_table, ratio, run_rounds, write_json
from bench.measure.servers import APACHE_CONFIG, APACHE_HEAP_MB, EmbeddedServer
from bench.measure.spark_jobs import (
    CHANGE,
    COPY,
    EVERYBODY,
    PARTITIONS,
    READ,
    SEMEL_KEYED,
    SEMEL_SOURCE,
    SEMEL_SPREAD,
    SPARK,
    SPARK_TUNED,
    START,
    WRITE,
    Workload,
    cpu_row,
    fresh_topics,
    made_rows,
    started_session,
    timed_copy,
    timed_read,
    timed_write,
)
from bench.measure.spark_triggers import trigger_ms
from semel.cli.demo_driver import session_members
from semel.engine.apache import ApacheCluster

CODECS = ("lz4", "zstd")
SIZES_BYTES = (100, 1_000)
TABLES = {f"{codec}-{size}": (size, codec) for size, codec in product(SIZES_BYTES, CODECS)}
FIRST_TABLE = next(iter(TABLES))
PARTS = (*TABLES, "triggers", "partitions", "memory")
BYTES_IN_ALL = 300_000_000
QUICK_BYTES_IN_ALL = 20_000_000
JOBS = {
    READ: (SEMEL_SOURCE, SPARK),
    COPY: (SEMEL_SOURCE, SEMEL_SPREAD, SEMEL_KEYED, SPARK, SPARK_TUNED),
    CHANGE: (SEMEL_SPREAD, SEMEL_KEYED, SPARK),
    WRITE: (SEMEL_SPREAD, SEMEL_KEYED, SPARK, SPARK_TUNED),
}
# What the project aims at, as a ratio to Spark with its defaults.
TARGETS = {
    (READ, SEMEL_SOURCE): 3.0,
    (COPY, SEMEL_SOURCE): 2.5,
    (COPY, SEMEL_SPREAD): 2.5,
    (COPY, SEMEL_KEYED): 1.3,
    (WRITE, SEMEL_SPREAD): 1.5,
    (WRITE, SEMEL_KEYED): 1.0,
}
TRIGGERS = 40
QUICK_TRIGGERS = 8
MANY_PARTITIONS = (100, 1_000)
MEMORY_ROWS = 10_000_000
QUICK_MEMORY_ROWS = 500_000
MEMORY_MB_MAX = 512
EMPTY_SOON = {"log.retention.check.interval.ms": "1000"}  # remove what was deleted before the disk is full
WORKER_PROGRAM = b"semel.spark.daemon"


@contextmanager
def workload(
    spark: SparkSession, bootstrap: str, *, codec: str, rows: int = 0, partitions: int = PARTITIONS
) -> Iterator[Workload]:
    """An empty topic to read, and one to write for everybody."""
    with (
        fresh_topics(bootstrap, 1, partitions) as (topic,),
        fresh_topics(bootstrap, len(EVERYBODY)) as outputs,
    ):
        by_name = dict(zip(EVERYBODY, outputs, strict=True))
        yield Workload(spark=spark, bootstrap=bootstrap, topic=topic, rows=rows, codec=codec, outputs=by_name)


@contextmanager
def filled(spark: SparkSession, bootstrap: str, rows: int, value_bytes: int, codec: str) -> Iterator[Workload]:
    """A topic as Java producers write it: Spark's own sink fills it."""
    with workload(spark, bootstrap, codec=codec, rows=rows) as work:
        options = work.spark_sink(SPARK, work.topic)
        made_rows(spark, rows, value_bytes).write.format("kafka").options(**options).save()
        yield work


def measure_rates(spark: SparkSession, bootstrap: str, options: Options, value_bytes: int, codec: str) -> Samples:
    """Every job with everybody, in turns."""
    in_all = QUICK_BYTES_IN_ALL if options.quick else BYTES_IN_ALL
    rows = in_all // value_bytes
    cached = made_rows(spark, rows, value_bytes).cache()
    cached.count()

    def one_round(who: str) -> Figures:
        timed = {
            READ: lambda: timed_read(work, who),
            COPY: lambda: timed_copy(work, who),
            CHANGE: lambda: timed_copy(work, who, CHANGE),
            WRITE: lambda: timed_write(work, who, cached),
        }
        figures: dict[str, float] = {}
        for job, group in JOBS.items():
            if who in group:
                figures |= timed[job]()
        return figures

    label = f"{codec}, {value_bytes} bytes"
    with filled(spark, bootstrap, rows, value_bytes, codec) as work:
        samples = run_rounds(EVERYBODY, one_round, options.rounds, label=label)
    cached.unpersist()
    return samples


def show_rates(label: str, samples: Samples) -> None:
    """One line for each way of semel's, against Spark with its defaults and tuned."""
    lines = []
    for job, group in JOBS.items():
        for who in group:
            if who in {SPARK, SPARK_TUNED}:
                continue
            mine, rows = samples[job][who], samples[job]
            against_tuned = str(ratio(mine, rows[SPARK_TUNED])) if SPARK_TUNED in rows else "-"
            million = f"{Spread.of(mine).median / 1e6:.2f}"
            target = f"{TARGETS[job, who]:.1f}" if (job, who) in TARGETS else "-"
            lines.append([f"{job}, {who}", million, str(ratio(mine, rows[SPARK])), target, against_tuned])
    print_table([label, "M rows/s", "to Spark", "target", "to Spark, tuned"], lines)
    print()


def show_cpu(label: str, samples: Samples) -> None:
    """Where the time goes: processor seconds for a million rows."""
    lines = []
    for job, group in JOBS.items():
        for who in group:
            spent = [Spread.of(samples[cpu_row(job, whose)][who]).median for whose in WHOSE]
            lines.append([f"{job}, {who}", *(f"{one:.2f}" for one in spent), f"{sum(spent):.2f}"])
    print_table([f"{label}: CPU s for a million rows", *WHOSE, "sum"], lines)
    print()


def show_starts(samples: Samples) -> None:
    """What a query takes before its first and after its last trigger."""
    lines = [[f"{START}, {who}", str(Spread.of(taken))] for who, taken in samples[START].items()]
    print_table(["", "ms"], lines)
    print()


def measure_triggers(work: Workload, options: Options) -> Samples:
    """Triggers with few rows."""
    triggers = QUICK_TRIGGERS if options.quick else TRIGGERS
    who = (SEMEL_KEYED, SEMEL_SPREAD, SPARK)
    return run_rounds(who, lambda name: trigger_ms(work, name, triggers), options.rounds, label="triggers")


def show_triggers(title: str, samples: Samples) -> None:
    """Times as ratios to Spark's."""
    lines = [
        [f"{row}, {who}", f"{Spread.of(taken).median:.0f}", str(ratio(taken, figures[SPARK]))]
        for row, figures in samples.items()
        for who, taken in figures.items()
        if who != SPARK
    ]
    print_table([title, "ms", "to Spark (target 1.3)"], lines)
    print()


def worker_memory_mb() -> float:
    """The most that any Python worker of this session's Spark ever held, in MB."""
    peaks = [0.0]
    for number in session_members(os.getsid(0)):
        process = Path("/proc", str(number))
        try:
            if WORKER_PROGRAM in (process / "cmdline").read_bytes().split(b"\0"):
                status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
                peaks.append(int(status["VmHWM"].split()[0]) * 1024 / 1e6)
        except (OSError, KeyError):
            continue
    return max(peaks)


def measure_memory(spark: SparkSession, bootstrap: str, options: Options) -> dict[str, float]:
    """Read and copy many rows, and look at the workers."""
    rows = QUICK_MEMORY_ROWS if options.quick else MEMORY_ROWS
    with filled(spark, bootstrap, rows, SIZES_BYTES[0], CODECS[0]) as work:
        timed_read(work, SEMEL_SOURCE)
        after_read = worker_memory_mb()
        timed_copy(work, SEMEL_KEYED)
    return {"records": rows, "MB after reading": after_read, "MB after copying": worker_memory_mb()}


def measure_partitions(spark: SparkSession, options: Options) -> dict[str, Samples]:
    """What a small trigger costs semel when a topic has many partitions, on the embedded broker."""
    triggers = QUICK_TRIGGERS if options.quick else TRIGGERS
    results: dict[str, Samples] = {}
    for partitions in MANY_PARTITIONS:
        server = EmbeddedServer().start()
        try:
            with workload(spark, server.bootstrap, codec="none", partitions=partitions) as work:
                one = partial(trigger_ms, work, triggers=triggers)
                results[f"{partitions} partitions"] = run_rounds((SEMEL_KEYED,), one, options.rounds, label="many")
        finally:
            server.stop()
    return results


def show_partitions(results: dict[str, Samples]) -> None:
    """Times as they are: there is nobody to compare with."""
    lines = [
        [f"{label}, {row}", str(Spread.of(taken))]
        for label, samples in results.items()
        for row, figures in samples.items()
        for taken in figures.values()
    ]
    print_table(["triggers over many partitions", "ms"], lines)
    print()


def measure_tables(spark: SparkSession, bootstrap: str, options: Options) -> dict[str, object]:
    """Rates by codec and size."""
    results: dict[str, object] = {}
    for label, (value_bytes, codec) in TABLES.items():
        if label in options.only and (label == FIRST_TABLE or not options.quick):
            rates = measure_rates(spark, bootstrap, options, value_bytes, codec)
            show_rates(label, rates)
            show_cpu(label, rates)
            show_starts(rates)
            results[label] = rates
    return results


def measure_all(spark: SparkSession, bootstrap: str, options: Options) -> dict[str, object]:
    """One table after the other."""
    results = measure_tables(spark, bootstrap, options)
    if "triggers" in options.only:
        with filled(spark, bootstrap, 1_000, SIZES_BYTES[0], CODECS[0]) as work:
            results["triggers"] = triggers = measure_triggers(work, options)
        show_triggers("500 rows/s", triggers)
    if "partitions" in options.only:
        results["partitions"] = partitions = measure_partitions(spark, options)
        show_partitions(partitions)
    if "memory" in options.only:
        results["memory"] = memory = measure_memory(spark, bootstrap, options)
        print_table(list(memory), [[f"{figure:,.0f}" for figure in memory.values()]])
        print(f"target: below {MEMORY_MB_MAX} MB")
    return results


def main() -> None:
    """Start a broker and a session, measure everything."""
    options = Options.parse(__doc__, PARTS)
    print(options.note)
    with (
        ApacheCluster(brokers=1, heap_mb=APACHE_HEAP_MB, config=APACHE_CONFIG | EMPTY_SOON) as server,
        started_session() as spark,
    ):
        results = measure_all(spark, server.bootstrap, options)
    write_json(options, "spark", results)


if __name__ == "__main__":
    main()
