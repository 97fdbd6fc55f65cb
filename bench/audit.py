"""`semel.audit` beside a plain Spark `groupBy(hash).count()` of the same records: the same session, in turns.

Two Parquet folders, then two topics of one Apache Kafka node on this machine; records of 100 bytes, on two cores with
2 GB. "clean" has the same records on both sides. "differences" has one in a hundred lost, one doubled and one altered:
from ten million records on, every bucket differs and is opened, which is the most work that an audit can have.

Plain Spark reads both sides, hashes the columns and counts, and does not say what is missing; topics it reads with its
own connector, and with semel's source as the audit does. A rate is of the records of both sides in a second. Ratios are
to plain Spark, median (smallest .. largest). `--millions N` is how many records the left side has, 1 if nobody says;
several may be named, to see how it grows. `--case` measures clean or differences alone. What an audit finds is checked
each time: a wrong count is no result. From ten million on there is no round to warm up, which would take as long as one
that counts, and each figure is told on stderr as it comes. A shuffle has a partition for each 2.5 million records that
may go through it, for both ways: Spark's default of 200 is too many for a million, and two too few for a hundred.

datacompy's comparison of the Parquet folders with differences is timed once beside it, where the package is installed.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, closing
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
RECORDS_PER_PARTITION = 2_500_000
CLEAN, DIFFERENT = "clean", "differences"
CASES = (CLEAN, DIFFERENT)
# What the project aims at, as a ratio to plain Spark.
TARGETS = {CLEAN: 0.8, DIFFERENT: 0.5}
AUDIT, SPARK, SPARK_ON_SEMEL = "audit", "Spark", "Spark, semel's source"
EVERYBODY = {PARQUET: (AUDIT, SPARK), TOPICS: (AUDIT, SPARK, SPARK_ON_SEMEL)}
ONE_IN = 100
EMPTY_SOON = {"log.retention.check.interval.ms": "1000"}  # remove what was deleted before the disk is full

Sides = Mapping[str, tuple[DataFrame | Side, DataFrame | Side]]
Wanted = dict[Kind, int]


def right_rows(rows: DataFrame, case: str) -> DataFrame:
    """What came out of the made rows; every record is met by its number, which is no column of them."""
    if case == CLEAN:
        return rows
    at = F.pmod(F.xxhash64("key", "value"), F.lit(ONE_IN))
    altered = F.when(at == 1, F.concat(F.lit(b"!"), F.col("value"))).otherwise(F.col("value"))
    copies = F.when(at == 2, F.array(F.lit(1), F.lit(2))).otherwise(F.array(F.lit(1)))
    kept = rows.where(at != 0)
    return kept.select("key", altered.alias("value"), F.explode(copies).alias("copy")).drop("copy")


def wanted_counts(rows: DataFrame, case: str) -> Wanted:
    """How many of each kind were planted; without a key, an altered record is one lost and one unexpected."""
    if case == CLEAN:
        return {}
    at = F.pmod(F.xxhash64("key", "value"), F.lit(ONE_IN)).alias("at")
    by_rest = {row["at"]: row["count"] for row in rows.groupBy(at).count().where("at < 3").collect()}
    return {Kind.LOST: by_rest[0] + by_rest[1], Kind.DUPLICATED: by_rest[2], Kind.UNEXPECTED: by_rest[1]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Two sides, and what was planted between them."""

    case: str
    records: int
    sides: Sides
    wanted: Wanted

    @property
    def of_both_sides(self) -> int:
        """How many records are read to compare them."""
        lost, doubled, altered = (self.wanted.get(one, 0) for one in (Kind.LOST, Kind.DUPLICATED, Kind.UNEXPECTED))
        return 2 * self.records - (lost - altered) + doubled


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

    def parquet(self, cases: Sequence[str]) -> Generator[Written]:
        """Two folders, the left one written once; removed afterwards."""
        folders = [str(self.folder / name) for name in ("left", "right")]
        try:
            self.rows().write.parquet(folders[0])
            left = self.spark.read.parquet(folders[0])
            for case in cases:
                right_rows(left, case).write.mode("overwrite").parquet(folders[1])
                both = left, self.spark.read.parquet(folders[1])
                yield self.written(case, left, {AUDIT: both, SPARK: both})
        finally:
            for one in folders:
                shutil.rmtree(one, ignore_errors=True)

    def topics(self, cases: Sequence[str]) -> Generator[Written]:
        """Two topics as Java producers write them: Spark's own sink fills them; read as `semel audit` reads them."""
        options = {"kafka.bootstrap.servers": self.bootstrap}
        with ExitStack() as stack:
            client = WireCluster(WireSettings.from_options(options))
            stack.callback(client.close)
            (left,) = stack.enter_context(fresh_topics(self.bootstrap, 1))
            self.rows().write.format("kafka").options(**options, topic=left).save()
            for case in cases:
                with fresh_topics(self.bootstrap, 1) as (right,):
                    rows = right_rows(self.own(left), case)
                    rows.write.format("kafka").options(**options, topic=right).save()
                    places = [Topic(text=name, bootstrap=self.bootstrap, name=name) for name in (left, right)]
                    _, bounds = bound_topics(None, [(place, client) for place in places])
                    ours, theirs = (
                        topic_side(self.spark, place, one, options) for place, one in zip(places, bounds, strict=True)
                    )
                    read = ours.frame.select("key", "value"), theirs.frame.select("key", "value")
                    own = self.own(left), self.own(right)
                    yield self.written(case, own[0], {AUDIT: (ours, theirs), SPARK: own, SPARK_ON_SEMEL: read})

    def written(self, case: str, left: DataFrame, sides: Sides) -> Written:
        """Count what was planted."""
        return Written(case=case, records=self.records, sides=sides, wanted=wanted_counts(left, case))

    def own(self, topic: str) -> DataFrame:
        """A topic as Spark's own connector reads it."""
        options = {"kafka.bootstrap.servers": self.bootstrap, "subscribe": topic}
        return self.spark.read.format("kafka").options(**options).load().select("key", "value")


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


