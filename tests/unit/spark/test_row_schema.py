"""Which columns a schema may name."""

import pytest
from pyspark.sql import types as t

from semel.errors import ConfigError
from semel.spark.row_schema import row_schema, wanted_columns

HEADERS = t.ArrayType(t.StructType([t.StructField("key", t.StringType()), t.StructField("value", t.BinaryType())]))
KINDS: dict[str, t.DataType] = {
    "key": t.BinaryType(),
    "value": t.BinaryType(),
    "topic": t.StringType(),
    "partition": t.IntegerType(),
    "offset": t.LongType(),
    "timestamp": t.TimestampType(),
    "timestampType": t.IntegerType(),
    "headers": HEADERS,
}


def field(name: str) -> t.StructField:
    return t.StructField(name, KINDS[name])


def test_all_columns_can_be_named() -> None:
    assert wanted_columns(t.StructType([field(name) for name in KINDS])) == tuple(KINDS)


def test_headers_are_a_column_only_when_asked_for() -> None:
    assert "headers" in row_schema(include_headers=True)
    assert "headers" not in row_schema(include_headers=False)


def test_some_columns_come_in_the_order_of_the_schema() -> None:
    assert wanted_columns(t.StructType([field("value"), field("key")])) == ("value", "key")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ([t.StructField("a", t.IntegerType())], "its own columns"),
        ([t.StructField("value", t.StringType())], "column 'value' is binary"),
        ([t.StructField("headers", t.ArrayType(t.StringType()))], "column 'headers' is array<struct"),
        ([t.StructField("offset", t.LongType(), nullable=False)], "can be null"),
        ([field("key"), field("key")], "each once"),
        ([], "each once"),
    ],
)
def test_what_no_record_has_is_refused(fields: list[t.StructField], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        wanted_columns(t.StructType(fields))
