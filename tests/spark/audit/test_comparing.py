"""The audit on Spark, held against pairing records one by one."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import semel
from semel.audit.comparing import TALLIED, late_records, tally, torn_units
from semel.audit.expectation import Expectation
from semel.audit.finding import Gap, Incomplete, Kind, Place
from semel.audit.ledger_gaps import Commit
from semel.audit.report import Report
from semel.audit.sides import Side
from semel.errors import ConfigError
from semel.history.verdict import Verdict
from tests.unit.audit.histories import History, drawn_histories
from tests.unit.audit.naive import Seen, naive_audit

SCHEMA = "identity bigint, content bigint, stream bigint, position bigint, unit bigint"


def frame(spark: SparkSession, records: list[Seen]) -> DataFrame:
    return spark.createDataFrame([tuple(one) for one in records], SCHEMA).coalesce(2)


def audited(spark: SparkSession, history: History, expectation: Expectation) -> Report:
    left = Side(
        frame(spark, history.left),
        key="identity",
        content="content",
        position="position",
        stream="stream",
        unit="unit",
        coordinate="concat('in@', position)",
    )
    right = replace(left, frame=frame(spark, history.right), unit="", coordinate="concat('out@', position)")
    return semel.audit(left, right, expect=expectation)


def test_a_history_with_every_anomaly_is_counted_with_examples(spark: SparkSession) -> None:
    left = [Seen(identity=one, content=one, position=one, unit=one // 3) for one in range(12)]
    arrived = [left[0], left[2], left[1], left[3], left[3], left[3], left[4]._replace(content=-1), *left[6:]]
    right = [one._replace(position=at) for at, one in enumerate([*arrived, Seen(identity=99), Seen(identity=99)])]
    report = audited(spark, History(left, right, Counter()), Expectation())
    found = {one.kind: one for one in report.comparisons[0].findings}
    counts = {kind: one.count for kind, one in found.items()}
    assert counts == {
        Kind.LOST: 1,
        Kind.DUPLICATED: 2,
        Kind.ALTERED: 1,
        Kind.REORDERED: 1,
        Kind.UNEXPECTED: 2,
        Kind.TORN: 1,
    }
    assert report.verdict is Verdict.BROKEN
    shown = {kind: [(e.identity, e.left, e.right) for e in one.examples] for kind, one in found.items()}
    assert shown == {
        Kind.LOST: [("5", "in@5", "")],
        Kind.DUPLICATED: [("3", "in@3", "out@3 … out@5 (3 copies)")],
        Kind.ALTERED: [("4", "in@4", "out@6")],
        Kind.REORDERED: [("1", "in@1", "out@2")],
        Kind.UNEXPECTED: [("99", "", "out@13 … out@14 (2 copies)")],
        Kind.TORN: [("1", "", "")],
    }
    assert report.comparisons[0].totals.buckets_opened == 4


def test_a_clean_audit_opens_no_bucket(spark: SparkSession) -> None:
    left = [Seen(identity=one % 40, content=one % 3, position=one) for one in range(100)]
    right = [one._replace(position=at) for at, one in enumerate(reversed(left))]
    report = semel.audit(frame(spark, left).drop("position"), frame(spark, right).drop("position"))
    assert report.verdict is Verdict.HELD, str(report)
    kinds = [one.kind for one in report.comparisons[0].findings]
    assert kinds == [Kind.LOST, Kind.DUPLICATED, Kind.UNEXPECTED], "a whole row cannot be altered"
    totals = report.comparisons[0].totals
    assert (totals.left, totals.right, totals.buckets_opened) == (100, 100, 0)


def numbered(spark: SparkSession, histories: Sequence[History]) -> tuple[DataFrame, DataFrame, DataFrame]:
    """All histories in one frame for each side, with hashes as the audit makes them, and whose each identity is."""
    sides = []
    for name in ("left", "right"):
        rows = [
            (number, seen.identity, seen.content) for number, one in enumerate(histories) for seen in getattr(one, name)
        ]
        raw = spark.createDataFrame(rows, "history int, identity bigint, content bigint").coalesce(2)
        identity = F.xxhash64("history", "identity")
        sides.append(raw.select("history", identity.alias("id"), F.xxhash64(identity, "content").alias("mark")))
    left, right = sides
    owners = left.union(right).select("id", "history").distinct()
    return left.drop("history"), right.drop("history"), owners


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("exactly-one", 200),
        pytest.param("exactly-one", 2000, marks=pytest.mark.full),
        pytest.param("at-most-one", 2000, marks=pytest.mark.full),
        pytest.param("at-least-one", 2000, marks=pytest.mark.full),
        pytest.param("2", 2000, marks=pytest.mark.full),
    ],
)
def test_histories_are_counted_as_by_pairing(spark: SparkSession, text: str, count: int) -> None:
    histories, expectation = drawn_histories(count), Expectation.parse(text)
    left, right, owners = numbered(spark, histories)
    rows = (
        tally(left, right, expectation, has_content=True)
        .join(owners, on="id")
        .groupBy("history")
        .agg(*(F.sum(kind).alias(kind) for kind in TALLIED))
        .collect()
    )
    found = {row["history"]: {kind: row[kind] for kind in TALLIED} for row in rows}
    for number, history in enumerate(histories):
        naive = naive_audit(history.left, history.right, expectation)
        assert found.get(number, dict.fromkeys(TALLIED, 0)) == {kind: naive[kind] for kind in TALLIED}, history


@pytest.mark.full
@pytest.mark.parametrize("count", [2000])
def test_late_records_and_torn_units_of_histories_are_those_of_pairing(spark: SparkSession, count: int) -> None:
    """All histories at once: each is a stream of its own, and its units are nobody else's."""
    histories, expectation = drawn_histories(count), Expectation()
    sides = []
    for name in ("left", "right"):
        rows = [(number, *seen) for number, one in enumerate(histories) for seen in getattr(one, name)]
        raw = spark.createDataFrame(rows, f"history bigint, {SCHEMA}").coalesce(2)
        identity = F.xxhash64("history", "identity")
        columns = {
            "id": identity,
            "mark": F.xxhash64(identity, "content"),
            "position": F.col("position"),
            "stream": F.col("history"),
            "unit": F.xxhash64("history", "unit"),
            "history": F.col("history"),
        }
        sides.append(raw.select(*(column.alias(name) for name, column in columns.items())))
    left, right = sides
    late = late_records(left.drop("unit"), right.drop("unit")).groupBy(F.col("left_stream").alias("history")).count()
    tallies = tally(left.drop("history"), right.drop("unit", "history"), expectation, has_content=True)
    owners = left.select("unit", "history").distinct()
    torn = torn_units(tallies, left, expectation).join(owners, on="unit").groupBy("history").count()
    found = [{row["history"]: row["count"] for row in frame.collect()} for frame in (late, torn)]
    for number, history in enumerate(histories):
        naive = naive_audit(history.left, history.right, expectation)
        assert [one.get(number, 0) for one in found] == [naive[Kind.REORDERED], naive[Kind.TORN]], history


