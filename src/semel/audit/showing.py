"""Examples for people: the text of an identity, and where its records stand on both sides.

Hashes are enough to compare, and say nothing to a person. So the sides are read once more for the few identities that
will be shown; whatever their number of copies, one row of each comes back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from semel.audit.finding import Example, Kind
from semel.audit.normal_form import hash_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

    from semel.audit.comparing import Copies
    from semel.audit.sides import Side

# A line of a terminal.
TEXT_CHARACTERS_MAX = 120
NOT_KNOWN = -1
# More records than this are grouped by Spark, so that the driver need not hold them.
COLLECTED_MAX = 1_000
Places = dict[int, tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One side as examples are read from it: its rows, the hash of an identity, and the text of it."""

    side: Side
    identity: Column
    expressions: tuple[str, ...]

    def rows(self, wanted: Sequence[int]) -> DataFrame:
        """The records of these identities."""
        frame = self.side.frame
        coordinate = F.expr(self.side.coordinate).cast("string") if self.side.coordinate else F.lit("")
        position = F.expr(self.side.position) if self.side.position else F.lit(0)
        return frame.select(
            self.identity.alias("id"),
            _text(frame, self.expressions).alias("text"),
            position.cast("bigint").alias("position"),
            coordinate.alias("at"),
        ).where(F.col("id").isin(*wanted))

    def places(self, wanted: Sequence[int], records: int) -> Places:
        """For each identity that is here: its text, and where its records stand.

        `records` says how many there are of all of them, where that is known: Spark stops when it has so many. Those
        that are shown were chosen from the first ones, so a part of the side is read and not all of it.
        """
        if 0 <= records <= COLLECTED_MAX:
            found: dict[int, list[Row]] = {}
            for row in self.rows(wanted).limit(records).collect() if records else ():
                found.setdefault(row["id"], []).append(row)
            return {
                one: (
                    min(row["text"] for row in rows),
                    _where(min(_ends(rows))[1], max(_ends(rows))[1], len(rows)),
                )
                for one, rows in found.items()
            }
        place = F.struct("position", "at")
        rows = (
            self.rows(wanted)
            .groupBy("id")
            .agg(
                F.min("text").alias("text"),
                F.count(F.lit(1)).alias("copies"),
                F.min(place).alias("first"),
                F.max(place).alias("last"),
            )
            .collect()
        )
        return {row["id"]: (row["text"], _where(row["first"]["at"], row["last"]["at"], row["copies"])) for row in rows}

    def units(self, wanted: Sequence[int]) -> dict[int, str]:
        """The text of each transaction or micro-batch."""
        frame = self.side.frame
        unit = hash_of([F.expr(self.side.unit)])
        rows = (
            frame.select(unit.alias("unit"), _text(frame, (self.side.unit,)).alias("text"))
            .where(F.col("unit").isin(*wanted))
            .groupBy("unit")
            .agg(F.min("text").alias("text"))
            .collect()
        )
        return {row["unit"]: row["text"] for row in rows}


def show_records(
    left: Shown,
    right: Shown,
    shown: Mapping[Kind, tuple[int, ...]],
    units: tuple[int, ...],
    copies: Mapping[int, Copies] | None = None,
) -> dict[Kind, tuple[Example, ...]]:
    """Look the identities up that are to be shown for each kind, and the torn units.

    `copies` says of each of them how many records each side has, where that is known.
    """
    wanted = sorted({one for ids in shown.values() for one in ids})
    ours, theirs = Places(), Places()
    if wanted:
        on_left, on_right = NOT_KNOWN, NOT_KNOWN
        if copies is not None:
            on_left, on_right = (sum(copies[one][side] for one in wanted) for side in (0, 1))
        ours, theirs = left.places(wanted, on_left), right.places(wanted, on_right)
    texts = {one: text for side in (theirs, ours) for one, (text, _) in side.items()}
    nowhere = ("", "")
    # A side that changes while it is read may not have an identity any more.
    examples = {
        kind: tuple(
            Example(identity=texts[one], left=ours.get(one, nowhere)[1], right=theirs.get(one, nowhere)[1])
            for one in ids
            if one in texts
        )
        for kind, ids in shown.items()
    }
    if units:
        examples[Kind.TORN] = tuple(Example(identity=text) for text in left.units(units).values())
    return examples


def _ends(rows: Sequence[Row]) -> list[tuple[int, str]]:
    return [(row["position"] or 0, row["at"] or "") for row in rows]


def _where(first: str | None, last: str | None, copies: int) -> str:
    """The first and the last place of the copies of a record."""
    ends = [one for one in dict.fromkeys((first, last)) if one]
    told = " … ".join(ends)
    if copies == 1:
        return told or "1 copy"
    return f"{told} ({copies:,} copies)" if told else f"{copies:,} copies"


def _text(frame: DataFrame, expressions: Sequence[str]) -> Column:
    """Values for people, cut to a length that fits on a line; bytes as text where they are text."""
    parts = []
    for one in expressions:
        column, kind = F.expr(one), frame.select(F.expr(one)).schema.fields[0].dataType
        if isinstance(kind, T.BinaryType):
            column = F.when(F.is_valid_utf8(column.cast("string")), column.cast("string")).otherwise(F.hex(column))
        elif isinstance(kind, T.ArrayType | T.MapType | T.StructType):
            column = F.to_json(F.struct(column.alias("v")))
        parts.append(F.coalesce(column.cast("string"), F.lit("null")))
    return F.substring(F.concat_ws(", ", *parts), 1, TEXT_CHARACTERS_MAX)
