"""`semel.audit` beside a plain Spark `groupBy(hash).count()` of the same records: the same session, in turns.

Two Parquet folders, then two topics of one Apache Kafka node on this machine; records of 100 bytes, on two cores with
2 GB. "clean" has the same records on both sides. "differences" has one in a hundred lost, one doubled and one altered:
from ten million records on, every bucket differs and is opened, which is the most work that an audit can have.

Plain Spark reads both sides, hashes the columns and counts, and does not say what is missing; topics it reads with its
own connector, and with semel's source as the audit does. A rate is of the records of both sides in a second. Ratios are
to plain Spark, median (smallest .. largest). `--millions N` is how many records the left side has, 1 if nobody says;
several may be named, to see how it grows. What an audit finds is checked each time: a wrong count is no result. From
ten million on there is no round to warm up, which would take as long as one that counts.

datacompy's comparison of the Parquet folders with differences is timed once beside it, where the package is installed.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import semel
from bench.measure.datacompy_beside import HOW_TO_GET_IT, is_installed, timed_datacompy
from bench.measure.rounds import Figures, Options, Samples, Spread, narrate, print_table, ratio, run_rounds, write_json
from bench.measure.servers import APACHE_CONFIG, APACHE_HEAP_MB
from bench.measure.spark_jobs import fresh_topics, made_rows, started_session
from semel.audit.finding import Kind
from semel.audit.places import Topic
from semel.audit.sides import Side
from semel.audit.topics import bound_topics, topic_side
from semel.engine.apache import ApacheCluster
from semel.errors import EnvironmentFailure
from semel.wire.cluster import WireCluster
from semel.wire.settings import WireSettings

PARQUET, TOPICS = "parquet", "topics"
PARTS = (PARQUET, TOPICS)
VALUE_BYTES = 100
MILLION = 1_000_000
QUICK_RECORDS = 100_000
LARGE_RECORDS = 10 * MILLION
CLEAN, DIFFERENT = "clean", "differences"
# What the project aims at, as a ratio to plain Spark.
TARGETS = {CLEAN: 0.8, DIFFERENT: 0.5}
AUDIT, SPARK, SPARK_ON_SEMEL = "audit", "Spark", "Spark, semel's source"
EVERYBODY = {PARQUET: (AUDIT, SPARK), TOPICS: (AUDIT, SPARK, SPARK_ON_SEMEL)}
ONE_IN = 100
EMPTY_SOON = {"log.retention.check.interval.ms": "1000"}  # remove what was deleted before the disk is full

Sides = Mapping[str, tuple[DataFrame | Side, DataFrame | Side]]


def right_rows(rows: DataFrame, case: str) -> DataFrame:
    """What came out of the made rows; every record is met by its number, which is no column of them."""
    if case == CLEAN:
        return rows
    at = F.pmod(F.xxhash64("key", "value"), F.lit(ONE_IN))
    altered = F.when(at == 1, F.concat(F.lit(b"!"), F.col("value"))).otherwise(F.col("value"))
    copies = F.when(at == 2, F.array(F.lit(1), F.lit(2))).otherwise(F.array(F.lit(1)))
    kept = rows.where(at != 0)
    return kept.select("key", altered.alias("value"), F.explode(copies).alias("copy")).drop("copy")


def wanted_counts(rows: DataFrame, case: str) -> dict[Kind, int]:
    """How many of each kind were planted; without a key, an altered record is one lost and one unexpected."""
    if case == CLEAN:
        return {}
    at = F.pmod(F.xxhash64("key", "value"), F.lit(ONE_IN)).alias("at")
    by_rest = {row["at"]: row["count"] for row in rows.groupBy(at).count().where("at < 3").collect()}
    return {Kind.LOST: by_rest[0] + by_rest[1], Kind.DUPLICATED: by_rest[2], Kind.UNEXPECTED: by_rest[1]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """Where the records of one size are."""

    spark: SparkSession
    bootstrap: str
    folder: Path
    records: int

    def rows(self) -> DataFrame:
        """The left records, made anew each time."""
        return made_rows(self.spark, self.records, VALUE_BYTES)

    @contextmanager
    def parquet(self, case: str) -> Iterator[Sides]:
        """Two folders, removed afterwards."""
        folders = [self.folder / name for name in ("left", "right")]
        try:
            self.rows().write.parquet(str(folders[0]))
            right_rows(self.rows(), case).write.parquet(str(folders[1]))
            left, right = (self.spark.read.parquet(str(one)) for one in folders)
            yield {AUDIT: (left, right), SPARK: (left, right)}
        finally:
            for one in folders:
                shutil.rmtree(one, ignore_errors=True)

    @contextmanager
    def topics(self, case: str) -> Iterator[Sides]:
        """Two topics as Java producers write them: Spark's own sink fills them; read as `semel audit` reads them."""
        options = {"kafka.bootstrap.servers": self.bootstrap}
        with ExitStack() as stack:
            names = stack.enter_context(fresh_topics(self.bootstrap, 2))
            for name, rows in zip(names, (self.rows(), right_rows(self.rows(), case)), strict=True):
                rows.write.format("kafka").options(**options, topic=name).save()
            client = WireCluster(WireSettings.from_options(options))
            stack.callback(client.close)
            places = [Topic(text=name, bootstrap=self.bootstrap, name=name) for name in names]
            _, bounds = bound_topics(None, [(place, client) for place in places])
            sides = [topic_side(self.spark, place, one, options) for place, one in zip(places, bounds, strict=True)]
            own = [
                self.spark.read.format("kafka").options(**options, subscribe=name).load().select("key", "value")
                for name in names
            ]
            read = [side.frame.select("key", "value") for side in sides]
            yield {AUDIT: (sides[0], sides[1]), SPARK: (own[0], own[1]), SPARK_ON_SEMEL: (read[0], read[1])}