def measure(label: str, written: Written, options: Options) -> Samples:
    """All ways in turns, over the same records."""
    case, sides = written.case, written.sides
    is_large = written.records >= LARGE_RECORDS

    def one_round(who: str) -> Figures:
        work: Callable[[], None] = partial(count_once, *sides[who])  # type: ignore[arg-type]
        if who == AUDIT:
            work = partial(audit_once, *sides[who], written.wanted)
        began = time.perf_counter()
        work()
        taken_s = time.perf_counter() - began
        rate = written.of_both_sides / taken_s
        if is_large:
            tell(f"{label}: {who} took {taken_s:.1f} s, {rate / MILLION:.2f} M records/s")
        return {case: rate}

    samples = run_rounds(sides, one_round, options.rounds, label=label, warm_up=not is_large)
    if SPARK_ON_SEMEL not in sides and case == DIFFERENT and written.records <= LARGE_RECORDS:
        show_datacompy(written.of_both_sides, *sides[SPARK])  # type: ignore[arg-type]
    return samples


def tell(text: str) -> None:
    """A line that stays, also where nobody watches: what was measured counts if the rest is cut off."""
    narrate("")
    print(text, file=sys.stderr, flush=True)


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


def parse_own() -> tuple[list[float], list[str]]:
    """Take `--millions` and `--case` from the command line, and leave the rest for the options that all rows have."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--millions", type=float, action="append")
    parser.add_argument("--case", choices=CASES, action="append")
    given, others = parser.parse_known_args()
    sys.argv = [sys.argv[0], *others]
    sizes = given.millions or [1.0]
    if min(sizes) <= 0:
        raise SystemExit("--millions must be more than 0")
    return list(sizes), [one for one in CASES if one in (given.case or CASES)]


def main() -> None:
    """Start a broker and a session, measure everything."""
    sizes, cases = parse_own()
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
            spark.conf.set("spark.sql.shuffle.partitions", max(2, 2 * records // RECORDS_PER_PARTITION))
            makers = {PARQUET: ground.parquet, TOPICS: ground.topics}
            for place in (one for one in PARTS if one in options.only):
                samples: Samples = {}
                (tell if records >= LARGE_RECORDS else narrate)(f"{place}, {records:,} records: writing them")
                with closing(makers[place](cases)) as made:
                    for written in made:
                        label = f"{place}, {written.case}, {records:,} records"
                        samples |= measure(label, written, options)
                        results[f"planted, {place}, {written.case}, {records}"] = written.wanted
                show(place, records, samples)
                results[f"{place}, {records}"] = samples
    write_json(options, "audit", results)


if __name__ == "__main__":
    main()
