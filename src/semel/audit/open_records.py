"""The records that an audit which follows has not settled: seen on one side and not on the other, by window.

For each identity and content there is a queue of copies without a partner, oldest window first. What comes on one side
takes its partners from the queue of the other; so there is a queue on one side at most. A window is settled when the
lateness bound has passed. What of it still has no partner is an anomaly, is counted once, and leaves the queue.

Why this says the same as an audit of the whole: the oldest copies are paired first, so a copy of a settled window is
without partner exactly if the left side had more copies up to that window than the right side has until now (LOST), or
the other way round. Nothing is asked about earlier windows except how many copies they left over. So each record is
read once, and what is kept is what came within the bound, however long the audit runs.

A frame of this module has a row for each `id`, `mark` and `window`: copies without partner (`l`, `r`), copies on the
left that the row stands for (`known`, paired or not, as long as the window is not settled), and copies that were called
lost and may still come (`owed`, as long again).

One shuffle for each window, by identity: one identity with very many contents is the work of one task.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

from semel.audit.comparing import TALLIED
from semel.audit.finding import Kind
from semel.audit.hashed_rows import mark_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from semel.audit.expectation import Expectation

COUNTS = ("l", "r", "known", "owed")
SCHEMA = "id bigint, mark bigint, window bigint, l bigint, r bigint, known bigint, owed bigint"
# What a window adds to the sums of the audit, beside the anomalies.
_TOLD = ("came_left", "came_right", "late", "dropped")
_ZERO = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The window that was read now, and the last one that is settled; -1 before the first.

    `drops_surplus`: the left side was not read from its beginning, and copies of what stood there may still come.
    `window_judged_first`: nothing before is called lost, because the right side was not read from its beginning.
    """

    window: int
    settled: int
    drops_surplus: bool = False
    window_judged_first: int = 0


def nothing_open(spark: SparkSession) -> DataFrame:
    """The frame that an audit begins with."""
    return spark.createDataFrame([], SCHEMA)


def judge(before: DataFrame, left: DataFrame, right: DataFrame, moment: Moment, expectation: Expectation) -> DataFrame:
    """Pair what came with what was open: the next frame, with what is found, a column for each kind.

    `left` and `right` have `id` and `mark`. The count of an identity stands in one of its rows.
    """
    came = _came(left, moment.window, l=expectation.copies_usual, known=1)
    came = came.unionByName(_came(right, moment.window, r=1))
    entries = (
        before.select("id", "mark", "window", *COUNTS)
        .unionByName(came)
        # Before the grouping: the windows below are by identity as well, and need no shuffle of their own then.
        .repartition("id")
        .groupBy("id", "mark", "window")
        .agg(*(F.sum(name).alias(name) for name in COUNTS))
    )
    is_new = F.col("window") == moment.window
    told = entries.select(
        "*",
        F.when(is_new, F.col("known")).otherwise(_ZERO).alias("came_left"),
        F.when(is_new, F.col("r")).otherwise(_ZERO).alias("came_right"),
    )
    return _settled(_paired(told, moment), moment, expectation)


def _came(side: DataFrame, window: int, **counts: int) -> DataFrame:
    columns = (F.lit(counts.get(name, 0)).cast("bigint").alias(name) for name in COUNTS)
    return side.select("id", mark_of(side).alias("mark"), F.lit(window).cast("bigint").alias("window"), *columns)


def _paired(entries: DataFrame, moment: Moment) -> DataFrame:
    """Take partners away, the oldest first: what is left of a queue are its newest copies."""
    content = Window.partitionBy("id", "mark")
    newer = content.orderBy(F.desc("window")).rowsBetween(Window.unboundedPreceding, -1)
    over = F.sum(F.col("l") - F.col("r")).over(content)
    owed = F.sum("owed").over(content)
    # What was called lost and comes after all is late, and nothing else.
    late = F.least(F.greatest(-over, F.lit(_ZERO)), owed)
    surplus = F.greatest(-over, F.lit(_ZERO)) - late
    kept = F.lit(_ZERO).cast("bigint") if moment.drops_surplus else surplus
    is_first = F.row_number().over(content.orderBy(F.desc("window"))) == 1
    sums = entries.select(
        "*",
        F.greatest(over, F.lit(_ZERO)).alias("l_left"),
        kept.alias("r_left"),
        (owed - late).alias("owed_left"),
        F.when(is_first, late).otherwise(_ZERO).alias("late"),
        F.when(is_first, surplus - kept).otherwise(_ZERO).alias("dropped"),
        *(F.coalesce(F.sum(name).over(newer), F.lit(_ZERO)).alias(f"{name}_newer") for name in ("l", "r", "owed")),
    )

    def newest(name: str) -> Column:
        room = F.greatest(F.col(f"{name}_left") - F.col(f"{name}_newer"), F.lit(_ZERO))
        return F.least(room, F.col(name)).alias(name)

    paired = (newest(name) for name in ("l", "r", "owed"))
    return sums.select("id", "mark", "window", "known", *paired, *_TOLD)


