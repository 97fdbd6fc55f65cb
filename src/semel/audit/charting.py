"""Charts from Spark: one more pass over each side for the timeline, and one over the opened buckets for the places.

Why records are counted by second first: nobody knows the length of the time before it was read. What was added up by
second is small, and is put into steps in the same job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from semel.audit.charts import BINS, Placed, Timeline
from semel.audit.comparing import TALLIED
from semel.audit.finding import Kind
from semel.audit.normal_form import types_of
from semel.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from semel.audit.sides import Side

# So many rows come to the driver; the page draws those with the most anomalies.
PLACED_MAX = 4_000
_TIMES = (T.TimestampType, T.TimestampNTZType, T.DateType)


def second_of(side: Side, side_name: str) -> Column:
    """The time of a record in seconds; null where the side says none."""
    if not side.time:
        return F.lit(None).cast("bigint")
    (kind,) = types_of(side.frame, [side.time], side_name)
    if not isinstance(kind, _TIMES):
        raise ConfigError(
            f"{side.time!r} is no time on the {side_name} side: {kind.simpleString()}",
            you_want="a timestamp or a date, such as timestamp_millis(created_ms)",
        )
    return F.unix_seconds(F.expr(side.time).cast("timestamp"))


def place_of(side: Side, side_name: str) -> Column:
    """Where an anomaly of this side is drawn: the second, and the partition or else the whole side."""
    if side.lane:
        types_of(side.frame, [side.lane], side_name)
    lane = F.coalesce(F.expr(side.lane).cast("string"), F.lit(side.name)) if side.lane else F.lit(side.name)
    return F.struct(second_of(side, side_name).alias("second"), lane.alias("lane"))


def take_timeline(left: Side, right: Side) -> Timeline | None:
    """Count the records of both sides in steps of equal length; None where no record says a time."""
    # Tables and files say no time unless SQL for it is given.
    if not left.time and not right.time:
        return None
    counted = [
        side.frame.select(
            second_of(side, name).alias("second"),
            *(F.lit(int(name == other)).cast("bigint").alias(other) for other in ("left", "right")),
        )
        for side, name in ((left, "left"), (right, "right"))
        if side.time
    ]
    both = counted[0] if len(counted) == 1 else counted[0].unionByName(counted[1])
    seconds = both.groupBy("second").agg(F.sum("left").alias("left"), F.sum("right").alias("right"))
    ends = seconds.agg(F.min("second").alias("begin"), F.max("second").alias("end"))
    placed = seconds.crossJoin(F.broadcast(ends))
    length = F.ceil((F.col("end") - F.col("begin") + 1) / BINS)
    step = F.floor((F.col("second") - F.col("begin")) / length)
    rows = (
        placed.select("begin", length.alias("length"), step.alias("step"), "left", "right")
        .groupBy("begin", "length", "step")
        .agg(F.sum("left").alias("left"), F.sum("right").alias("right"))
        .collect()
    )
    timed = {row["step"]: row for row in rows if row["step"] is not None}
    if not timed:
        return None
    some = next(iter(timed.values()))
    ours, theirs = (
        tuple(timed[step][name] if step in timed else 0 for step in range(max(timed) + 1)) for name in ("left", "right")
    )
    return Timeline(
        begin_s=some["begin"],
        step_s=some["length"],
        left=ours if left.time else (),
        right=theirs if right.time else (),
        untimed=sum(row["left"] + row["right"] for row in rows if row["step"] is None),
    )


def place_anomalies(tallies: DataFrame, timeline: Timeline | None) -> tuple[Placed, ...]:
    """Where the most anomalies stand: what was lost, by its place on the left; else where it came out."""
    ours, theirs = F.col("left_at"), F.col("right_at")
    found = F.array(
        *(
            F.struct(
                F.lit(kind.value).alias("kind"),
                F.col(kind).alias("count"),
                (F.coalesce(ours, theirs) if kind is Kind.LOST else F.coalesce(theirs, ours)).alias("at"),
            )
            for kind in TALLIED
        )
    )
    step = F.lit(None).cast("bigint")
    if timeline is not None:
        step = F.floor((F.col("one.at.second") - F.lit(timeline.begin_s)) / F.lit(timeline.step_s))
    rows = (
        tallies.select(F.explode(found).alias("one"))
        .where("one.count > 0")
        .groupBy(F.col("one.at.lane").alias("lane"), F.col("one.kind").alias("kind"), step.alias("step"))
        .agg(F.sum("one.count").alias("count"))
        .orderBy(F.desc("count"), "lane", "kind", "step")
        .limit(PLACED_MAX)
        .collect()
    )
    return tuple(Placed(lane=row["lane"], kind=Kind(row["kind"]), step=row["step"], count=row["count"]) for row in rows)