def audit_once(left: DataFrame | Side, right: DataFrame | Side, wanted: Mapping[Kind, int]) -> None:
    """Compare; a wrong count ends the row."""
    report = semel.audit(left, right)
    found = {kind: count for kind in Kind if (count := report.count(kind))}
    if found != wanted:
        raise EnvironmentFailure(f"the audit counted {found}, and {dict(wanted)} were planted")


def count_once(left: DataFrame, right: DataFrame) -> None:
    """What somebody would write by hand: hash, group, count; the result goes into nothing."""
    hashed = left.union(right).groupBy(F.xxhash64("key", "value").alias("hash")).count()
    hashed.write.format("noop").mode("overwrite").save()


def measure(
    place: str, case: str, ground: Ground, made: AbstractContextManager[Sides], options: Options
) -> tuple[Samples, dict[Kind, int]]:
    """Both ways in turns, over the same records."""
    label = f"{place}, {case}, {ground.records:,} records"
    narrate(f"{label}: writing them")
    wanted = wanted_counts(ground.rows(), case)
    lost, doubled, altered = (wanted.get(kind, 0) for kind in (Kind.LOST, Kind.DUPLICATED, Kind.UNEXPECTED))
    in_all = 2 * ground.records - (lost - altered) + doubled
    with made as sides:

        def one_round(who: str) -> Figures:
            work: Callable[[], None] = partial(count_once, *sides[who])  # type: ignore[arg-type]
            if who == AUDIT:
                work = partial(audit_once, *sides[who], wanted)
            began = time.perf_counter()
            work()
            return {case: in_all / (time.perf_counter() - began)}

        is_large = ground.records >= LARGE_RECORDS
        samples = run_rounds(EVERYBODY[place], one_round, options.rounds, label=label, warm_up=not is_large)
        if place == PARQUET and case == DIFFERENT and ground.records <= LARGE_RECORDS:
            show_datacompy(in_all, *sides[SPARK])  # type: ignore[arg-type]
        return samples, wanted


def show_datacompy(in_all: int, left: DataFrame, right: DataFrame) -> None:
    """One line, if it can be had."""
    if not is_installed():
        print(HOW_TO_GET_IT)
        return
    taken_s, ours, theirs = timed_datacompy(left, right)
    rate = in_all / taken_s / MILLION
    print(
        f"datacompy, differences: {rate:.2f} M records/s; {ours:,} rows left alone, {theirs:,} right alone", flush=True
    )


def show(place: str, records: int, samples: Samples) -> None:
    """One line for clean, one for differences."""
    others = [who for who in EVERYBODY[place] if who != AUDIT]
    lines = [
        [
            case,
            f"{Spread.of(rates[AUDIT]).median / MILLION:.2f}",
            *(str(ratio(rates[AUDIT], rates[who])) for who in others),
            f"{TARGETS[case]:.1f}",
        ]
        for case, rates in samples.items()
    ]
    print_table([f"{place}, {records:,} records", "M records/s", *(f"to {who}" for who in others), "target"], lines)
    print()


def parse_sizes() -> list[float]:
    """Take `--millions` from the command line, and leave the rest for the options that all rows have."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--millions", type=float, action="append")
    given, others = parser.parse_known_args()
    sys.argv = [sys.argv[0], *others]
    sizes = given.millions or [1.0]
    if min(sizes) <= 0:
        raise SystemExit("--millions must be more than 0")
    return list(sizes)


def main() -> None:
    """Start a broker and a session, measure everything."""
    sizes = parse_sizes()
    options = Options.parse(__doc__, PARTS)
    print(options.note)
    results: dict[str, object] = {}
    with ExitStack() as stack:
        spark = stack.enter_context(started_session())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="semel-bench-")))
        bootstrap = ""
        if TOPICS in options.only:
            config = APACHE_CONFIG | EMPTY_SOON
            server = stack.enter_context(ApacheCluster(brokers=1, heap_mb=APACHE_HEAP_MB, config=config))
            bootstrap = server.bootstrap
        for records in [QUICK_RECORDS] if options.quick else [round(one * MILLION) for one in sizes]:
            ground = Ground(spark=spark, bootstrap=bootstrap, folder=folder, records=records)
            makers = {PARQUET: ground.parquet, TOPICS: ground.topics}
            for place in (one for one in PARTS if one in options.only):
                samples: Samples = {}
                for case in (CLEAN, DIFFERENT):
                    found, planted = measure(place, case, ground, makers[place](case), options)
                    samples |= found
                    results[f"planted, {place}, {case}, {records}"] = planted
                show(place, records, samples)
                results[f"{place}, {records}"] = samples
    write_json(options, "audit", results)


if __name__ == "__main__":
    main()
