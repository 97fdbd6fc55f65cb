"""The comparison of two sides as multisets, and of their order, down to a table that fits into any driver.

Frames here have `id` (hash of the identity), and where they are needed `mark` (hash of identity and content), `stream`
and `position`, `unit`. Records of one identity meet once; what is left of them are counts. Those are added up in
1,024 cells, each with the first record that shows each kind. So the driver gets 1,024 rows however much was lost.

Why skewed identities do no harm: copies are counted before they move, and an identity with many contents is spread over
all tasks first (by mark), then added up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

from semel.audit.finding import Kind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from semel.audit.expectation import Expectation

# So many rows come to the driver, however much was lost.
CELLS = 1 << 10
# A quarter of a million positions in each range: a stream of any length becomes many tasks.
RANGE_BITS = 18
READ_AT = "read_at"
# Copies of an identity on both sides in one number, left in the low half: more of them than this are as good as many.
COPIES_SHOWN_MAX = 1 << 20
HALF_BITS = 32
# What an identity takes along from its first record: what it was written with, when it is read, and where it stands.
CARRIED = ("unit", READ_AT, "left_at", "right_at")
TALLIED = (Kind.LOST, Kind.DUPLICATED, Kind.ALTERED, Kind.UNEXPECTED)


class Copies(NamedTuple):
    """How many records an identity has on each side."""

    left: int
    right: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """How many of each kind, the identities that show it, and how many records were looked at."""

    counts: dict[Kind, int]
    shown: dict[Kind, tuple[int, ...]]
    copies: dict[int, Copies]
    """Of the identities that are shown, how many records there are on each side."""
    left: int
    right: int
    cells: tuple[tuple[int, int], ...]
    """The cells with anomalies in them, and how many."""


def tally(left: DataFrame, right: DataFrame, expectation: Expectation, *, has_content: bool) -> DataFrame:
    """One row for each identity: `id`, `l`, `r`, and the count of each kind; `Expectation.tally` in Spark's words."""
    both = _marked(left, l=1, r=0).unionByName(_marked(right, l=0, r=1), allowMissingColumns=True)
    carried = [name for name in CARRIED if name in both.columns]
    firsts = [F.min(name).alias(name) for name in carried]
    # Without content the identity is all: there is nothing to add up, and no second shuffle.
    whole = ("id", "mark") if has_content else ("id",)
    counted = both.groupBy(*whole).agg(F.sum("l").alias("l"), F.sum("r").alias("r"), *firsts)
    parts = counted.select("id", "l", "r", *_parts(expectation), *carried)
    if has_content:
        names = ("l", "r", "missing", "surplus", "room")
        parts = parts.groupBy("id").agg(*(F.sum(name).alias(name) for name in names), *firsts)
    # At least one copy: whatever else has come under a known identity was altered.
    room = (
        F.col("room") if expectation.copies_max is not None else F.when(F.col("l") > 0, F.col("surplus")).otherwise(0)
    )
    zero = F.lit(0).cast("bigint")
    altered = F.least(room, F.col("surplus"))
    over = F.col("surplus") - altered
    return parts.select(
        "id",
        "l",
        "r",
        F.greatest(zero, F.col("missing") - altered).alias(Kind.LOST),
        F.when(F.col("l") > 0, over).otherwise(zero).alias(Kind.DUPLICATED),
        altered.alias(Kind.ALTERED),
        F.when(F.col("l") > 0, zero).otherwise(over).alias(Kind.UNEXPECTED),
        *carried,
    )


def _marked(side: DataFrame, **counts: int) -> DataFrame:
    columns = [name for name in ("id", "mark", *CARRIED) if name in side.columns]
    return side.select(*columns, *(F.lit(count).cast("bigint").alias(name) for name, count in counts.items()))


def _parts(expectation: Expectation) -> list[Column]:
    """Of one content: copies that are missing, those beyond the expected ones, and how many more there may be."""
    l, r, zero = F.col("l"), F.col("r"), F.lit(0).cast("bigint")  # noqa: E741 - the two columns
    missing = F.greatest(zero, l * expectation.copies_min - r)
    if expectation.copies_max is None:
        surplus, room = F.when(l == 0, r).otherwise(zero), zero
    else:
        surplus = F.greatest(zero, r - l * expectation.copies_max)
        room = F.greatest(zero, l * expectation.copies_max - r)
    return [missing.alias("missing"), surplus.alias("surplus"), room.alias("room")]


def count(tallies: DataFrame, examples_max: int) -> Counted:
    """Add the tallies up, and name identities that show each kind."""
    cell = F.col("id").bitwiseAND(F.lit(CELLS - 1))
    # The first ones that Spark reads, where that is known: they are found again without reading all.
    by = READ_AT if READ_AT in tallies.columns else "id"
    left, right = (F.least(F.col(side), F.lit(COPIES_SHOWN_MAX)) for side in "lr")
    rows = (
        tallies.withColumn("copies", F.shiftleft(right, HALF_BITS).bitwiseOR(left))
        .groupBy(cell.alias("cell"))
        .agg(
            F.sum("l").alias("l"),
            F.sum("r").alias("r"),
            *(F.sum(kind).alias(kind) for kind in TALLIED),
            *(one for kind in TALLIED for one in _first_shown(kind, by)),
        )
        .collect()
    )
    firsts = {
        kind: sorted(
            (row[f"by_{kind}"], row[f"first_{kind}"], row[f"copies_{kind}"])
            for row in rows
            if row[f"by_{kind}"] is not None
        )[:examples_max]
        for kind in TALLIED
    }
    return Counted(
        counts={kind: sum(row[kind] for row in rows) for kind in TALLIED},
        shown={kind: tuple(one for _, one, _ in firsts[kind]) for kind in TALLIED},
        copies={one: _unpacked(copies) for kind in TALLIED for _, one, copies in firsts[kind]},
        left=sum(row["l"] for row in rows),
        right=sum(row["r"] for row in rows),
        cells=tuple(sorted((row["cell"], found) for row in rows if (found := sum(row[kind] for kind in TALLIED)))),
    )


