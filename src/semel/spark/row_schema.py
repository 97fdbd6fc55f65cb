"""The columns of a row: as Spark's Kafka source has them, which of them a query wants, and as a sink looks at them.

    spark.readStream.format("semel").schema("key binary, value binary").options(...)

Why: Spark does not say to a Python data source which columns a query uses, so all of them would cross to the JVM and
     become part of every row there. A query that names the columns in a schema gets these and pays for no others.
"""

from __future__ import annotations

from typing import NoReturn

from pyspark.sql.types import StructField, StructType

from semel.errors import ConfigError
from semel.sinks.base import Column

HEADERS = "headers"
_TYPES = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    HEADERS: "array<struct<key:string,value:binary>>",
}


def row_schema(*, include_headers: bool) -> str:
    """All columns, as Spark wants them written."""
    return ", ".join(f"{name} {kind}" for name, kind in _TYPES.items() if include_headers or name != HEADERS)


def wanted_columns(schema: StructType) -> tuple[str, ...]:
    """Give the names of the columns, in this order; refuse what no record has."""
    for field in schema.fields:
        _check(field)
    if not schema.fields or len(set(schema.names)) != len(schema.names):
        _refuse("a schema names some of the columns, each once", schema.simpleString())
    return tuple(schema.names)


def _check(field: StructField) -> None:
    found = f"{field.name} {field.dataType.simpleString()}"
    kind = _TYPES.get(field.name)
    if kind is None:
        _refuse("this source has its own columns", found)
    if field.dataType.simpleString() != kind:
        _refuse(f"column {field.name!r} is {kind}", found)
    # Spark would believe it and drop checks for nulls, which keys and values can be.
    if not field.nullable:
        _refuse(f"column {field.name!r} can be null", f"{found} NOT NULL")


def _refuse(summary: str, wrote: str) -> NoReturn:
    raise ConfigError(
        summary,
        you_wrote=f".schema({wrote})",
        you_want=f"no .schema(…), or some of: {row_schema(include_headers=True)}",
        because="values are decoded in the query, not by the source",
    )


def columns_of(schema: StructType) -> tuple[Column, ...]:
    """The columns of rows, as a sink looks at them."""
    return tuple(
        Column(name=one.name, type=one.dataType.simpleString(), is_nullable=one.nullable, json=one.dataType.json())
        for one in schema.fields
    )
