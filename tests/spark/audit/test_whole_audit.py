"""A whole audit of many histories at once comes to what pairing finds; with any law of it switched off, a test fails.

The switches exist in the test process only: they replace a function of the audit while one body runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import semel
from semel.audit import comparing, fingerprints, hashed_rows, running
from semel.audit.expectation import Expectation
from semel.audit.finding import Finding, Kind
from semel.audit.fingerprints import BUCKETS
from semel.audit.sides import Side
from tests.spark.audit import test_comparing as found
from tests.unit.audit.histories import drawn_histories
from tests.unit.audit.naive import Seen, naive_audit

FEW = 60
# Late records and torn units are judged for one copy of each.
ONCE = "exactly-one"
Body = Callable[[SparkSession, Path], None]


def whole_audit_agrees(spark: SparkSession, _: Path, text: str = ONCE, count: int = FEW) -> None:
    """Each history is a stream of its own, and its identities and units are nobody else's."""
    histories, expectation = drawn_histories(count), Expectation.parse(text)
    schema = f"history bigint, {found.SCHEMA}"
    frames = [
        spark.createDataFrame(
            [(number, *seen) for number, one in enumerate(histories) for seen in getattr(one, name)], schema
        ).coalesce(2)
        for name in ("left", "right")
    ]
    left, right = (Side(one, key=("history", "identity"), content="content") for one in frames)
    if text == ONCE:
        left, right = (replace(one, position="position", stream="history") for one in (left, right))
        left = replace(left, unit="concat(history, '-', unit)")
    report = semel.audit(left, right, expect=expectation)
    naive = [naive_audit(one.left, one.right, expectation) for one in histories]
    (comparison,) = report.comparisons
    counted = {one.kind: one.count for one in comparison.findings}
    assert counted == {kind: sum(one[kind] for one in naive) for kind in counted}
    assert 0 < comparison.totals.buckets_opened < BUCKETS / 2, "what is clean is not opened"
    if text == ONCE:
        assert all(counted[kind] for kind in Kind if kind is not Kind.LEDGER_GAP), counted


@pytest.mark.full
@pytest.mark.parametrize("text", [ONCE, "at-most-one", "at-least-one", "2"])
def test_a_whole_audit_of_many_histories_is_that_of_pairing(spark: SparkSession, tmp_path: Path, text: str) -> None:
    whole_audit_agrees(spark, tmp_path, text, count=2000)


def test_histories_without_an_anomaly_raise_no_alarm(spark: SparkSession) -> None:
    """The left sides of all histories, against themselves in another order, in which nobody is late."""
    rows = [
        (number, *seen) for number, one in enumerate(drawn_histories(200)) for seen in one.left if seen.identity % 2
    ]
    schema = f"history bigint, {found.SCHEMA}"
    # Read in another order: where a record stands is what its position says.
    left, right = (spark.createDataFrame(one, schema).coalesce(2) for one in (rows, rows[::-1]))
    asked: dict[str, Any] = {"key": ("history", "identity"), "content": "content", "position": "position"}
    report = semel.audit(Side(left, stream="history", unit="unit", **asked), Side(right, stream="history", **asked))
    assert report.verdict.name == "HELD", str(report)
    assert report.comparisons[0].totals.buckets_opened == 0


def content_counts(spark: SparkSession, _: Path) -> None:
    left, right = (found.frame(spark, [Seen(identity=1, content=one)]) for one in (1, 2))
    report = semel.audit(left, right, key="identity", content="content")
    assert report.count(Kind.ALTERED) == 1


def copies_count(spark: SparkSession, _: Path) -> None:
    left, right = (found.frame(spark, [Seen(identity=1)] * copies) for copies in (1, 3))
    assert semel.audit(left, right).count(Kind.DUPLICATED) == 2


def nulls_count(spark: SparkSession, _: Path) -> None:
    assert found.lost_between(spark, "null a, 'x' b", "'x' a, null b") == 1


class Off(NamedTuple):
    """A law switched off, and a test that notices."""

    law: str
    module: Any
    attribute: str
    instead: Any
    noticed_by: Body


def without_part(name: str) -> Callable[[Expectation], list[Any]]:
    """The parts of an identity's tally, of which one is always 0."""
    parts = comparing._parts

    def instead(expectation: Expectation) -> list[Any]:
        names = ("missing", "surplus", "room")
        zero = F.lit(0).cast("bigint").alias(name)
        return [zero if one == name else part for one, part in zip(names, parts(expectation), strict=True)]

    return instead


def nobody(real: Callable[..., Any]) -> Callable[..., Any]:
    """The frame that a law finds, empty."""
    return lambda *arguments: real(*arguments).where("false")


OFF = (
    Off("what did not arrive is LOST", comparing, "_parts", without_part("missing"), whole_audit_agrees),
    Off("what is too many is DUPLICATED or UNEXPECTED", comparing, "_parts", without_part("surplus"), copies_count),
    Off("a changed record is ALTERED, not a stranger", comparing, "_parts", without_part("room"), content_counts),
    Off("what is late is REORDERED", running, "late_records", nobody(comparing.late_records), whole_audit_agrees),
    Off("what arrived in part is TORN", running, "torn_units", nobody(comparing.torn_units), whole_audit_agrees),
    Off(
        "a hole between commits is a LEDGER_GAP", running, "find_ledger_gaps",
        lambda *_: Finding(kind=Kind.LEDGER_GAP, count=0, is_proven=True),
        lambda spark, _: found.test_a_hole_in_the_ledger_breaks_what_rows_alone_would_not(spark),
    ),
    Off("content has a fingerprint", fingerprints, "mark_of", lambda rows: rows["id"], content_counts),
    Off("buckets that differ are opened", running, "opened", lambda side, _: side.where("false"), copies_count),
    Off(
        "nulls have a place", hashed_rows, "hash_of", lambda columns, *seeds: F.xxhash64(*seeds, *columns), nulls_count
    ),
    Off(
        "an incomplete side proves no loss", running, "is_proven", lambda *_: True,
        lambda spark, _: found.test_an_incomplete_side_makes_no_false_loss(spark),
    ),
    Off(
        "a side that changes proves nothing", running, "_changes", lambda *_: [],
        found.test_a_side_that_changes_while_it_is_read_is_unknown,
    ),
    Off(
        "what a filter drops is not asked for", running, "filtered", lambda frame, _: frame,
        lambda spark, _: found.test_what_a_filter_drops_is_not_lost_and_is_unexpected_if_it_arrives(spark),
    ),
)  # fmt: skip


@pytest.mark.quick(2)
@pytest.mark.parametrize("off", OFF, ids=[one.law for one in OFF])
def test_a_law_that_is_switched_off_turns_a_test_red(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, off: Off
) -> None:
    kept = partial(off.noticed_by, spark)
    first, second = tmp_path / "kept", tmp_path / "off"
    first.mkdir()
    second.mkdir()
    kept(first)
    monkeypatch.setattr(off.module, off.attribute, off.instead)
    with pytest.raises(AssertionError):
        kept(second)
