"""Delta tables as sides: one version of the table, read from its log; Spark reads the Parquet files that it names.

No jar is needed for that, and a version stays what it is while the pipeline goes on. What more a table may ask of its
readers (deletion vectors, mapped columns) is refused, not guessed: the rows would be wrong.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from semel.audit.ledgers import Line, TableLedger
from semel.audit.sides import Side
from semel.errors import ConfigError
from semel.sinks.delta.ledger import METADATA, read_kept
from semel.sinks.delta.library import Library
from semel.sinks.ledger import from_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from semel.audit.places import Files

# What changes no row for a reader of plain Parquet.
_HARMLESS = frozenset({"timestampNtz", "appendOnly", "v2Checkpoint", "vacuumProtocolCheck"})
_READER_PLAIN, _READER_NAMED = 1, 3
_MAPPING = "delta.columnMapping.mode"
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
        return cls(place=place, table=table)

    def side(self, spark: SparkSession) -> Side:
        """Its rows."""
        from pyspark.sql import types as T  # noqa: N812, PLC0415 - brings PySpark

        schema = T.StructType.fromJson(json.loads(self.table.schema().to_json()))
        # Named one by one: the folder also has files of other versions, and of commits that came to nothing.
        files = self.table.file_uris()
        reader = spark.read.schema(schema)
        if not files:
            return Side(spark.createDataFrame([], schema), name=self.place.text)
        root = str(Path(self.place.path).absolute())
        return Side(reader.option("basePath", root).parquet(*files), name=self.place.text, coordinate=COORDINATE)

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


def _check_reader(place: Files, table: Any) -> None:
    protocol = table.protocol()
    needs = {*(protocol.reader_features or ())} - _HARMLESS
    is_mapped = (table.metadata().configuration or {}).get(_MAPPING, "none") != "none"
    if needs or is_mapped or not (_READER_PLAIN <= protocol.min_reader_version <= _READER_NAMED):
        raise ConfigError(
            f"{place.text} asks more of its readers than Parquet: {', '.join(sorted(needs)) or _MAPPING}",
            you_want="from Python: semel.audit(…) with a frame that Spark's own Delta reader gives",
        )
