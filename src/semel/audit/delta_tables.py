"""Delta tables as sides: one version of the table, read from its log; Spark reads the Parquet files that it names.

No jar is needed for that, and a version stays what it is while the pipeline goes on. What more a table may ask of its
readers (deletion vectors, mapped columns) is refused, not guessed: the rows would be wrong.

Partition values are in the log too, and are taken from there. The names of folders have them in a form of their own,
which Spark would read by its own rules: a time in the time zone of the session, a letter as its code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from semel.audit.ledgers import Line, TableLedger
from semel.audit.sides import Side
from semel.errors import ConfigError
from semel.sinks.delta.ledger import METADATA, read_kept
from semel.sinks.delta.library import Library
from semel.sinks.ledger import from_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from semel.audit.places import Files

# What changes no row for a reader of plain Parquet.
_HARMLESS = frozenset({"timestampNtz", "appendOnly", "v2Checkpoint", "vacuumProtocolCheck"})
_READER_PLAIN, _READER_NAMED = 1, 3
_MAPPING = "delta.columnMapping.mode"
# Names that no column of a table has.
_FILE, _KNOWN, _VALUES = "semel audit: file", "semel audit: file in the log", "semel audit: partition values"
COORDINATE = "concat(_metadata.file_name, '#', _metadata.row_index)"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaVersion:
    """A table as it was when the audit began."""

    place: Files
    table: Any

    @classmethod
    def now(cls, place: Files) -> DeltaVersion:
        """Load it; ConfigError where there is none, or where its files alone do not say its rows."""
        library = Library()
        try:
            table = library.table(str(Path(place.path).absolute()))
        except (library.not_found, library.error, OSError) as error:
            raise ConfigError(
                f"{place.text} is no Delta table that can be read", because=str(error).split("\n", maxsplit=1)[0][:300]
            ) from None
        _check_reader(place, table)
        _check_partitions(place, table)
        return cls(place=place, table=table)

    def side(self, spark: SparkSession) -> Side:
        """Its rows."""
        from pyspark.sql import types as T  # noqa: N812, PLC0415 - brings PySpark

        schema = T.StructType.fromJson(json.loads(self.table.schema().to_json()))
        # Named one by one: the folder also has files of other versions, and of commits that came to nothing.
        partitioned = self.table.metadata().partition_columns
        files = self._files(partitioned)
        if not files:
            return Side(spark.createDataFrame([], schema), name=self.place.text)
        in_files = T.StructType([one for one in schema if one.name not in partitioned])
        # Otherwise Spark would add the names of folders as columns.
        rows = spark.read.schema(in_files).option("recursiveFileLookup", "true").parquet(*files)
        if partitioned:
            rows = _with_partition_values(spark, rows, files, schema, partitioned)
        return Side(rows, name=self.place.text, coordinate=COORDINATE)

    def _files(self, partitioned: Sequence[str]) -> dict[str, tuple[object, ...]]:
        """The files of this version, each with its partition values as the log has them."""
        import pyarrow as pa  # noqa: PLC0415 - takes a while

        root = str(Path(self.place.path).absolute())
        added = pa.table(self.table.get_add_actions(flatten=False))
        kept = added.select(["path", *(["partition"] if partitioned else [])]).to_pylist()
        return {_file(root, one["path"]): tuple(one["partition"][name] for name in partitioned) for one in kept}

    def ledger(self, pipeline: str) -> TableLedger:
        """What the log says of a pipeline up to this version."""
        kept = read_kept(self.table, pipeline)
        if kept.is_restored:
            raise ConfigError(
                f"{self.place.text} was restored to an older version since {pipeline!r} committed",
                because="the ledger says what the table held before that",
                you_want="an audit without --pipeline: it says what is missing on either side",
            )
        if kept.ledger.last is None:
            raise ConfigError(
                f"the log of {self.place.text} has no ledger of {pipeline!r}",
                you_want="the name of a pipeline that has committed to this table, or no --pipeline",
            )
        # The log goes on while this version stays.
        lines = tuple(line for line in _lines(self.table, pipeline) if line.number <= kept.number)
        return TableLedger(held=kept.ledger.held, lines=lines, moment="")


def _file(root: str, path: str) -> str:
    """A file by its path in the log: a URL, nearly always below the table's folder and without a scheme."""
    if path.startswith("file:"):
        return "/" + unquote(path.removeprefix("file:")).lstrip("/")
    return f"{root}/{unquote(path)}"


def _with_partition_values(
    spark: SparkSession,
    rows: DataFrame,
    files: Mapping[str, tuple[object, ...]],
    schema: StructType,
    names: Sequence[str],
) -> DataFrame:
    """The rows with what the log says of the file that each is in; a row of an unknown file is an error."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415
    from pyspark.sql import types as T  # noqa: N812, PLC0415

    values = T.StructType([schema[name] for name in names])
    fields = [T.StructField(_KNOWN, T.StringType()), T.StructField(_VALUES, values)]
    known = F.broadcast(spark.createDataFrame(list(files.items()), T.StructType(fields)))
    # Spark writes a plus sign as it is, and `url_decode` takes it for a space.
    path = F.url_decode(F.replace(F.col("_metadata.file_path"), F.lit("+"), F.lit("%2B")))
    placed = rows.withColumn(_FILE, F.regexp_replace(path, "^file:/+", "/"))
    joined = placed.join(known, F.col(_FILE) == F.col(_KNOWN), "left")
    unknown = F.raise_error(F.concat(F.lit("a file that the log does not name: "), F.col(_FILE)))
    found = F.when(F.col(_KNOWN).isNotNull(), F.col(_VALUES)).otherwise(unknown.cast(values))
    columns = {name: found[name] if name in names else F.col(f"`{name.replace('`', '``')}`") for name in schema.names}
    return joined.select(*(column.alias(name) for name, column in columns.items()))


def _lines(table: Any, pipeline: str) -> list[Line]:
    found = []
    for entry in table.history():
        fields = json.loads(entry.get(METADATA) or "{}")
        if fields.get("pipeline") == pipeline:
            at_ms = entry.get("timestamp")
            found.append(
                Line(
                    number=fields["number"],
                    held=from_text(fields["ledger"]).held,
                    committed_s=None if at_ms is None else int(at_ms) // 1000,
                )
            )
    return found


def _check_partitions(place: Files, table: Any) -> None:
    names = table.metadata().partition_columns
    fields = json.loads(table.schema().to_json())["fields"]
    of_bytes = [one["name"] for one in fields if one["name"] in names and one["type"] == "binary"]
    if of_bytes:
        raise ConfigError(
            f"{place.text} has partitions by bytes: {', '.join(of_bytes)}",
            because="writers put bytes into the log in different forms, so nobody knows which bytes were meant",
            you_want="from Python: semel.audit(…) with a frame that Spark's own Delta reader gives",
        )


def _check_reader(place: Files, table: Any) -> None:
    protocol = table.protocol()
    needs = {*(protocol.reader_features or ())} - _HARMLESS
    is_mapped = (table.metadata().configuration or {}).get(_MAPPING, "none") != "none"
    if needs or is_mapped or not (_READER_PLAIN <= protocol.min_reader_version <= _READER_NAMED):
        raise ConfigError(
            f"{place.text} asks more of its readers than Parquet: {', '.join(sorted(needs)) or _MAPPING}",
            you_want="from Python: semel.audit(…) with a frame that Spark's own Delta reader gives",
        )