def _first_shown(kind: Kind, by: str) -> list[Column]:
    """The first of the identities that show a kind, what makes it the first, and how many copies of it there are."""
    shows = F.when(F.col(kind) > 0, F.col(by))
    first = {"by": F.min(shows), "first": F.min_by("id", shows), "copies": F.min_by("copies", shows)}
    return [column.alias(f"{name}_{kind}") for name, column in first.items()]


def _unpacked(copies: int) -> Copies:
    return Copies(left=copies & ((1 << HALF_BITS) - 1), right=copies >> HALF_BITS)


def count_rows(found: DataFrame, column: str, examples_max: int) -> tuple[int, tuple[int, ...]]:
    """How many rows there are, and values of a column that show them, in one job."""
    cell = F.col(column).bitwiseAND(F.lit(CELLS - 1))
    rows = found.groupBy(cell).agg(F.count(F.lit(1)).alias("n"), F.min(column).alias("first")).collect()
    return sum(row["n"] for row in rows), tuple(sorted(row["first"] for row in rows)[:examples_max])


def count_late(late: DataFrame, examples_max: int) -> tuple[int, dict[int, Copies]]:
    """How many records are late, and the first ones of the right side with their copies."""
    first = {name: F.min_by(name, "right_position").alias(name) for name in ("id", "on_right")}
    rows = (
        late.groupBy(F.col("id").bitwiseAND(F.lit(CELLS - 1)))
        .agg(F.count(F.lit(1)).alias("n"), F.min("right_position").alias("at"), *first.values())
        .collect()
    )
    shown = sorted((row["at"], row["id"], row["on_right"]) for row in rows)[:examples_max]
    return sum(row["n"] for row in rows), {one: Copies(left=1, right=copies) for _, one, copies in shown}


def late_records(left: DataFrame, right: DataFrame) -> DataFrame:
    """The identities that stand on the right behind one which follows them on the left, in the same two streams.

    Identities that the left side has more than once are left out: nobody knows which of them a right one is. Of copies
    on the right the first counts.

    A stream may hold all records, so it is cut into ranges of positions: what a range has to know of those before it is
    one number, the highest left position so far.
    """
    place = F.struct("stream", "position")
    both = left.select("id", place.alias("a"), F.lit(None).cast("struct<stream:bigint,position:bigint>").alias("b"))
    both = both.union(right.select("id", F.lit(None).cast("struct<stream:bigint,position:bigint>"), place))
    copies = F.count("a").alias("on_left"), F.count("b").alias("on_right")
    # The stream and the position in one value, so that the minimum is a place and not two numbers of different ones.
    firsts = both.groupBy("id").agg(F.min("a").alias("a"), F.min("b").alias("b"), *copies)
    met = firsts.where("on_left = 1 AND b IS NOT NULL")
    streams = ["left_stream", "right_stream"]
    placed = met.select(
        "id",
        "on_right",
        F.col("a.stream").alias("left_stream"),
        F.col("b.stream").alias("right_stream"),
        F.col("a.position").alias("left_position"),
        F.col("b.position").alias("right_position"),
        F.shiftright(F.col("b.position"), RANGE_BITS).alias("range"),
    )
    highest = placed.groupBy(*streams, "range").agg(F.max("left_position").alias("highest"))
    before = Window.partitionBy(*streams).orderBy("range").rowsBetween(Window.unboundedPreceding, -1)
    ranges = highest.select(*streams, "range", F.max("highest").over(before).alias("before_range"))
    # By value and not by row: records at one position are not behind each other.
    earlier = (
        Window.partitionBy(*streams, "range").orderBy("right_position").rangeBetween(Window.unboundedPreceding, -1)
    )
    in_range = placed.withColumn("before", F.max("left_position").over(earlier))
    return in_range.join(ranges, on=[*streams, "range"]).where(
        F.greatest("before", "before_range") > F.col("left_position")
    )


def torn_units(tallies: DataFrame, left: DataFrame, expectation: Expectation) -> DataFrame:
    """The units of which some records were lost and others arrived; a lost identity counts in its first unit."""
    # A unit of which everything was lost is not torn: it is as if it had been aborted.
    lost = tallies.where(F.col(Kind.LOST) > 0).groupBy("unit").agg(F.sum(Kind.LOST).alias("lost"))
    asked = left.groupBy("unit").agg((F.count(F.lit(1)) * expectation.copies_min).alias("asked"))
    return lost.join(asked, on="unit").where("lost < asked")
