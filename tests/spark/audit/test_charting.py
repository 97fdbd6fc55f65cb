"""What the page draws, added up by Spark: times, lanes and cells of a small history that can be counted by hand."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

import semel
from semel.audit.charts import BINS, Charts, Placed, Timeline
from semel.audit.finding import Kind
from semel.audit.sides import Side
from semel.errors import ConfigError

SCHEMA = "id int, cents int, part int, second bigint"


def rows(spark: SparkSession, *found: tuple[int, int, int, int | None]) -> DataFrame:
    return spark.createDataFrame(list(found), SCHEMA).coalesce(2)


def charts_of(spark: SparkSession, *, is_right_timed: bool = True) -> Charts:
    # 600 seconds, so that a step has ten of them: 0 is lost, 1 comes three times, 2 altered, 9 was never asked for.
    left = rows(spark, (0, 0, 0, 0), (1, 0, 0, 5), (2, 0, 1, 10), (3, 0, 1, 599), (4, 0, 1, None))
    right = rows(
        spark, (1, 0, 7, 25), (1, 0, 7, 5), (1, 0, 8, 599), (2, 1, 8, 30), (3, 0, 8, 599), (4, 0, 8, 599), (9, 0, 8, 40)
    )
    report = semel.audit(
        Side(left, name="orders", time="timestamp_seconds(second)", lane="concat('in-', part)"),
        Side(
            right, name="bills", time="timestamp_seconds(second)" if is_right_timed else "", lane="concat('out-', part)"
        ),
        key="id",
        content="cents",
        charts=True,
    )
    assert "Anomalies by partition" in report.as_html()
    (one,) = report.comparisons
    assert one.charts is not None
    return one.charts


@pytest.mark.full
def test_times_lanes_and_cells(spark: SparkSession) -> None:
    charts = charts_of(spark)
    empty = [0] * BINS
    left, right = [2, 1, *empty[2:-1], 1], [1, 0, 1, 1, 1, *empty[5:-1], 3]
    assert charts.timeline == Timeline(begin_s=0, step_s=10, left=tuple(left), right=tuple(right), untimed=1)
    assert set(charts.placed) == {
        Placed(lane="in-0", kind=Kind.LOST, step=0, count=1),
        Placed(lane="out-7", kind=Kind.DUPLICATED, step=0, count=2),  # at the first of its copies
        Placed(lane="out-8", kind=Kind.ALTERED, step=3, count=1),
        Placed(lane="out-8", kind=Kind.UNEXPECTED, step=4, count=1),
    }
    assert sum(count for _, count in charts.cells) == 5


@pytest.mark.full
def test_a_side_without_a_time_is_not_drawn_in_time(spark: SparkSession) -> None:
    charts = charts_of(spark, is_right_timed=False)
    assert charts.timeline is not None
    assert charts.timeline.right == ()
    assert Placed(lane="out-7", kind=Kind.DUPLICATED, step=None, count=2) in charts.placed


def test_what_is_no_time_is_refused(spark: SparkSession) -> None:
    one = rows(spark, (1, 1, 1, 1))
    with pytest.raises(ConfigError, match="is no time on the left side: bigint"):
        semel.audit(Side(one, time="second"), one, charts=True)
    with pytest.raises(ConfigError, match="'lane_less' cannot be read on the right side"):
        semel.audit(one, Side(one, lane="lane_less"), charts=True)