def _settled(paired: DataFrame, moment: Moment, expectation: Expectation) -> DataFrame:
    """Count what of settled windows has no partner, as `Expectation.tally` does, and forget it."""
    identity = Window.partitionBy("id")
    is_old = F.col("window") <= moment.settled
    is_judged = is_old & (F.col("window") >= moment.window_judged_first)
    missing = F.sum(F.when(is_judged, F.col("l")).otherwise(_ZERO)).over(identity)
    # A record that is missing for good may have come with other content a moment ago: that is not waited for.
    gone_right = F.when(is_old | (F.col("missing") > 0), F.col("r")).otherwise(_ZERO)
    rows = paired.select("*", missing.alias("missing"), F.sum("known").over(identity).alias("known_in_all"))
    rows = rows.select("*", gone_right.alias("gone_right"), F.when(is_old, F.col("l")).otherwise(_ZERO).alias("gone"))
    rows = rows.select(
        "*",
        F.sum("gone_right").over(identity).alias("surplus"),
        (F.row_number().over(identity.orderBy("mark", "window")) == 1).alias("is_first"),
    )
    next_state = (
        # What was lost is owed from now on.
        F.when(F.col("gone") > 0, F.lit(moment.window)).otherwise(F.col("window")).cast("bigint").alias("window"),
        (F.col("l") - F.col("gone")).alias("l"),
        (F.col("r") - F.col("gone_right")).alias("r"),
        *((F.when(is_old, F.lit(_ZERO)).otherwise(F.col(one)) + F.col("gone")).alias(one) for one in ("known", "owed")),
    )
    judged = rows.select("id", "mark", *next_state, *_kinds(expectation), *_TOLD)
    # A row that counts nothing is forgotten, so the frame does not grow with the length of the run.
    is_kept = " OR ".join(f"{name} > 0" for name in (*COUNTS, *TALLIED, *_TOLD))
    return judged.where(is_kept)


def _kinds(expectation: Expectation) -> list[Column]:
    zero = F.lit(_ZERO).cast("bigint")
    # More copies than one are right, and so are copies of what nobody remembers: only a loss can be proven.
    surplus = zero if expectation.copies_max is None else F.col("surplus")
    altered = F.least(F.col("missing"), surplus)
    over = surplus - altered
    lost = F.col("missing") - altered if expectation.copies_min else zero
    is_known = F.col("known_in_all") > 0
    counts = {
        Kind.LOST: lost,
        Kind.DUPLICATED: F.when(is_known, over).otherwise(zero),
        Kind.ALTERED: altered,
        Kind.UNEXPECTED: F.when(is_known, zero).otherwise(over),
    }
    return [F.when(F.col("is_first"), counts[kind]).otherwise(zero).alias(kind) for kind in TALLIED]


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowCounts:
    """What one window has brought: records, anomalies of what is settled now, and what is open."""

    came_left: int
    came_right: int
    late: int
    """Copies that came after they were called lost."""
    dropped: int
    """Copies on the right that may be of records from before the beginning."""
    open_left: int
    open_right: int
    kinds: dict[Kind, int]


def add_up(judged: DataFrame) -> WindowCounts:
    """The sums of a window, in one row."""
    named = (*_TOLD, *TALLIED, "l", "r")
    row = judged.agg(*(F.coalesce(F.sum(name), F.lit(_ZERO)).alias(name) for name in named)).collect()[0]
    return WindowCounts(
        **{name: row[name] for name in _TOLD},
        open_left=row["l"],
        open_right=row["r"],
        kinds={kind: row[kind] for kind in TALLIED},
    )


def keep(judged: DataFrame) -> DataFrame:
    """Compute the frame now and keep its rows on the disks of Spark; what it was made of is forgotten."""
    # Without this the plan would grow with each window, until Spark cannot plan it any more.
    return judged.localCheckpoint(eager=True, storageLevel=StorageLevel.DISK_ONLY)


def let_go(kept: DataFrame) -> None:
    """Free what `keep` holds. Without that it goes only when Java collects its garbage, which may take half an hour."""
    plan = kept._jdf.queryExecution().analyzed()
    if plan.getClass().getSimpleName() == "LogicalRDD":
        plan.rdd().unpersist(False)
