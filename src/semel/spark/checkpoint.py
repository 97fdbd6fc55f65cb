"""What Spark's checkpoint says about a micro-batch: its offsets, when it was planned, and what was done before.

Spark writes `offsets/<micro-batch id>` before a micro-batch runs and `commits/<id>` after it. `foreachBatch` gives no
offsets, and a row's own offset does not help where filters drop rows, so they are read here (S7). Files are read
through Spark's own file systems, so a checkpoint may lie on HDFS or in an object store.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import SparkSession

from semel.errors import ConfigError, SinkError
from semel.spark.offsets import EXTRA_KEY, START_KEY
from semel.wire.topology import TopicPartition

CLAIM = "semel-pipeline"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedOffsets:
    """One entry of Spark's offset log."""

    planned_ms: int
    offsets: dict[TopicPartition, int] | None
    start: dict[TopicPartition, int] | None


class Checkpoint:
    """A query's checkpoint folder."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        """Nothing is read yet."""
        self.folder = folder
        self._spark = spark
        self._planned: dict[int, PlannedOffsets] = {}

    # Classes are looked up once, by their whole name: each part of a dotted name is a question to the JVM.

    @cached_property
    def _path_class(self) -> Any:
        return getattr(self._spark._jvm, "org.apache.hadoop.fs.Path")

    @cached_property
    def _streams(self) -> Any:
        return getattr(self._spark._jvm, "org.apache.commons.io.IOUtils")

    @cached_property
    def _system(self) -> Any:
        jsc: Any = self._spark.sparkContext._jsc
        return self._path_class(self.folder).getFileSystem(jsc.hadoopConfiguration())

    def _path(self, name: str) -> Any:
        return self._path_class(f"{self.folder}/{name}")

    def _read(self, name: str) -> str | None:
        path = self._path(name)
        if not self._system.exists(path):
            return None
        stream = self._system.open(path)
        try:
            return str(self._streams.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def exists(self, name: str) -> bool:
        """Whether the checkpoint has this file or folder."""
        return bool(self._system.exists(self._path(name)))

    def claim(self, pipeline: str) -> None:
        """Leave the pipeline's name in the checkpoint; refuse one that another pipeline has left its name in.

        Why: with the checkpoint of another, a new pipeline would begin in the middle, and nobody would miss the records
        before it.
        """
        owner = self._read(CLAIM)
        if owner is None:
            self._write(CLAIM, pipeline)
        elif owner.strip() != pipeline:
            raise ConfigError(
                f"the checkpoint {self.folder} belongs to pipeline {owner.strip()!r}, not to {pipeline!r}",
                because="a checkpoint says how far one pipeline has read; another would begin in the middle",
                you_want=f"a checkpoint folder of its own for {pipeline!r}, or pipeline={owner.strip()!r}",
            )

    def _write(self, name: str, text: str) -> None:
        stream = self._system.create(self._path(name), True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    @property
    def is_stateful(self) -> bool:
        """Whether the query keeps state, which must be computed once (S10)."""
        return self.exists("state")

    def planned(self, micro_batch_id: int) -> PlannedOffsets:
        """The offsets that a micro-batch was planned with; Spark writes them once, so the last few are remembered."""
        known = self._planned.get(micro_batch_id)
        if known is not None:
            return known
        text = self._read(f"offsets/{micro_batch_id}")
        if text is None:
            raise SinkError(
                f"the checkpoint {self.folder} has no offsets of micro-batch {micro_batch_id}",
                because="Spark writes them before a micro-batch runs; without them nothing can be committed once",
            )
        found = parse_offset_log(text)
        last = {number: one for number, one in self._planned.items() if number == micro_batch_id - 1}
        self._planned = {**last, micro_batch_id: found}
        return found

    def before(self, micro_batch_id: int) -> dict[TopicPartition, int] | None:
        """Where the sources stood before a micro-batch; None when that is not known."""
        planned = self.planned(micro_batch_id)
        if micro_batch_id == 0:
            return planned.start
        last = self._planned.get(micro_batch_id - 1)
        if last is not None:
            return last.offsets
        text = self._read(f"offsets/{micro_batch_id - 1}")
        return parse_offset_log(text).offsets if text is not None else planned.start


def parse_offset_log(text: str) -> PlannedOffsets:
    """Read an entry: a version line, a line of metadata, then one line for each source."""
    lines = text.splitlines()
    if len(lines) < 2 or not lines[0].startswith("v"):
        raise SinkError("an entry of Spark's offset log cannot be read", because=f"it begins with {text[:40]!r}")
    try:
        planned_ms = int(json.loads(lines[1])["batchTimestampMs"])
    except (ValueError, KeyError, TypeError) as error:
        raise SinkError(f"the metadata of Spark's offset log cannot be read: {error}") from None
    sources = [_parse_source(line) for line in lines[2:] if line != "-"]
    if any(source is None for source in sources):
        return PlannedOffsets(planned_ms=planned_ms, offsets=None, start=None)
    known = [source for source in sources if source is not None]
    return PlannedOffsets(planned_ms=planned_ms, offsets=_merged([each[0] for each in known]), start=_start(known))


Parsed = tuple[dict[TopicPartition, int], dict[TopicPartition, int] | None]


def _parse_source(line: str) -> Parsed | None:
    """Offsets as Spark's Kafka source and ours write them; None for any other source."""
    try:
        fields = json.loads(line)
    except ValueError:
        return None
    if not isinstance(fields, dict):
        return None
    extra = fields.pop(EXTRA_KEY, None)
    offsets = _partitions(fields)
    start = _partitions(extra.get(START_KEY)) if isinstance(extra, dict) and START_KEY in extra else None
    return None if offsets is None else (offsets, start)


def _partitions(fields: object) -> dict[TopicPartition, int] | None:
    if not isinstance(fields, dict) or not fields or not all(isinstance(row, dict) for row in fields.values()):
        return None
    try:
        return {
            TopicPartition(topic, int(partition)): int(offset)
            for topic, rows in fields.items()
            for partition, offset in rows.items()
        }
    except (ValueError, TypeError):
        return None


def _merged(sources: list[dict[TopicPartition, int]]) -> dict[TopicPartition, int]:
    """All sources together; a partition that two of them read has one ledger entry, so it must not differ."""
    merged: dict[TopicPartition, int] = {}
    for source in sources:
        for partition, offset in source.items():
            if merged.setdefault(partition, offset) != offset:
                raise ConfigError(
                    f"two sources of one query read {partition} and stand at different offsets",
                    because="the ledger has one entry for each partition",
                    you_want="one source that both branches of the query use",
                )
    return merged


def _start(sources: list[Parsed]) -> dict[TopicPartition, int] | None:
    starts = [start for _, start in sources]
    known = [start for start in starts if start is not None]
    return _merged(known) if known and len(known) == len(starts) else None
