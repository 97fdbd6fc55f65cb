"""In which type values of two columns are compared. No session is needed: types are values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as T  # noqa: N812

from semel.audit.normal_form import common_type

INT, LONG, TEXT, BYTES, VOID = T.IntegerType(), T.LongType(), T.StringType(), T.BinaryType(), T.NullType()
MAP = T.MapType(TEXT, INT)
A_TEXT = T.StructType([T.StructField("a", TEXT)])
ALL = (
    *(INT, LONG, TEXT, BYTES, VOID, MAP, T.ByteType(), T.ShortType(), T.FloatType(), T.DoubleType(), T.BooleanType()),
    *(T.DateType(), T.TimestampType(), T.TimestampNTZType(), T.DecimalType(10, 2), T.DecimalType(38, 10)),
    *(T.ArrayType(INT), T.ArrayType(MAP), T.StructType([T.StructField("a", INT)]), T.StringType("UNICODE_CI")),
)


@pytest.mark.parametrize(
    ("one", "other", "common"),
    [
        (T.ByteType(), LONG, LONG),
        (INT, INT, LONG),
        (T.FloatType(), T.DoubleType(), T.DoubleType()),
        (TEXT, TEXT, TEXT),
        (TEXT, BYTES, BYTES),
        # A collation calls texts equal that are not the same.
        (T.StringType("UNICODE_CI"), T.StringType("UNICODE_CI"), BYTES),
        (T.DecimalType(10, 2), T.DecimalType(12, 4), T.DecimalType(12, 4)),
        (INT, T.DecimalType(9, 2), T.DecimalType(21, 2)),
        (VOID, INT, LONG),
        (VOID, VOID, TEXT),
        (T.ArrayType(INT), T.ArrayType(LONG), T.ArrayType(LONG)),
        (T.ArrayType(T.DecimalType(2, 1)), T.ArrayType(T.DecimalType(5, 3)), T.ArrayType(T.DecimalType(5, 3))),
        (T.StructType([T.StructField("a", TEXT)]), T.StructType([T.StructField("a", TEXT)]), A_TEXT),
        (MAP, MAP, T.MapType(TEXT, LONG)),
    ],
)
def test_types_that_can_be_compared(one: T.DataType, other: T.DataType, common: T.DataType) -> None:
    assert common_type(one, other) == common


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (INT, TEXT),
        (INT, T.DoubleType()),
        (T.DecimalType(10, 2), T.DoubleType()),
        (T.DecimalType(38, 0), T.DecimalType(38, 10)),
        (T.DateType(), T.TimestampType()),
        (T.TimestampType(), T.TimestampNTZType()),
        (T.ArrayType(INT), T.ArrayType(TEXT)),
        (T.ArrayType(INT), MAP),
        (T.StructType([T.StructField("a", INT)]), T.StructType([T.StructField("b", INT)])),
        (A_TEXT, T.StructType([T.StructField("a", INT)])),
        (T.ArrayType(MAP), T.ArrayType(MAP)),
        (T.StructType([T.StructField("a", MAP)]),) * 2,
        (T.VariantType(), T.VariantType()),
    ],
)
def test_types_that_cannot(one: T.DataType, other: T.DataType) -> None:
    assert common_type(one, other) is None


@given(one=st.sampled_from(ALL), other=st.sampled_from(ALL))
def test_the_order_of_the_sides_does_not_matter_and_the_result_is_stable(one: T.DataType, other: T.DataType) -> None:
    common = common_type(one, other)
    assert common == common_type(other, one)
    if common is not None:
        assert common_type(common, common) == common
