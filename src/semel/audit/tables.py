"""Files and tables as sides of an audit, by the formats that Spark has or was given.

Keeps: all files of a folder are read, with all their columns and all their digits, or the side is refused. Spark by
       itself leaves out subfolders, columns of later files and digits of numbers in JSON, and says nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import types as T  # noqa: N812

from semel.audit.failures import UNREACHABLE, cause_of
from semel.audit.folders import check_folder
from semel.audit.jdbc import JdbcSettings, read_table
from semel.audit.normal_form import DECIMAL_DIGITS_MAX
from semel.audit.places import Files, Table
from semel.audit.sides import Side
from semel.errors import ConfigError, EnvironmentFailure

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

# Where a row stands in a file; only Parquet tells its number.
_COORDINATES = {"parquet": "concat(_metadata.file_name, '#', _metadata.row_index)"}
_ANY_FILE = "_metadata.file_name"
# The options of Spark without which it reads less than there is.
_OPTIONS = {
    # Files of a table that got a column later: one file's columns would be taken for all.
    "parquet": {"mergeSchema": "true"},
    "orc": {"mergeSchema": "true"},
    # Otherwise a line that cannot be read becomes a row of nulls, and two broken files are equal.
    "json": {"mode": "FAILFAST", "prefersDecimal": "true"},
    # Spark takes the first file's header for all, unless it is told to look at each, and at all columns of each.
    "csv": {"mode": "FAILFAST", "header": "true", "enforceSchema": "false", "columnPruning": "false"},
}
_NEGATIVE_SCALE = "spark.sql.legacy.allowNegativeScaleOfDecimal"
_MISSING_FORMAT = (
    "DATA_SOURCE_NOT_FOUND",
    "ClassNotFoundException",
    "No suitable driver",
    "Failed to find data source",
)


def table_side(spark: SparkSession, place: Files | Table, settings: JdbcSettings, first_statement: str = "") -> Side:
    """Rows of files or of a table; ConfigError for what is not there, EnvironmentFailure for a format Spark lacks."""
    try:
        frame = read_table(spark, place, settings, first_statement) if isinstance(place, Table) else _load(spark, place)
    except (PySparkException, Py4JJavaError) as error:
        # What a database said is only in the story behind the error; Spark's own words name neither user nor cause.
        said = f"{error}\n{getattr(error, '_stackTrace', '')}"
        because = cause_of(said)
        if any(one in said for one in _MISSING_FORMAT):
            raise EnvironmentFailure(
                f"Spark cannot read {_shown(place)}: it lacks the format or the driver",
                because=because,
                you_want="--conf spark.jars=… or --conf spark.jars.packages=… with the jar that brings it",
            ) from None
        if any(one in said for one in UNREACHABLE):
            raise EnvironmentFailure(f"{_shown(place)} cannot be reached", because=because) from None
        raise ConfigError(f"{_shown(place)} cannot be read", because=because) from None
    if isinstance(place, Table):
        return Side(frame, name=_shown(place), keeps_hashes=True)
    coordinate = _COORDINATES.get(place.form, _ANY_FILE)
    return Side(frame, name=place.text, coordinate=coordinate)


def _load(spark: SparkSession, place: Files) -> DataFrame:
    partitions = check_folder(spark, place)
    reader = spark.read.format(place.form).options(**_OPTIONS.get(place.form, {}))
    return _load_json(spark, place, reader, partitions) if place.form == "json" else reader.load(place.path)


def _load_json(spark: SparkSession, place: Files, reader: DataFrameReader, partitions: frozenset[str]) -> DataFrame:
    """Rows with exact numbers; ConfigError for a column with a number that no decimal of Spark holds."""
    before = spark.conf.get(_NEGATIVE_SCALE)
    # 1E5 is a decimal with a scale of -5 to Spark while it looks for types, and an error without this setting.
    spark.conf.set(_NEGATIVE_SCALE, "true")
    try:
        frame = reader.load(place.path)
    finally:
        spark.conf.set(_NEGATIVE_SCALE, str(before))
    found = frame.schema
    exact = T.StructType([T.StructField(one.name, _without_negative_scale(one.dataType)) for one in found])
    # Spark takes doubles where decimals have no room. A value in the name of a folder is no number of JSON.
    rounded = [one.name for one in exact if one.name not in partitions and _has_double(one.dataType)]
    if rounded:
        raise ConfigError(
            f"{place.text} has numbers with more digits than Spark's decimals have room for ({DECIMAL_DIGITS_MAX}), "
            f"in {', '.join(rounded)}",
            because="they would be rounded, and numbers that differ would be called equal",
            you_want="the numbers as texts in quotes; or from Python: semel.audit(…) with a frame that has a schema",
        )
    return frame if exact == found else reader.schema(exact).load(place.path)


def _without_negative_scale(kind: T.DataType) -> T.DataType:
    """The type with a scale of 0 or more in each decimal, and a double where there is no such decimal."""
    match kind:
        case T.DecimalType() if kind.scale < 0:
            digits = kind.precision - kind.scale
            return T.DecimalType(digits, 0) if digits <= DECIMAL_DIGITS_MAX else T.DoubleType()
        case T.ArrayType():
            return T.ArrayType(_without_negative_scale(kind.elementType), kind.containsNull)
        case T.StructType():
            return T.StructType(
                [T.StructField(one.name, _without_negative_scale(one.dataType), one.nullable) for one in kind]
            )
        case _:
            return kind


def _has_double(kind: T.DataType) -> bool:
    match kind:
        case T.ArrayType():
            return _has_double(kind.elementType)
        case T.StructType():
            return any(_has_double(one.dataType) for one in kind)
        case _:
            return isinstance(kind, T.DoubleType)


def _shown(place: Files | Table) -> str:
    """The place without the part of an address that may have a password."""
    return place.text if isinstance(place, Files) else f"{place.url.partition('?')[0]}#{place.table}"
