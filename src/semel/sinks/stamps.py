"""Stamps: where in the source a row comes from, written with the row, so that an audit knows who each record is.

    rows = source.select(semel.stamp().alias("semel_stamp"), …)
    sink = PostgresSink(…, stamp=True)

A stamp is a text, `orders-0@17` for offset 17 of partition 0 of topic orders. Tables keep it in a column, records in a
header of the same name. The query makes it, because a sink does not see the source: it gets rows that somebody shaped.
What a sink adds is that no row goes without one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from semel.errors import ConfigError
from semel.sinks.base import Column

STAMP = "semel_stamp"
HEADERS_TYPE = "array<struct<key:string,value:binary>>"
# Over the columns that the source has: the text by which an audit calls a record of a topic.
STAMP_SQL = "concat(topic, '-', partition, '@', offset)"
# The last header of the name, as text; null where a record has none.
STAMP_OF_HEADERS = f"string(try_element_at(filter(headers, one -> one.key = '{STAMP}'), -1).value)"
_HAS_ONE = f"coalesce({STAMP}, raise_error('ConfigError: a row has no {STAMP}, and the sink was made with stamp=True'))"


def with_stamp(columns: Sequence[Column]) -> tuple[Column, ...]:
    """The columns, with a stamp that is never null; ConfigError where rows bring none."""
    found = {column.name: column.type for column in columns}
    if not found.get(STAMP, "").startswith("string"):
        raise ConfigError(
            f"stamp=True needs a column {STAMP!r} of type string in the rows",
            you_wrote=f"{STAMP}: {found[STAMP]}" if STAMP in found else f"columns {sorted(found)}",
            you_want=f'.withColumn("{STAMP}", semel.stamp()) right behind the source, while the rows have its columns '
            "topic, partition and offset; then keep the column",
            because="a sink does not see which record of the source a row was made of",
        )
    return tuple(replace(column, made_by=_HAS_ONE) if column.name == STAMP else column for column in columns)


def stamp_header(columns: Sequence[Column]) -> tuple[Column, ...]:
    """The columns of records with the stamp as one more header, instead of one that was copied from the source."""
    stamped = with_stamp(columns)
    given = f"filter(headers, one -> one.key <> '{STAMP}')"
    others = f"coalesce({given}, array())" if any(column.name == "headers" for column in columns) else "array()"
    mine = f"array(named_struct('key', '{STAMP}', 'value', CAST({_HAS_ONE} AS BINARY)))"
    made = Column(name="headers", type=HEADERS_TYPE, made_by=f"CAST(concat({others}, {mine}) AS {HEADERS_TYPE})")
    return (*(column for column in stamped if column.name not in {STAMP, "headers"}), made)
