"""Files and tables as sides of an audit, by the formats that Spark has or was given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from semel.audit.failures import UNREACHABLE, cause_of
from semel.audit.jdbc import JdbcSettings, read_table
from semel.audit.places import Files, Table
from semel.audit.sides import Side
from semel.errors import ConfigError, EnvironmentFailure

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Where a row stands in a file; only Parquet tells its number.
_COORDINATES = {"parquet": "concat(_metadata.file_name, '#', _metadata.row_index)"}
_ANY_FILE = "_metadata.file_name"
_WITH_FILES = ("parquet", "json", "orc", "csv", "avro")
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
    coordinate = _COORDINATES.get(place.form, _ANY_FILE) if place.form in _WITH_FILES else ""
    return Side(frame, name=place.text, coordinate=coordinate)


def _load(spark: SparkSession, place: Files) -> DataFrame:
    reader = spark.read.format(place.form)
    if place.form in ("json", "csv"):
        # Otherwise a line that cannot be read becomes a row of nulls, and two broken files are equal.
        reader = reader.option("mode", "FAILFAST")
    if place.form == "csv":
        reader = reader.option("header", "true")
    return reader.load(place.path)


def _shown(place: Files | Table) -> str:
    """The place without the part of an address that may have a password."""
    return place.text if isinstance(place, Files) else f"{place.url.partition('?')[0]}#{place.table}"
