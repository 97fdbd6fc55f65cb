"""Expressions of two sides as columns whose hashes are equal exactly if the values are.

Spark's xxhash64 has traps: 1 as INT and 1 as BIGINT differ, 1.0 and 1.00 differ as decimals, and a null leaves the hash
as it was, so that (null, 'a') equals ('a', null), also inside arrays. So both sides are cast to one type, nulls are
told by a flag of their own, and nested values are hashed as JSON, in which nothing is left out. JSON has traps, too: a
text that is no UTF-8 is written as question marks, and -0.0 apart from 0.0, which are one value elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import functions as F  # noqa: N812 - the name that all of PySpark's own examples use
from pyspark.sql import types as T  # noqa: N812

from semel.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# Of Spark's decimals, and of a BIGINT in decimal digits.
DECIMAL_DIGITS_MAX = 38
BIGINT_DIGITS = 19
# to_json writes milliseconds and drops null fields unless it is told otherwise: both would hide a difference.
_JSON = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_WHOLE = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_TEXT = (T.StringType, T.BinaryType)
_PLAIN = (T.BooleanType, T.DateType, T.TimestampType, T.TimestampNTZType, T.DayTimeIntervalType)
_EXACT = (*_WHOLE, T.DecimalType)
_FAMILIES: tuple[tuple[tuple[type[T.DataType], ...], T.DataType], ...] = (
    (_WHOLE, T.LongType()),
    ((T.FloatType, T.DoubleType), T.DoubleType()),
    (_TEXT, T.BinaryType()),
)
_NESTED = (T.ArrayType, T.StructType, T.MapType)


def types_of(frame: DataFrame, expressions: Sequence[str], side: str) -> list[T.DataType]:
    """The types of SQL expressions; ConfigError that names the first one which cannot be read on this side."""
    found = []
    for text in expressions:
        try:
            found.append(frame.select(F.expr(text)).schema.fields[0].dataType)
        except (AnalysisException, ParseException) as error:
            raise ConfigError(
                f"{text!r} cannot be read on the {side} side",
                you_want=f"SQL over {', '.join(frame.columns) or 'columns, and there are none'}",
                because=str(error).split("\n", maxsplit=1)[0].split(" SQLSTATE")[0],
            ) from None
    return found


def align(
    left: DataFrame, right: DataFrame, left_texts: Sequence[str], right_texts: Sequence[str]
) -> tuple[list[Column], list[Column]]:
    """Columns of both sides, pair by pair in one type; ConfigError for a pair that cannot be compared."""
    ours, theirs = types_of(left, left_texts, "left"), types_of(right, right_texts, "right")
    columns: tuple[list[Column], list[Column]] = ([], [])
    for one, other, text, their_text in zip(ours, theirs, left_texts, right_texts, strict=True):
        common = common_type(one, other)
        if common is None:
            raise ConfigError(
                f"{text} and {their_text} cannot be compared: {one.simpleString()} and {other.simpleString()}",
                you_want="on each side an expression that gives the same: a number, a text, a time, or a list of such",
            )
        columns[0].append(_as_type(F.expr(text), one, common))
        columns[1].append(_as_type(F.expr(their_text), other, common))
    return columns


def hash_of(columns: Sequence[Column], *seeds: Column) -> Column:
    """A 64-bit hash of all of them, in which a null counts."""
    told = [part for column in columns for part in (column.isNull(), column)]
    return F.xxhash64(*seeds, *told)


def common_type(one: T.DataType, other: T.DataType) -> T.DataType | None:
    """The type in which values of both can be compared without losing anything, or None."""
    if isinstance(one, T.NullType) or isinstance(other, T.NullType):
        # A column of nothing but nulls fits to every other one.
        known = other if isinstance(one, T.NullType) else one
        return T.StringType() if isinstance(known, T.NullType) else common_type(known, known)
    if one == other == T.StringType():
        return one  # plain strings hash as their bytes do; a cast would copy each of them
    for family, wide in _FAMILIES:
        if isinstance(one, family) and isinstance(other, family):
            return wide
    if isinstance(one, _EXACT) and isinstance(other, _EXACT):
        return _common_decimal(one, other)
    if isinstance(one, _NESTED) and _is_ordered(one) and _is_ordered(other):
        return _common_nested(one, other)
    return one if isinstance(one, _PLAIN) and one.simpleString() == other.simpleString() else None


def _common_nested(one: T.DataType, other: T.DataType) -> T.DataType | None:
    """The nested type in whose parts those of both fit; fields have to have the same names in the same order."""
    match one, other:
        case T.ArrayType(), T.ArrayType():
            inner = common_type(one.elementType, other.elementType)
            return T.ArrayType(inner) if inner else None
        case T.MapType(), T.MapType():
            key, value = common_type(one.keyType, other.keyType), common_type(one.valueType, other.valueType)
            return T.MapType(key, value) if key and value else None
        case T.StructType(), T.StructType() if one.names == other.names:
            pairs = zip(one.fields, other.fields, strict=True)
            kinds = [common_type(ours.dataType, theirs.dataType) for ours, theirs in pairs]
            fields = [T.StructField(name, kind) for name, kind in zip(one.names, kinds, strict=True) if kind]
            return T.StructType(fields) if len(fields) == len(kinds) else None
        case _:
            return None


def _common_decimal(one: T.DataType, other: T.DataType) -> T.DecimalType | None:
    scales = [kind.scale if isinstance(kind, T.DecimalType) else 0 for kind in (one, other)]
    before_point = [
        kind.precision - kind.scale if isinstance(kind, T.DecimalType) else BIGINT_DIGITS for kind in (one, other)
    ]
    digits = max(before_point) + max(scales)
    return T.DecimalType(digits, max(scales)) if digits <= DECIMAL_DIGITS_MAX else None


def _is_ordered(kind: T.DataType, *, top: bool = True) -> bool:
    """Whether a nested value has one JSON text: a map below the top has its entries in any order."""
    match kind:
        case T.MapType():
            return top and _is_ordered(kind.keyType, top=False) and _is_ordered(kind.valueType, top=False)
        case T.ArrayType():
            return _is_ordered(kind.elementType, top=False)
        case T.StructType():
            return all(_is_ordered(field.dataType, top=False) for field in kind.fields)
        case _:
            return isinstance(kind, (*_WHOLE, *_TEXT, *_PLAIN, T.FloatType, T.DoubleType, T.DecimalType))


def _as_type(column: Column, found: T.DataType, common: T.DataType) -> Column:
    if isinstance(common, T.MapType):
        # A map has no order, and Spark does not hash maps.
        column = F.array_sort(F.map_entries(column))
        entry = T.StructType([T.StructField("key", common.keyType), T.StructField("value", common.valueType)])
        common = T.ArrayType(entry)
    if isinstance(common, _NESTED):
        plain = _for_json(common)
        column = _without_minus_zero(column.cast(plain), plain)
        # The struct around it keeps a null apart from "null", and an array from what is in it.
        return F.when(column.isNotNull(), F.to_json(F.struct(column.alias("v")), _JSON))
    return column if found == common else column.cast(common)


def _for_json(kind: T.DataType) -> T.DataType:
    """The type with bytes for texts, which JSON has in base64, and with fields named by their place, each name once."""
    match kind:
        case T.ArrayType():
            return T.ArrayType(_for_json(kind.elementType))
        case T.StructType():
            return T.StructType(
                [T.StructField(f"f{place}", _for_json(one.dataType)) for place, one in enumerate(kind.fields)]
            )
        case T.StringType():
            return T.BinaryType()
        case _:
            return kind


def _without_minus_zero(column: Column, kind: T.DataType) -> Column:
    """The value with 0.0 for each -0.0 in it."""
    match kind:
        case T.ArrayType() if _has_fractions(kind):
            return F.transform(column, lambda one: _without_minus_zero(one, kind.elementType))
        case T.StructType() if _has_fractions(kind):
            fields = [_without_minus_zero(column[one.name], one.dataType).alias(one.name) for one in kind.fields]
            return F.when(column.isNotNull(), F.struct(*fields))
        case T.FloatType() | T.DoubleType():
            return F.when(column == 0, F.lit(0.0).cast(kind)).otherwise(column)
        case _:
            return column


def _has_fractions(kind: T.DataType) -> bool:
    match kind:
        case T.ArrayType():
            return _has_fractions(kind.elementType)
        case T.StructType():
            return any(_has_fractions(one.dataType) for one in kind.fields)
        case _:
            return isinstance(kind, T.FloatType | T.DoubleType)
