"""Fingerprints: which buckets of identities differ between two sides, found without moving any record.

A bucket's fingerprint is the number of its records and the sums of both halves of their hashes. Sums do not depend on
order, and count copies as often as they are there. Each side adds up its own records where they are; what moves is one
row for each bucket and task.

Why halves: the sum of whole hashes would overflow, which Spark reports as an error; halves of 32 bits have room for two
thousand million records in one bucket.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from semel.audit.hashed_rows import mark_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# With 100 million records 1,500 of them share a bucket: a few thousand differences open a small part of the data, and
# the table of a task stays at a few megabytes.
BUCKETS = 1 << 16
HALF_BITS = 32
WORD_BITS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprints:
    """How many records there are, and the buckets that differ with the number of records in them."""

    left: int
    right: int
    buckets: tuple[int, ...]
    left_in_buckets: int
    right_in_buckets: int

    @property
    def opens_all(self) -> bool:
        """Whether so many buckets differ that leaving the others out would not pay."""
        return len(self.buckets) * 4 > BUCKETS * 3

    @property
    def left_opened(self) -> int:
        """How many left records the closer look has to meet."""
        return self.left if self.opens_all else self.left_in_buckets

    @property
    def right_opened(self) -> int:
        """How many right records the closer look has to meet."""
        return self.right if self.opens_all else self.right_in_buckets


def bucket_of(identity: Column) -> Column:
    """The bucket of an identity: the low bits of its hash."""
    return identity.bitwiseAND(F.lit(BUCKETS - 1)).cast("int")


def take_fingerprints(left: DataFrame, right: DataFrame, copies: int) -> Fingerprints:
    """Compare frames with `id`, and `mark` where they have content; each left record counts `copies` times."""
    # At most one row for each bucket: that is all that moves between tasks.
    both = _summed(left, "l").join(_summed(right, "r"), on="bucket", how="full_outer").na.fill(0)
    # Decimals: a fan-out times a sum has no limit that fits into a BIGINT.
    is_different = F.lit(False)
    for name in ("count", "low", "high"):
        wanted = F.col(f"l_{name}").cast("decimal(38,0)") * F.lit(copies)
        is_different = is_different | (wanted != F.col(f"r_{name}").cast("decimal(38,0)"))
    row = (
        both.withColumn("differs", is_different)
        .agg(
            F.sum("l_count").alias("left"),
            F.sum("r_count").alias("right"),
            F.collect_list(F.when(F.col("differs"), F.col("bucket"))).alias("buckets"),
            F.sum(F.when(F.col("differs"), F.col("l_count"))).alias("left_in"),
            F.sum(F.when(F.col("differs"), F.col("r_count"))).alias("right_in"),
        )
        .collect()[0]
    )
    return Fingerprints(
        left=row["left"] or 0,
        right=row["right"] or 0,
        buckets=tuple(sorted(row["buckets"])),
        left_in_buckets=row["left_in"] or 0,
        right_in_buckets=row["right_in"] or 0,
    )


def _summed(side: DataFrame, prefix: str) -> DataFrame:
    mark = mark_of(side)
    return side.groupBy(bucket_of(F.col("id")).alias("bucket")).agg(
        F.count(F.lit(1)).alias(f"{prefix}_count"),
        F.sum(mark.bitwiseAND(F.lit((1 << HALF_BITS) - 1))).alias(f"{prefix}_low"),
        F.sum(F.shiftrightunsigned(mark, HALF_BITS)).alias(f"{prefix}_high"),
    )


def opened(side: DataFrame, prints: Fingerprints) -> DataFrame:
    """The records that have to be looked at one by one."""
    return side if prints.opens_all else side.where(_is_among(prints.buckets))


def _is_among(buckets: tuple[int, ...]) -> Column:
    """Whether the bucket of `id` is one of these, by a bit for each bucket.

    Why bits: a join with the list would cost jobs of its own, to send the list to Spark and from there to every task.
    """
    words = [0] * (BUCKETS // WORD_BITS)
    for one in buckets:
        words[one // WORD_BITS] |= 1 << one % WORD_BITS
    # One text, which Spark turns into an array once: 2,048 numbers it would parse, analyze and plan one by one.
    array = f"CAST(split('{','.join(map(str, words))}', ',') AS ARRAY<BIGINT>)"
    bucket = f"CAST(id & {BUCKETS - 1} AS INT)"
    return F.expr(f"shiftright(get({array}, {bucket} DIV {WORD_BITS}), {bucket} % {WORD_BITS}) & 1 = 1")