@pytest.mark.full
def test_of_a_side_that_is_slow_to_read_the_first_records_are_shown_and_the_rest_is_not_read_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    parts, folder = 8, str(tmp_path)
    rows = spark.range(0, 4000, numPartitions=parts).toDF("id")

    def told(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # A file for each task that reads: what a task counts is lost when Spark stops it early.
        (Path(folder) / uuid4().hex).touch()
        yield from batches

    context: Any = spark.sparkContext
    kept_before = context._jsc.getPersistentRDDs().size()
    left = Side(rows.mapInArrow(told, rows.schema), key="id", content=(), coordinate="id", keeps_hashes=True)
    right = Side(rows.where("id % 1000 <> 7"), key="id", content=(), coordinate="id")
    report = semel.audit(left, right, examples=1)
    (lost,) = [one for one in report.comparisons[0].findings if one.kind is Kind.LOST]
    assert (lost.count, [one.left for one in lost.examples]) == (4, ["7"])
    assert parts < len(list(tmp_path.iterdir())) < 2 * parts, "once for the hashes, and again as far as the example"
    assert context._jsc.getPersistentRDDs().size() == kept_before, "nothing is kept when it is over"


@pytest.mark.full
def test_what_a_filter_drops_is_not_lost_and_is_unexpected_if_it_arrives(spark: SparkSession) -> None:
    left = frame(spark, [Seen(identity=one, content=one) for one in range(4)])
    right = frame(spark, [Seen(identity=one, content=one) for one in (2, 3, 0)])
    report = semel.audit(left, right, key="identity", where="content >= 2")
    assert (report.count(Kind.LOST), report.count(Kind.UNEXPECTED)) == (0, 1)


@pytest.mark.full
def test_several_right_sides_are_judged_one_by_one(spark: SparkSession) -> None:
    orders = spark.createDataFrame([(1,), (2,)], "id int")
    payments = spark.createDataFrame([("1", 5.0), ("2", 6.0)], "order string, paid double")
    shipments = spark.createDataFrame([("1",)], "order string")
    report = semel.audit(
        Side(orders, name="orders", key="CAST(id AS STRING)"),
        {"payments": Side(payments, key="order"), "shipments": Side(shipments, key="order")},
    )
    verdicts = {one.right: (one.verdict, one.count(Kind.LOST)) for one in report.comparisons}
    assert verdicts == {"payments": (Verdict.HELD, 0), "shipments": (Verdict.BROKEN, 1)}
    assert report.comparisons[0].not_compared == ("id", "paid")


def test_an_incomplete_side_makes_no_false_loss(spark: SparkSession) -> None:
    left = frame(spark, [Seen(identity=one) for one in range(4)])
    cut = Incomplete(side=Place.RIGHT, gap=Gap.RETENTION, text="begins at 2")
    right = Side(frame(spark, [Seen(identity=one) for one in (2, 3)]), incomplete=(cut,))
    report = semel.audit(left, right, key="identity")
    assert (report.verdict, report.count(Kind.LOST)) == (Verdict.UNKNOWN, 2)


@pytest.mark.parametrize("cut", [Place.LEFT, Place.RIGHT])
def test_order_is_not_proven_where_a_record_is_gone(spark: SparkSession, cut: Place) -> None:
    """Of equal records the first one may be the one that is gone."""
    whole = frame(spark, [Seen(identity=one, position=at) for at, one in enumerate([7, 8, 7])])
    short = frame(spark, [Seen(identity=one, position=at) for at, one in enumerate([7, 8])])
    gone = Incomplete(side=cut, gap=Gap.RETENTION, text="begins at 1")
    sides = {"left": whole, "right": whole} if cut is Place.LEFT else {"left": short, "right": whole}
    left, right = (
        Side(
            rows.where("position > 0") if name == cut else rows,
            content="identity",
            position="position",
            incomplete=(gone,) if name == cut else (),
        )
        for name, rows in sides.items()
    )
    report = semel.audit(left, right, expect="at-least-one")
    assert (report.verdict, report.count(Kind.REORDERED)) == (Verdict.UNKNOWN, 1)


def test_a_hole_in_the_ledger_breaks_what_rows_alone_would_not(spark: SparkSession) -> None:
    rows = frame(spark, [Seen(identity=1)])
    commits = tuple(Commit(partition="orders-0", offset_first=a, offset_next=b) for a, b in ((0, 10), (12, 20)))
    report = semel.audit(rows, Side(rows, commits=commits), key="identity")
    assert (report.verdict, report.count(Kind.LEDGER_GAP)) == (Verdict.BROKEN, 2)


@pytest.mark.full
def test_a_side_that_changes_while_it_is_read_is_unknown(spark: SparkSession, tmp_path: Path) -> None:
    left, moving = tmp_path / "left.txt", tmp_path / "moving.txt"
    left.write_text("one\ntwo\n")
    moving.write_text("other\nlines\n")
    # Told after each step: the file changes between the fingerprints and the closer look.
    report = semel.audit(
        spark.read.text(str(left)),
        spark.read.text(str(moving)),
        narrate=lambda text: moving.write_text("other\n") if "buckets differ" in text else None,
    )
    assert Gap.CHANGED in {one.gap for one in report.comparisons[0].incomplete}
    assert report.verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("left", "right", "options", "said"),
    [
        ("SELECT 1 a", "SELECT 1 b", {}, "different columns"),
        ("SELECT 1 a", "SELECT 1 b", {"key": "a"}, "'a' cannot be read on the right side"),
        ("SELECT 1 a", "SELECT date'2020-01-01' a", {}, "cannot be compared: int and date"),
        ("SELECT 1 a", "SELECT 1 a", {"key": "a b c"}, "cannot be read on the left side"),
        ("SELECT 1 a", "SELECT 1 a", {"where": "nothing > 1"}, "where="),
        ("SELECT 1 a", "SELECT 1 a", {"where": "a + 1"}, "where="),
        ("SELECT 1 a", "SELECT 1 a", {"examples": -1}, "examples"),
        ("SELECT 1 a", "SELECT 1 a", {"expect": "some"}, "cannot be expected"),
        ("SELECT 1 a", "SELECT 1 a", {"content": ()}, "neither a key nor content"),
        ("SELECT map(1, map(1, 2)) a", "SELECT map(1, map(1, 2)) a", {}, "cannot be compared"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    spark: SparkSession, left: str, right: str, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        semel.audit(spark.sql(left), spark.sql(right), **options)


def lost_between(spark: SparkSession, left: str, right: str) -> int:
    return semel.audit(spark.sql(f"SELECT {left}"), spark.sql(f"SELECT {right}")).count(Kind.LOST)


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("1 a, null b", "1L a, null b"),
        ("1.50 a", "CAST(1.5 AS DECIMAL(20,4)) a"),
        ("7 a", "CAST(7 AS DECIMAL(9,2)) a"),
        ("'x' a", "CAST('x' AS BINARY) a"),
        ("map('a', 1, 'b', 2) a", "map('b', 2, 'a', 1) a"),
        ("0.0D a", "-0.0D a"),
        ("array(1, null) a", "array(1, null) a"),
        ("array(0.0D, null) a", "array(-0.0D, null) a"),
        ("named_struct('p', array(float(0))) a", "named_struct('p', array(float('-0.0'))) a"),
        ("map('a', 0.0D) a", "map('a', -0.0D) a"),
        ("array(double('NaN')) a", "array(double('NaN')) a"),
    ],
)
def test_equal_values_of_different_types_are_equal(spark: SparkSession, left: str, right: str) -> None:
    assert lost_between(spark, left, right) == 0


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("null a, 'x' b", "'x' a, null b"),
        ("array(null, 'x') a", "array('x', null) a"),
        ("array(array('x'), array('y')) a", "array(array('x', 'y')) a"),
        ("CAST(array() AS ARRAY<INT>) a", "CAST(null AS ARRAY<INT>) a"),
        ("'ab' a, 'c' b", "'a' a, 'bc' b"),
        ("array(cast(X'FF' AS STRING)) a", "array(cast(X'FE' AS STRING)) a"),
        ("map(cast(X'FF' AS STRING), 1) a", "map(cast(X'FE' AS STRING), 1) a"),
        ("named_struct('p', cast(X'FF' AS STRING)) a", "named_struct('p', cast(X'FE' AS STRING)) a"),
        ("named_struct('p', 1, 'p', 0.0D) a", "named_struct('p', 0, 'p', 0.0D) a"),
        ("named_struct('p', CAST(null AS DOUBLE)) a", "CAST(null AS STRUCT<p: DOUBLE>) a"),
        ("array(named_struct('p', CAST(null AS DOUBLE))) a", "array(CAST(null AS STRUCT<p: DOUBLE>)) a"),
        ("named_struct('p', 1, 'q', CAST(null AS INT)) a", "named_struct('p', CAST(null AS INT), 'q', 1) a"),
        (
            "array(timestamp'2020-01-01 00:00:00.000001') a",
            "array(timestamp'2020-01-01 00:00:00.000002') a",
        ),
    ],
)
def test_different_values_are_different(spark: SparkSession, left: str, right: str) -> None:
    assert lost_between(spark, left, right) == 1


@pytest.mark.full
def test_the_order_of_equal_records_is_not_judged(spark: SparkSession) -> None:
    left = [Seen(identity=one, position=at) for at, one in enumerate([7, 8, 7, 9, 10])]
    right = [Seen(identity=one, position=at) for at, one in enumerate([8, 7, 10, 9])]
    report = audited(spark, History(left, right, Counter()), Expectation())
    assert report.count(Kind.REORDERED) == 1, str(report)


@pytest.mark.full
def test_a_record_without_a_position_is_refused(spark: SparkSession) -> None:
    rows = Side(spark.sql("SELECT 1 id, CAST(null AS BIGINT) at"), key="id", position="at")
    with pytest.raises(ConfigError, match="no position"):
        semel.audit(rows, rows)


@pytest.mark.full
def test_an_expression_without_a_result_is_refused(spark: SparkSession) -> None:
    rows = spark.sql("SELECT 'x' id")
    with pytest.raises(ConfigError, match="no result"):
        semel.audit(rows, rows, key="CAST(id AS INT)")


def test_a_stream_is_refused(spark: SparkSession) -> None:
    stream = spark.readStream.format("rate").load()
    with pytest.raises(ConfigError, match="the left side is a stream"):
        semel.audit(stream, stream)
