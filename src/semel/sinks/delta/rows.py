"""What tasks do for the Delta sink: rows as Arrow columns into Parquet files under names of the attempt.

A file that is not named by an entry of the log is no part of the table, so any attempt may write: Spark says whose
files count, and the driver names exactly these.

Keeps: E2 a result says how many rows its file has, as Parquet's own footer counts them; memory is bounded, since a file
       is written row group by row group, and a row group has a few megabytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from semel.errors import ConfigError
from semel.sinks.base import Batches, Task, arrow_schema
from semel.sinks.delta.place import Place

RESULT = "task int, file string, bytes long, records long, partition string, row_bytes_max long"
# A row group has at least so much, unless the rows end. Spark hands on batches of ten thousand rows, which are too few
# for a good one; whatever it hands on, a task holds little more than this.
GROUP_ROWS_MIN = 1 << 17
GROUP_BYTES_MIN = 16 << 20
# A column with more different values than this holds is written without a dictionary, in half the time and in less
# room; the library's own limit is so high that small row groups never reach it.
DICTIONARY_BYTES_MAX = 64 << 10
LARGEST_TO_MEAN = 4  # what is guessed of rows whose mean size is known
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_SCHEMA = arrow_schema(RESULT)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteFiles:
    """The work of a task; picklable."""

    place: Place
    prefix: str
    """What the names of this job's files begin with."""
    schema: bytes
    """The table's, as Arrow writes one."""
    partition_by: tuple[str, ...]

    def __call__(self, task: Task, batches: Batches) -> Batches:
        """Write all rows; gives a row for each file."""
        # Here, since it brings pandas, and a driver that only commits has no use for it.
        import pyarrow.dataset as ds  # noqa: PLC0415

        schema = pa.ipc.read_schema(pa.py_buffer(self.schema))
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return
        found: list[dict[str, Any]] = []
        row_bytes_max = 0

        def fitted(batches: Batches) -> Batches:
            nonlocal row_bytes_max
            for batch in batches:
                row_bytes_max = max(row_bytes_max, LARGEST_TO_MEAN * batch.nbytes // max(1, batch.num_rows))
                yield _fitted(batch, schema)

        def note(file: Any) -> None:
            path = str(file.path).lstrip("/")
            values = partition_values(path, self.partition_by)
            found.append(
                {
                    "task": task.number,
                    "file": path,
                    "bytes": file.size,
                    "records": file.metadata.num_rows,
                    "partition": json.dumps(values),
                }
            )

        partitioning = None
        if self.partition_by:
            partitioning = ds.partitioning(pa.schema([schema.field(name) for name in self.partition_by]), flavor="hive")
        name = f"{self.prefix}-{task.attempt_id}"
        files: Any = ds.ParquetFileFormat()
        try:
            ds.write_dataset(
                _joined(fitted(chain([first], batches))),
                self.place.folder_of(self.prefix),
                filesystem=self.place.files,
                schema=schema,
                format=files,
                file_options=files.make_write_options(dictionary_pagesize_limit=DICTIONARY_BYTES_MAX),
                partitioning=partitioning,
                basename_template=f"{name}-{{i}}.parquet",
                # Names are unique to the attempt, so nothing of another one can be met.
                existing_data_behavior="overwrite_or_ignore",
                file_visitor=note,
                # Rows keep the order in which they come.
                use_threads=False,
            )
        except OSError as error:
            # Not left for later: on a full disk the next attempt needs the room.
            self.place.remove(name, of_job=self.prefix)
            raise self.place.refusal(f"writing files of the table {self.place.uri}", error) from None
        told = [row | {"row_bytes_max": row_bytes_max} for row in found]
        yield pa.RecordBatch.from_pylist(told, schema=_SCHEMA)


def _joined(batches: Batches) -> Batches:
    """Rows in fewer and larger batches, each of which becomes a row group of its file."""
    kept: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    for batch in batches:
        kept.append(batch)
        rows, size_bytes = rows + batch.num_rows, size_bytes + batch.nbytes
        if rows >= GROUP_ROWS_MIN or size_bytes >= GROUP_BYTES_MIN:
            yield from pa.Table.from_batches(kept).combine_chunks().to_batches()
            kept, rows, size_bytes = [], 0, 0
    if kept:
        yield from pa.Table.from_batches(kept).combine_chunks().to_batches()


def _fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The rows with the table's types; a null where the table has none is refused by name."""
    for field, column in zip(schema, batch.columns, strict=True):
        if not field.nullable and column.null_count:
            raise ConfigError(
                f"column {field.name!r} has nulls, and the table takes none there",
                you_want=f'.where("`{field.name}` IS NOT NULL"), or a value in their place',
            )
    return batch.cast(schema)


def partition_values(path: str, names: tuple[str, ...]) -> Mapping[str, str | None]:
    """The values that a file's folders name, as the log writes them."""
    folders = path.split("/")[:-1]
    texts = {name: unquote(text) for name, _, text in (folder.partition("=") for folder in folders)}
    return {name: None if texts[name] == NULL_PARTITION else texts[name] for name in names}
